import Foundation
import ChaparCore
import ChaparSandbox
import Testing

@Suite(
    "Huawei's Python SDK, untouched but for addresses, against the simulator",
    .timeLimit(.minutes(1)),
    .enabled(
        if: Shell.succeeds([Shell.python, "-c", "from hpa import messaging"]),
        "needs Python with hpa and six; see CHAPAR_PYTHON"
    )
)
struct HuaweiSDKTests {
    @Test("It gets an access token, sends, reads refusals, and changes topics")
    func works() async throws {
        let script = URL(fileURLWithPath: #filePath).deletingLastPathComponent()
            .appendingPathComponent("Fixtures/huawei_check.py")
        try await HMSSimulator.run { simulator in
            simulator.setDevice(HMSDevice(), tokens: ["IQAAAACy0sampleA", "IQAAAACy0sampleB"])
            let outcome = try await Shell.run([
                Shell.python, script.path, simulator.url(HMSSimulator.push), simulator.url(HMSSimulator.token),
                simulator.app.appID, simulator.app.clientSecret, "IQAAAACy0sampleA", "IQAAAACy0sampleB", "gone",
            ])
            #expect(outcome.status == 0, "\(outcome.output)")
            #expect(
                outcome.output.split(separator: "\n").filter { $0.hasPrefix("[") }.map(String.init) == [
                    #"["shown", "80000000", true]"#, #"["data", "80000000", true]"#,
                    #"["checked", "80000000", true]"#, #"["some", "80100000", true]"#, #"["listed", 1, 1, true]"#,
                    #"["none", true]"#, #"["too large", true]"#, #"["collapse key", true]"#,
                    #"["topic", "80000000", true]"#, #"["condition", "80000000", true]"#,
                    #"["apple", "80000000", true]"#, #"["joined", "82000010", 1, 1, [1]]"#, #"["topics", ["news"]]"#,
                    #"["left", 1, []]"#,
                ]
            )
            #expect(simulator.counters.tokensIssued == 1 && simulator.counters.validated == 1)
            #expect(simulator.inbox().count == 7, "validated and refused ones are not among them")
        }
    }
}
