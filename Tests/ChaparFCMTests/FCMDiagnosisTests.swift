import Foundation
import ChaparCore
import ChaparSandbox
import ChaparTesting
import Testing

@testable import ChaparFCM

@Suite("The doctor's look at FCM", .serialized, .timeLimit(.minutes(1)))
struct FCMDiagnosisTests {
    private func verdicts(_ findings: [Diagnosis]) -> [String] {
        findings.map { "\($0.check) \($0.verdict.rawValue)" }
    }

    @Test("All is well: key, token, clock, network, project")
    func healthy() async throws {
        try await SocketHarness.run { harness in
            let findings = await harness.backend.diagnose()
            #expect(verdicts(findings) == ["key ok", "access token ok", "clock ok", "reachability ok", "project ok"])
            #expect(harness.simulator.counters.accepted == 0, "nothing is sent")
        }
    }

    @Test("A clock that is an hour ahead is found, with the fix")
    func clock() async throws {
        var configuration = FCMSimulatorConfiguration()
        configuration.clockOffset = .seconds(-3600)
        try await SocketHarness.run(configuration) { harness in
            let findings = await harness.backend.diagnose()
            #expect(verdicts(findings) == ["key ok", "access token failure", "clock failure"])
            #expect(findings.last?.fix?.contains("chronyc") == true)
        }
    }

    @Test("A project that the account may not use, and one that does not exist, are told apart")
    func project() async throws {
        for (project, word) in [("somebody-elses-project", "role"), ("no-such-project", "project_id")] {
            try await SocketHarness.run(projectID: project) { harness in
                let finding = try #require(await harness.backend.diagnose().last)
                #expect(finding.check == "project")
                #expect(finding.verdict == .failure)
                #expect(finding.fix?.contains(word) == true)
            }
        }
    }

    @Test("A disabled account, an API that is off, a listener that is gone")
    func others() async throws {
        try await SocketHarness.run { harness in
            harness.simulator.add(
                FaultRule(
                    name: "off",
                    match: FaultMatch(listener: "send"),
                    .answer(FaultAnswer(403, "SERVICE_DISABLED"))
                )
            )
            let finding = try #require(await harness.backend.diagnose().last)
            #expect(finding.fix?.contains("Enable the Firebase Cloud Messaging API") == true)
        }
        try await SocketHarness.run { harness in
            harness.simulator.setAccountDisabled(true)
            let findings = await harness.backend.diagnose()
            #expect(verdicts(findings).contains("access token failure"))
        }
        try await SocketHarness.run { harness in
            await harness.simulator.shutdown()
            let findings = await harness.backend.diagnose()
            #expect(findings.contains { $0.verdict == .failure })
        }
    }
}
