internal import Foundation
public import ChaparCore

/// Bearer tokens that are refreshed with a refresh token, for any backend that uses HTTP.
///
/// It is a server-side version of IDMoya's OAuth handler. A refused request causes one refresh, however many were
/// refused with it; a refusal of a token that has been replaced in the meantime causes none. A new credential is stored
/// before any request uses it. Give the strategy to an ``ChaparCore/AuthorizedPool`` or
/// ``ChaparCore/AuthorizedTransport``, which add the token to requests and repeat refused ones once.
public actor OAuth2RefreshToken: AuthStrategy {
    /// The counts since the strategy was made.
    public struct Counters: Sendable, Hashable {
        /// The number of requests to the token endpoint.
        public var requests = 0
        /// The number of refreshes that gave a new token.
        public var refreshed = 0
        /// The number of refreshes that failed.
        public var failed = 0
        /// The number of refreshes that began before any request was refused.
        public var early = 0
        /// The number of other writers' credentials that were adopted from the store.
        public var adopted = 0
        /// The number of requests that were sent again without a refresh.
        public var retriedWithoutRefresh = 0
        /// The most callers that have waited for one refresh.
        public var mostWaiters = 0
    }

    /// The credential in force.
    private struct Held {
        var credential: OAuthCredential
        /// The revision it was read from or written as; nil when the store has none.
        var revision: CredentialRevision?
        var generation: UInt64
        /// The expiry of the access token; nil when unknown.
        var expires: ContinuousClock.Instant?
        /// Whether the store does not have it yet.
        var isUnsaved = false
    }

    /// The result of a refresh.
    private enum Outcome: Sendable {
        case refreshed(OAuthCredential, revision: CredentialRevision?, isUnsaved: Bool)
        case adopted(StoredCredential)
        case refused(OAuth2Error, HTTPAnswer?)
        case terminal(OAuth2Error, HTTPAnswer?)
        case transient(OAuth2Error, HTTPAnswer?)
    }

    nonisolated private let settings: OAuth2Settings
    private let store: any CredentialStore
    nonisolated private let hooks: any OAuth2Hooks
    private let http: any HTTPTransport
    private let pool: any HTTPPool
    /// The pool of the endpoint that the hooks last chose, when that is not the settings'.
    private var other: (endpoint: HTTPEndpoint, pool: any HTTPPool)?
    private let time: any TimeSource
    private let now: @Sendable () -> ContinuousClock.Instant
    private let observe: @Sendable (OAuth2Event) -> Void

    private var held: Held?
    private var generation: UInt64 = 0
    private var inFlight: Task<Result<Void, OAuth2Error>, Never>?
    private var waiters = 0
    private var history: [ContinuousClock.Instant] = []
    private var cooldown: (until: ContinuousClock.Instant, step: Int, error: OAuth2Error)?
    private var malformedInARow = 0
    private var terminal: (error: OAuth2Error, checked: ContinuousClock.Instant)?
    private var dropped: OAuthCredential?
    private var lastSave: ContinuousClock.Instant?
    private var notices: Task<Void, Never>?

    /// The counts since the strategy was made.
    public private(set) var counters = Counters()

    /// Makes a strategy; nothing is read or sent before its first use.
    ///
    /// - Parameters:
    ///   - settings: The rules of the refresh and of the use of tokens.
    ///   - store: The store of the credential; it must hold one initially.
    ///   - hooks: The app's hooks.
    ///   - http: The transport of token requests, on a pool of their own that adds no credential.
    ///   - observe: Called with every event; it must return at once.
    /// - Throws: When the certificates or the proxy of the settings are invalid.
    public init(
        _ settings: OAuth2Settings,
        store: any CredentialStore,
        hooks: any OAuth2Hooks = DefaultOAuth2Hooks(),
        http: any HTTPTransport,
        observe: @escaping @Sendable (OAuth2Event) -> Void = { _ in }
    ) throws(HTTPPoolError) {
        try self.init(settings, store: store, hooks: hooks, http: http, time: SystemTime(), observe: observe)
    }

    /// Does the same with `time` as the wall clock of stored credentials, and `now` as the clock of lifetimes.
    package init(
        _ settings: OAuth2Settings,
        store: any CredentialStore,
        hooks: any OAuth2Hooks = DefaultOAuth2Hooks(),
        http: any HTTPTransport,
        time: any TimeSource,
        now: @escaping @Sendable () -> ContinuousClock.Instant = { .now },
        observe: @escaping @Sendable (OAuth2Event) -> Void = { _ in }
    ) throws(HTTPPoolError) {
        self.settings = settings
        self.store = store
        self.hooks = hooks
        self.time = time
        self.now = now
        self.observe = observe
        self.http = http
        pool = try http.pool(Self.configuration(settings, settings.tokenAddress.endpoint))
    }

    private static func configuration(_ settings: OAuth2Settings, _ endpoint: HTTPEndpoint) -> HTTPPoolConfiguration {
        var configuration = HTTPPoolConfiguration(endpoint: endpoint, version: .http1)
        configuration.extraTrustPEM = settings.trustPEM
        configuration.proxy = settings.proxy
        configuration.proxyCredentials = settings.proxyCredentials
        configuration.maximumConnections = 1
        configuration.requestTimeout = settings.refreshTimeout
        return configuration
    }

    // MARK: The strategy

    /// Whether a call carries the token: only under the hooks' bases, and never to the token endpoint itself.
    nonisolated public func covers(_ endpoint: HTTPEndpoint, path: String) -> Bool {
        let token = settings.tokenAddress
        if endpoint == token.endpoint,
            HTTPBaseURL(endpoint, path: path).path == HTTPBaseURL(endpoint, path: token.path).path
        {
            return false
        }
        return hooks.bases(for: settings).contains { $0.covers(endpoint, path: path) }
    }

    /// Whether the status is one of the settings', or `WWW-Authenticate` says `invalid_token` (RFC 6750 section 3.1).
    nonisolated public func isRefusal(_ answer: HTTPAnswer) -> Bool {
        if settings.refreshStatuses.contains(answer.status) { return true }
        guard settings.honoursInvalidToken, [400, 403].contains(answer.status) else { return false }
        return answer.bearerError == "invalid_token"
    }

    /// Returns the token's header field; refreshes the token first when it is about to expire.
    ///
    /// Returns no field for another origin.
    public func credential(for destination: HTTPEndpoint) async throws(PushError) -> AuthCredential {
        guard hooks.bases(for: settings).contains(where: { $0.endpoint == destination }) else {
            return AuthCredential(headers: [], generation: 0)
        }
        do throws(OAuth2Error) {
            return try await authorization()
        } catch {
            throw error.pushError
        }
    }

    /// Refreshes, unless the token has been replaced since; all callers whose token was refused meanwhile share the
    /// refresh.
    public func refused(_ credential: AuthCredential, status: Int, reason: String?) async -> AuthDecision {
        let isRefusal =
            settings.refreshStatuses.contains(status)
            || settings.honoursInvalidToken && [400, 403].contains(status) && reason == "invalid_token"
        guard isRefusal, credential.generation > 0 else {
            return .giveUp("the platform answered \(status), which a new access token does not mend")
        }
        do throws(OAuth2Error) {
            try await replace(credential.generation)
            return .retry
        } catch {
            guard error.isRetryable else { return .giveUp(error.description) }
            let left = cooldown.map { $0.until - now() } ?? .seconds(1)
            return .wait(max(left, .milliseconds(100)))
        }
    }

    // MARK: Typed faces, for code

    /// Does the same as ``credential(for:)``, but throws the original error.
    public func authorization() async throws(OAuth2Error) -> AuthCredential {
        try await reviveIfReplaced()
        if let terminal { throw terminal.error }
        if held == nil { try await load() }
        if isExpiring || inFlight != nil, held?.credential.refreshToken != nil {
            do throws(OAuth2Error) {
                try await refresh(isEarly: true)
            } catch {
                // A token that is still valid is better than none.
                guard error.isRetryable, let held, !isExpired(held) else { throw error }
            }
        }
        await saveAgain()
        guard let held else { throw terminal?.error ?? .missingCredential }
        return AuthCredential(headers: hooks.authorization(for: held.credential), generation: held.generation)
    }

    /// Replaces the token of `generation`; returns at once when it has been replaced.
    public func replace(_ generation: UInt64) async throws(OAuth2Error) {
        if let terminal { throw terminal.error }
        if let held, generation < held.generation {
            counters.retriedWithoutRefresh += 1
            observe(.retriedWithoutRefresh)
            return
        }
        try await refresh(isEarly: false)
    }

    /// Sends a call with the token, and once more after a refresh if it is refused: at most two exchanges.
    ///
    /// Any answer but a refusal is returned as it is, including 403, 404 and 5xx. A call outside the base is sent
    /// unchanged.
    public func send(
        _ call: HTTPCall,
        to endpoint: HTTPEndpoint,
        through pool: any HTTPPool
    ) async throws -> HTTPAnswer {
        guard covers(endpoint, path: call.path) else { return try await pool.send(call) }
        var credential = try await authorization()
        let first = try await pool.send(call.carrying(credential))
        guard isRefusal(first) else { return first }
        try await replace(credential.generation)
        if Task.isCancelled { throw OAuth2Error.cancelled }
        credential = try await authorization()
        let second = try await pool.send(call.carrying(credential))
        guard isRefusal(second) else { return second }
        throw OAuth2Error.rejectedAfterRefresh(status: second.status)
    }

    /// The credential in force; nil before the first use or after a refusal.
    ///
    /// It is not refreshed.
    public var credential: OAuthCredential? { held?.credential }

    /// Puts a new credential in force, as after a new log-in: stores it first, then clears every earlier error.
    public func replaceCredential(_ credential: OAuthCredential) async throws(OAuth2Error) {
        let stored = try await store.load()
        guard let revision = try await store.save(credential, expecting: stored?.revision) else {
            throw .storeFailed("another process wrote the credential at the same time")
        }
        put(credential, revision: revision, isUnsaved: false, isNew: false)
        forgetFailures()
    }

    /// Waits for notices, writes pending changes, and closes the connection to the token endpoint.
    public func shutdown() async {
        await inFlight?.value.ignored()
        lastSave = nil
        await saveAgain()
        await notices?.value
        await pool.shutdown(grace: .seconds(1))
        await other?.pool.shutdown(grace: .seconds(1))
    }

    // MARK: The credential in force

    private var isExpiring: Bool {
        guard let held, let expires = held.expires else { return false }
        let early = min(settings.earlyRefresh, .seconds(max(0, held.credential.expiresIn ?? 0)) / 10)
        return now() + early >= expires
    }

    private func isExpired(_ held: Held) -> Bool { held.expires.map { now() >= $0 } ?? false }

    private func load() async throws(OAuth2Error) {
        let stored: StoredCredential?
        do throws(OAuth2Error) {
            stored = try await store.load()
        } catch {
            observe(.storeUnreadable(error))
            throw error
        }
        guard held == nil, terminal == nil else { return }  // Somebody else was faster.
        guard let stored else { throw .missingCredential }
        put(stored.credential, revision: stored.revision, isUnsaved: false, isNew: false)
    }

    /// Puts a credential in force.
    ///
    /// The lifetime of an `isNew` credential, which was just issued, counts from the request; that of others by the
    /// wall clock.
    private func put(
        _ credential: OAuthCredential,
        revision: CredentialRevision?,
        isUnsaved: Bool,
        isNew: Bool,
        askedAt: ContinuousClock.Instant? = nil
    ) {
        generation += 1
        var expires: ContinuousClock.Instant?
        if let expiresAt = credential.expiresAt, let seconds = credential.expiresIn {
            if isNew {
                expires = (askedAt ?? now()) + .seconds(clamping: seconds)
            } else if credential.createdAt.timeIntervalSince(time.now) <= 60 {
                // It was made in the future by the local clock: its lifetime is unknown.
                expires = now() + .seconds(clamping: expiresAt.timeIntervalSince(time.now))
            }
        }
        held = Held(
            credential: credential,
            revision: revision,
            generation: generation,
            expires: expires,
            isUnsaved: isUnsaved
        )
        terminal = nil
    }

    private func forgetFailures() {
        terminal = nil
        cooldown = nil
        history = []
        malformedInARow = 0
        dropped = nil
    }

    /// Checks now and then, after a refusal, whether an operator has stored another credential.
    private func reviveIfReplaced() async throws(OAuth2Error) {
        guard let terminal, now() >= terminal.checked + .seconds(1) else { return }
        self.terminal?.checked = now()
        guard let stored = try? await store.load(), self.terminal != nil else { return }
        let refused = dropped ?? held?.credential
        if let refused, stored.credential.hasTokens(of: refused) { return }
        put(stored.credential, revision: stored.revision, isUnsaved: false, isNew: false)
        forgetFailures()
        counters.adopted += 1
        observe(.adopted(generation: generation))
    }

    /// Retries a failed write of the credential, for example after a full disk, at most once a second.
    private func saveAgain() async {
        guard let held, held.isUnsaved, inFlight == nil, lastSave.map({ now() >= $0 + .seconds(1) }) ?? true else {
            return
        }
        lastSave = now()
        do throws(OAuth2Error) {
            let revision = try await store.save(held.credential, expecting: held.revision)
            guard self.held?.generation == held.generation else { return }
            self.held?.isUnsaved = false
            self.held?.revision = revision ?? held.revision
        } catch {
            observe(.storeFailed)
        }
    }

    // MARK: Refreshing

    /// Joins the refresh in progress or begins one; nothing is awaited between the check and the beginning.
    private func refresh(isEarly: Bool) async throws(OAuth2Error) {
        if let inFlight {
            waiters += 1
            try await inFlight.value.get()
            if Task.isCancelled { throw .cancelled }
            return
        }
        let start = now()
        if let cooldown, start < cooldown.until { throw cooldown.error.waiting(cooldown.until - start) }
        history.removeAll { start >= $0 + settings.refreshWindow }
        guard history.count < settings.maximumRefreshes else {
            let error = OAuth2Error.excessiveRefresh(retryAfter: settings.refreshWindow)
            cooldown = (start + settings.refreshWindow, 0, error)
            reportFailure(error, nil)
            throw error
        }
        waiters = 1
        // Unstructured: the refresh outlives the caller that began it, and every caller that needs it awaits it.
        let task = Task { await self.run(isEarly: isEarly) }
        inFlight = task
        try await task.value.get()
        if Task.isCancelled { throw .cancelled }
    }

    private func run(isEarly: Bool) async -> Result<Void, OAuth2Error> {
        let requested = now()
        let outcome: Outcome
        do throws(OAuth2Error) {
            outcome = try await store.exclusively { () async throws(OAuth2Error) in await self.attempt() }
        } catch {
            outcome = .transient(error, nil)
        }
        // Nothing is awaited from here to the end: the next caller sees the result and no refresh in progress.
        inFlight = nil
        counters.mostWaiters = max(counters.mostWaiters, waiters)
        switch outcome {
        case .refreshed(let credential, let revision, let isUnsaved):
            put(credential, revision: revision, isUnsaved: isUnsaved, isNew: true, askedAt: requested)
            (cooldown, malformedInARow, dropped) = (nil, 0, nil)
            counters.refreshed += 1
            counters.early += isEarly ? 1 : 0
            lastSave = now()
            observe(
                .refreshed(
                    generation: generation,
                    lifetime: credential.expiresIn,
                    waiters: waiters,
                    isEarly: isEarly
                )
            )
            notify { await $0.didRefresh(credential) }
            return .success(())
        case .adopted(let stored):
            put(stored.credential, revision: stored.revision, isUnsaved: false, isNew: false)
            (cooldown, malformedInARow) = (nil, 0)
            counters.adopted += 1
            observe(.adopted(generation: generation))
            return .success(())
        case .refused(let error, let answer):
            dropped = held?.credential
            held = nil
            terminal = (error, now())
            observe(.credentialDropped)
            reportFailure(error, answer)
            notify { await $0.shouldDropCredential(error) }
            return .failure(error)
        case .terminal(let error, let answer):
            terminal = (error, now())
            reportFailure(error, answer)
            return .failure(error)
        case .transient(let error, let answer):
            return .failure(rest(after: error, answer))
        }
    }

    /// Begins a pause after a temporary failure, and returns the error to report.
    private func rest(after failure: OAuth2Error, _ answer: HTTPAnswer?) -> OAuth2Error {
        if case .malformedResponse = failure {
            malformedInARow += 1
            if malformedInARow >= 3 {
                terminal = (.misconfigured(status: answer?.status ?? 0, error: failure.code), now())
            }
        } else {
            malformedInARow = 0
        }
        let step = cooldown?.step ?? 0
        var pause = settings.cooldown.isEmpty ? .seconds(1) : settings.cooldown[min(step, settings.cooldown.count - 1)]
        var error = failure
        if case .refreshFailed(let cause, let after) = failure {
            pause = max(pause, after ?? .zero)
            error = .refreshFailed(cause: cause, retryAfter: pause)
        }
        cooldown = (now() + pause, step + 1, error)
        reportFailure(error, answer)
        return terminal?.error ?? error
    }

    /// Makes one attempt: reads the store again, and otherwise asks the token endpoint.
    ///
    /// It also stores the new credential.
    private func attempt() async -> Outcome {
        guard let held else { return .terminal(.missingCredential, nil) }
        var revision = held.revision
        do throws(OAuth2Error) {
            let stored = try await store.load()
            if let stored, stored.revision != revision {
                if !stored.credential.hasTokens(of: held.credential) { return .adopted(stored) }
            }
            revision = stored?.revision
        } catch {
            observe(.storeUnreadable(error))
        }
        let answer: HTTPAnswer
        let requested = time.now
        do {
            let request = try hooks.refreshRequest(for: held.credential, settings: settings)
            let pool = try await pool(to: request.endpoint)
            history.append(now())
            counters.requests += 1
            answer = try await pool.send(request.call(within: settings.refreshTimeout))
        } catch let error as OAuth2Error {
            return .terminal(error, nil)
        } catch {
            let cause = (error as? HTTPFailure)?.detail ?? "the token endpoint did not answer"
            return .transient(.refreshFailed(cause: cause, retryAfter: nil), nil)
        }
        observeClock(answer)
        switch OAuth2Answer(answer, askedAt: requested, now: time.now, replacing: held.credential) {
        case .credential(let credential): return await keep(credential, revision)
        case .refused(let error): return await drop(error, answer, revision)
        case .misconfigured(let error): return .terminal(error, answer)
        case .transient(let error): return .transient(error, answer)
        }
    }

    /// Returns the pool of a token endpoint: the settings', or the one that the hooks chose instead.
    private func pool(to endpoint: HTTPEndpoint) async throws(OAuth2Error) -> any HTTPPool {
        if endpoint == settings.tokenAddress.endpoint { return pool }
        if let other, other.endpoint == endpoint { return other.pool }
        let made: any HTTPPool
        do throws(HTTPPoolError) {
            made = try http.pool(Self.configuration(settings, endpoint))
        } catch {
            throw .misconfigured(status: 0, error: "the hooks' endpoint cannot be asked")
        }
        let old = other
        other = (endpoint, made)
        await old?.pool.shutdown(grace: .zero)
        return made
    }

    /// Stores a new credential.
    ///
    /// One that another writer stored in the meantime wins.
    private func keep(_ credential: OAuthCredential, _ revision: CredentialRevision?) async -> Outcome {
        do throws(OAuth2Error) {
            if let new = try await store.save(credential, expecting: revision) {
                return .refreshed(credential, revision: new, isUnsaved: false)
            }
            guard let stored = try await store.load() else { return .terminal(.missingCredential, nil) }
            return .adopted(stored)
        } catch {
            observe(.storeFailed)
            return .refreshed(credential, revision: revision, isUnsaved: true)
        }
    }

    /// Removes a refused credential, unless another writer has stored a different one in the meantime.
    private func drop(_ error: OAuth2Error, _ answer: HTTPAnswer, _ revision: CredentialRevision?) async -> Outcome {
        if let stored = try? await store.load(), stored.revision != revision { return .adopted(stored) }
        do throws(OAuth2Error) {
            try await store.remove(expecting: revision)
        } catch {
            observe(.storeFailed)
        }
        return .refused(error, answer)
    }

    private func observeClock(_ answer: HTTPAnswer) {
        guard let date = answer.date else { return }
        let skew = date.timeIntervalSince(time.now)
        if abs(skew) > 60 { observe(.clockSkew(seconds: Int(clamping: skew))) }
    }

    private func reportFailure(_ error: OAuth2Error, _ answer: HTTPAnswer?) {
        counters.failed += 1
        observe(.refreshFailed(error))
        notify { await $0.didFailToRefresh(error, answer: answer) }
    }

    /// Runs a hook after the earlier ones.
    ///
    /// Unstructured, so that no caller waits for a hook; ``shutdown()`` awaits the last one.
    private func notify(_ body: @escaping @Sendable (any OAuth2Hooks) async -> Void) {
        notices = Task { [notices, hooks] in
            await notices?.value
            await body(hooks)
        }
    }
}

extension Result where Success == Void {
    fileprivate func ignored() {}
}

extension OAuth2TokenRequest {
    fileprivate func call(within deadline: Duration) -> HTTPCall {
        HTTPCall(HTTPCallTemplate(method: method, headers: headers, deadline: deadline), path: path, body: body)
    }
}
