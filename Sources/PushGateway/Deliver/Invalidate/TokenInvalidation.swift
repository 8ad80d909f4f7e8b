public import Foundation
internal import Logging
public import PushCore
import PushQueue
internal import Synchronization

/// Takes the platforms' words that tokens are dead to the device registry, through the guard against mass invalidation.
///
/// Lanes hand verdicts in from event loops; `run` writes them in the order they came. While the verdicts of a backend
/// are doubted they are held back, its lane is parked, and that survives a restart, until an operator settles it.
public final class TokenInvalidation: Sendable {
    /// What an operator decides about held verdicts.
    public enum Action: String, Sendable, CaseIterable {
        /// The tokens are dead.
        case release
        /// The configuration was wrong: the tokens are alive.
        case discard
    }

    /// The doubt about one backend.
    public struct Doubt: Sendable, Hashable {
        /// The backend.
        public var backend: String
        /// When it began.
        public var at: Date
        /// How many answers there were in the window.
        public var answers: Int
        /// How many of them declared a token dead.
        public var dead: Int
        /// How many of those were certain: no other reason than a dead token explains them.
        public var certain: Int
        /// What it means and what to do, for people.
        public var explanation: String
    }

    private enum Work: Sendable {
        case bury([TokenRefusal])
        case refuse([TokenRefusal], InvalidationWatch)
        case hold(String, [TokenRefusal], InvalidationGuard.Trip?)
        case end([DeviceToken], AppName)
        case settle(String, Action, CheckedContinuation<Result<Int, StoreError>, Never>)
    }

    private struct Queue {
        var work: [Work] = []
        var isFinished = false
        var waiter: CheckedContinuation<Void, Never>?
    }

    /// So many tokens go into one transaction.
    private static let batch = 500

    private let devices: (any DeviceStore)?
    private let state: any StateStore
    private let time: any TimeSource
    private let observer: any DispatchObserver
    private let logger: Logger
    private let outbox: @Sendable () -> Date?
    private let publish: @Sendable ([[UInt8]]) -> Void
    private let queue = Mutex(Queue())
    private let watches = Mutex<[String: InvalidationWatch]>([:])
    private let waiting = Atomic<Int>(0)

    /// Makes a desk; nothing is written before ``run()``.
    ///
    /// - Parameters:
    ///   - devices: The registry; nil when there is none, then the guard parks lanes and nothing else.
    ///   - state: Where a doubt is kept over a restart.
    ///   - time: The clock.
    ///   - observer: Who counts.
    ///   - logger: Where trouble is told.
    ///   - outbox: Gives the time under which devices that lose a token go into the outbox; nil when nobody wants to know.
    ///   - publish: Takes events.
    init(
        devices: (any DeviceStore)?,
        state: any StateStore,
        time: any TimeSource,
        observer: any DispatchObserver,
        logger: Logger,
        outbox: @escaping @Sendable () -> Date? = { nil },
        publish: @escaping @Sendable ([[UInt8]]) -> Void
    ) {
        self.devices = devices
        self.state = state
        self.time = time
        self.observer = observer
        self.logger = logger
        self.outbox = outbox
        self.publish = publish
    }

    // MARK: For lanes

    /// Verdicts that are not written yet.
    var backlog: Int { waiting.load(ordering: .relaxed) }

    /// The guard of a backend, as it was left when the gateway ended.
    func watch(
        _ backend: String,
        _ settings: GatewayConfiguration.InvalidationGuard
    ) async -> InvalidationWatch {
        if let known = watches.withLock({ $0[backend] }) {
            known.adopt(settings)
            return known
        }
        var trip: InvalidationGuard.Trip?
        do throws(StoreError) {
            trip = try await state.loadState(Self.key(backend)).flatMap { InvalidationGuard.Trip(stored: $0) }
        } catch {
            logger.error(
                "cannot read whether invalidations are held",
                metadata: ["backend": "\(backend)", "error": "\(error)"]
            )
        }
        // What was not held back any more when the gateway ended is now.
        if let trip { append(.hold(backend, [], trip), count: 0) }
        return watches.withLock { watches in
            if let known = watches[backend] { return known }
            let new = InvalidationWatch(backend, InvalidationGuard(settings, trip: trip))
            watches[backend] = new
            return new
        }
    }

    /// Takes what a group of answers said; true when the tokens without alternatives may be taken for dead.
    ///
    /// A refusal with alternatives is none for the guard: it only lets the backend be left out. When all alternatives turn out
    /// to have refused the token as well, it comes back as one without. Never blocks.
    func take(
        _ all: [TokenRefusal],
        answers: Int,
        _ watch: InvalidationWatch,
        at now: TimeReading
    ) -> Bool {
        // Dead tokens that were not to live long say nothing of the backend.
        let (ended, all) = (all.filter(\.isExpected), all.filter { !$0.isExpected })
        if !ended.isEmpty { append(.bury(ended), count: ended.count) }
        guard ended.isEmpty || !all.isEmpty || answers > ended.count else { return true }
        let answers = answers - ended.count
        var refusals = all.filter(\.alternatives.isEmpty)
        if refusals.count < all.count {
            let single = all.filter { !$0.alternatives.isEmpty }
            if devices == nil {
                refusals += single.filter(\.isLast)
            } else {
                append(.refuse(single, watch), count: single.count)
            }
        }
        let certain = refusals.count(where: \.isCertain)
        let doubtful = refusals.count - certain
        let verdict = watch.note(answers: answers, doubtful: doubtful, certain: certain, at: now) { verdict in
            // In the order of the verdicts: a burial that came in after the doubt about it would stay one.
            switch verdict {
            case .bury where !refusals.isEmpty: append(.bury(refusals), count: refusals.count)
            case .hold where !refusals.isEmpty: append(.hold(watch.backend, refusals, nil), count: refusals.count)
            case .trip(let trip): append(.hold(watch.backend, refusals, trip), count: refusals.count)
            case .bury, .hold: break
            }
        }
        if case .bury = verdict { return true }
        for (reason, group) in Dictionary(grouping: refusals, by: \.reason) {
            observer.heldInvalidations(backend: watch.backend, reason: reason, count: group.count)
        }
        if case .trip(let trip) = verdict {
            let explanation = trip.explanation(window: watch.settings.window)
            logger.error(
                "invalidations are held, an operator must decide",
                metadata: ["backend": "\(watch.backend)", "reason": "\(explanation)"]
            )
            publish([EventJSON.invalidationsHeld(watch.backend, trip, reason: explanation)])
        }
        return false
    }

    /// Takes tokens out of the registry that are of no use any more, such as those of a Live Activity that has ended.
    ///
    /// One that is left because the gateway dies first is refused by the platform later on.
    func end(_ tokens: [DeviceToken], of app: AppName) {
        guard !tokens.isEmpty, devices != nil else { return }
        append(.end(tokens, app), count: tokens.count)
    }

    // MARK: For operators

    /// The backends whose verdicts are doubted now, by name.
    public var doubts: [Doubt] {
        watches.withLock { Array($0.values) }
            .compactMap { watch in
                watch.trip.map { trip in
                    Doubt(
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

    /// Ends the doubt about a backend: makes its held verdicts real, or forgets them, and lets its lane go on.
    ///
    /// - Returns: How many tokens it was about.
    /// - Throws: When the store fails; the call can be repeated.
    public func settle(_ backend: String, _ action: Action) async throws(StoreError) -> Int {
        let result = await withCheckedContinuation { continuation in
            append(.settle(backend, action, continuation), count: 0)
        }
        return try result.get()
    }

    // MARK: Writing

    private func append(_ work: Work, count: Int) {
        waiting.wrappingAdd(count, ordering: .relaxed)  // Before it can be done and subtracted.
        let (waiter, isFinished) = queue.withLock { queue in
            if !queue.isFinished { queue.work.append(work) }
            defer { queue.waiter = nil }
            return (queue.waiter, queue.isFinished)
        }
        waiter?.resume()
        guard isFinished else { return }
        waiting.wrappingSubtract(count, ordering: .relaxed)
        if case .settle(_, _, let continuation) = work {
            continuation.resume(returning: .failure(.closed))
        }
    }

    /// Lets ``run()`` end once everything is written.
    func finish() {
        let waiter = queue.withLock { queue in
            queue.isFinished = true
            defer { queue.waiter = nil }
            return queue.waiter
        }
        waiter?.resume()
    }

    /// Writes until ``finish()`` was called and nothing is left.
    func run() async {
        while let work = await next() {
            for item in Self.merged(work) { await write(item) }
        }
    }

    private func next() async -> [Work]? {
        await withCheckedContinuation { continuation in
            let isReady = queue.withLock { queue in
                guard queue.work.isEmpty, !queue.isFinished else { return true }
                queue.waiter = continuation
                return false
            }
            if isReady { continuation.resume() }
        }
        return queue.withLock { queue in
            guard !queue.work.isEmpty || !queue.isFinished else { return nil }
            defer { queue.work = [] }
            return queue.work
        }
    }

    /// The same work with fewer transactions: burials that follow each other are one.
    private static func merged(_ work: [Work]) -> [Work] {
        var result: [Work] = []
        for item in work {
            if case .bury(let more) = item, case .bury(let some)? = result.last, some.count < batch {
                result[result.count - 1] = .bury(some + more)
            } else {
                result.append(item)
            }
        }
        return result
    }

    private func write(_ work: Work) async {
        switch work {
        case .bury(let refusals):
            await insist("burying dead tokens") { [devices, outbox] () throws(StoreError) in
                _ = try await devices?.invalidate(refusals, outbox: outbox())
            }
            waiting.wrappingSubtract(refusals.count, ordering: .relaxed)
        case .refuse(let refusals, let watch):
            var exhausted: [TokenRefusal] = []
            await insist("noting refused tokens") { [devices] () throws(StoreError) in
                exhausted = try await devices?.record(refusals) ?? []
            }
            takeExhausted(exhausted, watch)
            waiting.wrappingSubtract(refusals.count, ordering: .relaxed)
        case .hold(let backend, let refusals, let trip):
            await insist("holding invalidations") { () throws(StoreError) in
                if let trip {
                    try await self.state.saveState(Self.key(backend), trip.stored)
                    let earlier = try await self.devices?.quarantine(tombstonesOf: backend, since: trip.since) ?? 0
                    if earlier > 0 {
                        self.observer.heldInvalidations(backend: backend, reason: "buried_before", count: earlier)
                    }
                }
                if !refusals.isEmpty { _ = try await self.devices?.quarantine(refusals) }
            }
            waiting.wrappingSubtract(refusals.count, ordering: .relaxed)
        case .end(let tokens, let app):
            await insist("removing tokens that have ended") { [devices] () throws(StoreError) in
                try await devices?.remove(tokens, in: app)
            }
            waiting.wrappingSubtract(tokens.count, ordering: .relaxed)
        case .settle(let backend, let action, let continuation):
            let result: Result<Int, StoreError>
            do throws(StoreError) {
                result = .success(try await settleNow(backend, action))
            } catch {
                result = .failure(error)
            }
            continuation.resume(returning: result)
        }
    }

    /// Takes refusals of tokens that no other backend takes either.
    private func takeExhausted(_ refusals: [TokenRefusal], _ watch: InvalidationWatch) {
        guard !refusals.isEmpty else { return }
        let now = TimeReading(steady: time.steady, wall: time.now, offset: 0)
        var everywhere = refusals
        for place in everywhere.indices { everywhere[place].alternatives = [] }
        for refusal in everywhere { observer.invalidatedToken(backend: refusal.backend, reason: refusal.reason) }
        guard take(everywhere, answers: 0, watch, at: now) else { return }
        publish(everywhere.map { EventJSON.tokenInvalidated($0, device: nil, at: now.wall) })
    }

    private func settleNow(_ backend: String, _ action: Action) async throws(StoreError) -> Int {
        var total = 0
        var found = 0
        repeat {
            switch action {
            case .release:
                let buried =
                    try await devices?.invalidate(
                        quarantinedOf: backend,
                        limit: Self.batch,
                        outbox: outbox()
                    ) ?? []
                let now = time.now
                publish(buried.map { EventJSON.tokenInvalidated($0, at: now) })
                found = buried.count
            case .discard:
                found = try await devices?.discard(quarantinedOf: backend, limit: Self.batch) ?? 0
            }
            total += found
        } while found > 0
        if action == .discard, let devices {
            // What led to the tombstones was wrong, and so may be what single backends refused before.
            while try await devices.forgetRefusals(limit: Self.batch) > 0 {}
        }
        try await state.saveState(Self.key(backend), nil)
        let watch = watches.withLock { $0[backend] }
        if watch?.trip != nil || total > 0 {
            publish([EventJSON.invalidationsSettled(backend, action, tokens: total, at: time.now)])
            logger.notice(
                "held invalidations were settled",
                metadata: ["backend": "\(backend)", "action": "\(action.rawValue)", "tokens": "\(total)"]
            )
        }
        watch?.settle(isTrusting: action == .release, at: time.steady)
        return total
    }

    /// Does something again and again until it works; a closed store ends it.
    private func insist(_ what: String, _ body: () async throws(StoreError) -> Void) async {
        var pause = Duration.milliseconds(50)
        while true {
            do {
                return try await body()
            } catch .closed {
                logger.error("the store closed too early", metadata: ["lost": "\(what)"])
                return
            } catch {
                logger.error("\(what) failed, trying again", metadata: ["error": "\(error)"])
                do {
                    try await time.sleep(for: pause)
                } catch {
                    return  // Cancelled: the tokens will be refused again.
                }
                pause = min(pause * 2, .seconds(1))
            }
        }
    }

    private static func key(_ backend: String) -> String { "invalidation_guard." + backend }
}

extension TokenRefusal {
    /// Whether such a token was to end by itself, and has.
    fileprivate var isExpected: Bool { kind.isShortLived && isCertain }
}

extension InvalidationGuard.Trip {
    /// The form that is kept over a restart.
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
        answers = Int(value["answers"]?.integerValue ?? 0)
        dead = Int(value["dead"]?.integerValue ?? 0)
        certain = Int(value["certain"]?.integerValue ?? 0)
    }
}
