import ArgumentParser
import Foundation
import ChaparCore
import ChaparGateway

/// `chapar backends`: shows the kinds this program knows, or the abilities of configured backends, and settles
/// deliveries that wait for a backend that is gone.
struct BackendsCommand: AsyncParsableCommand {
    static let configuration = CommandConfiguration(
        commandName: "backends",
        abstract: "List backends and what they can do; examine one; move or drop what waits for one that is gone.",
        subcommands: [
            BackendsListCommand.self, BackendsDiagnoseCommand.self, BackendsMoveCommand.self, BackendsDropCommand.self,
        ],
        defaultSubcommand: BackendsListCommand.self
    )
}

/// `chapar backends list`, which is what `chapar backends` does.
struct BackendsListCommand: AsyncParsableCommand {
    static let configuration = CommandConfiguration(
        commandName: "list",
        abstract: "List the kinds of backends, or what each one of --config or of a running gateway (--url) can do."
    )

    @Option(
        name: [.customLong("config"), .customShort("c")],
        help: "A configuration file.",
        completion: .file(extensions: ["yaml", "yml", "json"])
    )
    var config: String?

    @OptionGroup(title: "Repeating") var repeating: WatchOption
    @OptionGroup var gateway: GatewayAddress
    @OptionGroup var form: OutputForm

    func validate() throws {
        if config != nil, gateway.named != nil { throw ValidationError("Give --config or --url, not both.") }
        if config != nil, repeating.watch { throw ValidationError("--watch goes with --url.") }
    }

    func run() async throws { try await repeating.run(form) { try await list() } }

    private func list() async throws {
        if let config {
            show(try BackendLoader.offline().load(config).backends)
        } else if let client = try gateway.client() {
            try await show(client)
        } else {
            showKinds()
        }
    }

    private func showKinds() {
        var table = TextTable("KIND", "PLATFORM")
        for factory in GatewayProgram.current.backends {
            table.add(factory.kind.rawValue, factory.summary)
            if form.isJSON {
                Shell.print(["kind": .string(factory.kind.rawValue), "summary": .string(factory.summary)])
            }
        }
        if !form.isJSON { table.print() }
    }

    /// Shows the backends of a running gateway, with their abilities and the number of deliveries that wait for them.
    private func show(_ client: GatewayClient) async throws {
        try await client.checkReachable()
        let answer: GatewayClient.Answer
        do throws(HTTPFailure) {
            answer = try await client.get("/v1/backends")
        } catch {
            throw client.unreachable(error)
        }
        await client.close()
        guard answer.status == 200 else {
            throw CommandFailure("the gateway does not show its backends: \(answer.problem)", .usage)
        }
        var table = TextTable("NAME", "KIND", "RECIPIENTS", "CAN ALSO", "WAITING", "IN FLIGHT", "HEALTH")
        for backend in answer.json["backends"]?.arrayValue ?? [] {
            if form.isJSON { Shell.print(backend) }
            let services = backend["audience"]?["services"]?.arrayValue ?? []
            let forms = backend["audience"]?["forms"]?.arrayValue ?? []
            let abilities = (backend["abilities"]?.arrayValue ?? []).compactMap(\.stringValue).filter { $0 != "send" }
            let worker = backend.worker
            table.add(
                backend["name"]?.stringValue ?? "",
                backend["kind"]?.stringValue ?? "",
                (services + forms).compactMap(\.stringValue).joined(separator: ","),
                abilities.isEmpty ? "-" : abilities.joined(separator: ","),
                "\(worker?["waiting"]?.integerValue ?? 0)",
                "\(worker?["in_flight"]?.integerValue ?? 0)",
                Self.health(of: backend)
            )
        }
        if !form.isJSON { table.print() }
    }

    /// Returns the gravest reason why a backend does not send; else its own health.
    static func health(of backend: JSONValue) -> String {
        let worker = backend.worker
        func reason(_ name: String) -> String { worker?[name]?.stringValue.map { ": \($0)" } ?? "" }
        if worker?.value(of: .invalidationsQuarantined) == true {
            return "stopped: too many dead tokens, see devices quarantined"
        }
        if worker?["parked"] == true { return "parked\(reason("pause_reason"))" }
        if let until = worker?["paused_until"]?.stringValue { return "paused until \(until)\(reason("pause_reason"))" }
        if let breaker = worker?["breaker"]?.stringValue, breaker != "closed" {
            return "breaker \(breaker)\(reason("breaker_reason"))"
        }
        let detail = backend["health"]?["detail"]?.stringValue.map { ": \($0)" } ?? ""
        return (backend["health"]?["status"]?.stringValue ?? "") + detail
    }

    private func show(_ backends: [BackendRegistry.ConfiguredBackend]) {
        var table = TextTable("NAME", "KIND", "RECIPIENTS", "CAN ALSO", "HEALTH")
        for configured in backends {
            let backend = configured.backend
            let recipients = backend.audience.names
            let abilities = backend.abilityNames
            let health = backend.health
            table.add(
                configured.name,
                backend.kind.rawValue,
                recipients.joined(separator: ","),
                abilities.isEmpty ? "-" : abilities.joined(separator: ","),
                health.detail.map { "\(health.status.rawValue): \($0)" } ?? health.status.rawValue
            )
            guard form.isJSON else { continue }
            Shell.print([
                "name": .string(configured.name), "kind": .string(backend.kind.rawValue),
                "recipients": .array(recipients.map { .string($0) }),
                "abilities": .array(abilities.map { .string($0) }),
                "health": [
                    "status": .string(health.status.rawValue), "detail": health.detail.map { .string($0) } ?? .null,
                    "credential_expiries": .object(
                        health.credentialExpiries.sorted { $0.key < $1.key }
                            .reduce(into: JSONObject()) { $0[$1.key] = .string(RFC3339.string($1.value)) }
                    ),
                ],
            ])
        }
        if !form.isJSON { table.print() }
    }
}

extension BackendAudience {
    /// The services and recipient forms, in the words of the API.
    var names: [String] { services.map(\.rawValue).sorted() + forms.map(\.rawValue).sorted() }
}
