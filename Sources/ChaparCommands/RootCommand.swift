import ArgumentParser
import ChaparGateway

/// The command of the program itself: it has the others as subcommands.
struct RootCommand: AsyncParsableCommand {
    static var configuration: CommandConfiguration {
        let program = GatewayProgram.current
        let own: [any ParsableCommand.Type] = [
            DemoCommand.self, InitCommand.self, ServeCommand.self, SendCommand.self, CheckCommand.self,
            DoctorCommand.self, ExplainCommand.self, ConfigCommand.self, KeysCommand.self, BackendsCommand.self,
            RetryCommand.self, SandboxCommand.self, BenchCommand.self,
            DevicesCommand.self, TopicsCommand.self, ChannelsCommand.self, TokensCommand.self, CancelCommand.self,
            BackupCommand.self, RestoreCommand.self, StoreCommand.self, MigrateCommand.self, UsersCommand.self,
        ]
        return CommandConfiguration(
            commandName: program.name,
            abstract: "A push gateway: one API, one configuration file, many push platforms.",
            discussion: """
                Try it without an account: \(program.name) demo

                Exit codes: 0 done or sent, 1 refused or failed, 2 wrong usage, 3 wrong configuration or too new a store,
                4 sent in part, 75 try again later. Results go to stdout, everything else to stderr.
                """,
            version: program.build.text,
            subcommands: own + program.commands + [
                PluginCommand.self, OpenAPICommand.self, CompletionCommand.self, ManualCommand.self,
            ]
        )
    }

    /// Prints the parser's message, help on stdout and complaints on stderr, and returns the exit code.
    static func ending(of error: any Error) -> ExitStatus {
        let text = fullMessage(for: error)
        switch exitCode(for: error) {
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
