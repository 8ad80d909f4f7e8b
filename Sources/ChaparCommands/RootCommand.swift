import ArgumentParser
import ChaparCore
import ChaparGateway

/// The command of the program itself: it has the others as subcommands.
struct RootCommand: AsyncParsableCommand {
    static var configuration: CommandConfiguration {
        let program = GatewayProgram.current
        let own: [any ParsableCommand.Type] = [
            DemoCommand.self, InitCommand.self, ServeCommand.self, SendCommand.self, CheckCommand.self,
            DoctorCommand.self, ExplainCommand.self, ConfigCommand.self, KeysCommand.self, BackendsCommand.self,
            RetryCommand.self, CampaignsCommand.self, TopCommand.self, SandboxCommand.self, BenchCommand.self,
            FindCommand.self, NotificationsCommand.self, DeliveriesCommand.self, DeadCommand.self,
            DevicesCommand.self, AudienceCommand.self, SegmentsCommand.self, TopicsCommand.self, ChannelsCommand.self,
            TokensCommand.self, CancelCommand.self,
            BackupCommand.self, RestoreCommand.self, StoreCommand.self, MigrateCommand.self, UsersCommand.self,
            WebhooksCommand.self, ReceiptsCommand.self,
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

    /// Throws for a misspelt command with the one that is meant, and for an option that stands before its command; the
    /// parser would call both unexpected arguments.
    static func checkCommand(in arguments: [String]) throws(CommandFailure) {
        let program = GatewayProgram.current.name
        let commands = configuration.subcommands.map { $0._commandName }
        if let first = arguments.first, first.hasPrefix("--"), !first.hasPrefix("---"), first != "--help",
            let command = arguments.first(where: commands.contains)
        {
            throw CommandFailure("\(first) stands after the command: \(program) \(command) … \(first)", .usage)
        }
        var command: any ParsableCommand.Type = RootCommand.self
        var path = program
        for argument in arguments {
            let configuration = command.configuration
            guard !configuration.subcommands.isEmpty, !argument.hasPrefix("-") else { return }
            if let next = configuration.subcommands.first(where: { isName(argument, of: $0) }) {
                (command, path) = (next, "\(path) \(argument)")
                continue
            }
            guard configuration.defaultSubcommand == nil, argument != "help" else { return }
            let names = configuration.subcommands.map { $0._commandName }
            guard let nearest = Suggestion.nearest(to: argument, among: names) else { return }
            throw CommandFailure(
                "\(path) has no command \"\(argument.onOneLine)\". Did you mean \"\(nearest)\"?",
                .usage
            )
        }
    }

    private static func isName(_ word: String, of command: any ParsableCommand.Type) -> Bool {
        command._commandName == word || command.configuration.aliases.contains(word)
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
