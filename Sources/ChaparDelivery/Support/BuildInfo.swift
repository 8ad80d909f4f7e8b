internal import Foundation

/// The build of the program, for `--version`, `/healthz`, metrics, the API description and the dashboard.
public struct BuildInfo: Sendable, Hashable {
    /// The version, such as `0.1.0`.
    public var version: String
    /// The commit it was built from; `unknown` when the build did not set it.
    public var commit: String
    /// The version of the compiler that built it, such as `6.2`.
    public var swift: String
    /// The versions of the machine's libraries that it uses, by name, such as `SQLite`.
    ///
    /// They are the versions that were loaded, which may differ from those that the program was built with.
    public var libraries: [String: String]

    /// Makes the description of a build.
    public init(
        version: String,
        commit: String = "unknown",
        swift: String = BuildInfo.compiler,
        libraries: [String: String] = [:]
    ) {
        self.version = version
        self.commit = commit
        self.swift = swift
        self.libraries = libraries
    }

    /// The version of the compiler that built this module, without its patch level, which source cannot tell.
    public static var compiler: String {
        #if compiler(>=6.4)
            "6.4 or later"
        #elseif compiler(>=6.3)
            "6.3"
        #else
            "6.2"
        #endif
    }

    /// This source's version.
    public static let current = BuildInfo(version: "0.1.0")
}

extension BuildInfo {
    /// The version on a line of its own, which scripts read, then a line for each of the rest.
    public var text: String {
        let parts =
            [("commit", commit), ("Swift", swift)] + libraries.sorted { $0.key.lowercased() < $1.key.lowercased() }
        let width = parts.map(\.0.count).max() ?? 0
        return ([version] + parts.map { $0.padding(toLength: width, withPad: " ", startingAt: 0) + "  " + $1 })
            .joined(separator: "\n")
    }
}
