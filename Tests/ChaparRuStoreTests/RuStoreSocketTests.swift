import Foundation
import ChaparCore
import ChaparHTTP
import ChaparSandbox
import ChaparTesting
import Testing

@testable import ChaparRuStore

@Suite("RuStore over real sockets", .serialized, .timeLimit(.minutes(1)))
struct RuStoreSocketTests {
    @Test(
        "It keeps the promises of a backend",
        arguments: RuStoreOptions.Mode.allCases,
        BackendConformance.checks
    )
    func conformance(mode: RuStoreOptions.Mode, check: BackendConformance.Check) async throws {
        let timeout = Duration.seconds(check.wantsHaste ? 3 : 60)
        let log = RecordedLog()
        try await Harness.run(mode, timeout: timeout, logger: log.logger) { harness in
            let simulator = harness.simulator
            let listener = (mode == .direct ? RuStoreListener.direct : .universal).name
            _ = harness.register(1_010)
            simulator.setDevice(.dead, token: "d3adToken")
            var subject = BackendConformance.Subject(
                backend: harness.backend,
                recipient: { recipient(deviceToken($0), mode) },
                others: mode == .universal ? [.topic("news")] : [],
                deadRecipient: recipient("d3adToken", mode),
                foreignRecipient: .token(DeviceToken(String(repeating: "9f", count: 32), service: .iOSAPNs)),
                taken: { simulator.counters.accepted },
                payloadLimit: 4_096,
                disturb: {
                    simulator.removeFaults()
                    let trouble = try #require(FaultRule.Trouble(rawValue: $0.rawValue))
                    simulator.add(FaultRule.trouble(trouble, on: trouble == .unreachable ? nil : listener))
                }
            )
            subject.givesPlatformIDs = false
            subject.deadline = timeout
            subject.log = log
            subject.secrets = [Secret(simulator.serviceToken)]
            subject.sent = { harness.sent.requests }
            subject.lacks = [.expiringCredentials, .addresses, .refusalsUnderSuccess]
            subject.refuseCredential = {
                let answer = mode == .direct ? FaultAnswer(403) : FaultAnswer(400, "PROVIDER_ERROR:auth")
                simulator.add(FaultRule(.answer(answer)))
            }
            subject.throttle = { pause in
                let answer = FaultAnswer(429, retryAfter: Int(clamping: pause.components.seconds))
                simulator.add(FaultRule(match: FaultMatch(listener: listener), .answer(answer)))
            }
            try await check.run(subject)
        }
    }

    @Test("A message arrives, and the shapes of answers make no difference", arguments: RuStoreOptions.Mode.allCases)
    func shapes(mode: RuStoreOptions.Mode) async throws {
        try await Harness.run(mode) { harness in
            harness.simulator.register(tokens: [goodToken])
            for success in RuStoreSimulatorConfiguration.Answers.Success.allCases {
                for shape in RuStoreSimulatorConfiguration.Answers.ErrorShape.allCases {
                    var answers = RuStoreSimulatorConfiguration.Answers()
                    (answers.success, answers.errorShape, answers.providerCode) = (success, shape, 3)
                    harness.simulator.answers = answers
                    #expect(await harness.send().isAccepted)
                    #expect(await harness.send("sim-dead-1").refusal?.invalidation != nil)
                }
            }
            let delivery = try #require(harness.simulator.inbox.first)
            #expect(delivery.target == goodToken && delivery.timeToLive == 2_419_200)
            #expect(harness.simulator.counters.accepted == 6)
        }
    }

    static let magicTokens: [(String, String)] = [
        ("sim-dead-1", "NOT_FOUND"), ("sim-bad-1", "invalid_registration_token"), ("sim-unreg-1", "UNREGISTERED"),
        ("sim-429-1", "TOO_MANY_REQUESTS"), ("sim-503-1", "INTERNAL"), ("never-seen", "invalid_registration_token"),
    ]

    @Test("Tokens choose their answers", arguments: magicTokens)
    func magic(token: String, reason: String) async throws {
        try await Harness.run { harness in
            #expect(await harness.send(token).refusal?.reason == reason)
            let isOnce = token.hasPrefix("sim-429") || token.hasPrefix("sim-503")
            #expect(await harness.send(token).isAccepted == isOnce)
        }
    }

    @Test("A zero would be four weeks: the simulator shows the trap, and the backend keeps out of it")
    func trap() async throws {
        try await Harness.run { harness in
            harness.simulator.register(tokens: [goodToken])
            #expect(await harness.send(goodToken, PushNotification(title: "now", timeToLive: .zero)).isAccepted)
            #expect(harness.simulator.inbox.map(\.timeToLive) == [1])
        }
    }

    @Test("A wrong service token parks the backend and touches no token", arguments: RuStoreOptions.Mode.allCases)
    func credential(mode: RuStoreOptions.Mode) async throws {
        try await Harness.run(mode, adjust: { $0.serviceToken = Secret("another") }) { harness in
            harness.simulator.register(tokens: [goodToken])
            let refusal = try #require(await harness.send().refusal)
            #expect(refusal.advice == .parkBackend && refusal.invalidation == nil && refusal.kind == .account)
        }
    }

    @Test("A wrong project and a page in RuStore's place park the backend and touch no token")
    func wrongPlace() async throws {
        try await Harness.run(adjust: { $0.projectID = "another" }) { harness in
            #expect(await harness.send().refusal?.advice == .parkBackend)
        }
        try await Harness.run { harness in
            harness.simulator.add(FaultRule(.answer(FaultAnswer(404, body: Array("<html>".utf8)))))
            let refusal = try #require(await harness.send().refusal)
            #expect(refusal.reason == "wrong_address" && refusal.invalidation == nil)
        }
    }

    @Test("HTTP/1.1 does as well")
    func http1() async throws {
        try await Harness.run(adjust: { $0.version = .http1 }) { harness in
            let outcomes = await harness.backend.send(.sample, to: harness.register(20))
            #expect(outcomes.allSatisfy(\.isAccepted) && harness.backend.window == 4)
        }
    }

    @Test("Doctor says what RuStore answers to its questions", arguments: RuStoreOptions.Mode.allCases)
    func doctor(mode: RuStoreOptions.Mode) async throws {
        try await Harness.run(mode) { harness in
            let findings = await harness.backend.diagnose()
            let names = ["reachability", "project", "error shape"]
            #expect(findings.map(\.check) == names + (mode == .direct ? ["wrong project", "no credential"] : []))
            #expect(findings.allSatisfy { $0.verdict == .ok }, "\(findings)")
            #expect(harness.simulator.counters.accepted == 0)
        }
        try await Harness.run(mode, adjust: { $0.serviceToken = Secret("another") }) { harness in
            let finding = try #require(await harness.backend.diagnose().first { $0.check == "project" })
            #expect(finding.verdict == .failure && finding.fix?.contains("service token") == true, "\(finding)")
        }
    }

    @Test(
        "Doctor says nothing of the shape of errors where RuStore takes what it asks with",
        arguments: RuStoreOptions.Mode.allCases
    )
    func doctorWithoutError(mode: RuStoreOptions.Mode) async throws {
        let transport = ScriptedTransport { _ in .success(HTTPAnswer(status: 200, body: Array("{}".utf8))) }
        let findings = await (try RuStoreBackend.scripted(transport, mode)).diagnose()
        #expect(findings.first { $0.check == "project" }?.verdict == .warning, "\(findings)")
        let shape = try #require(findings.first { $0.check == "error shape" })
        #expect(shape.finding.contains("not known") && !shape.finding.contains("at the top"), "\(shape)")
    }

    @Test("Doctor warns where a wrong project looks like a token that is gone")
    func doctorWarns() async throws {
        let transport = ScriptedTransport { _ in
            .success(HTTPAnswer(status: 404, body: Array(#"{"code":404,"status":"NOT_FOUND"}"#.utf8)))
        }
        let findings = await (try RuStoreBackend.scripted(transport)).diagnose()
        #expect(findings.first { $0.check == "wrong project" }?.verdict == .warning)
    }
}
