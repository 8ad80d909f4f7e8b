/// A credential of limited life that an endpoint issues.
public struct AccessToken: Sendable, Hashable {
    /// The token.
    public let value: Secret
    /// The time that it is valid, from the moment it was requested.
    public let lifetime: Duration

    /// Makes a token.
    public init(_ value: Secret, lifetime: Duration) {
        self.value = value
        self.lifetime = lifetime
    }
}

/// A cache of one access token that runs at most one refresh at a time, shared by every ``AuthStrategy`` that fetches
/// tokens.
///
/// Callers share the refresh in flight; cancelling one does not cancel it for the others. A failure reaches the callers
/// that waited for it and is not cached. But the next fetch begins only after `pauseAfterFailure`, or after the
/// failure's ``PushError/retryAfter`` where that is longer. So a thousand messages do not ask a broken token endpoint a
/// thousand times.
///
/// With `renewAhead` a token is replaced early. During that refresh, and after a refresh that failed, the current token
/// is used until it expires. The strategies of Chapar's platforms make a cache that repeats a fetch once before it
/// counts as failed.
public actor AccessTokenCache {
    private enum State {
        case empty
        case refreshing(Task<Entry, any Error>)
        case ready(Entry)
        case renewing(Entry, Task<Entry, any Error>)
        /// The next fetch is not before `until`.
        case failed(PushError, until: ContinuousClock.Instant)
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
    /// The earliest time of the next renewal, after one that failed.
    private var nextRenewal: ContinuousClock.Instant?
    private let leeway: Duration
    private let renewAhead: Duration
    private let pauseAfterFailure: Duration
    private let now: @Sendable () -> ContinuousClock.Instant
    /// The clock of the wait before a fetch is repeated; nil for no repetition.
    private let repetition: (any TimeSource)?
    /// That wait, while it lasts.
    private var wait: Task<Void, any Error>?
    private var isEnding = false
    private let fetch: @Sendable () async throws(PushError) -> AccessToken

    /// The longest fetch that is repeated: after a longer one the callers have waited enough.
    private static let longestRepeated = Duration.seconds(5)

    /// Makes a cache.
    ///
    /// - Parameters:
    ///   - leeway: A token that expires within this time is replaced before it is used. At most a quarter of the
    ///     token's lifetime.
    ///   - renewAhead: A token that expires within this time is replaced while callers still use it. At most half of
    ///     the token's lifetime; zero for never.
    ///   - pauseAfterFailure: The time after a failed fetch in which callers get the same failure; longer where the
    ///     failure names a longer pause. A failed early renewal pauses ten times as long, since no caller waits for it.
    ///   - fetch: Requests a token from the platform. It must have a deadline of its own.
    public init(
        leeway: Duration = .seconds(60),
        renewAhead: Duration = .zero,
        pauseAfterFailure: Duration = .seconds(1),
        fetch: @escaping @Sendable () async throws(PushError) -> AccessToken
    ) {
        self.init(
            leeway: leeway,
            renewAhead: renewAhead,
            pauseAfterFailure: pauseAfterFailure,
            repetition: nil,
            fetch: fetch
        )
    }

    /// Makes a cache that repeats a fetch once, after `pauseAfterFailure` by `repetition`, before callers see its
    /// failure.
    ///
    /// So one odd answer of an endpoint does not fail all the messages that wait for a token. The fetch is not repeated
    /// when the credentials were refused, when the failure names a later time, or when the fetch took long. `now` is
    /// the clock for the tokens' lifetimes.
    package init(
        leeway: Duration = .seconds(60),
        renewAhead: Duration = .zero,
        pauseAfterFailure: Duration = .seconds(1),
        repetition: (any TimeSource)?,
        now: @escaping @Sendable () -> ContinuousClock.Instant = { .now },
        fetch: @escaping @Sendable () async throws(PushError) -> AccessToken
    ) {
        self.leeway = leeway
        self.renewAhead = renewAhead
        self.pauseAfterFailure = pauseAfterFailure
        self.repetition = repetition
        self.now = now
        self.fetch = fetch
    }

    /// Returns the token to use now; fetches one first when none has enough life left.
    public func token() async throws(PushError) -> Entry {
        switch state {
        case .ready(let entry) where isUsable(entry):
            if isDue(entry) { state = .renewing(entry, begin()) }
            return entry
        case .renewing(let entry, _) where isUsable(entry):
            return entry
        case .failed(let error, let until) where now() < until:
            guard error.retryAfter != nil else { throw error }
            throw PushError(error.code, error.message, reason: error.reason, retryAfter: until - now())
        case .refreshing(let refresh), .renewing(_, let refresh):
            return try await Self.value(of: refresh)
        case .empty, .ready, .failed:
            let refresh = begin()
            state = .refreshing(refresh)
            return try await Self.value(of: refresh)
        }
    }

    /// Discards the token of `generation` after the platform refused it; a newer one stays.
    public func invalidate(generation: UInt64) {
        switch state {
        case .ready(let entry) where entry.generation == generation: state = .empty
        case .renewing(let entry, let renewal) where entry.generation == generation: state = .refreshing(renewal)
        case .empty, .refreshing, .ready, .renewing, .failed: break
        }
    }

    /// Waits for the refresh in flight, if any, and prevents its repetition: for the shutdown of the cache's owner.
    public func shutdown() async {
        isEnding = true
        defer { isEnding = false }
        wait?.cancel()
        switch state {
        case .refreshing(let refresh), .renewing(_, let refresh): _ = await refresh.result
        case .empty, .ready, .failed: break
        }
    }

    private func isUsable(_ entry: Entry) -> Bool {
        now() < entry.fetchedAt + entry.token.lifetime - min(leeway, entry.token.lifetime / 4)
    }

    private func isDue(_ entry: Entry) -> Bool {
        guard renewAhead > .zero else { return false }
        let now = now()
        if let nextRenewal, now < nextRenewal { return false }
        return now >= entry.fetchedAt + entry.token.lifetime - min(renewAhead, entry.token.lifetime / 2)
    }

    /// Starts a refresh as an unstructured task, so that it outlives the caller that began it.
    ///
    /// Every caller that needs the token awaits this task, and at the end `shutdown` awaits it.
    private func begin() -> Task<Entry, any Error> { Task { try await self.refresh() } }

    private func refresh() async throws(PushError) -> Entry {
        do throws(PushError) {
            let (token, start) = try await fetched()
            generation += 1
            let entry = Entry(token: token, generation: generation, fetchedAt: start)
            state = .ready(entry)
            nextRenewal = nil
            return entry
        } catch {
            if case .renewing(let entry, _) = state, isUsable(entry) {
                state = .ready(entry)
                nextRenewal = now() + max(pauseAfterFailure * 10, Self.pause(error))
            } else {
                state = .failed(error, until: now() + max(pauseAfterFailure, Self.pause(error)))
            }
            throw error
        }
    }

    /// Returns the pause that a failure names, at most a day, as for `Retry-After`.
    private static func pause(_ error: PushError) -> Duration { min(error.retryAfter ?? .zero, .seconds(86_400)) }

    /// Fetches a token; the start is taken before the request, since a slow answer must not lengthen the token's life.
    private func fetched() async throws(PushError) -> (AccessToken, start: ContinuousClock.Instant) {
        let start = now()
        do throws(PushError) {
            let token = try await fetch()
            return (token, start)
        } catch {
            guard let repetition, isRepeatable(error, since: start) else { throw error }
            let wait = Task { [pauseAfterFailure] in try await repetition.sleep(for: pauseAfterFailure) }
            self.wait = wait
            let result = await wait.result
            self.wait = nil
            guard case .success = result, !isEnding else { throw error }
        }
        let again = now()
        let token = try await fetch()
        return (token, again)
    }

    private func isRepeatable(_ error: PushError, since start: ContinuousClock.Instant) -> Bool {
        guard !isEnding, [.unavailable, .badAnswer, .rateLimited].contains(error.code) else { return false }
        return error.retryAfter ?? .zero <= pauseAfterFailure && now() < start + Self.longestRepeated
    }

    private static func value(of refresh: Task<Entry, any Error>) async throws(PushError) -> Entry {
        do {
            return try await refresh.value
        } catch {
            throw error as? PushError ?? PushError(.unavailable, "the access token could not be fetched")
        }
    }
}
