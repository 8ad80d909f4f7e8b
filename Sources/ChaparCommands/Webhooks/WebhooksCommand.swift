import ArgumentParser
import Foundation
import ChaparCore

/// `chapar webhooks`: commands on the endpoints that a gateway tells of events.
struct WebhooksCommand: AsyncParsableCommand {
    static let configuration = CommandConfiguration(
        commandName: "webhooks",
        abstract: "Send events to a server of yours: add webhooks, test them, send again.",
        discussion: """
            Talks to a running gateway: --url, and a key of the scope "webhooks" or "admin" in --key-file or $CHAPAR_KEY. Requests \
            have the form of Standard Webhooks; docs/Webhooks.md says how a server verifies them.
            """,
        subcommands: [
            WebhooksListCommand.self, WebhooksAddCommand.self, WebhooksShowCommand.self, WebhooksEnableCommand.self,
            WebhooksDisableCommand.self, WebhooksRemoveCommand.self, WebhooksTestCommand.self,
            WebhooksRotateCommand.self, WebhooksRecoverCommand.self, WebhooksAttemptsCommand.self,
            WebhooksListenCommand.self,
        ]
    )
}

/// `chapar webhooks list`: the webhooks of a gateway.
struct WebhooksListCommand: AsyncParsableCommand {
    static let configuration = CommandConfiguration(commandName: "list", abstract: "List the webhooks.")

    @OptionGroup(title: "Repeating") var repeating: WatchOption
    @OptionGroup(title: "The gateway") var gateway: GatewayAddress
    @OptionGroup var form: OutputForm

    func run() async throws { try await repeating.run(form) { try await show() } }

    private func show() async throws {
        let answer = try await gateway.webhooks { client throws(HTTPFailure) in try await client.get("/v1/webhooks") }
        let webhooks = answer["webhooks"]?.arrayValue ?? []
        if form.isJSON {
            for webhook in webhooks { Shell.print(webhook) }
            return
        }
        guard !webhooks.isEmpty else { return Shell.print("There are no webhooks.") }
        var table = TextTable("WEBHOOK", "APP", "STATUS", "LAG", "OPEN", "FAILED", "URL")
        for webhook in webhooks {
            table.add(
                webhook["name"]?.words ?? "",
                webhook["app"]?.words ?? "all",
                webhook["status"]?.words ?? "",
                "\(webhook["lag"]?.integerValue ?? 0)",
                "\(webhook["open"]?.integerValue ?? 0)",
                "\(webhook["failed"]?.integerValue ?? 0)",
                webhook["url"]?.words ?? ""
            )
        }
        table.print()
    }
}

/// `chapar webhooks add`: adds a webhook and prints its key, or writes it to a file.
struct WebhooksAddCommand: AsyncParsableCommand {
    static let configuration = CommandConfiguration(
        commandName: "add",
        abstract: "Add a webhook, or change its settings; prints the signing key.",
        discussion: "The key is shown once. An existing webhook keeps its key and its cursor."
    )

    @Argument(help: "A name for the webhook.")
    var name: String

    @Argument(help: "The address that gets the requests, such as https://shop.example/hooks.")
    var address: String

    @Option(
        name: .customLong("type"),
        help: "A type of events, such as delivery.failed or token.*; may stand several times."
    )
    var types: [String] = []

    @Flag(help: "Send one request at a time, in the order of the events.")
    var ordered = false

    @Flag(help: "Send up to 100 events in a request.")
    var batch = false

    @Option(help: "The most requests a second; 0 is no limit.")
    var rate: Int?

    @Option(help: "Write the key to this new file, which only its owner can read.", completion: .file())
    var secretFile: String?

    @OptionGroup(title: "The gateway") var gateway: GatewayAddress
    @OptionGroup var form: OutputForm

    func run() async throws {
        var body: JSONObject = ["url": .string(address), "ordered": .bool(ordered), "batch": .bool(batch)]
        if !types.isEmpty { body["types"] = .array(types.map { .string($0) }) }
        if let rate { body["rate"] = .integer(Int64(rate)) }
        if let app = gateway.app { body["app"] = .string(app) }
        let bytes = JSONValue.object(body).bytes
        let path = WebhookPath(name)
        let key = try await WebhookKey.made(file: secretFile) {
            try await gateway.webhooks { client throws(HTTPFailure) in try await client.put(path.own, bytes) }
        }
        key.show(file: secretFile, form, "\(name) gets its first event from now on.")
    }
}

/// `chapar webhooks show`: one webhook.
struct WebhooksShowCommand: AsyncParsableCommand {
    static let configuration = CommandConfiguration(commandName: "show", abstract: "Show a webhook.")

    @Argument(help: "The webhook's name.")
    var name: String

    @OptionGroup(title: "The gateway") var gateway: GatewayAddress
    @OptionGroup var form: OutputForm

    func run() async throws {
        let path = WebhookPath(name)
        let answer = try await gateway.webhooks { client throws(HTTPFailure) in try await client.get(path.own) }
        if form.isJSON { return Shell.print(answer) }
        for (name, value) in answer.objectValue ?? [:] { Shell.print("\(name): \(value.words ?? value.text)") }
    }
}

/// `chapar webhooks enable`: lets a webhook get events again.
struct WebhooksEnableCommand: AsyncParsableCommand {
    static let configuration = CommandConfiguration(
        commandName: "enable",
        abstract: "Enable a disabled webhook, from now on.",
        discussion: "What was not queued meanwhile is sent by \"webhooks recover\"."
    )

    @Argument(help: "The webhook's name.")
    var name: String

    @OptionGroup(title: "The gateway") var gateway: GatewayAddress
    @OptionGroup var form: OutputForm

    func run() async throws { try await gateway.setWebhook(name, isEnabled: true, form) }
}

/// `chapar webhooks disable`: keeps a webhook from getting events.
struct WebhooksDisableCommand: AsyncParsableCommand {
    static let configuration = CommandConfiguration(
        commandName: "disable",
        abstract: "Disable a webhook: nothing is sent to it until it is enabled."
    )

    @Argument(help: "The webhook's name.")
    var name: String

    @OptionGroup(title: "The gateway") var gateway: GatewayAddress
    @OptionGroup var form: OutputForm

    func run() async throws { try await gateway.setWebhook(name, isEnabled: false, form) }
}

/// `chapar webhooks remove`: removes a webhook with what waits for it.
struct WebhooksRemoveCommand: AsyncParsableCommand {
    static let configuration = CommandConfiguration(
        commandName: "remove",
        abstract: "Remove a webhook, its keys and its waiting messages."
    )

    @Argument(help: "The webhook's name.")
    var name: String

    @OptionGroup(title: "The gateway") var gateway: GatewayAddress
    @OptionGroup var form: OutputForm

    func run() async throws {
        let path = WebhookPath(name)
        _ = try await gateway.webhooks { client throws(HTTPFailure) in try await client.delete(path.own) }
        if form.isJSON { return Shell.print(JSONValue.object(["name": .string(name), "removed": true])) }
        Shell.print("\(name) is removed.")
    }
}

/// `chapar webhooks test`: sends a test event and shows the receiver's answer.
struct WebhooksTestCommand: AsyncParsableCommand {
    static let configuration = CommandConfiguration(
        commandName: "test",
        abstract: "Send a signed test event, and show what the receiver answers."
    )

    @Argument(help: "The webhook's name.")
    var name: String

    @OptionGroup(title: "The gateway") var gateway: GatewayAddress
    @OptionGroup var form: OutputForm

    func run() async throws {
        let answer = try await gateway.post(WebhookPath(name).of("test"))
        if form.isJSON {
            Shell.print(answer)
        } else {
            let status = answer["status"]?.integerValue.map { " \($0)" } ?? ""
            let detail = answer["detail"]?.words.map { ": \($0)" } ?? ""
            Shell.print(
                "\(answer["outcome"]?.words ?? "")\(status) after \(answer["duration_ms"]?.integerValue ?? 0) ms\(detail)"
            )
            if let body = answer["body"]?.words, !body.isEmpty { Shell.print(body) }
        }
        guard answer["delivered"]?.boolValue == true else {
            throw CommandFailure("the receiver did not take the test", .failure)
        }
    }
}

/// `chapar webhooks rotate`: gives a webhook a new key.
struct WebhooksRotateCommand: AsyncParsableCommand {
    static let configuration = CommandConfiguration(
        commandName: "rotate",
        abstract: "Make a new key; requests are signed with the old one as well for a while."
    )

    @Argument(help: "The webhook's name.")
    var name: String

    @Option(help: "For how many seconds the old key signs, at most 604800.")
    var keepOld = 86_400

    @Option(help: "Write the key to this new file, which only its owner can read.", completion: .file())
    var secretFile: String?

    @OptionGroup(title: "The gateway") var gateway: GatewayAddress
    @OptionGroup var form: OutputForm

    func run() async throws {
        let key = try await WebhookKey.made(file: secretFile) {
            try await gateway.post(WebhookPath(name).of("rotate"), ["keep_old": .integer(Int64(keepOld))])
        }
        let end = key.answer["old_secrets_until"]?.words ?? ""
        key.show(file: secretFile, form, "The old key signs until \(end).")
    }
}

/// `chapar webhooks recover`: sends messages again.
struct WebhooksRecoverCommand: AsyncParsableCommand {
    static let configuration = CommandConfiguration(
        commandName: "recover",
        abstract: "Send given-up messages again since a time, or one message; each keeps its id."
    )

    @Argument(help: "The webhook's name.")
    var name: String

    @Option(help: "The time since which messages were given up, such as 2026-11-21T08:00:00Z.")
    var since: String?

    @Option(help: "The webhook-id of one message.")
    var id: String?

    @OptionGroup(title: "The gateway") var gateway: GatewayAddress
    @OptionGroup var form: OutputForm

    func validate() throws {
        guard (since == nil) != (id == nil) else { throw ValidationError("Say --since TIME or --id ID.") }
    }

    func run() async throws {
        var body = JSONObject()
        if let since { body["since"] = .string(since) }
        if let id { body["id"] = .string(id) }
        let answer = try await gateway.post(WebhookPath(name).of("recover"), body)
        if form.isJSON { return Shell.print(answer) }
        let (messages, spans) = (answer["messages"]?.integerValue ?? 0, answer["spans"]?.integerValue ?? 0)
        Shell.print(
            "sent again: \(messages) \(messages == 1 ? "message" : "messages")"
                + (spans > 0 ? ", and what happened while it was disabled" : "")
        )
    }
}

/// `chapar webhooks attempts`: the last requests to a webhook.
struct WebhooksAttemptsCommand: AsyncParsableCommand {
    static let configuration = CommandConfiguration(
        commandName: "attempts",
        abstract: "Show the last requests to a webhook, the newest first."
    )

    @Argument(help: "The webhook's name.")
    var name: String

    @OptionGroup(title: "The gateway") var gateway: GatewayAddress
    @OptionGroup var form: OutputForm

    func run() async throws {
        let path = WebhookPath(name)
        let answer = try await gateway.webhooks { client throws(HTTPFailure) in
            try await client.get(path.of("attempts"))
        }
        let attempts = answer["attempts"]?.arrayValue ?? []
        if form.isJSON {
            for attempt in attempts { Shell.print(attempt) }
            return
        }
        guard !attempts.isEmpty else { return Shell.print("Nothing was sent yet.") }
        var table = TextTable("AT", "TYPE", "ATTEMPT", "OUTCOME", "STATUS", "MS", "ID")
        for attempt in attempts {
            table.add(
                attempt["at"]?.words ?? "",
                attempt["type"]?.words ?? "",
                "\(attempt["attempt"]?.integerValue ?? 0)",
                attempt["outcome"]?.words ?? "",
                attempt["status"]?.integerValue.map { "\($0)" } ?? "",
                "\(attempt["duration_ms"]?.integerValue ?? 0)",
                attempt["id"]?.words ?? ""
            )
        }
        table.print()
    }
}

/// The paths of a webhook.
private struct WebhookPath: Sendable {
    let own: String

    init(_ name: String) { own = "/v1/webhooks/\(FormEncoding.encode(name))" }

    func of(_ part: String) -> String { "\(own)/\(part)" }
}

/// The key of an answer, which is shown once.
private struct WebhookKey {
    let answer: JSONValue

    /// Asks for the answer, and writes its key to a new file when there is to be one.
    static func made(file: String?, _ ask: () async throws -> JSONValue) async throws -> WebhookKey {
        guard let file else { return WebhookKey(answer: try await ask()) }
        let answer = try await SecretFile.write(to: file, of: ask) { $0["secret"]?.stringValue }
        return WebhookKey(answer: answer)
    }

    /// Prints the key, or the name of its file.
    func show(file: String?, _ form: OutputForm, _ sentence: String) {
        guard let secret = answer["secret"]?.stringValue else {
            // The webhook existed: it keeps its key.
            form.isJSON
                ? Shell.print(answer) : Shell.print("The webhook has these settings now, and the key as before.")
            return
        }
        if let file {
            guard form.isJSON else { return Shell.print("\(sentence) Its key is in \(file).") }
            var shown = answer.objectValue ?? [:]
            shown["secret"] = nil
            return Shell.print(.object(shown))
        }
        if form.isJSON { return Shell.print(answer) }
        Shell.print(secret)
        Shell.complain("\(sentence) This key verifies its requests, and is not shown again.")
    }
}

extension GatewayAddress {
    /// Asks a gateway about webhooks; throws for an answer that is no success.
    fileprivate func webhooks(
        _ ask: (GatewayClient) async throws(HTTPFailure) -> GatewayClient.Answer
    ) async throws -> JSONValue {
        let client = try requiredClient()
        let answer: GatewayClient.Answer
        do throws(HTTPFailure) {
            answer = try await ask(client)
        } catch {
            throw client.unreachable(error)
        }
        await client.close()
        guard (200..<300).contains(answer.status) else {
            throw CommandFailure(answer.problem, [429, 503].contains(answer.status) ? .tryLater : .usage)
        }
        return answer.json
    }

    fileprivate func post(_ path: String, _ body: JSONObject = [:]) async throws -> JSONValue {
        let bytes = JSONValue.object(body).bytes
        return try await webhooks { client throws(HTTPFailure) in
            try await client.post(path, bytes, idempotencyKey: UUID().uuidString)
        }
    }

    fileprivate func setWebhook(_ name: String, isEnabled: Bool, _ form: OutputForm) async throws {
        let (path, bytes) = (WebhookPath(name).own, JSONValue.object(["enabled": .bool(isEnabled)]).bytes)
        let answer = try await webhooks { client throws(HTTPFailure) in try await client.patch(path, bytes) }
        form.isJSON
            ? Shell.print(answer)
            : Shell.print(isEnabled ? "\(name) gets events from now on." : "\(name) gets nothing until it is enabled.")
    }
}
