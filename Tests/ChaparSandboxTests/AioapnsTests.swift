import Foundation
import ChaparCore
import ChaparSandbox
import Testing

@Suite(
    "aioapns, untouched but for host and CA, against the simulator",
    .timeLimit(.minutes(1)),
    .enabled(
        if: Shell.succeeds([Shell.python, "-c", "import aioapns"]),
        "needs Python with aioapns; see CHAPAR_PYTHON"
    )
)
struct AioapnsTests {
    static let good = String(repeating: "a1", count: 32)
    static let gone = String(repeating: "a2", count: 32)

    @Test("It sends, and reads every refusal")
    func sends() async throws {
        let script = URL(fileURLWithPath: #filePath).deletingLastPathComponent()
            .appendingPathComponent("Fixtures/aioapns_check.py")
        try await Sandbox.run(Sandbox.Configuration()) { sandbox in
            let simulator = sandbox.apns
            simulator.register(tokens: [Self.good], topic: Sandbox.topic)
            simulator.setDevice(
                APNsDevice(state: .unregistered(since: Date(millisecondsSince1970: 1_767_220_000_123))),
                token: Self.gone
            )
            simulator.add(
                FaultRule(match: FaultMatch(tokenPrefix: "abab"), .answer(FaultAnswer(400, "BadDeviceToken")))
            )
            let outcome = try await Shell.withDirectory { directory in
                _ = try sandbox.writeFiles(to: directory)
                return try await Shell.run([
                    Shell.python, script.path, "127.0.0.1", "\(simulator.port(.production))",
                    directory.appendingPathComponent("ca.pem").path,
                    directory.appendingPathComponent(simulator.key.fileName).path, simulator.key.keyID,
                    simulator.key.teamID, Sandbox.topic, Self.good, Self.gone,
                ])
            }
            #expect(outcome.status == 0, "\(outcome.output)")
            let lines = outcome.output.split(separator: "\n").map(String.init)
            let single = lines.filter { !$0.hasPrefix(#"["many""#) && !$0.hasPrefix(#"["seconds""#) }
            #expect(
                single == [
                    #"["alert", "200", null, null]"#, #"["background", "200", null, null]"#,
                    #"["background-10", "400", "BadPriority", null]"#, #"["unknown", "400", "BadDeviceToken", null]"#,
                    #"["gone", "410", "Unregistered", 1767220000123]"#,
                    #"["too-large", "413", "PayloadTooLarge", null]"#,
                    #"["other-topic", "400", "DeviceTokenNotForTopic", null]"#,
                ]
            )
            #expect(lines.count { $0.hasPrefix(#"["many", "200""#) } == 500)
            #expect(simulator.counters.accepted == 502)
            #expect(simulator.counters.duplicateIDs == 0)
        }
    }
}
