public import ChaparCore

/// Several token providers in an order of preference: the token comes from the first provider that has one.
///
/// A provider that has no token, fails, or does not answer in time is skipped. The order can be changed while the chain
/// runs; providers that the order does not name are not asked. A token set by hand comes before all providers.
///
/// A provider has its own deadline, and the chain adds another. A call that passes the chain's deadline is cancelled;
/// if it ignores the cancellation, it keeps running, and its provider is not asked again until the call has returned.
/// So each provider has at most one call in progress. The chain owns those calls; ``shutdown(grace:)`` ends them.
public actor TokenProviderChain {
    /// Apple's own tokens first, then Firebase's, then Huawei's.
    public static let defaultOrder: [TokenService] = [.iOSAPNs, .iOSFirebase, .iOSHuawei]

    private var services: [TokenService]
    private var providers: [TokenService: any TokenProvider] = [:]
    private var manual: DeviceToken?
    private var calls: [TokenService: Call] = [:]
    private var lastCall: UInt64 = 0
    /// The deletions that have not returned.
    private var deletions: [TokenService: Task<PushError?, Never>] = [:]
    /// The current search, which new callers join.
    private var resolution: Resolution?
    /// The number of the newest search or change; an older search announces nothing.
    private var lastResolution: UInt64 = 0
    /// The token seen last; nil until the memory has been read.
    private var last: DeviceToken??
    private let deadline: Duration
    private let tries: Int
    private let pause: Duration
    private let memory: (any TokenMemory)?
    private let time: any TimeSource
    private let announce: (@Sendable (TokenAnswer) -> Void)?

    /// A call of a provider that has not returned.
    private struct Call {
        let number: UInt64
        let task: Task<Found, Never>
        var isLeftBehind = false
    }

    /// A search that callers share.
    private struct Resolution {
        let number: UInt64
        let task: Task<TokenAnswer, Never>
    }

    private enum Found: Sendable {
        case token(DeviceToken)
        case none(TokenAnswer.Reason)
    }

    /// Makes a chain.
    ///
    /// - Parameters:
    ///   - providers: The providers, at most one for each service; of several for one service the last is used.
    ///   - order: The services, the preferred one first.
    ///   - deadline: The longest time one provider may take, for all its tries together.
    ///   - tries: The most calls of a provider that has no token or fails; 1 where the first answer is final.
    ///   - pause: The wait between two tries.
    ///   - memory: Stores the last token across restarts; nil keeps it in memory only.
    ///   - announce: Called with each token that differs from the last one; must not block.
    public init(
        _ providers: [any TokenProvider],
        order: [TokenService] = TokenProviderChain.defaultOrder,
        deadline: Duration = .seconds(10),
        tries: Int = 3,
        pause: Duration = .seconds(1),
        memory: (any TokenMemory)? = nil,
        announce: (@Sendable (TokenAnswer) -> Void)? = nil
    ) {
        self.init(
            providers,
            order: order,
            deadline: deadline,
            tries: tries,
            pause: pause,
            memory: memory,
            time: SystemTime(),
            announce: announce
        )
    }

    /// Does the same with a clock of its own, for tests.
    package init(
        _ providers: [any TokenProvider],
        order: [TokenService] = TokenProviderChain.defaultOrder,
        deadline: Duration = .seconds(10),
        tries: Int = 3,
        pause: Duration = .seconds(1),
        memory: (any TokenMemory)? = nil,
        time: any TimeSource,
        announce: (@Sendable (TokenAnswer) -> Void)? = nil
    ) {
        for provider in providers { self.providers[provider.service] = provider }
        services = Self.unique(order)
        self.deadline = deadline
        self.tries = max(1, tries)
        self.pause = pause
        self.memory = memory
        self.time = time
        self.announce = announce
    }

    // MARK: The current token

    /// Returns the token of the first provider that has one, and the reasons why earlier providers were skipped.
    ///
    /// Callers at the same time share one search. A search takes at most the chain's deadline for each service of the
    /// order.
    public func current() async -> TokenAnswer {
        if let resolution { return await resolution.task.value }
        lastResolution += 1
        let number = lastResolution
        // Unstructured: all callers share it, so that none may cancel it. Every caller that began or joined it awaits
        // it.
        let task = Task { await self.search(number) }
        resolution = Resolution(number: number, task: task)
        return await task.value
    }

    /// Returns the token of the first provider that has one; nil when none has.
    public func token() async -> DeviceToken? { await current().token }

    // MARK: Changing the chain

    /// The services in order.
    public var order: [TokenService] { services }

    /// Changes the order.
    ///
    /// A search in progress goes on in the old order for its callers; later callers get the new order. Throws
    /// ``ChaparCore/PushError/Code/invalidRequest`` and changes nothing when the list is empty, names a service twice,
    /// or one that does not exist.
    public func setOrder(_ order: [TokenService]) throws(PushError) {
        guard !order.isEmpty else { throw PushError(.invalidRequest, "the list of token services is empty") }
        for service in order where TokenService.named(service.rawValue) == nil && providers[service] == nil {
            throw PushError(.invalidRequest, "there is no token service \"\(service)\"")
        }
        guard Self.unique(order).count == order.count else {
            throw PushError(.invalidRequest, "the list names a token service twice")
        }
        services = order
        overtake()
    }

    /// Replaces the provider of a service.
    public func setProvider(_ provider: any TokenProvider) {
        providers[provider.service] = provider
        abandon(provider.service)
    }

    /// Removes the provider of a service.
    public func removeProvider(of service: TokenService) {
        providers[service] = nil
        abandon(service)
    }

    /// Sets a token by hand, which comes before all providers; nil returns to the providers.
    public func setManual(_ token: DeviceToken?) {
        manual = token
        overtake()
    }

    /// Sets a token by hand from text, checked by the service's provider, or only for its form when there is none.
    public func setManual(_ text: String, service: TokenService) throws(InvalidToken) {
        guard let provider = providers[service] else {
            return setManual(try DeviceToken.checked(text, of: service))
        }
        setManual(try provider.validate(text))
    }

    /// Sets a token by hand from bytes, which become lower-case hexadecimal digits, two for each.
    public func setManual(_ bytes: [UInt8], service: TokenService) throws(InvalidToken) {
        let digits = Array("0123456789abcdef".utf8)
        let text = bytes.flatMap { [digits[Int($0 >> 4)], digits[Int($0 & 15)]] }
        try setManual(String(decoding: text, as: UTF8.self), service: service)
    }

    // MARK: Deleting

    /// Deletes the current token of a service at its platform.
    ///
    /// Throws ``ChaparCore/PushError/Code/invalidRequest`` when the chain has no provider of the service,
    /// ``ChaparCore/PushError/Code/unsupported`` for a service that cannot delete (`ios-apns`), else what the provider
    /// throws. A provider without a token has nothing to delete.
    public func delete(_ service: TokenService) async throws(PushError) {
        guard let provider = providers[service] else {
            throw PushError(.invalidRequest, "there is no provider of \(service) tokens")
        }
        guard service != .iOSAPNs, let deleting = provider as? any TokenDeleting else {
            throw PushError(.unsupported, "\(service) tokens cannot be deleted")
        }
        switch await ask(service) {
        case .token(let token): try await delete(token, by: deleting)
        case .none(.none): return
        case .none(.failed(let code)): throw PushError(code, "the \(service) token is not known")
        case .none(.timeout), .none(.stillBusy):
            throw PushError(.unavailable, "the provider of \(service) tokens does not answer")
        }
        overtake()
    }

    /// Deletes the current token, where its service can, and searches for a new one.
    ///
    /// It also searches when the deletion is impossible or fails, since a search does no harm.
    public func forceUpdate() async -> TokenRenewal {
        let before = await current()
        guard let token = before.token, !before.isManual else { return TokenRenewal(.nothing, before) }
        let deletion: TokenRenewal.Deletion
        if token.service != .iOSAPNs, let deleting = providers[token.service] as? any TokenDeleting {
            do throws(PushError) {
                try await delete(token, by: deleting)
                deletion = .deleted
            } catch {
                deletion = .failed(error.code)
            }
        } else {
            deletion = .unsupported
        }
        overtake()
        return TokenRenewal(deletion, await current())
    }

    /// Cancels all calls in progress, those left running included, and waits for at most `grace` until they have ended.
    public func shutdown(grace: Duration = .seconds(1)) async {
        let open = (calls: calls.values.map(\.task), deletions: Array(deletions.values))
        for task in open.calls { task.cancel() }
        for task in open.deletions { task.cancel() }
        _ = try? await Deadline.run(grace) {
            for task in open.calls { _ = await task.value }
            for task in open.deletions { _ = await task.value }
        }
    }

    // MARK: Inside

    private func search(_ number: UInt64) async -> TokenAnswer {
        var answer = TokenAnswer(token: manual, isManual: manual != nil)
        if answer.token == nil {
            for service in services where providers[service] != nil {
                switch await ask(service) {
                case .token(let token): answer.token = token
                case .none(let reason): answer.passedOver.append(TokenAnswer.PassedOver(service, reason))
                }
                if answer.token != nil { break }
            }
        }
        answer.previous = await lastToken()
        if resolution?.number == number { resolution = nil }
        // A search older than a change answers its callers, but does not replace the newer token.
        guard number == lastResolution, answer.isUpdate else { return answer }
        last = .some(answer.token)
        await memory?.remember(answer.token)
        announce?(answer)
        return answer
    }

    private func lastToken() async -> DeviceToken? {
        if let last { return last }
        let kept = await memory?.lastToken()
        if last == nil { last = .some(kept) }  // Unless another search was faster.
        return last ?? nil
    }

    /// Asks a provider, or joins its call in progress, for at most the deadline.
    private func ask(_ service: TokenService) async -> Found {
        if let call = calls[service], call.isLeftBehind { return .none(.stillBusy) }
        guard let provider = providers[service] else { return .none(.none) }
        let call = calls[service] ?? begin(provider)
        do {
            return try await Deadline.run(deadline, time: time) { await call.task.value }
        } catch {
            // Only the deadline ends the wait: the search's own task is never cancelled.
            call.task.cancel()
            if calls[service]?.number == call.number { calls[service]?.isLeftBehind = true }
            return .none(.timeout)
        }
    }

    private func begin(_ provider: any TokenProvider) -> Call {
        lastCall += 1
        let number = lastCall
        let service = provider.service
        // Unstructured, since a provider may never return; the chain holds it, and begins no second one meanwhile.
        let task = Task { [tries, pause, time] in
            let found = await Self.fetch(provider, tries: tries, pause: pause, time: time)
            self.ended(service, number)
            return found
        }
        let call = Call(number: number, task: task)
        calls[service] = call
        return call
    }

    private func ended(_ service: TokenService, _ number: UInt64) {
        if calls[service]?.number == number { calls[service] = nil }
    }

    /// Detaches the call of a provider that was replaced: it continues for its callers, and is not joined any more.
    private func abandon(_ service: TokenService) {
        calls[service]?.task.cancel()
        calls[service] = nil
        overtake()
    }

    /// Makes later callers begin a new search, after a change.
    private func overtake() {
        resolution = nil
        lastResolution += 1
    }

    private static func fetch(
        _ provider: any TokenProvider,
        tries: Int,
        pause: Duration,
        time: any TimeSource
    ) async -> Found {
        var reason = TokenAnswer.Reason.none
        for attempt in 1...tries {
            do throws(PushError) {
                if let token = try await provider.token(), !token.value.isEmpty { return .token(token) }
                reason = .none
            } catch {
                reason = .failed(error.code)
            }
            if Task.isCancelled || attempt == tries { break }
            guard (try? await time.sleep(for: pause)) != nil else { break }
        }
        return .none(reason)
    }

    private func delete(_ token: DeviceToken, by provider: any TokenDeleting) async throws(PushError) {
        let service = token.service
        guard deletions[service] == nil else {
            throw PushError(.unavailable, "an earlier deletion of a \(service) token has not come back")
        }
        // Unstructured, since a provider may never return; the chain holds it, and begins no second one meanwhile.
        let task = Task { () -> PushError? in
            defer { self.deletions[service] = nil }
            do throws(PushError) { try await provider.delete(token) } catch { return error }
            return nil
        }
        deletions[service] = task
        let failure: PushError?
        do {
            failure = try await Deadline.run(deadline, time: time) { await task.value }
        } catch {
            task.cancel()
            throw PushError(.unavailable, "the token was not deleted within \(deadline.inSeconds) s")
        }
        if let failure { throw failure }
    }

    private static func unique(_ services: [TokenService]) -> [TokenService] {
        var seen: Set<TokenService> = []
        return services.filter { seen.insert($0).inserted }
    }
}
