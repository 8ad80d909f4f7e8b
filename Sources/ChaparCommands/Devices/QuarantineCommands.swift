import ArgumentParser
import Foundation
import ChaparCore

/// `chapar devices quarantined`: shows the tokens whose invalidation a gateway quarantined, since it got too many.
struct QuarantinedCommand: AsyncParsableCommand {
    static var configuration: CommandConfiguration {
        let (program, old) = (GatewayProgram.current.name, FormerName.quarantined.former.description)
        return CommandConfiguration(
            commandName: "quarantined",
            abstract: "Show the invalidations that a gateway quarantined.",
            discussion: """
                When too many answers of a platform declare tokens dead, the gateway believes none of them: a wrong
                environment or topic looks exactly like that. The tokens count as alive and the backend stands still until
                "\(program) devices release" or "\(program) devices discard". The old name of the command is "\(old)".
                """,
            aliases: [old]
        )
    }

    @Option(
        help: "List the devices whose tokens the invalidations of this backend are about.",
        completion: NameCompletion.backends.kind
    )
    var backend: String?

    @OptionGroup(title: "Repeating") var repeating: WatchOption
    @OptionGroup var gateway: GatewayAddress
    @OptionGroup var form: OutputForm

    func run() async throws { try await repeating.run(form) { try await show() } }

    private func show() async throws {
        let client = try gateway.requiredClient()
        if let backend {
            try await list(backend, client)
        } else {
            try await summarize(client)
        }
        await client.close()
    }

    private func summarize(_ client: GatewayClient) async throws {
        let answer = try await client.ask("/v1/invalidations")
        let backends = answer["backends"]?.arrayValue ?? []
        if form.isJSON {
            for backend in backends { Shell.print(backend) }
            return
        }
        guard !backends.isEmpty else { return Shell.print("Nothing is quarantined.") }
        var table = TextTable("BACKEND", "QUARANTINED", "REASONS", "SENDING", "SINCE")
        for backend in backends {
            let reasons = backend["reasons"]?.objectValue ?? JSONObject()
            table.add(
                backend["backend"]?.stringValue ?? "",
                "\(backend.value(of: .quarantined)?.integerValue ?? 0)",
                reasons.map { "\($0.value.integerValue ?? 0) \($0.name)" }.joined(separator: ", "),
                backend["stopped"]?.boolValue == true ? "stopped" : "flowing",
                backend["stopped_at"]?.stringValue ?? backend["oldest"]?.stringValue ?? ""
            )
        }
        table.print()
        for backend in backends {
            if let explanation = backend["explanation"]?.words {
                Shell.complain("\(backend["backend"]?.words ?? ""): \(explanation)")
            }
        }
    }

    private func list(_ backend: String, _ client: GatewayClient) async throws {
        let name = FormEncoding.encode(backend)
        var cursor: String?
        var table = TextTable("DEVICE", "USER", "SERVICE", "REASON", "DEAD SINCE")
        repeat {
            let page = try await client.ask(
                "/v1/invalidations?backend=\(name)&limit=1000" + (cursor.map { "&cursor=\($0)" } ?? "")
            )
            for item in page["items"]?.arrayValue ?? [] {
                if form.isJSON { Shell.print(item) }
                table.add(
                    item["device"]?.stringValue ?? "",
                    item["user"]?.stringValue ?? "",
                    item["service"]?.stringValue ?? "",
                    item["reason"]?.stringValue ?? "",
                    item["as_of"]?.stringValue ?? ""
                )
            }
            cursor = page["next"]?.stringValue
        } while cursor != nil
        if !form.isJSON { table.print() }
    }
}

/// `chapar devices release`: marks the quarantined tokens invalid: the platform was right.
struct ReleaseCommand: AsyncParsableCommand {
    static let configuration = CommandConfiguration(
        commandName: "release",
        abstract: "Let the quarantined invalidations of a backend take effect; it goes on sending.",
        discussion: "The tokens get a tombstone. A device that registers again ends it."
    )

    @Argument(help: "The backend's name.", completion: NameCompletion.backends.kind)
    var backend: String

    @Flag(help: "Only print the number of tokens.")
    var dryRun = false

    @OptionGroup var gateway: GatewayAddress
    @OptionGroup var form: OutputForm

    func run() async throws { try await gateway.resolve("release", backend, form, isDryRun: dryRun) }
}

/// `chapar devices discard`: keeps the quarantined tokens: the configuration was wrong.
struct DiscardCommand: AsyncParsableCommand {
    static let configuration = CommandConfiguration(
        commandName: "discard",
        abstract: "Drop the quarantined invalidations of a backend; it goes on sending.",
        discussion: "Correct the configuration first (environment, topic, project), or they will come again."
    )

    @Argument(help: "The backend's name.", completion: NameCompletion.backends.kind)
    var backend: String

    @Flag(help: "Only print the number of tokens.")
    var dryRun = false

    @OptionGroup var gateway: GatewayAddress
    @OptionGroup var form: OutputForm

    func run() async throws { try await gateway.resolve("discard", backend, form, isDryRun: dryRun) }
}

extension GatewayAddress {
    fileprivate func resolve(
        _ action: String,
        _ backend: String,
        _ form: OutputForm,
        isDryRun: Bool
    ) async throws {
        let client = try requiredClient()
        let name = FormEncoding.encode(backend)
        var body: JSONObject = ["action": .string(action)]
        if isDryRun { body["dry_run"] = true }
        let bytes = JSONValue.object(body).bytes
        // Settling twice is harmless, so the call may be repeated when the answer is lost.
        let answer = try await client.postPatiently("/v1/backends/\(name)/invalidations", bytes)
        await client.close()
        guard answer.status == 200 else {
            throw CommandFailure(answer.problem, answer.status == 404 ? .usage : .failure)
        }
        if form.isJSON { return Shell.print(answer.json) }
        let tokens = answer.json["tokens"]?.integerValue ?? 0
        if isDryRun { return Shell.print("It is about \(tokens) \(tokens == 1 ? "token" : "tokens") of \(backend).") }
        let what = action == "release" ? "dead now" : "alive, as they were"
        Shell.print("\(backend) goes on. \(tokens) \(tokens == 1 ? "token is" : "tokens are") \(what).")
    }
}

extension GatewayClient {
    /// Reads a document; throws for any status other than 200.
    fileprivate func ask(_ path: String) async throws -> JSONValue {
        let answer: Answer
        do throws(HTTPFailure) {
            answer = try await get(path)
        } catch {
            throw unreachable(error)
        }
        guard answer.status == 200 else { throw CommandFailure(answer.problem) }
        return answer.json
    }
}
