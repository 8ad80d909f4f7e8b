import Foundation
import ChaparCore
import ChaparHTTP
import ChaparSandbox
import ChaparTesting
import Synchronization
import Testing

@testable import ChaparAltcraft

/// The promises of every backend and strategy.
@Suite("Altcraft keeps the promises of the core", .timeLimit(.minutes(1)))
struct AltcraftConformanceTests {
    @Test("The conformance kit passes over a socket", arguments: BackendConformance.checks)
    func backend(check: BackendConformance.Check) async throws {
        let timeout = Duration.seconds(check.wantsHaste ? 3 : 60)
        let log = RecordedLog()
        try await Harness.run { harness in
            let simulator = harness.simulator
            var options = AltcraftOptions.sample(harness.simulator)
            options.campaign = AltcraftCampaignOptions(
                base: options.base,
                apiToken: Secret("sandbox-api-token"),
                triggerID: 13
            )
            options.common.timeout = timeout
            let sent = RecordedTransport(NIOTransport(logger: log.logger))
            let context = BackendContext(
                name: "crm",
                http: sent,
                state: MemoryState(),
                logger: log.logger
            )
            let backend = try AltcraftBackend(
                options: options,
                auth: AltcraftAuth(source: Harness.byUser),
                context: context
            )
            var subject = BackendConformance.Subject(
                backend: backend,
                recipient: { .user("user-\($0)") },
                others: [.platformID("profile-1")],
                foreignRecipient: .token(DeviceToken(apnsToken, service: .iOSAPNs)),
                taken: { simulator.launches.count },
                requests: { simulator.counters.requests },
                // The answer to a start names no message.
                givesPlatformIDs: false,
                disturb: {
                    simulator.removeFaults()
                    simulator.add(FaultRule.trouble(try #require(FaultRule.Trouble(rawValue: $0.rawValue))))
                }
            )
            subject.deadline = timeout
            subject.log = log
            subject.secrets = [Secret("sandbox-api-token")]
            subject.sent = { sent.requests }
            // The start of a campaign has no time to live, and the backend has no call that shows a refused token.
            subject.lacks = [.timeToLive, .expiringCredentials, .addresses]
            subject.throttle = { pause in
                let answer = FaultAnswer(429, retryAfter: Int(clamping: pause.components.seconds))
                simulator.add(FaultRule(.answer(answer)))
            }
            subject.means.device = .sample()
            subject.means.statuses = [.subscribed, .suspended, .unsubscribed]
            subject.means.tags = ["_fname": "Ada"]
            subject.means.reported = { "m-7f31c0" }
            subject.means.customEvent = CustomEvent("purchase", options: ["pixel": "sandbox-pixel"])
            if check.source.hasPrefix("PushBackend.devices") {
                // Altcraft makes a subscription when it is asked to, and registering moves the one that is there.
                try await backend.subscriptions?.setStatus(.subscribed, of: .sample())
            }
            try await finally({ _ = try await check.run(subject) }) { await backend.shutdown(grace: .zero) }
        }
    }

    @Test("A cached JWT keeps every promise of a strategy", arguments: AuthStrategyConformance.checks)
    func strategy(check: ConformanceCheck<AuthStrategyConformance.Subject>) async throws {
        let count = Mutex(0)
        let source = AltcraftClosureTokens(cacheSpan: .seconds(300)) { _ in
            let number = count.withLock { count in
                count += 1
                return count
            }
            return AltcraftAuthTests.jwt([
                "matching": ["db_id": 1, "matching": "profile_id", "profile_id": "p"], "n": .integer(Int64(number)),
            ])
        }
        let address = HTTPEndpoint(host: "pxl.test")
        try await check.run(
            AuthStrategyConformance.Subject(
                strategy: AltcraftAuth(source: source).strategy(for: AltcraftAuthTests.ada, at: address),
                destination: address,
                refreshes: { count.withLock { $0 } },
                curable: (401, nil),
                hopeless: (403, nil)
            )
        )
    }
}
