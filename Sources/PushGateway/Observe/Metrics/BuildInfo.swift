/// Which build this is, for metrics, the API description and the dashboard.
public struct BuildInfo: Sendable, Hashable {
    /// The version, such as `0.1.0`.
    public var version: String
    /// The commit it was built from; `unknown` when the build did not say.
    public var commit: String

    /// Makes the description of a build.
    public init(version: String, commit: String = "unknown") {
        self.version = version
        self.commit = commit
    }

    /// This source's version.
    public static let current = BuildInfo(version: "0.1.0")
}
