import Foundation
import ChaparCore
import ChaparSandbox
import ChaparTesting
import Testing

@testable import ChaparHMS

@Suite("Failures of the connection are distinguished from refusals", .timeLimit(.minutes(1)))
struct HMSConnectionTests {
    @Test("A connection that ends after the request is unknown, and the message replaces itself when sent again")
    func lostAnswer() async throws {
        try await Harness.run { harness in
            harness.simulator.add(
                FaultRule(at: .processed, match: FaultMatch(listener: HMSSimulator.push, count: 1), .end(.reset))
            )
            let recipients = harness.register(0..<3)
            for outcome in await harness.send(recipients) {
                #expect(outcome.unknown?.isRepeatHarmful == false)
            }
            #expect(harness.simulator.counters.accepted == 3)
            for outcome in await harness.send(recipients) { #expect(outcome.acceptance != nil) }
            #expect(harness.simulator.counters.duplicates == 3, "the tag is the same with every attempt")
        }
    }

    @Test("A second unknown answer, and one to a message that shows nothing, is not to be repeated")
    func harmful() async throws {
        try await Harness.run { harness in
            harness.simulator.add(
                FaultRule(at: .processed, match: FaultMatch(listener: HMSSimulator.push), .end(.reset))
            )
            let recipient = harness.register(0..<1)[0]
            let shown = PushNotification(title: "Parcel", body: "b")
            var again = PushRequest(shown, to: [Addressee(recipient)])
            again.recipients[0].isReplay = true
            let outcomes = await harness.backend.send([
                PushRequest(shown, to: [Addressee(recipient)]),
                PushRequest(PushNotification(data: ["a": 1], isSilent: true), to: [Addressee(recipient)]),
            ])
            #expect(outcomes[0][0].unknown?.isRepeatHarmful == false)
            #expect(outcomes[1][0].unknown?.isRepeatHarmful == true)
            #expect(await harness.backend.send([again])[0][0].unknown?.isRepeatHarmful == true)
            #expect(harness.backend.isRepeatHarmful(PushNotification(isSilent: true)))
            #expect(!harness.backend.isRepeatHarmful(shown))
        }
    }

    @Test("A platform that cannot be reached was surely not sent to")
    func unreachable() async throws {
        func unreachable(_ options: inout HMSOptions, _ simulator: HMSSimulator) {
            options.common.address = PlatformAddress(HTTPEndpoint(host: "127.0.0.1", port: 1))
        }
        try await Harness.run(timeout: .seconds(4), change: unreachable) { harness in
            let refusal = try #require(await harness.sendOne().refusal)
            #expect(refusal.kind == .platform)
            #expect(refusal.reason == "connect_failed")
            #expect(harness.backend.health.status == .down)
            #expect(
                await harness.backend.diagnose().contains { $0.check == "reachability" && $0.verdict == .failure }
            )
        }
    }

    @Test("An untrusted certificate parks the backend")
    func certificate() async throws {
        var configuration = HMSSimulatorConfiguration()
        configuration.serverCertificate = .wrongHost
        try await Harness.run(configuration) { harness in
            let refusal = try #require(await harness.sendOne().refusal)
            #expect(refusal.reason == "tls_failed")
        }
    }

    @Test("An answer that is cut off is unknown")
    func truncated() async throws {
        try await Harness.run { harness in
            harness.simulator.add(FaultRule(match: FaultMatch(listener: HMSSimulator.push), .distort(.truncatedBody)))
            #expect(await harness.sendOne().unknown?.reason == "unreadable_answer")
        }
    }

    @Test("A dry run is checked by Huawei and reaches no device")
    func dryRun() async throws {
        try await Harness.run { harness in
            var notification = PushNotification(title: "Parcel", body: "b")
            notification.isDryRun = true
            let outcomes = await harness.backend.send(notification, to: harness.register(0..<1) + [android("dead")])
            #expect(outcomes[0].acceptance?.isDryRun == true)
            #expect(outcomes[1].refusal?.kind == .token)
            #expect(harness.simulator.counters.validated == 1)
            #expect(harness.simulator.inbox().isEmpty)
        }
    }

    @Test("Doctor finds nothing wrong with a good set-up")
    func doctor() async throws {
        try await Harness.run { harness in
            let findings = await harness.backend.diagnose()
            #expect(findings.allSatisfy { $0.verdict == .ok })
            #expect(findings.map(\.check) == ["app", "credentials", "reachability", "service", "receipts"])
        }
    }

    @Test("Doctor tells a wrong project")
    func wrongProject() async throws {
        try await Harness.run(change: { options, _ in options.api = .v2(projectID: "1") }) { harness in
            let failure = await harness.backend.diagnose().first { $0.verdict == .failure }
            #expect(failure?.check == "credentials")
            #expect(failure?.fix?.contains("project_id") == true)
        }
    }
}
