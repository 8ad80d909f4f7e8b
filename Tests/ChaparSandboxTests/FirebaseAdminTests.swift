import Foundation
import ChaparCore
import ChaparSandbox
import Testing

@Suite(
    "firebase-admin, untouched but for addresses and CA, against the simulator",
    .timeLimit(.minutes(1)),
    .enabled(
        if: Shell.succeeds([Shell.python, "-c", "import firebase_admin"]),
        "needs Python with firebase-admin; see CHAPAR_PYTHON"
    )
)
struct FirebaseAdminTests {
    @Test("It gets an access token, sends, reads every refusal, and changes topics")
    func sends() async throws {
        let script = URL(fileURLWithPath: #filePath).deletingLastPathComponent()
            .appendingPathComponent("Fixtures/firebase_check.py")
        try await Sandbox.run(Sandbox.Configuration()) { sandbox in
            let simulator = sandbox.fcm
            let outcome = try await Shell.withDirectory { directory in
                _ = try sandbox.writeFiles(to: directory)
                return try await Shell.run([
                    Shell.python, script.path, simulator.url(.send), simulator.url(.instanceID),
                    directory.appendingPathComponent("ca.pem").path,
                    directory.appendingPathComponent(simulator.account.fileName).path,
                ])
            }
            #expect(outcome.status == 0, "\(outcome.output)")
            let lines = outcome.output.split(separator: "\n").filter { $0.hasPrefix("[") }.map(String.init)
            #expect(
                lines == [
                    #"["token", "ok", false]"#, #"["topic", "ok", false]"#, #"["condition", "ok", false]"#,
                    #"["dry-run", "ok", true]"#, #"["blocks", "ok", false]"#,
                    #"["unregistered", "UnregisteredError", "NOT_FOUND", 404]"#,
                    #"["mismatch", "SenderIdMismatchError", "PERMISSION_DENIED", 403]"#,
                    #"["bad-token", "InvalidArgumentError", "INVALID_ARGUMENT", 400]"#,
                    #"["quota", "QuotaExceededError", "RESOURCE_EXHAUSTED", 429]"#,
                    #"["apns-auth", "ThirdPartyAuthError", "UNAUTHENTICATED", 401]"#, #"["503-then-200", "ok", false]"#,
                    #"["too-large", "InvalidArgumentError", "INVALID_ARGUMENT", 400]"#,
                    #"["reserved", "InvalidArgumentError", "INVALID_ARGUMENT", 400]"#, #"["many", 100, 0]"#,
                    #"["subscribe", 1, ["NOT_FOUND"]]"#, #"["unsubscribe", 1]"#,
                ]
            )
            #expect(simulator.counters.accepted == 105)
            #expect(simulator.traffic.requestsOverHTTP1 > 0)
        }
    }
}
