import ChaparCore
import ChaparTesting
import Synchronization
import Testing

@Suite("Access tokens from a closure", .timeLimit(.minutes(1)))
struct ClosureAuthStrategyTests {
    private static let address = HTTPEndpoint(host: "push.example")

    /// Gives a token with each call, and owns the clock.
    private final class Source: Sendable {
        let calls = Mutex(0)
        let offset = Mutex(Duration.zero)
        private let start = ContinuousClock.now

        func strategy() -> ClosureAuthStrategy {
            ClosureAuthStrategy(where: { $0 == address }, now: { self.start + self.offset.withLock { $0 } }) {
                let number = self.calls.withLock { calls in
                    calls += 1
                    return calls
                }
                return AccessToken(Secret("token-\(number)"), lifetime: .seconds(3600))
            }
        }
    }

    @Test("They keep the promises of an AuthStrategy", arguments: AuthStrategyConformance.checks)
    func conformance(check: ConformanceCheck<AuthStrategyConformance.Subject>) async throws {
        let source = Source()
        try await check.run(
            .init(
                strategy: source.strategy(),
                destination: Self.address,
                refreshes: { source.calls.withLock { $0 } },
                curable: (401, nil),
                hopeless: (403, "Forbidden"),
                age: { source.offset.withLock { $0 += .seconds(60) } }
            )
        )
    }

    @Test("A token that is refused soon after it replaced another is not replaced again")
    func noLoop() async throws {
        let source = Source()
        let strategy = source.strategy()
        let first = try await strategy.credential(for: Self.address)
        #expect(await strategy.refused(first, status: 401, reason: nil) == .retry)
        let second = try await strategy.credential(for: Self.address)
        guard case .giveUp = await strategy.refused(second, status: 401, reason: nil) else {
            Issue.record("it goes on")
            return
        }
        #expect(source.calls.withLock { $0 } == 2)
        source.offset.withLock { $0 += .seconds(11) }
        #expect(await strategy.refused(second, status: 401, reason: nil) == .retry)
    }

    @Test("No other address gets the token")
    func otherAddress() async throws {
        let source = Source()
        let strategy = source.strategy()
        let other = HTTPEndpoint(host: "elsewhere.example")
        #expect(!strategy.covers(other, path: "/"))
        await #expect(throws: PushError.self) { try await strategy.credential(for: other) }
        #expect(source.calls.withLock { $0 } == 0)
    }

    @Test("An error thrown by a closure is not shown, unless it is a PushError")
    func failure() async throws {
        struct Leak: Error { let token = "PLANTED" }
        let strategy = ClosureAuthStrategy(for: Self.address) { throw Leak() }
        let error = await #expect(throws: PushError.self) { try await strategy.credential(for: Self.address) }
        #expect(error?.code == .unavailable)
        #expect(error.map { "\($0)" }?.contains("PLANTED") == false)
    }
}
