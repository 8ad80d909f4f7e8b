import Foundation
import ChaparCore
import ChaparOAuth
import ChaparOAuth
import ChaparSandbox
import ChaparTesting
import Testing

/// Sections 14 and 17 of specs/oauth2-refresh.md: clocks that disagree, and refusals with another status than 401.
@Suite("OAuth 2 refresh: clocks and other refusals", .timeLimit(.minutes(1)))
struct OAuth2ClockTests {
    @Test("A stored token from the future has an unknown lifetime: it is used until it is refused")
    func future() async throws {
        try await OAuth2Harness.run { harness in
            harness.store.replace(harness.server.issue(at: harness.clock.now.addingTimeInterval(120)))
            #expect(await harness.ask() == "200")
            harness.clock.advance(by: .seconds(10_000))
            #expect(await harness.ask() == "200")
            #expect(harness.server.counters.tokenRequests == 0)
            harness.server.revokeAccessTokens()
            #expect(await harness.ask() == "200")
            #expect(harness.server.counters.tokenRequests == 1)
        }
    }

    @Test("A stored token whose life has ended is refreshed before it is used, by the clock on the wall")
    func past() async throws {
        try await OAuth2Harness.run { harness in
            harness.store.replace(harness.server.issue(at: harness.clock.now.addingTimeInterval(-3700)))
            #expect(await harness.ask() == "200")
            #expect(harness.server.counters.tokenRequests == 1 && harness.server.counters.refused == 0)
        }
    }

    @Test("A stored credential may have been made, and may end, at any time that a number can name")
    func extremes() async throws {
        for (created, seconds) in [(1e300, Int.max), (-1e300, Int.max), (0, Int.max), (-1e300, Int.min), (0, 0)] {
            try await OAuth2Harness.run { harness in
                var credential = harness.server.issue(at: harness.clock.now)
                credential.createdAt = Date(timeIntervalSince1970: created)
                credential.expiresIn = seconds
                harness.store.replace(credential)
                #expect(await harness.ask() == "200", "made at \(created), for \(seconds) s")
            }
        }
    }

    @Test("Clocks that differ by more than a minute are told of, and change nothing", arguments: [0, 600])
    func skew(seconds: Int) async throws {
        try await OAuth2Harness.run { harness in
            harness.clock.advance(by: .seconds(seconds))
            harness.server.revokeAccessTokens()
            #expect(await harness.ask() == "200")
            let skews = harness.events.all.compactMap { if case .clockSkew(let seconds) = $0 { seconds } else { nil } }
            #expect(skews.count == (seconds > 60 ? 1 : 0))
            #expect(skews.allSatisfy { $0 < -60 }, "the server's clock is behind ours")
            harness.clock.advance(by: .seconds(3000))
            #expect(await harness.ask() == "200")
            #expect(harness.server.counters.tokenRequests == 1, "lives are counted from the request")
        }
    }

    static let refusals: [(Int, String, refreshes: Int, result: String)] = [
        (400, "invalid_token", 1, "200"), (403, "invalid_token", 1, "200"), (403, "insufficient_scope", 0, "403"),
        (400, "invalid_request", 0, "400"), (404, "invalid_token", 0, "404"),
    ]

    @Test("A refusal that names the token counts as 401; a scope that is missing does not", arguments: refusals)
    func namesToken(status: Int, error: String, refreshes: Int, result: String) async throws {
        var rules = OAuth2Simulator.Rules()
        rules.refusal = (status, error)
        try await OAuth2Harness.run(rules) { harness in
            harness.server.revokeAccessTokens()
            #expect(await harness.ask() == result)
            #expect(harness.server.counters.tokenRequests == refreshes)
        }
    }
}
