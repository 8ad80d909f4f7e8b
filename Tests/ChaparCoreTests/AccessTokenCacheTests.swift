import ChaparCore
import ChaparTesting
import Synchronization
import Testing

@Suite("Access token cache", .timeLimit(.minutes(1)))
struct AccessTokenCacheTests {
    /// Counts fetches and lets a test decide when they end and how.
    private final class Endpoint: Sendable {
        let fetches = Mutex(0)
        let offset = Mutex(Duration.zero)
        let failure = Mutex<PushError?>(nil)
        /// Whether ``failure`` is that of the next fetch alone.
        let isBrief = Mutex(false)
        private let start = ContinuousClock.now

        var now: ContinuousClock.Instant { start + offset.withLock { $0 } }

        func advance(_ span: Duration) { offset.withLock { $0 += span } }

        func fetch() async throws(PushError) -> AccessToken {
            let number = fetches.withLock { count in
                count += 1
                return count
            }
            await Task.yield()
            let isBrief = isBrief.withLock { $0 }
            let failure = failure.withLock { failure in
                defer { if isBrief { failure = nil } }
                return failure
            }
            if let failure { throw failure }
            return AccessToken(Secret("token-\(number)"), lifetime: .seconds(3600))
        }

        func cache(renewAhead: Duration = .zero, repetition: (any TimeSource)? = nil) -> AccessTokenCache {
            AccessTokenCache(
                renewAhead: renewAhead,
                repetition: repetition,
                now: { self.now },
                fetch: { () async throws(PushError) in try await self.fetch() }
            )
        }
    }

    @Test("A thousand callers cause one fetch")
    func singleFlight() async throws {
        let endpoint = Endpoint()
        let cache = endpoint.cache()
        try await withThrowingTaskGroup(of: UInt64.self) { group in
            for _ in 0..<1000 { group.addTask { try await cache.token().generation } }
            for try await generation in group { #expect(generation == 1) }
        }
        #expect(endpoint.fetches.withLock { $0 } == 1)
    }

    @Test("A thousand refusals of one token cause one refresh")
    func refusals() async throws {
        let endpoint = Endpoint()
        let cache = endpoint.cache()
        let first = try await cache.token()
        try await withThrowingTaskGroup(of: UInt64.self) { group in
            for _ in 0..<1000 {
                group.addTask {
                    await cache.invalidate(generation: first.generation)
                    return try await cache.token().generation
                }
            }
            for try await generation in group { #expect(generation == 2) }
        }
        #expect(endpoint.fetches.withLock { $0 } == 2)
    }

    @Test("A token is replaced before it ends, counted from before it was asked for")
    func leeway() async throws {
        let endpoint = Endpoint()
        let cache = endpoint.cache()
        #expect(try await cache.token().generation == 1)
        endpoint.advance(.seconds(3539))
        #expect(try await cache.token().generation == 1)
        endpoint.advance(.seconds(1))
        #expect(try await cache.token().generation == 2)
    }

    @Test("A failure reaches those who wait, is not asked for again at once, and is not kept")
    func failure() async throws {
        let endpoint = Endpoint()
        let cache = endpoint.cache()
        endpoint.failure.withLock { $0 = PushError(.unavailable, "down") }
        await #expect(throws: PushError.self) { try await cache.token() }
        await #expect(throws: PushError.self) { try await cache.token() }
        #expect(endpoint.fetches.withLock { $0 } == 1)
        endpoint.failure.withLock { $0 = nil }
        endpoint.advance(.seconds(1))
        #expect(try await cache.token().generation == 1)
    }

    @Test("A failure that names a pause is the answer for all of it, and says what is left")
    func pause() async throws {
        let endpoint = Endpoint()
        let cache = endpoint.cache()
        endpoint.failure.withLock { $0 = PushError(.rateLimited, "busy", reason: "r", retryAfter: .seconds(120)) }
        await #expect(throws: PushError.self) { try await cache.token() }
        endpoint.failure.withLock { $0 = nil }
        endpoint.advance(.seconds(119))
        let error = await #expect(throws: PushError.self) { try await cache.token() }
        #expect(error?.code == .rateLimited && error?.reason == "r" && error?.message == "busy")
        #expect(error?.retryAfter == .seconds(1))
        #expect(endpoint.fetches.withLock { $0 } == 1)
        endpoint.advance(.seconds(1))
        #expect(try await cache.token().generation == 1)
    }

    @Test("A failure that names a year holds the cache for a day")
    func longPause() async throws {
        let endpoint = Endpoint()
        let cache = endpoint.cache()
        endpoint.failure.withLock { $0 = PushError(.unavailable, "busy", retryAfter: .seconds(31_536_000)) }
        await #expect(throws: PushError.self) { try await cache.token() }
        endpoint.failure.withLock { $0 = nil }
        endpoint.advance(.seconds(86_400))
        #expect(try await cache.token().generation == 1)
    }

    @Test("Cancelling one caller does not end the fetch of the others")
    func cancellation() async throws {
        let endpoint = Endpoint()
        let cache = endpoint.cache()
        let impatient = Task { try await cache.token() }
        let patient = Task { try await cache.token() }
        impatient.cancel()
        #expect(try await patient.value.generation == 1)
        _ = await impatient.result
    }

    @Test("A token is renewed ahead of its end by one fetch in the background")
    func renewsAhead() async throws {
        let endpoint = Endpoint()
        let cache = endpoint.cache(renewAhead: .seconds(300))
        let first = try await cache.token()
        endpoint.advance(.seconds(3299))
        _ = try await cache.token()
        await cache.shutdown()
        #expect(endpoint.fetches.withLock { $0 } == 1, "not due yet")
        endpoint.advance(.seconds(2))
        for _ in 0..<100 { #expect(try await cache.token().generation <= first.generation + 1) }
        await cache.shutdown()
        #expect(endpoint.fetches.withLock { $0 } == 2)
        let second = try await cache.token()
        #expect(second.generation == first.generation + 1)
    }

    @Test("When a renewal fails the present token is good to its own end, and only then the failure is told")
    func keepsPresent() async throws {
        let endpoint = Endpoint()
        let cache = endpoint.cache(renewAhead: .seconds(300))
        let first = try await cache.token()
        endpoint.failure.withLock { $0 = PushError(.unavailable, "down") }
        endpoint.advance(.seconds(3301))
        for _ in 0..<10 {
            #expect(try await cache.token() == first)
            await cache.shutdown()
        }
        #expect(endpoint.fetches.withLock { $0 } == 2, "one attempt, then a pause")
        endpoint.advance(.seconds(11))
        #expect(try await cache.token() == first)
        await cache.shutdown()
        #expect(endpoint.fetches.withLock { $0 } == 3)
        endpoint.advance(.seconds(229))
        await #expect(throws: PushError.self) { try await cache.token() }
    }

    @Test("A refusal during a renewal waits for it instead of beginning another")
    func refusedWhileRenewing() async throws {
        let endpoint = Endpoint()
        let cache = endpoint.cache(renewAhead: .seconds(300))
        let first = try await cache.token()
        endpoint.advance(.seconds(3301))
        _ = try await cache.token()
        await cache.invalidate(generation: first.generation)
        let second = try await cache.token()
        #expect(second.generation == first.generation + 1)
        #expect(endpoint.fetches.withLock { $0 } == 2)
    }

    // MARK: Repetition

    @Test(
        "One odd answer reaches no caller where a fetch is repeated, the first token's and that after a refusal",
        arguments: [PushError.Code.unavailable, .badAnswer, .rateLimited]
    )
    func repeats(code: PushError.Code) async throws {
        let (endpoint, time) = (Endpoint(), InstantTime())
        let cache = endpoint.cache(repetition: time)
        endpoint.isBrief.withLock { $0 = true }
        for generation in 1...2 {
            endpoint.failure.withLock { $0 = PushError(code, "odd") }
            try await withThrowingTaskGroup(of: UInt64.self) { group in
                for _ in 0..<100 { group.addTask { try await cache.token().generation } }
                for try await given in group { #expect(given == UInt64(generation)) }
            }
            #expect(endpoint.fetches.withLock { $0 } == 2 * generation)
            #expect(time.slept == Array(repeating: .seconds(1), count: generation))
            await cache.invalidate(generation: UInt64(generation))
        }
    }

    @Test("A failure that goes on is told after the second fetch")
    func lasting() async throws {
        let endpoint = Endpoint()
        let cache = endpoint.cache(repetition: InstantTime())
        endpoint.failure.withLock { $0 = PushError(.unavailable, "down") }
        for _ in 0..<2 { await #expect(throws: PushError.self) { try await cache.token() } }
        #expect(endpoint.fetches.withLock { $0 } == 2)
    }

    @Test(
        "A refusal of the credentials is not asked for again, and neither is what names a later time",
        arguments: [
            PushError(.credentialsRefused, "invalid_grant"),
            PushError(.unavailable, "busy", retryAfter: .seconds(5)),
        ]
    )
    func repeatsNothingElse(failure: PushError) async throws {
        let (endpoint, time) = (Endpoint(), InstantTime())
        let cache = endpoint.cache(repetition: time)
        endpoint.failure.withLock { $0 = failure }
        await #expect(throws: PushError.self) { try await cache.token() }
        #expect(endpoint.fetches.withLock { $0 } == 1)
        #expect(time.slept.isEmpty)
    }

    @Test("A shutdown ends the wait before the repetition")
    func endsWait() async throws {
        let (endpoint, time) = (Endpoint(), ManualTime())
        let cache = endpoint.cache(repetition: time)
        endpoint.failure.withLock { $0 = PushError(.unavailable, "down") }
        let waiting = Task { try await cache.token() }
        while time.sleeping == 0 { await Task.yield() }
        await cache.shutdown()
        await #expect(throws: PushError.self) { try await waiting.value }
        #expect(endpoint.fetches.withLock { $0 } == 1)
    }
}
