import ArgumentParser
import Foundation
import ChaparCore

/// `chapar retry`: retries at once the messages and device operations of a backend that wait for another attempt.
struct RetryCommand: AsyncParsableCommand {
    static let configuration = CommandConfiguration(
        commandName: "retry",
        abstract: "Try at once what waits at a backend for another attempt, and end its pauses.",
        discussion: """
            Talks to a running gateway: --url, and the key of the scope "admin" in --key-file or $CHAPAR_KEY. For when an account \
            or a network was mended: retries and device operations that wait for their time are due, and a breaker or a parked \
            backend tries one message now. A pause that the platform itself asked for stays; the answer says until when. A \
            reload does the same for every backend.
            """
    )

    @Argument(help: "The backend's name.", completion: NameCompletion.backends.kind)
    var backend: String

    @OptionGroup(title: "The gateway") var gateway: GatewayAddress
    @OptionGroup var form: OutputForm

    func run() async throws {
        let client = try gateway.requiredClient()
        let answer: GatewayClient.Answer
        do throws(HTTPFailure) {
            answer = try await client.post(
                "/v1/backends/\(FormEncoding.encode(backend))/retry",
                JSONValue.object([:]).bytes,
                idempotencyKey: UUID().uuidString
            )
        } catch {
            throw client.unreachable(error)
        }
        await client.close()
        guard answer.status == 200 else {
            throw CommandFailure(answer.problem, answer.status == 503 ? .tryLater : .usage)
        }
        if form.isJSON { return Shell.print(answer.json) }
        for line in Self.lines(answer.json) { Shell.print(line) }
    }

    /// Returns the answer in words.
    static func lines(_ answer: JSONValue) -> [String] {
        let (deliveries, operations) = (
            answer["deliveries"]?.integerValue ?? 0, answer["operations"]?.integerValue ?? 0
        )
        var lines = [
            "due now: \(deliveries) \(deliveries == 1 ? "delivery" : "deliveries"), "
                + "\(operations) device \(operations == 1 ? "operation" : "operations")"
        ]
        func add(_ title: String, _ name: String) {
            for pause in answer[name]?.arrayValue ?? [] {
                let reason = pause["reason"]?.words.map { ": \($0)" } ?? ""
                let until = pause["until"]?.words.map { ", until \($0)" } ?? ""
                let recipients = pause["recipients"]?.integerValue.map { " (\($0))" } ?? ""
                let kind = FormerName.invalidationsQuarantined.current(pause["pause"]?.words ?? "")
                lines.append("\(title): \(kind.replacing("_", with: " "))\(recipients)\(reason)\(until)")
            }
        }
        add("ended", "ended")
        add("stays", "kept")
        return lines
    }
}
