package import Foundation
internal import Logging
package import ChaparCore
package import ChaparQueue
internal import Synchronization

/// The path by which tokens that platforms call dead become invalid in the device registry, through the guard against
/// mass invalidation.
///
/// Workers pass refusals in from event loops; `run` writes them in order. While the guard has stopped a backend, the
/// backend's refusals are quarantined and its worker sends nothing, also across restarts, until an operator decides.
/// When one API key alone is the cause, only refusals of its messages are quarantined, across restarts, and the worker
/// goes on.
package final class TokenInvalidation: Sendable {
    /// An operator's decision about quarantined refusals.
    package enum Action: String, Sendable, CaseIterable {
        /// The tokens are dead.
        case confirm = "release"
        /// The configuration was wrong: the tokens are alive.
        case discard
    }

    /// The tripped guard of one backend.
    package struct TrippedGuard: Sendable, Hashable {
        /// The backend.
        package var backend: String
        /// The time when it tripped.
        package var at: Date
        /// The number of answers in the window.
        package var answers: Int
        /// The number of these that called a token dead.
        package var dead: Int
        /// The number of those that were certain: nothing but a dead token explains them.
        package var certain: Int
        /// The meaning and the fix, for people.
        package var explanation: String
    }

    private enum Work: Sendable {
        case invalidate([TokenRefusal])
        case record([TokenRefusal], InvalidationWatch)
        case quarantine(String, [TokenRefusal], InvalidationGuard.Trip?)
        /// The refusals of a caller, which are quarantined from now on.
        ///
        /// All refusals after `since` are quarantined as well, since a tombstone does not name the caller.
        case quarantineCaller(String, [TokenRefusal], since: Date, callers: Set<String>)
        case end([DeviceToken], AppName)
        /// The refusals that this gateway quarantined while an operator's decision was carried out, before the reset of
        /// the guard, and had not written.
        case settleRest(String, Action)
        case resolve(String, Action, CheckedContinuation<Result<Int, StoreError>, Never>)
    }

    /// The most tokens in one transaction.
    private static let batch = 500

    private let devices: (any DeviceStore)?
    private let state: any StateStore
    private let time: any TimeSource
    private let observer: any DispatchObserver
    private let logger: Logger
    private let outbox: @Sendable () -> Date?
    private let publish: @Sendable ([[UInt8]]) -> Void
    private let tell: @Sendable (NodeNews) -> Void
    /// The answers that were counted since the last news to other gateways, by the backend's name.
    private let untold = Mutex<[String: AnswerCounts]>([:])
    private let queue = Mailbox<[Work]>()
    private let retry: StoreRetry
    private let watches = Mutex<[String: InvalidationWatch]>([:])
    private let waiting = Atomic<Int>(0)

    /// Makes the path; nothing is written before ``run()``.
    ///
    /// - Parameters:
    ///   - devices: The registry; nil when there is none, so that the guard only stops workers.
    ///   - state: The store that keeps a stop of the guard across a restart.
    ///   - time: The clock.
    ///   - observer: Counts invalidations.
    ///   - logger: Logs failures.
    ///   - outbox: Gives the time for outbox entries of devices that lose a token; nil when no platform keeps devices.
    ///   - tell: Sends notices to other gateways on the same store.
    ///   - publish: Publishes events.
    init(
        devices: (any DeviceStore)?,
        state: any StateStore,
        time: any TimeSource,
        observer: any DispatchObserver,
        logger: Logger,
        outbox: @escaping @Sendable () -> Date? = { nil },
        tell: @escaping @Sendable (NodeNews) -> Void = { _ in },
        publish: @escaping @Sendable ([[UInt8]]) -> Void
    ) {
        self.devices = devices
        self.state = state
        self.time = time
        self.observer = observer
        self.logger = logger
        retry = StoreRetry(time: time, logger: logger)
        self.outbox = outbox
        self.tell = tell
        self.publish = publish
    }

    // MARK: For workers

    /// The number of verdicts that are not written yet.
    var backlog: Int { waiting.load(ordering: .relaxed) }

    /// Returns the guard of a backend, in the state that was stored before a restart.
    ///
    /// `identity` is that of the configured backend; nil does not change the known one.
    package func watch(
        _ backend: String,
        _ settings: GatewayConfiguration.InvalidationGuard,
        identity: String? = nil
    ) async -> InvalidationWatch {
        if let known = watches.withLock({ $0[backend] }) {
            known.adopt(settings, identity: identity)
            return known
        }
        var trip: InvalidationGuard.Trip?
        var callers: Set<String> = []
        do throws(StoreError) {
            trip = try await state.loadState(Self.key(backend)).flatMap { InvalidationGuard.Trip(stored: $0) }
            callers = Self.callers(stored: try await state.loadState(Self.callersKey(backend)) ?? [])
        } catch {
            logger.unlessCancelled?.error(
                "cannot read whether invalidations are quarantined",
                metadata: ["backend": "\(backend)", "error": "\(error)"]
            )
        }
        // Refusals that were not quarantined when the gateway ended are quarantined now.
        if let trip { append(.quarantine(backend, [], trip), count: 0) }
        let watch = watches.withLock { watches in
            if let known = watches[backend] { return known }
            let new = InvalidationWatch(backend, InvalidationGuard(settings, trip: trip, quarantined: callers))
            watches[backend] = new
            return new
        }
        watch.adopt(settings, identity: identity)
        return watch
    }

    /// Takes the refusals from a group of answers; returns the callers whose refusals without alternatives are not
    /// believed.
    ///
    /// `identity` is that of the backend when it accepted some of the messages; nil when it accepted none.
    ///
    /// A refusal with alternatives does not count for the guard: it only makes deliveries skip the backend. When all
    /// alternatives have refused the token as well, it returns as one without. Never blocks.
    package func receive(
        _ all: [TokenRefusal],
        answers: Int,
        acceptedUnder identity: String? = nil,
        _ watch: InvalidationWatch,
        at now: TimeReading
    ) -> InvalidationGuard.Doubt {
        // Short-lived tokens that have died say nothing about the backend.
        let (ended, all) = (all.filter(\.isExpected), all.filter { !$0.isExpected })
        if !ended.isEmpty { append(.invalidate(ended), count: ended.count) }
        guard ended.isEmpty || !all.isEmpty || answers > ended.count else { return .callers([]) }
        var refusals = all.filter(\.alternatives.isEmpty)
        if refusals.count < all.count {
            let single = all.filter { !$0.alternatives.isEmpty }
            if devices == nil {
                refusals += single.filter(\.isLast)
            } else {
                append(.record(single, watch), count: single.count)
            }
        }
        var counts = AnswerCounts(answers: answers - ended.count)
        for refusal in refusals {
            counts.addDead(isCertain: refusal.isCertain, caller: refusal.caller)
        }
        var outcome: (verdict: InvalidationGuard.Verdict, doubt: InvalidationGuard.Doubt) = (.invalidate, .callers([]))
        var quarantined: [TokenRefusal] = []
        watch.add(counts, acceptedUnder: identity, at: now) { verdict, doubt in
            outcome = (verdict, doubt)
            quarantined = refusals.filter { doubt.covers($0.caller) }
            let believed = quarantined.isEmpty ? refusals : refusals.filter { !doubt.covers($0.caller) }
            // In the order of the verdicts: an invalidation that is queued after its trip would never be taken back.
            switch verdict {
            case .trip(let trip):
                append(.quarantine(watch.backend, quarantined, trip), count: quarantined.count)
            case .quarantineCaller(_, let trip):
                guard case .callers(let callers) = doubt else { break }
                append(
                    .quarantineCaller(watch.backend, quarantined, since: trip.since, callers: callers),
                    count: quarantined.count
                )
            case .invalidate, .quarantine:
                if !quarantined.isEmpty {
                    append(.quarantine(watch.backend, quarantined, nil), count: quarantined.count)
                }
            }
            if !believed.isEmpty { append(.invalidate(believed), count: believed.count) }
        }
        note(counts, of: watch.backend, outcome.doubt)
        if !quarantined.isEmpty {
            for (reason, group) in Dictionary(grouping: quarantined, by: \.reason) {
                observer.quarantinedInvalidations(backend: watch.backend, reason: reason, count: group.count)
            }
        }
        report(outcome.verdict, watch)
        return outcome.doubt
    }

    /// Keeps answers for ``tellAnswers()``, without the dead-token answers of quarantined callers.
    private func note(_ counts: AnswerCounts, of backend: String, _ doubt: InvalidationGuard.Doubt) {
        var counts = counts
        if case .callers(let quarantined) = doubt, !counts.callers.isEmpty {
            for caller in quarantined { counts.remove(caller) }
        }
        untold.withLock { $0[backend, default: AnswerCounts()].add(counts) }
    }

    /// Reports once that an operator must decide.
    private func report(_ verdict: InvalidationGuard.Verdict, _ watch: InvalidationWatch) {
        switch verdict {
        case .invalidate, .quarantine: break
        case .trip(let trip):
            let explanation = trip.explanation(window: watch.settings.window)
            logger.error(
                "invalidations are quarantined, an operator must decide",
                metadata: ["backend": "\(watch.backend)", "reason": "\(explanation)"]
            )
            publish([EventJSON.invalidationsQuarantined(watch.backend, trip, reason: explanation)])
            tell(.quarantined(backend: watch.backend, trip))
        case .quarantineCaller(let caller, let trip):
            let explanation = trip.explanationOfOneCaller(window: watch.settings.window)
            logger.error(
                "invalidations of one API key are quarantined, an operator must decide",
                metadata: ["backend": "\(watch.backend)", "key": "\(caller)", "reason": "\(explanation)"]
            )
            // Readers of events must not see the names of other keys, so the name is in the log only.
            publish([EventJSON.invalidationsQuarantined(watch.backend, trip, reason: explanation)])
        }
    }

    /// Removes tokens of no further use from the registry, such as those of a Live Activity that has ended.
    ///
    /// If the gateway dies first, a token stays, and the platform refuses it later.
    func end(_ tokens: [DeviceToken], of app: AppName) {
        guard !tokens.isEmpty, devices != nil else { return }
        append(.end(tokens, app), count: tokens.count)
    }

    // MARK: For other gateways

    /// Sends the answers that were counted since the last time to the other gateways on the store.
    func tellAnswers() {
        let untold = untold.withLock { untold in
            defer { untold.removeAll(keepingCapacity: true) }
            return untold
        }
        for (backend, counts) in untold where counts.answers + counts.dead.total > 0 {
            let identity = watches.withLock { $0[backend] }?.acceptedUnder
            tell(.answers(backend: backend, counts, acceptedUnder: identity))
        }
    }

    /// Handles news of another gateway on the same store.
    func hear(_ news: NodeNews, at now: TimeReading) {
        switch news {
        case .paused, .retried: break
        case .answers(let backend, let counts, let identity):
            watches.withLock { $0[backend] }?.count(counts, acceptedUnder: identity, at: now)
        case .quarantined(let backend, let trip):
            guard watches.withLock({ $0[backend] })?.adopt(trip: trip) == true else { return }
            // Also quarantines what this gateway has invalidated and not written yet.
            append(.quarantine(backend, [], trip), count: 0)
        case .settled(let backend, let isTrusting):
            // Unwritten refusals of this gateway stay quarantined: another gateway may have quarantined new ones
            // meanwhile, which this decision does not cover.
            watches.withLock { $0[backend] }?.reset(isTrusting: isTrusting, at: now.steady)
        }
    }

    // MARK: For operators

    /// The guards that have tripped, by the backend's name.
    package var trippedGuards: [TrippedGuard] {
        watches.withLock { Array($0.values) }
            .compactMap { watch in
                watch.trip.map { trip in
                    TrippedGuard(
                        backend: watch.backend,
                        at: trip.at,
                        answers: trip.answers,
                        dead: trip.dead,
                        certain: trip.certain,
                        explanation: trip.explanation(window: watch.settings.window)
                    )
                }
            }
            .sorted { $0.backend < $1.backend }
    }

    /// Resets the guard of a backend: marks its quarantined tokens invalid, or discards the refusals, and then lets its
    /// worker go on.
    ///
    /// - Returns: The number of tokens concerned.
    /// - Throws: The store's failure; the call can be repeated.
    package func resolve(_ backend: String, _ action: Action) async throws(StoreError) -> Int {
        let result = await withCheckedContinuation { continuation in
            append(.resolve(backend, action, continuation), count: 0)
        }
        return try result.get()
    }

    // MARK: Writing

    private func append(_ work: Work, count: Int) {
        waiting.wrappingAdd(count, ordering: .relaxed)  // Counted before it can be done and subtracted.
        guard !queue.put({ $0.append(work) }) else { return }
        waiting.wrappingSubtract(count, ordering: .relaxed)
        if case .resolve(_, _, let continuation) = work {
            continuation.resume(returning: .failure(.closed))
        }
    }

    /// Lets ``run()`` end once everything is written.
    func finish() { queue.finish() }

    /// Writes until ``finish()`` was called and nothing is left.
    func run() async {
        while let work = await queue.receive() {
            for item in Self.merged(work) { await write(item) }
        }
    }

    /// Merges adjacent invalidations, so that the work needs fewer transactions.
    private static func merged(_ work: [Work]) -> [Work] {
        var result: [Work] = []
        for item in work {
            if case .invalidate(let more) = item, case .invalidate(let some)? = result.last, some.count < batch {
                result[result.count - 1] = .invalidate(some + more)
            } else {
                result.append(item)
            }
        }
        return result
    }

    private func write(_ work: Work) async {
        switch work {
        case .invalidate(let refusals):
            await retry.run("invalidation of tokens", count: refusals.count) {
                [devices, outbox] () throws(StoreError) in
                _ = try await devices?.invalidate(refusals, outbox: outbox())
            }
            waiting.wrappingSubtract(refusals.count, ordering: .relaxed)
        case .record(let refusals, let watch):
            var exhausted: [TokenRefusal] = []
            await retry.run("refusals of tokens", count: refusals.count) { [devices] () throws(StoreError) in
                exhausted = try await devices?.record(refusals) ?? []
            }
            invalidateExhausted(exhausted, watch)
            waiting.wrappingSubtract(refusals.count, ordering: .relaxed)
        case .quarantine(let backend, let refusals, let trip):
            await retry.run("quarantined invalidations", count: refusals.count) { () throws(StoreError) in
                if let trip {
                    try await self.state.saveState(Self.key(backend), trip.stored)
                    try await self.takeBack(backend, since: trip.since)
                }
                if !refusals.isEmpty { _ = try await self.devices?.quarantine(refusals) }
            }
            waiting.wrappingSubtract(refusals.count, ordering: .relaxed)
        case .quarantineCaller(let backend, let refusals, let since, let callers):
            await retry.run("quarantined invalidations", count: refusals.count) { () throws(StoreError) in
                try await self.takeBack(backend, since: since)
                if !refusals.isEmpty { _ = try await self.devices?.quarantine(refusals) }
                // Saved last: if the process stops in between, the caller is quarantined again after the start, and
                // tokens are taken back again. Other gateways quarantine other callers, so the sets are merged.
                let known = try await self.state.loadState(Self.callersKey(backend)).map(Self.callers(stored:)) ?? []
                try await self.state.saveState(Self.callersKey(backend), Self.stored(known.union(callers)))
            }
            waiting.wrappingSubtract(refusals.count, ordering: .relaxed)
        case .end(let tokens, let app):
            await retry.run("removal of ended tokens", count: tokens.count) { [devices] () throws(StoreError) in
                try await devices?.remove(tokens, in: app)
            }
            waiting.wrappingSubtract(tokens.count, ordering: .relaxed)
        case .settleRest(let backend, let action):
            await retry.run("quarantined invalidations", count: 0) { () throws(StoreError) in
                _ = try await self.settle(backend, action)
            }
        case .resolve(let backend, let action, let continuation):
            let result: Result<Int, StoreError>
            do throws(StoreError) {
                result = .success(try await resolveNow(backend, action))
            } catch {
                result = .failure(error)
            }
            continuation.resume(returning: result)
        }
    }

    /// Quarantines the tokens that were marked invalid since a moment.
    private func takeBack(_ backend: String, since moment: Date) async throws(StoreError) {
        let earlier = try await devices?.quarantine(tombstonesOf: backend, since: moment) ?? 0
        guard earlier > 0 else { return }
        observer.quarantinedInvalidations(backend: backend, reason: "invalidated_before", count: earlier)
    }

    /// Receives refusals of tokens that no other backend accepts either.
    private func invalidateExhausted(_ refusals: [TokenRefusal], _ watch: InvalidationWatch) {
        guard !refusals.isEmpty else { return }
        let now = TimeReading(steady: time.steady, wall: time.now, offset: 0)
        var everywhere = refusals
        for index in everywhere.indices { everywhere[index].alternatives = [] }
        for refusal in everywhere { observer.invalidatedToken(backend: refusal.backend, reason: refusal.reason) }
        let doubt = receive(everywhere, answers: 0, watch, at: now)
        let believed = everywhere.filter { !doubt.covers($0.caller) }
        guard !believed.isEmpty else { return }
        publish(believed.map { EventJSON.tokenInvalidated($0, device: nil, at: now.wall) })
    }

    private func resolveNow(_ backend: String, _ action: Action) async throws(StoreError) -> Int {
        let total = try await settle(backend, action)
        if action == .discard, let devices {
            // The refusals were wrong, and so may be earlier refusals by single backends.
            while try await devices.forgetRefusals(limit: Self.batch) > 0 {}
        }
        try await state.saveState(Self.key(backend), nil)
        try await state.saveState(Self.callersKey(backend), nil)
        let watch = watches.withLock { $0[backend] }
        if watch?.trip != nil || watch?.quarantinedCallers.isEmpty == false || total > 0 {
            let isConfirmed = action == .confirm
            publish([EventJSON.invalidationsSettled(backend, isConfirmed: isConfirmed, tokens: total, at: time.now)])
            logger.notice(
                "quarantined invalidations were settled",
                metadata: [
                    "backend": "\(backend)", "action": "\(action.rawValue)", "tokens": .stringConvertible(total),
                ]
            )
        }
        watch?.reset(isTrusting: action == .confirm, at: time.steady) {
            append(.settleRest(backend, action), count: 0)
        }
        tell(.settled(backend: backend, isTrusting: action == .confirm))
        return total
    }

    /// Invalidates or discards quarantined tokens; returns their number.
    private func settle(_ backend: String, _ action: Action) async throws(StoreError) -> Int {
        var total = 0
        var found = 0
        repeat {
            switch action {
            case .confirm:
                let invalidated =
                    try await devices?.invalidate(
                        quarantinedOf: backend,
                        limit: Self.batch,
                        outbox: outbox()
                    ) ?? []
                let now = time.now
                publish(invalidated.map { EventJSON.tokenInvalidated($0, at: now) })
                found = invalidated.count
            case .discard:
                found = try await devices?.discard(quarantinedOf: backend, limit: Self.batch) ?? 0
            }
            total += found
        } while found > 0
        return total
    }

    private static func key(_ backend: String) -> String { "invalidation_guard." + backend }

    /// Returns the key under which callers are stored whose refusals alone are quarantined.
    private static func callersKey(_ backend: String) -> String { "invalidation_callers." + backend }

    /// Returns the stored form of these callers.
    private static func stored(_ callers: Set<String>) -> [UInt8] {
        JSONValue.array(callers.sorted().map { .string($0) }).bytes
    }

    /// Reads ``stored(_:)``; returns none for anything else.
    private static func callers(stored: [UInt8]) -> Set<String> {
        Set((try? JSONValue(parsing: stored))?.arrayValue?.compactMap(\.stringValue) ?? [])
    }
}

extension TokenRefusal {
    /// Whether such a token is short-lived, and has ended.
    fileprivate var isExpected: Bool { kind.isShortLived && isCertain }
}

extension InvalidationGuard.Trip {
    /// The form that is stored across a restart.
    var stored: [UInt8] {
        let value: JSONValue = [
            "at": .integer(at.millisecondsSince1970), "since": .integer(since.millisecondsSince1970),
            "answers": .integer(Int64(answers)), "dead": .integer(Int64(dead)), "certain": .integer(Int64(certain)),
        ]
        return Array(value.text.utf8)
    }

    /// Reads ``stored``; nil for anything else.
    init?(stored: [UInt8]) {
        guard let value = try? JSONValue(parsing: stored), let at = value["at"]?.integerValue,
            let since = value["since"]?.integerValue
        else { return nil }
        self.at = Date(millisecondsSince1970: at)
        self.since = Date(millisecondsSince1970: since)
        answers = Int(count: value["answers"]?.integerValue ?? 0)
        dead = Int(count: value["dead"]?.integerValue ?? 0)
        certain = Int(count: value["certain"]?.integerValue ?? 0)
    }
}
