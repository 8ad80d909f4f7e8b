import ArgumentParser
import Foundation
import Logging
import PushCore

/// The program: parses the command line, runs the command, and turns every ending into an exit code.
@main
enum Main {
    static func main() async {
        // A reader that goes away ends the output, not the program.
        signal(SIGPIPE, SIG_IGN)
        // Libraries log through the loggers they are given; whatever makes its own stays silent.
        LoggingSystem.bootstrap { _ in SwiftLogNoOpLogHandler() }
        do {
            var command = try Chapar.parseAsRoot()
            if var command = command as? any AsyncParsableCommand {
                try await command.run()
            } else {
                try command.run()
            }
        } catch {
            exit(ending(error).rawValue)
        }
    }

    /// Says what went wrong, on stderr, and gives the exit code; help goes to stdout.
    private static func ending(_ error: any Error) -> ExitStatus {
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
            return .tryLater
        case is CancellationError:
            return .tryLater
        default:
            return endingOfParser(error)
        }
    }

    private static func endingOfParser(_ error: any Error) -> ExitStatus {
        let text = Chapar.fullMessage(for: error)
        switch Chapar.exitCode(for: error) {
        case .success:
            Shell.print(text)
            return .success
        case .validationFailure:
            Shell.complain(text)
            return .usage
        default:
            Shell.complain(text)
            return .failure
        }
    }
}

/// The root command.
struct Chapar: AsyncParsableCommand {
    static let configuration = CommandConfiguration(
        commandName: "chapar",
        abstract: "A push gateway: one API, one configuration file, many push platforms.",
        discussion: """
            Try it without an account: chapar demo

            Exit codes: 0 done or sent, 1 refused or failed, 2 wrong usage, 3 wrong configuration,
            4 sent in part, 75 try again later. Results go to stdout, everything else to stderr.
            """,
        version: Version.text,
        subcommands: [
            DemoCommand.self, ServeCommand.self, SendCommand.self, CheckCommand.self, DoctorCommand.self,
            ConfigCommand.self, KeysCommand.self, BackendsCommand.self, SandboxCommand.self, BenchCommand.self,
            DevicesCommand.self, ReleaseNotesCommand.self, CompletionCommand.self,
        ]
    )
}
