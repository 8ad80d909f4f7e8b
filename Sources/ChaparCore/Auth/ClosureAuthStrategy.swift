internal import Synchronization

/// Bearer tokens that a closure fetches, for any backend that takes an ``AuthStrategy``.
///
/// Use it in code that gets its access tokens from a source of its own. A token is kept until it expires, and a
/// thousand callers share one call of the closure. The token is sent only to one address, or to the addresses of a
/// rule. A refused token is replaced once: when the new token is refused within `pause`, the strategy gives up, since
/// fetching more would not help.
public struct ClosureAuthStrategy: AuthStrategy {
    private let covers: @Sendable (HTTPEndpoint) -> Bool
    private let pause: Duration
    private let now: @Sendable () -> ContinuousClock.Instant
    private let cache: AccessTokenCache
    private let replacement: Replacement

    /// Makes a strategy for one address; the closure is called when a token is first needed.
    ///
    /// - Parameters:
    ///   - address: The only address whose requests carry the token.
    ///   - deadline: The longest time `fetch` may take.
    ///   - pause: The time after the replacement of a refused token in which the next refusal is final.
    ///   - fetch: Returns a token with its lifetime. A ``PushError`` that it throws is passed to the sender; the text
    ///     of other errors is not shown, since it might hold the token.
    public init(
        for address: HTTPEndpoint,
        deadline: Duration = .seconds(10),
        pause: Duration = .seconds(10),
        fetch: @escaping @Sendable () async throws -> AccessToken
    ) {
        self.init(where: { $0 == address }, deadline: deadline, pause: pause, fetch: fetch)
    }

    /// Makes a strategy for the addresses of a rule, where a platform has many hosts.
    ///
    /// - Parameters:
    ///   - covers: Whether requests to an address carry the token. The address may come from a caller, so the rule must
    ///     name the scheme, the host and the port: see ``HTTPEndpoint/isBelow(_:)``.
    ///   - deadline: The longest time `fetch` may take.
    ///   - pause: The time after the replacement of a refused token in which the next refusal is final.
    ///   - repetition: The clock of the wait before a failed fetch is repeated once; nil for no repetition.
    ///   - fetch: Returns a token with its lifetime, or throws as for one address.
    public init(
        where covers: @escaping @Sendable (HTTPEndpoint) -> Bool,
        deadline: Duration = .seconds(10),
        pause: Duration = .seconds(10),
        repetition: (any TimeSource)? = nil,
        fetch: @escaping @Sendable () async throws -> AccessToken
    ) {
        self.init(
            where: covers,
            deadline: deadline,
            pause: pause,
            repetition: repetition,
            now: { .now },
            fetch: fetch
        )
    }

    /// Does the same with `now` as the clock of lifetimes.
    package init(
        where covers: @escaping @Sendable (HTTPEndpoint) -> Bool,
        deadline: Duration = .seconds(10),
        pause: Duration = .seconds(10),
        repetition: (any TimeSource)? = nil,
        now: @escaping @Sendable () -> ContinuousClock.Instant,
        fetch: @escaping @Sendable () async throws -> AccessToken
    ) {
        self.covers = covers
        self.pause = pause
        self.now = now
        replacement = Replacement()
        cache = AccessTokenCache(repetition: repetition, now: now) { () async throws(PushError) -> AccessToken in
            do {
                return try await Deadline.run(deadline, fetch)
            } catch is Deadline.Passed {
                throw PushError(.unavailable, "no access token came within \(deadline.inSeconds) s")
            } catch let error as PushError {
                throw error
            } catch {
                throw PushError(.unavailable, "the access token could not be fetched")
            }
        }
    }

    /// Returns the token as `authorization: Bearer …`.
    ///
    /// Throws the closure's error, and ``PushError/Code/unsupported`` for an address that the strategy does not cover.
    public func credential(for destination: HTTPEndpoint) async throws(PushError) -> AuthCredential {
        guard covers(destination) else { throw PushError(.unsupported, "the access token is not for \(destination)") }
        let entry = try await cache.token()
        return AuthCredential(
            headers: [.init("authorization", Secret("Bearer \(entry.token.value.reveal())"))],
            generation: entry.generation
        )
    }

    /// Discards a token that was refused with 401; another token would not help against other refusals.
    public func refused(_ credential: AuthCredential, status: Int, reason: String?) async -> AuthDecision {
        guard status == 401 else {
            return .giveUp("the platform refused the request with \(status), which no other access token mends")
        }
        switch replacement.judge(credential.generation, now(), pause: pause) {
        case .isReplaced: return .retry
        case .isTooSoon: return .giveUp("the platform refused a fresh access token: check what gives it")
        case .mustGo:
            await cache.invalidate(generation: credential.generation)
            return .retry
        }
    }

    /// Whether the call goes to the one address, or to one of the rule.
    public func covers(_ endpoint: HTTPEndpoint, path: String) -> Bool { covers(endpoint) }

    /// Waits for the fetch in flight, which has a deadline.
    public func shutdown() async { await cache.shutdown() }

    /// The token that was refused last, and when.
    private final class Replacement: Sendable {
        enum Verdict { case isReplaced, isTooSoon, mustGo }

        private let last = Mutex<(generation: UInt64, at: ContinuousClock.Instant)?>(nil)

        func judge(_ generation: UInt64, _ now: ContinuousClock.Instant, pause: Duration) -> Verdict {
            last.withLock { last in
                if let last {
                    if generation <= last.generation { return .isReplaced }
                    if now < last.at + pause { return .isTooSoon }
                }
                last = (generation, now)
                return .mustGo
            }
        }
    }
}
