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
        if let first = arguments.first, first == "-c" || first.hasPrefix("--"), !first.hasPrefix("---"),
            first != "--help", let command = arguments.first(where: commands.contains)
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
            if command == ConfigCommand.self, ["check", "validate", "test"].contains(argument) {
                throw CommandFailure("\(path) has no command \"\(argument)\". It is: \(program) check", .usage)
            }
            guard configuration.defaultSubcommand == nil, argument != "help" else { return }
            if path == program, let advice = advice[argument.lowercased()] {
                throw CommandFailure("\(path) has no command \"\(argument.onOneLine)\". \(advice(program))", .usage)
            }
            let names = configuration.subcommands.map { $0._commandName }
            let shown = configuration.subcommands.filter { $0.configuration.shouldDisplay }.map { $0._commandName }
            let hint = commandMeant(by: argument, among: names).map { "Did you mean \"\($0)\"?" }
            let all = shown.count > 15 ? "\(path) --help lists all." : "It has: \(shown.joined(separator: ", "))."
            throw CommandFailure("\(path) has no command \"\(argument.onOneLine)\". \(hint ?? all)", .usage)
        }
    }

    /// The options of `send` that other programs have under another name.
    private static let otherOptions = [
        "--message": "--body", "--msg": "--body", "--text": "--body", "-m": "--body", "--content": "--body",
        "--subject": "--title", "-t": "--token", "--device-token": "--token", "--file": "--input", "-f": "--input",
    ]

    /// Throws for an option of `send` under the name that other programs have for it; the parser would name a similar
    /// word, or none.
    static func checkOptions(in arguments: [String]) throws(CommandFailure) {
        guard arguments.first == SendCommand._commandName else { return }
        for argument in arguments.dropFirst().prefix(while: { $0 != "--" }) {
            let name = argument.prefix { $0 != "=" }
            guard let meant = otherOptions[String(name)] else { continue }
            let path = "\(GatewayProgram.current.name) \(SendCommand._commandName)"
            throw CommandFailure("\(path) has no option \"\(name)\". Did you mean \"\(meant)\"?", .usage)
        }
    }

    /// Throws for a configuration file that stands after a command without its option.
    static func checkFile(in arguments: [String]) throws(CommandFailure) {
        let commands = [ServeCommand._commandName, CheckCommand._commandName, DoctorCommand._commandName]
        guard arguments.count > 1, commands.contains(arguments[0]) else { return }
        let file = arguments[1]
        guard [".yaml", ".yml", ".json"].contains(where: file.hasSuffix), !file.hasPrefix("-") else { return }
        let name = "\(GatewayProgram.current.name) \(arguments[0])"
        throw CommandFailure("a configuration file is an option: \(name) --config \(file.onOneLine)", .usage)
    }

    /// Words that mean the same in other programs.
    private static let sameWords = [
        ["serve", "start", "run", "up", "server", "daemon"], ["send", "push", "notify", "publish", "message"],
        ["check", "validate", "lint", "verify"], ["doctor", "test", "diagnose", "ping"],
        ["top", "status", "watch", "monitor", "stats"], ["init", "setup", "configure"],
        ["show", "get", "print", "view", "describe", "info"], ["list", "ls", "all"],
        ["create", "new", "add", "make", "generate", "put", "set"],
        ["delete", "remove", "rm", "revoke", "drop", "erase"],
    ]

    /// The advice for commands that other programs have and this one lacks; gets the program's name.
    private static let advice: [String: @Sendable (String) -> String] = {
        let keys: @Sendable (String) -> String = { "A key is made by: \($0) keys create" }
        return [
            "stop": { _ in "serve ends with ctrl-c, or with kill PID." },
            "reload": { _ in "serve reads its file again after kill -HUP PID." },
            "version": { "It is an option: \($0) --version" },
            "import": { "Devices are imported by: \($0) devices import FILE" },
            "export": { "Devices are exported by: \($0) devices export" },
            "keygen": keys, "gen-key": keys, "genkey": keys,
            "health": { "It is \($0) doctor, and /healthz of a running gateway." },
            "logs": { "serve writes its log to stderr, and \($0) deliveries lists what became of messages." },
            "list": { "What is listed comes first: \($0) devices list, \($0) notifications list" },
        ]
    }()

    /// Returns the command that a word misspells, or that has this name in other programs; nil for none.
    private static func commandMeant(by word: String, among names: [String]) -> String? {
        if let nearest = Suggestion.nearest(to: word, among: names) { return nearest }
        let words = sameWords.first { $0.contains(word.lowercased()) } ?? []
        return words.first(where: names.contains)
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
