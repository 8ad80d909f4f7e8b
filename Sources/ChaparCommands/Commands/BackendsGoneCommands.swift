import ArgumentParser
import Foundation
import ChaparCore

/// `chapar backends move`: moves deliveries that wait for a backend that is no longer configured to another one.
struct BackendsMoveCommand: AsyncParsableCommand {
    static let configuration = CommandConfiguration(
        commandName: "move",
        abstract: "Move the waiting deliveries of a removed backend to another one.",
        discussion:
            "Deliveries whose plan comes to the gone backend later go there as well, until it is configured again."
    )

    @Argument(help: "The backend that is no longer configured.", completion: NameCompletion.backends.kind)
    var from: String

    @Argument(help: "A configured backend.", completion: NameCompletion.backends.kind)
    var to: String

    @Flag(help: "Only say how many would be moved.")
    var dryRun = false

    @OptionGroup var gateway: GatewayAddress
    @OptionGroup var form: OutputForm

    func run() async throws {
        let answer = try await gateway.resolveGone(from, "move", ["to": .string(to)], isDryRun: dryRun)
        if form.isJSON { return Shell.print(answer) }
        let count = answer["moved"]?.integerValue ?? 0
        let verb = dryRun ? "would be" : count == 1 ? "was" : "were"
        Shell.print("\(count) \(count == 1 ? "delivery" : "deliveries") \(verb) moved from \(from) to \(to).")
    }
}

/// `chapar backends drop`: fails deliveries that wait for a backend that is no longer configured.
struct BackendsDropCommand: AsyncParsableCommand {
    static let configuration = CommandConfiguration(
        commandName: "drop",
        abstract: "End the waiting deliveries of a removed backend as failed.",
        discussion: "Deliveries that are not due yet end when they are."
    )

    @Argument(help: "The backend that is no longer configured.", completion: NameCompletion.backends.kind)
    var backend: String

    @Flag(help: "Only say how many would be dropped.")
    var dryRun = false

    @OptionGroup var gateway: GatewayAddress
    @OptionGroup var form: OutputForm

    func run() async throws {
        let answer = try await gateway.resolveGone(backend, "drop", [:], isDryRun: dryRun)
        if form.isJSON { return Shell.print(answer) }
        let count = answer["dropped"]?.integerValue ?? 0
        let verb = dryRun ? "would be dropped" : "dropped"
        Shell.print("\(count) \(count == 1 ? "delivery" : "deliveries") of \(backend) \(verb).")
    }
}

extension GatewayAddress {
    /// Moves or drops the deliveries that wait for a backend that is gone; returns the gateway's answer.
    fileprivate func resolveGone(
        _ backend: String,
        _ action: String,
        _ body: JSONObject,
        isDryRun: Bool
    ) async throws -> JSONValue {
        let client = try requiredClient()
        var body = body
        if isDryRun { body["dry_run"] = true }
        let bytes = JSONValue.object(body).bytes
        let name = FormEncoding.encode(backend)
        let answer: GatewayClient.Answer
        do throws(HTTPFailure) {
            // Never repeated: a second call could not report what the first one moved or dropped.
            answer = try await client.post(
                "/v1/backends/\(name)/\(action)",
                bytes,
                idempotencyKey: UUID().uuidString
            )
        } catch {
            throw client.unreachable(error)
        }
        await client.close()
        guard answer.status == 200 else {
            throw CommandFailure(answer.problem, answer.status == 503 || answer.status == 409 ? .tryLater : .usage)
        }
        return answer.json
    }
}
