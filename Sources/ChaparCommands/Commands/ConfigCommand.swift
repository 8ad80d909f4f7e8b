import ArgumentParser
import ChaparCore
import ChaparGateway

/// `chapar config`: shows the configuration in force.
struct ConfigCommand: AsyncParsableCommand {
    static let configuration = CommandConfiguration(
        commandName: "config",
        abstract: "Show the configuration in force.",
        subcommands: [Print.self],
        defaultSubcommand: Print.self
    )

    /// `chapar config print`: prints every value with the place it came from; secrets without their value.
    struct Print: AsyncParsableCommand {
        static let configuration = CommandConfiguration(
            commandName: "print",
            abstract: "Print every value in force with its origin, defaults included, secrets masked."
        )

        @OptionGroup var file: ConfigOption
        @OptionGroup var form: OutputForm

        func run() async throws {
            let loaded = try file.load()
            if form.isJSON {
                for setting in loaded.settings {
                    Shell.print([
                        "path": .string(setting.path), "value": setting.value.map { .string($0) } ?? .null,
                        "is_secret": .bool(setting.value == nil), "origin": .string(setting.origin.description),
                    ])
                }
                return
            }
            var table = TextTable("KEY", "VALUE", "ORIGIN")
            for setting in loaded.settings {
                table.add(setting.path, Self.oneLine(setting.value ?? "<secret>"), setting.origin.description)
            }
            table.print()
        }

        private static func oneLine(_ text: String) -> String {
            text.contains(where: \.isNewline) ? JSONValue.string(text).text : text
        }
    }
}
