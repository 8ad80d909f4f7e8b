/// A credential of limited life that some endpoint hands out.
public struct AccessToken: Sendable, Hashable {
    /// The token.
    public let value: Secret
    /// How long it is good for, from the moment it was asked for.
    public let lifetime: Duration

    /// Makes a token.
    public init(_ value: Secret, lifetime: Duration) {
        self.value = value
        self.lifetime = lifetime
    }
}

/// Caches one access token and refreshes it at most once at a time. What every ``AuthStrategy`` that fetches tokens shares.
///
/// Callers share the refresh in flight; cancelling one does not cancel it for the others. A failure reaches the callers that
/// waited for it and is not cached, but the next fetch waits at least `pauseAfterFailure`, so that a thousand messages do not
/// ask a broken token endpoint a thousand times.
public actor AccessTokenCache {
    private enum State {
        case empty
        case refreshing(Task<Entry, any Error>)
        case ready(Entry)
        case failed(PushError, at: ContinuousClock.Instant)
    }

    /// A token with its generation.
    public struct Entry: Sendable, Hashable {
        /// The token.
        public let token: AccessToken
        /// Rises with each token of the cache.
        public let generation: UInt64
        fileprivate let fetchedAt: ContinuousClock.Instant
    }

    private var state = State.empty
    private var generation: UInt64 = 0
    private let leeway: Duration
    private let pauseAfterFailure: Duration
    private let now: @Sendable () -> ContinuousClock.Instant
    private let fetch: @Sendable () async throws(PushError) -> AccessToken

    /// Makes a cache.
    ///
    /// - Parameters:
    ///   - leeway: A token with less than this left of its life is replaced before it is used.
    ///   - pauseAfterFailure: For so long after a failed fetch the failure is the answer.
    ///   - now: The clock, a parameter for tests.
    ///   - fetch: Asks the platform for a token. It must have a deadline of its own.
    public init(
        leeway: Duration = .seconds(60),
        pauseAfterFailure: Duration = .seconds(1),
        now: @escaping @Sendable () -> ContinuousClock.Instant = { .now },
        fetch: @escaping @Sendable () async throws(PushError) -> AccessToken
    ) {
        self.leeway = leeway
        self.pauseAfterFailure = pauseAfterFailure
        self.now = now
        self.fetch = fetch
    }

    /// The token to use now, fetched first when there is none with enough life left.
    public func token() async throws(PushError) -> Entry {
        switch state {
        case .ready(let entry) where now() < entry.fetchedAt + entry.token.lifetime - leeway:
            return entry
        case .failed(let error, let at) where now() < at + pauseAfterFailure:
            throw error
        case .refreshing(let refresh):
            return try await Self.value(of: refresh)
        case .empty, .ready, .failed:
            // Unstructured: the refresh outlives the caller that began it, and everyone who needs it awaits it.
            let refresh = Task { try await self.refresh() }
            state = .refreshing(refresh)
            return try await Self.value(of: refresh)
        }
    }

    /// Forgets the token of `generation` after the platform refused it; a newer one stays.
    public func invalidate(generation: UInt64) {
        if case .ready(let entry) = state, entry.generation == generation { state = .empty }
    }

    private func refresh() async throws(PushError) -> Entry {
        let start = now()  // Before the request: a slow answer must not lengthen the token's life.
        do throws(PushError) {
            let token = try await fetch()
            generation += 1
            let entry = Entry(token: token, generation: generation, fetchedAt: start)
            state = .ready(entry)
            return entry
        } catch {
            state = .failed(error, at: now())
            throw error
        }
    }

    private static func value(of refresh: Task<Entry, any Error>) async throws(PushError) -> Entry {
        do {
            return try await refresh.value
        } catch {
            throw error as? PushError ?? PushError(.unavailable, "the access token could not be fetched")
        }
    }
}
