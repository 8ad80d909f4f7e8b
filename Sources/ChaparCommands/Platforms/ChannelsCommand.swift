import ArgumentParser
import Foundation
import ChaparCore

/// `chapar channels`: commands on the broadcast channels that a platform keeps for an app.
struct ChannelsCommand: AsyncParsableCommand {
    static var configuration: CommandConfiguration {
        let program = GatewayProgram.current.name
        return CommandConfiguration(
            commandName: "channels",
            abstract: "List, make, show and delete broadcast channels (APNs Live Activities).",
            discussion: """
                Every command talks to a running gateway: --url, and the key in --key-file or $CHAPAR_KEY, of the scope \
                "send" to list and show, "admin" to make and delete. A broadcast is sent with \
                "to": { "platform_ids": ["the channel's id"] } and "backend".

                  \(program) channels create --storage newest --backend ios --url http://127.0.0.1:8080
                  \(program) channels list --backend ios --url http://127.0.0.1:8080
                """,
            subcommands: [
                ChannelsListCommand.self, ChannelsCreateCommand.self, ChannelsShowCommand.self,
                ChannelsDeleteCommand.self,
            ]
        )
    }
}

/// `chapar channels list`.
struct ChannelsListCommand: AsyncParsableCommand {
    static let configuration = CommandConfiguration(commandName: "list", abstract: "List the ids of all channels.")

    @OptionGroup var platform: PlatformAddress

    func run() async throws {
        let path = try platform.path("channels")
        try await platform.use { client in
            let answer = try await client.call { (client) throws(HTTPFailure) in try await client.get(path) }
            if platform.form.isJSON { return Shell.print(answer.json) }
            for id in answer.json["channels"]?.arrayValue ?? [] { Shell.print(id.words ?? "") }
        }
    }
}

/// `chapar channels create`.
struct ChannelsCreateCommand: AsyncParsableCommand {
    static let configuration = CommandConfiguration(
        commandName: "create",
        abstract: "Make a channel and print its id.",
        discussion: "Every call makes another one; after a lost answer look at the list."
    )

    @Option(help: "What the platform keeps for devices that are offline: none, or the newest message.")
    var storage: String = ChannelStorage.newest.rawValue

    @OptionGroup var platform: PlatformAddress

    func validate() throws {
        guard ChannelStorage(rawValue: storage) != nil else { throw ValidationError("--storage is none or newest.") }
    }

    func run() async throws {
        try await platform.use { client in
            let answer = try await client.post(platform.path("channels"), ["message_storage": .string(storage)])
            if platform.form.isJSON { Shell.print(answer) } else { Shell.print(answer["id"]?.words ?? "") }
        }
    }
}

/// `chapar channels show`.
struct ChannelsShowCommand: AsyncParsableCommand {
    static let configuration = CommandConfiguration(commandName: "show", abstract: "Show the settings of a channel.")

    @Argument(help: "The channel's id.")
    var id: String

    @OptionGroup var platform: PlatformAddress

    func run() async throws {
        let path = try platform.path("channels", id)
        try await platform.use { client in
            let answer = try await client.call { (client) throws(HTTPFailure) in try await client.get(path) }
            if platform.form.isJSON { return Shell.print(answer.json) }
            Shell.print("\(id): keeps \(answer.json["message_storage"]?.words ?? "")")
        }
    }
}

/// `chapar channels delete`.
struct ChannelsDeleteCommand: AsyncParsableCommand {
    static let configuration = CommandConfiguration(
        commandName: "delete",
        abstract: "Delete a channel; devices that listen to it get nothing any more."
    )

    @Argument(help: "The channel's id.")
    var id: String

    @OptionGroup var platform: PlatformAddress

    func run() async throws {
        let path = try platform.path("channels", id)
        try await platform.use { client in
            _ = try await client.call { (client) throws(HTTPFailure) in try await client.delete(path) }
            if !platform.form.isJSON { Shell.print("deleted \(id)") }
        }
    }
}
