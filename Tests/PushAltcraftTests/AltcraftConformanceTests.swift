import Foundation
import PushCore
import PushSandbox
import PushTesting
import Synchronization
import Testing

@testable import PushAltcraft

/// What every backend and strategy promises.
@Suite("Altcraft keeps the promises of the core", .timeLimit(.minutes(1)))
struct AltcraftConformanceTests {
    @Test("The conformance kit passes over a socket", arguments: BackendConformance.checks)
    func backend(check: ConformanceCheck<BackendConformance.Subject>) async throws {
        try await Harness.run { harness in
            var options = AltcraftOptions.sample(harness.simulator)
            options.campaign = AltcraftCampaignOptions(
                base: options.base,
                apiToken: Secret("sandbox-api-token"),
                triggerID: 13
            )
            let context = BackendContext(name: "crm", http: harness.transport, logger: quiet)
            let backend = try AltcraftBackend(
                options: options,
                auth: AltcraftAuth(source: Harness.byUser),
                context: context
            )
            try await check.run(
                BackendConformance.Subject(
                    backend: backend,
                    recipient: { .user("user-\($0)") },
                    foreignRecipient: .token(DeviceToken(apnsToken, service: .iOSAPNs)),
                    taken: { harness.simulator.launches.count },
                    // The answer to a start names no message.
                    givesPlatformIDs: false
                )
            )
            await backend.shutdown(grace: .zero)
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
        try await check.run(
            AuthStrategyConformance.Subject(
                strategy: AltcraftAuth(source: source).strategy(for: AltcraftAuthTests.ada),
                destination: HTTPEndpoint(host: "pxl.test"),
                refreshes: { count.withLock { $0 } },
                curable: (401, nil),
                hopeless: (403, nil)
            )
        )
    }
}
