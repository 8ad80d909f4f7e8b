import ArgumentParser
import Foundation
import ChaparCore

/// `chapar backends diagnose`: lets a running gateway examine one backend, as `chapar doctor` does from the shell.
struct BackendsDiagnoseCommand: AsyncParsableCommand {
    static let configuration = CommandConfiguration(
        commandName: "diagnose",
        abstract: "Let a running gateway examine a backend: what it reaches, whether its credential is taken.",
        discussion: """
            Connects to the platform and sends nothing, from the gateway's own machine and network. Needs the key of the scope \
            "admin". Exit code 1 when something does not work.
            """
    )

    @Argument(help: "The backend's name.")
    var backend: String

    @OptionGroup(title: "The gateway") var gateway: GatewayAddress
    @OptionGroup var form: OutputForm

    func run() async throws {
        let path = "/v1/backends/\(FormEncoding.encode(backend))/diagnose"
        let key = UUID().uuidString
        let answer = try await gateway.answer { (client) throws(HTTPFailure) in
            try await client.post(path, JSONValue.object([:]).bytes, idempotencyKey: key)
        }
        if form.isJSON {
            Shell.print(answer)
        } else {
            for line in Self.lines(answer) { Shell.print(line) }
        }
        if answer["ok"]?.boolValue == false { throw ExitStatus.failure }
    }

    /// Returns the steps in words.
    static func lines(_ answer: JSONValue) -> [String] {
        (answer["steps"]?.arrayValue ?? []).flatMap { step in
            let verdict =
                switch step["verdict"]?.stringValue {
                case "ok": Shell.paint("ok      ", .green)
                case "warning": Shell.paint("warning ", .yellow)
                default: Shell.paint("FAILURE ", .red)
                }
            let line = "\(verdict) \(step["name"]?.words ?? ""): \(step["text"]?.words ?? "")"
            return [line] + (step["fix"]?.words.map { ["         fix: \($0)"] } ?? [])
        }
    }
}

extension GatewayAddress {
    /// Sends one request to the gateway and returns the body of the answer; the caller must have given `--url`.
    ///
    /// For a status other than 200, throws a failure with the gateway's message.
    func answer(
        _ call: (GatewayClient) async throws(HTTPFailure) -> GatewayClient.Answer
    ) async throws -> JSONValue {
        let client = try requiredClient()
        let answer: GatewayClient.Answer
        do throws(HTTPFailure) {
            answer = try await call(client)
        } catch {
            throw client.unreachable(error)
        }
        await client.close()
        guard answer.status == 200 else {
            throw CommandFailure(answer.problem, [409, 429, 503].contains(answer.status) ? .tryLater : .usage)
        }
        return answer.json
    }
}
