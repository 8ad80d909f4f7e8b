import ArgumentParser
import Foundation
import ChaparCore

/// `chapar backends move`: moves deliveries that wait for a backend that is no longer configured to another one.
struct BackendsMoveCommand: AsyncParsableCommand {
    static let configuration = CommandConfiguration(
        commandName: "move",
        abstract: "Hand what waits for a backend that is not configured any more to another one.",
        discussion:
            "Deliveries whose plan comes to the gone backend later go there as well, until it is configured again."
    )

    @Argument(help: "The backend that is gone.", completion: NameCompletion.backends.kind)
    var from: String

    @Argument(help: "A configured backend.", completion: NameCompletion.backends.kind)
    var to: String

    @OptionGroup var gateway: GatewayAddress
    @OptionGroup var form: OutputForm

    func run() async throws {
        let answer = try await gateway.resolveGone(from, "move", ["to": .string(to)])
        if form.isJSON { return Shell.print(answer) }
        let count = answer["moved"]?.integerValue ?? 0
        Shell.print("\(count) \(count == 1 ? "delivery was" : "deliveries were") moved from \(from) to \(to).")
    }
}

/// `chapar backends drop`: fails deliveries that wait for a backend that is no longer configured.
struct BackendsDropCommand: AsyncParsableCommand {
    static let configuration = CommandConfiguration(
        commandName: "drop",
        abstract: "End what waits for a backend that is not configured any more as failed.",
        discussion: "What is not due yet ends when it is."
    )

    @Argument(help: "The backend that is gone.", completion: NameCompletion.backends.kind)
    var backend: String

    @OptionGroup var gateway: GatewayAddress
    @OptionGroup var form: OutputForm

    func run() async throws {
        let answer = try await gateway.resolveGone(backend, "drop", [:])
        if form.isJSON { return Shell.print(answer) }
        let count = answer["dropped"]?.integerValue ?? 0
        Shell.print("\(count) \(count == 1 ? "delivery" : "deliveries") of \(backend) dropped.")
    }
}

extension GatewayAddress {
    /// Moves or drops the deliveries that wait for a backend that is gone; returns the gateway's answer.
    fileprivate func resolveGone(_ backend: String, _ action: String, _ body: JSONObject) async throws -> JSONValue {
        let client = try requiredClient()
        let name = FormEncoding.encode(backend)
        let answer: GatewayClient.Answer
        do throws(HTTPFailure) {
            // Never repeated: a second call could not report what the first one moved or dropped.
            answer = try await client.post(
                "/v1/backends/\(name)/\(action)",
                JSONValue.object(body).bytes,
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
