import Foundation
import ChaparCore
import ChaparHTTP
import ChaparSandbox
import ChaparTesting
import Synchronization
import Testing

@testable import ChaparFCM

@Suite("Access tokens of Google", .serialized, .timeLimit(.minutes(1)))
struct FCMAuthTests {
    /// A strategy for a simulator's account.
    private func run(
        _ source: (FCMSimulator) throws -> FCMAuth.Source,
        _ body: (FCMSimulator, FCMAuth) async throws -> Void
    ) async throws {
        try await FCMSimulator.run { simulator in
            let common = CommonBackendOptions(trustPEM: simulator.authority.certificatePEM, timeout: .seconds(30))
            let context = BackendContext(name: "android", http: NIOTransport(logger: quiet), logger: quiet)
            let auth = try FCMAuth(try source(simulator), common: common, context: context)
            try await finally({ try await body(simulator, auth) }) { await auth.shutdown(grace: .milliseconds(100)) }
        }
    }

    private func account(_ simulator: FCMSimulator) throws -> FCMAuth.Source {
        .serviceAccount(try GoogleServiceAccount(json: Secret(simulator.credentialsFile)))
    }

    @Test("A service account keeps the promises of an AuthStrategy", arguments: AuthStrategyConformance.checks)
    func conformance(check: ConformanceCheck<AuthStrategyConformance.Subject>) async throws {
        try await run(account) { simulator, auth in
            try await check.run(
                .init(
                    strategy: auth,
                    destination: FCMOptions.sendHost,
                    refreshes: { simulator.counters.tokensIssued },
                    curable: (401, "ACCESS_TOKEN_EXPIRED"),
                    hopeless: (401, "THIRD_PARTY_AUTH_ERROR")
                )
            )
        }
    }

    @Test("A person's refresh token works as well")
    func authorizedUser() async throws {
        let file: (String) -> String = {
            #"{"type":"authorized_user","client_id":"c","client_secret":"s","refresh_token":"1//r","token_uri":"\#($0)"}"#
        }
        try await run({ simulator in
            simulator.register(refreshToken: "1//r")
            return .authorizedUser(try GoogleAuthorizedUser(json: Secret(file(simulator.tokenURI))))
        }) { simulator, auth in
            let credential = try await auth.credential(for: FCMOptions.sendHost)
            #expect(credential.httpHeaders.first?.value.hasPrefix("Bearer ya29.") == true)
            #expect(simulator.counters.tokensIssued == 1)
        }
    }

    @Test("Tokens of the caller's own code are cached, and a failure is unavailability")
    func provider() async throws {
        let asked = Mutex(0)
        let fails = Mutex(false)
        try await run({ _ in
            .provider {
                if fails.withLock({ $0 }) { throw CocoaError(.fileNoSuchFile) }
                let number = asked.withLock { count in
                    count += 1
                    return count
                }
                return AccessToken(Secret("own-\(number)"), lifetime: .seconds(3600))
            }
        }) { _, auth in
            let first = try await auth.credential(for: FCMOptions.sendHost)
            #expect(try await auth.credential(for: FCMOptions.sendHost) == first)
            #expect(first.httpHeaders == [HTTPHeader("authorization", "Bearer own-1")])
            fails.withLock { $0 = true }
            #expect(await auth.refused(first, status: 401, reason: nil) == .retry)
            let error = await #expect(throws: PushError.self) {
                try await auth.credential(for: FCMOptions.sendHost)
            }
            #expect(error?.code == .unavailable)
        }
    }

    struct Refusal: Sendable, CustomTestStringConvertible {
        var status: Int
        var word: String?
        var code: PushError.Code
        var retryAfter: Int?
        var testDescription: String { "\(status) \(word ?? "-")" }
    }

    static let refusals: [Refusal] = [
        Refusal(status: 400, word: "invalid_grant", code: .credentialsRefused),
        Refusal(status: 400, word: "invalid_scope", code: .credentialsRefused),
        Refusal(status: 400, word: "invalid_request", code: .credentialsRefused),
        Refusal(status: 400, word: "unsupported_grant_type", code: .credentialsRefused),
        Refusal(status: 401, word: "invalid_client", code: .credentialsRefused),
        Refusal(status: 401, word: "unauthorized_client", code: .credentialsRefused),
        Refusal(status: 403, code: .credentialsRefused), Refusal(status: 404, code: .credentialsRefused),
        Refusal(status: 429, code: .unavailable, retryAfter: 30), Refusal(status: 500, code: .unavailable),
        Refusal(status: 503, code: .unavailable, retryAfter: 9),
    ]

    @Test("Every answer of the token endpoint means something to do", arguments: refusals)
    func endpoint(row: Refusal) async throws {
        try await run(account) { simulator, auth in
            simulator.add(
                FaultRule(
                    match: FaultMatch(listener: "oauth"),
                    .answer(FaultAnswer(row.status, row.word, retryAfter: row.retryAfter))
                )
            )
            let error = await #expect(throws: PushError.self) {
                try await auth.credential(for: FCMOptions.sendHost)
            }
            #expect(error?.code == row.code)
            #expect(error?.retryAfter == row.retryAfter.map { .seconds($0) })
            #expect(error?.reason == row.word ?? "http_\(row.status)")
            #expect(auth.lastFailure?.code == row.code)
        }
    }

    @Test(
        "One odd answer of the token endpoint fails no message",
        arguments: [FaultAnswer(500), FaultAnswer(200, body: Array("<html></html>".utf8))]
    )
    func oddAnswer(answer: FaultAnswer) async throws {
        try await run(account) { simulator, auth in
            simulator.add(FaultRule(match: FaultMatch(listener: "oauth", count: 1), .answer(answer)))
            _ = try await auth.credential(for: FCMOptions.sendHost)
            #expect(simulator.counters.tokensIssued == 1)
            #expect(auth.lastFailure == nil)
        }
    }

    @Test("A page of HTML is no access token")
    func page() async throws {
        try await run(account) { simulator, auth in
            simulator.add(
                FaultRule(
                    match: FaultMatch(listener: "oauth"),
                    .answer(FaultAnswer(200, body: Array("<html></html>".utf8)))
                )
            )
            let error = await #expect(throws: PushError.self) {
                try await auth.credential(for: FCMOptions.sendHost)
            }
            #expect(error?.code == .badAnswer)
        }
    }

    @Test("A wrong clock is named as the cause")
    func clock() async throws {
        try await run(account) { simulator, auth in
            simulator.clockOffset = .seconds(-3600)
            let error = await #expect(throws: PushError.self) {
                try await auth.credential(for: FCMOptions.sendHost)
            }
            #expect(error?.message.contains("ahead of Google's") == true)
            #expect(simulator.counters.tokensRefused == ["invalid_grant": 1])
        }
    }

    @Test("A token without a lifetime is used for a few minutes only")
    func missingLifetime() async throws {
        try await run(account) { simulator, auth in
            simulator.setTokenLifetime(nil)
            _ = try await auth.credential(for: FCMOptions.sendHost)
            _ = try await auth.credential(for: FCMOptions.sendHost)
            #expect(simulator.counters.tokensIssued == 1)
        }
    }

    // MARK: Sends whose access token is refused

    @Test("A thousand concurrent refused sends cause one refresh, and each goes out once more")
    func oneRefresh() async throws {
        try await SocketHarness.run { harness in
            await harness.warmUp()
            let recipients = harness.register(1000)
            harness.simulator.revokeAccessTokens()
            let outcomes = await withTaskGroup(of: DeliveryOutcome.self) { group in
                for recipient in recipients {
                    group.addTask { await harness.backend.send(PushNotification(title: "x"), to: [recipient])[0] }
                }
                return await group.reduce(into: []) { $0.append($1) }
            }
            #expect(outcomes.allSatisfy { $0.acceptance != nil })
            let counters = harness.simulator.counters
            #expect(counters.tokensIssued == 2, "the first one, and one refresh")
            #expect(counters.accepted == 1001)
            #expect(counters.duplicates == 0)
            #expect((1...1000).contains(counters.refused["ACCESS_TOKEN_EXPIRED"] ?? 0))
        }
    }

    @Test("A batch that is refused is replayed with the fresh token, once")
    func batch() async throws {
        try await SocketHarness.run { harness in
            await harness.warmUp()
            let recipients = harness.register(100)
            harness.simulator.revokeAccessTokens()
            let outcomes = await harness.backend.send(PushNotification(title: "x"), to: recipients)
            #expect(outcomes.allSatisfy { $0.acceptance != nil })
            #expect(harness.simulator.counters.tokensIssued == 2)
            #expect(harness.simulator.counters.refused == ["ACCESS_TOKEN_EXPIRED": 100])
        }
    }

    @Test("A second refusal parks the worker: there is no loop")
    func noLoop() async throws {
        try await SocketHarness.run { harness in
            await harness.warmUp()
            harness.simulator.add(FaultRule(match: FaultMatch(listener: "send"), .answer(FaultAnswer(401))))
            let sends = harness.simulator.traffic.requests
            #expect(await harness.send().refusal?.advice == .parkBackend)
            #expect(harness.simulator.counters.tokensIssued == 2)
            // The send, the refresh, the send again.
            #expect(harness.simulator.traffic.requests == sends + 3)
        }
    }

    @Test("Without an access token the worker waits and nothing is lost; what is wrong by itself is told at once")
    func endpointDown() async throws {
        try await SocketHarness.run { harness in
            harness.simulator.add(
                FaultRule(name: "down", match: FaultMatch(listener: "oauth"), .answer(FaultAnswer(503, retryAfter: 40)))
            )
            let outcomes = await harness.backend.send(
                PushNotification(title: "x"),
                to: [recipient(), recipient("two words")]
            )
            #expect(outcomes[0].refusal?.kind == .platform)
            #expect(outcomes[0].refusal?.advice == .slowBackend(after: .seconds(40)))
            #expect(outcomes[1].refusal?.reason == "malformed_token")
            #expect(harness.backend.health.status == .degraded)
            #expect(harness.simulator.counters.sends == 0)
        }
    }

    @Test("A disabled account parks the worker, but only when its last token has ended")
    func disabledAccount() async throws {
        try await SocketHarness.run { harness in
            await harness.warmUp()
            harness.simulator.setAccountDisabled(true)
            #expect(await harness.send().acceptance != nil, "the present token is used to its end")
            harness.simulator.revokeAccessTokens()
            let refusal = try #require(await harness.send().refusal)
            #expect(refusal.reason == "invalid_grant")
            #expect(refusal.advice == .parkBackend)
            #expect(refusal.invalidation == nil)
            #expect(harness.backend.health.status == .down)
        }
    }

    @Test("Tokens that live for seconds are replaced before their end, not with every message")
    func shortLife() async throws {
        var configuration = FCMSimulatorConfiguration()
        configuration.tokenLifetime = 9
        try await SocketHarness.run(configuration) { harness in
            let clock = ContinuousClock()
            let start = clock.now
            await harness.warmUp()
            for _ in 0..<50 { #expect(await harness.send().acceptance != nil) }
            // Each is used for half of its life at least.
            let most = 1 + Int((clock.now - start) / .milliseconds(4500))
            #expect(harness.simulator.counters.tokensIssued <= most)
            #expect(harness.simulator.counters.refusedTotal == 0)
        }
    }
}
