import ArgumentParser
import Foundation
import ChaparCore

/// `chapar topics`: commands on the topics that a platform keeps, and the tokens in them.
struct TopicsCommand: AsyncParsableCommand {
    static var configuration: CommandConfiguration {
        let program = GatewayProgram.current.name
        return CommandConfiguration(
            commandName: "topics",
            abstract: "Join tokens to a platform's topics, take them off, list them (FCM, HMS).",
            discussion: """
                Every command talks to a running gateway: --url, and the key of the scope "devices" in --key-file or \
                $CHAPAR_KEY. A message to a topic is sent with "to": { "topic": … } and "backend". FCM's API behind it ends \
                on 2027-09-29, and projects new since 2026-10-01 have none.

                  \(program) topics subscribe news --backend android --device phone-1 --url http://127.0.0.1:8080
                  \(program) topics unsubscribe news --backend android --file tokens.txt --url http://127.0.0.1:8080
                  \(program) topics list phone-1 --backend android --url http://127.0.0.1:8080

                Exit codes: 0 done, 1 refused, 2 usage, 4 done in part, 75 try later.
                """,
            subcommands: [TopicsSubscribeCommand.self, TopicsUnsubscribeCommand.self, TopicsListCommand.self]
        )
    }
}

/// The flags that say whose tokens join or leave a topic.
struct TopicMembers: ParsableArguments {
    /// The most tokens of one request.
    private static let batch = 1_000

    @Argument(help: "The topic's name.")
    var topic: String

    @Option(help: "A device of the registry; may be repeated.")
    var device: [String] = []

    @Option(help: "A user of the registry: all the user's devices; may be repeated.")
    var user: [String] = []

    @Option(help: "A token, alone or as service:token; may be repeated.")
    var token: [String] = []

    @Option(help: "A file with a token on each line; - is stdin.", completion: .file())
    var file: String?

    @OptionGroup var platform: PlatformAddress

    func validate() throws {
        let count = [device.isEmpty, user.isEmpty, token.isEmpty, file == nil].count { !$0 }
        guard count == 1 else { throw ValidationError("Give one of --device, --user, --token and --file.") }
    }

    /// Sends the change, at most 1,000 tokens a request.
    func change(_ verb: String) async throws {
        let (member, values): (String, [JSONValue]) =
            if !device.isEmpty {
                ("devices", device.map { .string($0) })
            } else if !user.isEmpty {
                ("users", user.map { .string($0) })
            } else {
                ("tokens", try (file.map(TokenArguments.lines) ?? token).map(TokenArguments.json))
            }
        let path = try platform.path("topics", topic, verb)
        try await platform.use { client in
            var counts = TokenCounts()
            for start in stride(from: 0, to: values.count, by: Self.batch) {
                let part = Array(values[start..<min(values.count, start + Self.batch)])
                let answer = try await client.post(path, [member: .array(part)])
                counts.add(
                    done: Int(count: answer["done"]?.integerValue ?? 0),
                    refused: answer["refused"]?.arrayValue ?? [],
                    from: start,
                    platform.form
                )
            }
            if platform.form.isJSON {
                Shell.print(["done": .integer(Int64(counts.done)), "refused": .integer(Int64(counts.refused))])
            } else {
                Shell.print("\(topic) at \(platform.backend): \(counts.done) done, \(counts.refused) refused")
            }
            try counts.end()
        }
    }
}

/// `chapar topics subscribe`.
struct TopicsSubscribeCommand: AsyncParsableCommand {
    static let configuration = CommandConfiguration(commandName: "subscribe", abstract: "Join tokens to a topic.")

    @OptionGroup var members: TopicMembers

    func run() async throws { try await members.change("subscribe") }
}

/// `chapar topics unsubscribe`.
struct TopicsUnsubscribeCommand: AsyncParsableCommand {
    static let configuration = CommandConfiguration(commandName: "unsubscribe", abstract: "Take tokens off a topic.")

    @OptionGroup var members: TopicMembers

    func run() async throws { try await members.change("unsubscribe") }
}

/// `chapar topics list`.
struct TopicsListCommand: AsyncParsableCommand {
    static let configuration = CommandConfiguration(
        commandName: "list",
        abstract: "List the topics of a registered device, or of a token (--token)."
    )

    @Argument(help: "The device's id.")
    var device: String?

    @Option(help: "A token, alone or as service:token; - is stdin.")
    var token: String?

    @OptionGroup var platform: PlatformAddress

    func validate() throws {
        guard (device == nil) != (token == nil) else { throw ValidationError("Give a device or --token.") }
    }

    func run() async throws {
        try await platform.use { client in
            let tokens: [JSONValue]
            if let token {
                let body = TokenArguments.json(try TokenArguments.one(token))
                let path = try platform.path("topics", "lookup")
                tokens = [try await client.post(path, body.objectValue ?? ["token": body])]
            } else {
                let path = try platform.path("topics") + "?device=" + FormEncoding.encode(device ?? "")
                let answer = try await client.call { (client) throws(HTTPFailure) in try await client.get(path) }
                tokens = answer.json["tokens"]?.arrayValue ?? []
            }
            if platform.form.isJSON { return tokens.forEach { Shell.print($0) } }
            var table = TextTable("SERVICE", "TOPIC", "SINCE")
            for token in tokens {
                let service = token["service"]?.stringValue ?? ""
                let topics = token["topics"]?.arrayValue ?? []
                if topics.isEmpty { table.add(service, token["known"] == true ? "none" : "unknown token", "") }
                for topic in topics {
                    table.add(service, topic["name"]?.stringValue ?? "", topic["since"]?.stringValue ?? "")
                }
            }
            table.print()
        }
    }
}
