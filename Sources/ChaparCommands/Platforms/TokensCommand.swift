import ArgumentParser
import Foundation
import ChaparCore

/// `chapar tokens`: looks up a token at its platform, or makes tokens of another platform's.
struct TokensCommand: AsyncParsableCommand {
    static var configuration: CommandConfiguration {
        let program = GatewayProgram.current.name
        return CommandConfiguration(
            commandName: "tokens",
            abstract: "Look a token up at its platform, or import another platform's tokens (FCM).",
            discussion: """
                Every command talks to a running gateway: --url, and the key of the scope "admin" in --key-file or \
                $CHAPAR_KEY. A token in an argument stands in the shell's history; - reads it from stdin.

                  \(program) tokens lookup - --backend android --url http://127.0.0.1:8080 < token.txt
                  \(program) tokens import apns.txt --application com.example.app --backend android \
                --url http://127.0.0.1:8080
                """,
            subcommands: [TokensLookupCommand.self, TokensImportCommand.self]
        )
    }
}

/// `chapar tokens lookup`.
struct TokensLookupCommand: AsyncParsableCommand {
    static let configuration = CommandConfiguration(
        commandName: "lookup",
        abstract: "Show what a platform knows of a token; exit code 1 when that is nothing."
    )

    @Argument(help: "The token, alone or as service:token; - is stdin.")
    var token: String

    @OptionGroup var platform: PlatformAddress

    func run() async throws {
        let body = TokenArguments.json(try TokenArguments.one(token))
        try await platform.use { client in
            let answer = try await client.post(platform.path("tokens", "lookup"), body.objectValue ?? ["token": body])
            if platform.form.isJSON {
                Shell.print(answer)
            } else {
                for name in ["application", "project", "platform", "application_version"] {
                    if let value = answer[name]?.words { Shell.print("\(name): \(value)") }
                }
                let topics = (answer["topics"]?.arrayValue ?? []).compactMap { $0["name"]?.words }
                if !topics.isEmpty { Shell.print("topics: \(topics.joined(separator: ", "))") }
            }
            guard answer["known"] == true else { throw CommandFailure("\(platform.backend) knows no such token") }
        }
    }
}

/// `chapar tokens import`.
struct TokensImportCommand: AsyncParsableCommand {
    /// The most tokens of one request.
    private static let batch = 1_000

    static let configuration = CommandConfiguration(
        commandName: "import",
        abstract: "Make a platform's tokens from another platform's, and print old and new, a tab between them.",
        discussion: "The registry stays as it is. Exit codes: 0 all imported, 4 some, 1 none, 75 try later."
    )

    @Argument(help: "A file with a token on each line; - is stdin.", completion: .file())
    var file: String

    @Option(help: "The app's bundle id.")
    var application: String

    @Flag(help: "The tokens are of builds run from Xcode.")
    var development = false

    @OptionGroup var platform: PlatformAddress

    func run() async throws {
        let tokens = try TokenArguments.lines(of: file)
        guard !tokens.isEmpty else { throw CommandFailure("\(file) holds no token", .usage) }
        try await platform.use { client in
            var counts = TokenCounts()
            for start in stride(from: 0, to: tokens.count, by: Self.batch) {
                let part = Array(tokens[start..<min(tokens.count, start + Self.batch)])
                let answer = try await client.post(
                    platform.path("tokens", "import"),
                    [
                        "tokens": .array(part.map { .string($0) }), "application": .string(application),
                        "environment": .string(development ? "development" : "production"),
                    ]
                )
                let imported = answer["imported"]?.arrayValue ?? []
                for item in imported { show(item, part, from: start) }
                counts.add(
                    done: imported.count,
                    refused: answer["refused"]?.arrayValue ?? [],
                    from: start,
                    platform.form
                )
            }
            Shell.complain("\(counts.done) imported, \(counts.refused) refused")
            try counts.end()
        }
    }

    private func show(_ item: JSONValue, _ tokens: [String], from start: Int) {
        guard let index = item["index"]?.integerValue.flatMap({ Int(exactly: $0) }), tokens.indices.contains(index)
        else {
            return
        }
        let new = item["imported_token"]?.stringValue ?? ""
        guard platform.form.isJSON else { return Shell.print("\(tokens[index])\t\(new)") }
        Shell.print([
            "index": .integer(Int64(start + index)), "token": .string(new), "old_token": .string(tokens[index]),
            "service": item["imported_service"] ?? .null,
        ])
    }
}
