import Foundation
import ChaparCore
import ChaparSandbox
import Testing

@Suite(
    "OneSignal's Python SDK, untouched but for host and CA, against the simulator",
    .timeLimit(.minutes(1)),
    .enabled(
        if: Shell.succeeds([Shell.python, "-c", "import onesignal.api"]),
        "needs Python with onesignal-python-api; see CHAPAR_PYTHON"
    )
)
struct OneSignalSDKTests {
    @Test("It registers, tags, sends, looks, and reads every refusal")
    func works() async throws {
        let script = URL(fileURLWithPath: #filePath).deletingLastPathComponent()
            .appendingPathComponent("Fixtures/onesignal_check.py")
        try await OneSignalSimulator.run { simulator in
            let outcome = try await Shell.withDirectory { directory in
                let ca = directory.appendingPathComponent("ca.pem")
                try Data(simulator.certificatePEM.utf8).write(to: ca)
                return try await Shell.run([
                    Shell.python, script.path, simulator.apiURL, ca.path, simulator.rules.appID,
                    simulator.rules.apiKey ?? "",
                ])
            }
            #expect(outcome.status == 0, "\(outcome.output)")
            #expect(
                outcome.output.split(separator: "\n").map(String.init) == [
                    #"["user", "cust@8812", true]"#, #"["tags", {"city": "tehran"}]"#, #"["sent", true, true]"#,
                    #"["alias", true]"#, #"["seen", 1, 0]"#, #"["too late", 400]"#,
                    #"["nobody", "", ["All included players are not subscribed"]]"#, #"["bad id", 400]"#,
                    #"["no audience", 400]"#, #"["wrong key", 403]"#, #"["deleted", 0]"#,
                ]
            )
            #expect(simulator.counters.created == 2 && simulator.counters.replayed == 1)
        }
    }
}
