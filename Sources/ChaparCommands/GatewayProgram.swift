public import ArgumentParser
internal import Foundation
internal import Logging
public import ChaparCore
internal import ChaparGateway
internal import ChaparHTTP
public import ChaparModules
public import ChaparSandbox
internal import ChaparStoreSQLite

#if Postgres
    internal import ChaparStorePostgres
#endif

/// A program with all the commands of a gateway, for the platforms it is given.
///
/// `chapar` is one; a program with a platform of your own is another, in a few lines:
///
/// ```swift
/// @main enum Program {
///     static func main() async { await GatewayProgram(name: "gate", backends: [.apns, .mine]).run() }
/// }
/// ```
///
/// The list of backends is all it needs: a configuration can choose these kinds and no others, and the demonstration
/// runs the scenarios that these kinds can take part in.
public struct GatewayProgram: Sendable {
    /// The program's name in its help.
    public let name: String
    /// The version that `--version` prints, in its first line.
    public let version: String
    /// The commit that the program was built from; `unknown` when the build did not say.
    public let commit: String
    /// The platforms that a configuration can choose, in the order in which they are listed.
    public let backends: [BackendFactory]
    /// The modules, each with a configuration section of its own.
    public let modules: [ModuleFactory]
    /// The simulators of those platforms that `sandbox` and `demo` do not have themselves.
    let simulators: [@Sendable () -> any SimulatedService]
    /// The commands beside those that every gateway has.
    let commands: [any ParsableCommand.Type]

    /// Makes a program; nothing happens before ``run()``.
    ///
    /// - Parameters:
    ///   - name: The program's name on the command line.
    ///   - version: The version that `--version` prints; by default the gateway's own.
    ///   - commit: The commit that the program was built from, for `--version` and `/healthz`.
    ///   - backends: The platforms, each kind once.
    ///   - simulators: Each makes the rules of a platform of one's own, which `sandbox` and `demo` simulate and write a
    ///     configuration for, so that `doctor`, `serve` and `send` can be tried without an account.
    ///   - modules: The plugins' modules, which extend the API beside platforms.
    ///   - commands: The plugins' commands; a command finds the configuration through ``ConfigOption``
    ///     and ends with a ``CommandFailure`` when it cannot do its work.
    public init(
        name: String,
        version: String? = nil,
        commit: String = "unknown",
        backends: [BackendFactory],
        simulators: [@Sendable () -> any SimulatedService] = [],
        modules: [ModuleFactory] = [],
        commands: [any ParsableCommand.Type] = []
    ) {
        self.name = name
        self.version = version ?? BuildInfo.current.version
        self.commit = commit
        self.backends = backends
        self.simulators = simulators
        self.modules = modules
        self.commands = commands
    }

    /// The program that is running.
    @TaskLocal static var current = GatewayProgram(name: "chapar", backends: [])

    /// Parses the command line, runs the command, and ends the process with the command's exit code.
    public func run() async -> Never {
        // A reader that closes the pipe ends the output, not the program.
        signal(SIGPIPE, SIG_IGN)
        Dumps.forbid()
        OpenFiles.raiseLimit()
        // Libraries log through the loggers they are given; loggers that they make themselves are silent.
        LoggingSystem.bootstrap { _ in SwiftLogNoOpLogHandler() }
        exit(Shell.ending(await Self.$current.withValue(self) { await ending() }).rawValue)
    }

    private func ending() async -> ExitStatus {
        do {
            // A kind that is listed twice is a mistake of the program, for every command.
            _ = try BackendRegistry(backends)
            try Self.checkArguments()
            try RootCommand.checkCommand(in: Array(CommandLine.arguments.dropFirst()))
            try RootCommand.checkFile(in: Array(CommandLine.arguments.dropFirst()))
            try RootCommand.checkOptions(in: Array(CommandLine.arguments.dropFirst()))
            var command = try await RootCommand.asyncParseAsRoot()
            if var command = command as? any AsyncParsableCommand {
                try await command.run()
            } else {
                try command.run()
            }
            return .success
        } catch {
            return ending(of: error)
        }
    }

    /// Throws for arguments that are not UTF-8: Swift's library would replace their letters with others.
    private static func checkArguments() throws {
        for (place, argument) in Array(UnsafeBufferPointer(start: CommandLine.unsafeArgv, count: Int(CommandLine.argc)))
            .enumerated()
        {
            guard let argument, String(validatingCString: argument) == nil else { continue }
            let fix = "set the terminal and LANG to UTF-8, or convert a script with iconv -f ENCODING -t UTF-8"
            throw CommandFailure("argument \(place): is not text in UTF-8: \(fix)", .usage)
        }
    }

    /// Reports an error on stderr, and returns the exit code; help goes to stdout.
    private func ending(of error: any Error) -> ExitStatus {
        switch error {
        case let status as ExitStatus:
            return status
        case let failure as CommandFailure:
            Shell.complain(failure.description)
            return failure.status
        case let error as ConfigurationError:
            Shell.complain(error.description)
            Shell.complain(error.issues.count == 1 ? "1 mistake" : "\(error.issues.count) mistakes")
            return .configuration
        case let error as StoreError:
            Shell.complain("\(error)")
            if case .newer = error { return .configuration }
            return .tryLater
        case is CancellationError:
            return .tryLater
        default:
            return RootCommand.ending(of: error)
        }
    }
}

extension GatewayProgram {
    /// The build of the program, with the libraries that it was linked with when it started.
    var build: BuildInfo {
        var libraries = [
            "jemalloc": Allocator.version, "nghttp2": NIOTransport.nghttp2Version, "SQLite": SQLiteStore.sqliteVersion,
        ]
        #if Postgres
            libraries["libpq"] = PostgresStore.libpqVersion
        #endif
        return BuildInfo(version: version, commit: commit, libraries: libraries.filter { !$0.value.isEmpty })
    }

    /// The configuration of a sandbox, with the simulators of this program's own platforms beside those that every
    /// sandbox has.
    var sandbox: Sandbox.Configuration {
        var configuration = Sandbox.Configuration()
        configuration.services = simulators.map { $0() }
        return configuration
    }

    /// Returns whether the program has a platform.
    func knows(_ kind: BackendKind) -> Bool { backends.contains { $0.kind == kind } }

    /// Writes a sandbox's files, without the parts of the configuration that this program cannot read.
    ///
    /// With `isWhole` it has the sections beside backends as well.
    func write(
        _ sandbox: Sandbox,
        to directory: URL,
        gatewayPort: Int,
        isWhole: Bool = true
    ) throws -> SandboxDescription {
        let written = try sandbox.writeFiles(
            to: directory,
            gatewayPort: gatewayPort,
            kinds: Set(backends.map(\.kind)),
            sections: isWhole ? Set(modules.map(\.key)) : []
        )
        guard !written.kinds.isEmpty else {
            throw CommandFailure("there are simulators for none of this program's platforms")
        }
        return written
    }
}
