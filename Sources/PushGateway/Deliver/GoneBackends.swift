internal import Foundation
internal import Logging
package import PushCore
import PushComposition
import PushQueue
internal import Synchronization

/// What waits for backends that are not configured any more.
///
/// A delivery whose plan has a later step that is configured goes on to that; the others wait until their time to live ends,
/// the backend comes back, or an operator moves them to another backend or drops them.
package final class GoneBackends: Sendable {
    /// Why nothing was moved or dropped.
    package enum Failure: Error, Sendable, Hashable {
        /// The backend is configured: its worker works on what waits for it.
        case configured
        /// Nothing waits for a backend of this name.
        case unknown
        /// The backend to move to is not configured; the nearest name that is.
        case unknownTarget(nearest: String?)
        /// Some deliveries are being worked on at this moment: ask again.
        case busy
        /// The store failed.
        case store(StoreError)
    }

    private struct State {
        /// Whom each configured backend addresses.
        var audiences: [String: BackendAudience] = [:]
        var rules = PlanRules(GatewayConfiguration.Queue())
        /// The backends that were logged already.
        var warned: Set<String> = []
        /// Backends whose deliveries are ended as they come due.
        var dropped: Set<String> = []
        /// When a backend's deliveries were looked through last, and how many of them go nowhere else.
        var looked: [String: (at: Date, left: Int)] = [:]
        /// Backends whose deliveries are being moved.
        var moving: Set<String> = []
        /// Backends whose deliveries are looked through now.
        var looking: Set<String> = []
        /// How many moves have begun.
        var moves = 0
        /// Whether a configuration is in force: before that nobody knows which backends are gone.
        var isInstalled = false
    }

    /// So many deliveries are taken at a time, so many times a look.
    private static let batch = 512
    private static let batches = 16
    /// How soon deliveries without another backend are looked at again, in seconds.
    private static let pause = 60.0
    /// So long is waited at a time for somebody else who is at the same backend.
    private static let moment = Duration.milliseconds(50)
    private static let droppedKey = "gone_backends.dropped"

    private let store: any NotificationStore
    private let outcomeWriter: OutcomeWriter
    private let clock: WallClock
    private let observer: any DispatchObserver
    private let logger: Logger
    private let state = Mutex(State())

    init(
        store: any NotificationStore,
        outcomeWriter: OutcomeWriter,
        clock: WallClock,
        observer: any DispatchObserver,
        logger: Logger
    ) {
        self.store = store
        self.outcomeWriter = outcomeWriter
        self.clock = clock
        self.observer = observer
        self.logger = logger
    }

    // MARK: For the dispatcher

    /// Puts a configuration in force; a backend that is configured again is not dropped any more.
    func install(_ snapshot: GatewaySnapshot) async {
        var kept: Set<String>?
        if !state.withLock({ $0.isInstalled }) {
            do throws(StoreError) {
                let stored = try await store.loadState(Self.droppedKey)
                kept = Set(String(decoding: stored ?? [], as: UTF8.self).split(separator: "\n").map(String.init))
            } catch {
                logger.error("cannot read which backends were dropped", metadata: ["error": "\(error)"])
            }
        }
        let loaded = kept
        let (before, dropped) = state.withLock { state in
            state.dropped.formUnion(loaded ?? [])
            state.isInstalled = true
            state.audiences = Dictionary(snapshot.backends.map { ($0.name, $0.backend.audience) }) { first, _ in first }
            state.rules = PlanRules(snapshot.configuration.queue)
            state.looked = [:]
            let before = state.dropped
            state.dropped.subtract(state.audiences.keys)
            return (before, state.dropped)
        }
        if dropped != before { try? await save(dropped) }  // Else it is done at the next start.
    }

    /// Looks once after what is due.
    func work() async {
        // When the store fails the next round does it.
        let moves = state.withLock { $0.moves }
        guard let depths = try? await depths() else { return }
        for (name, depth) in depths where depth.waiting > 0 {
            let isNew = state.withLock { $0.warned.insert(name).inserted }
            if isNew {
                logger.warning(
                    "deliveries wait for a backend that is not configured",
                    metadata: [
                        "backend": "\(name)", "waiting": "\(depth.waiting)",
                        "fix":
                            "configure it again, or settle them: chapar backends move \(name) OTHER, or drop \(name)",
                    ]
                )
            }
            let now = clock.reading.steady
            let last = state.withLock { $0.looked[name] }
            if let last, depth.waiting <= last.left, now < last.at.addingTimeInterval(Self.pause) { continue }
            // After a move the depths are no longer true, and to claim from a backend that was moved would end the move.
            guard state.withLock({ $0.moves == moves }) else { return }
            await lookThrough(name)
        }
        state.withLock { state in
            state.warned.formIntersection(depths.keys)
            state.looked = state.looked.filter { depths[$0.key] != nil }
        }
    }

    /// Takes what is due of a backend, and passes on or ends what can be; false when there is more than one look takes.
    ///
    /// The others go back as they were, so that they are there at once for a backend that comes back. They are taken until the
    /// end, else the next claim would get them again; when there are too many for that, they get a later turn.
    @discardableResult
    private func lookThrough(_ name: String) async -> Bool {
        let (audiences, rules, isDropped, isMoving, isFirst) = state.withLock { state in
            let isMoving = state.moving.contains(name)
            let isFirst = !isMoving && state.looking.insert(name).inserted
            return (state.audiences, state.rules, state.dropped.contains(name), isMoving, isFirst)
        }
        guard !isMoving else { return true }
        guard isFirst else {
            try? await clock.time.sleep(for: Self.moment)  // Somebody else is at it.
            return false
        }
        defer { state.withLock { _ = $0.looking.remove(name) } }
        guard audiences[name] == nil else { return true }
        var left: [ClaimedDelivery] = []
        var isWhole = false
        for _ in 0..<Self.batches where !isWhole {
            // When the store fails the next look does it.
            let claims = (try? await store.claim(backend: name, limit: Self.batch, wait: .zero)) ?? []
            isWhole = claims.count < Self.batch
            let now = clock.reading
            var resolutions: [Resolution] = []
            for claim in claims {
                if let end = end(of: claim, isDropped: isDropped, at: now) {
                    resolutions.append(end)
                } else if let next = claim.plan.laterSteps(after: claim.step, where: { audiences[$0] != nil }).first {
                    resolutions.append(passOn(claim, to: next, name, rules, at: now))
                } else {
                    left.append(claim)
                }
            }
            if !resolutions.isEmpty { outcomeWriter.append(resolutions) }
        }
        let now = clock.reading.steady
        let later = now.addingTimeInterval(Self.pause)
        outcomeWriter.append(left.map { Resolution(of: $0, isWhole ? .release : .retry(at: later, step: $0.step)) })
        let count = left.count
        let (isLast, at) = (isWhole, now)
        state.withLock { $0.looked[name] = isLast && count > 0 ? (at, count) : nil }
        return isWhole
    }

    /// The end of a delivery that goes nowhere any more; nil when it may go on.
    private func end(of claim: ClaimedDelivery, isDropped: Bool, at now: TimeReading) -> Resolution? {
        if let ending = Resolution.ending(claim, at: now) { return ending }
        if claim.isRecovered, claim.plan.onUnknown != .retry, claim.plan.onUnknown != .next {
            // Its last owner died with it, and the backend that could say whether a second copy does harm is gone.
            return .ending(claim, as: .unknown, reason: "gateway_restarted", at: now)
        }
        guard isDropped else { return nil }
        return .ending(claim, as: claim.isReplay ? .unknown : .failed, reason: "backend_dropped", at: now)
    }

    private func passOn(
        _ claim: ClaimedDelivery,
        to next: Int,
        _ name: String,
        _ rules: PlanRules,
        at now: TimeReading
    ) -> Resolution {
        let reason = GatewayReason.backendGone
        var position = claim.position(at: now)
        position.nextStep = next
        let verdict = rules.decide(position, .skipped(reason: reason), at: now.steady, random: 0)
        observer.fellBack(from: name, to: claim.plan.backends[next], reason: reason)
        let attempt = EventJSON.skipped(name, reason: reason, at: now.wall, steady: now.steady)
        return Resolution(
            of: claim,
            verdict.transition(claim, at: now.steady),
            attempt: attempt,
            mayHaveBeenSent: verdict.mayHaveBeenSent,
            event: EventJSON.delivery(claim, state: verdict.state, at: now.wall, attempt: attempt, reason: reason)
        )
    }

    // MARK: For operators

    /// How much waits for each backend that is not configured.
    func depths() async throws(StoreError) -> [String: QueueDepth] {
        let depths = try await store.depths()
        let configured = state.withLock { $0.audiences }
        return depths.filter { configured[$0.key] == nil && ($0.value.waiting > 0 || $0.value.claimed > 0) }
    }

    /// Hands everything that waits for a backend, now or at a later retry, to another one.
    ///
    /// - Returns: How many deliveries were moved.
    package func move(_ name: String, to other: String) async throws(Failure) -> Int {
        try await requireGone(name)
        let names = state.withLock { Array($0.audiences.keys) }
        guard names.contains(other) else {
            throw .unknownTarget(nearest: Suggestion.nearest(to: other, among: names.sorted()))
        }
        state.withLock { state in
            state.moving.insert(name)
            state.moves += 1
        }
        defer { state.withLock { _ = $0.moving.remove(name) } }
        do throws(StoreError) {
            for _ in 0..<20 {
                let isLookedThrough = state.withLock { $0.looking.contains(name) }
                if !isLookedThrough, let moved = try await store.move(backend: name, to: other) {
                    await forgetDropped(name)
                    logger.notice(
                        "deliveries were moved",
                        metadata: ["from": "\(name)", "to": "\(other)", "deliveries": "\(moved)"]
                    )
                    return moved
                }
                // What the last round took is about to be written.
                try? await clock.time.sleep(for: Self.moment)
            }
        } catch {
            throw .store(error)
        }
        throw .busy
    }

    /// Ends everything that waits for a backend as failed: what is due now, the rest as it comes due.
    ///
    /// - Returns: How many deliveries that is about.
    package func drop(_ name: String) async throws(Failure) -> Int {
        let waiting = try await requireGone(name)
        let dropped = state.withLock { state in
            state.dropped.insert(name)
            return state.dropped
        }
        do throws(StoreError) {
            try await save(dropped)
        } catch {
            throw .store(error)
        }
        logger.notice("deliveries are dropped", metadata: ["backend": "\(name)", "deliveries": "\(waiting)"])
        while await !lookThrough(name) {}
        return waiting
    }

    @discardableResult
    private func requireGone(_ name: String) async throws(Failure) -> Int {
        let (isInstalled, isConfigured) = state.withLock { ($0.isInstalled, $0.audiences[name] != nil) }
        guard isInstalled else { throw .busy }
        if isConfigured { throw .configured }
        let depth: QueueDepth?
        do throws(StoreError) {
            depth = try await depths()[name]
        } catch {
            throw .store(error)
        }
        guard let depth else { throw .unknown }
        return depth.waiting + depth.claimed
    }

    private func forgetDropped(_ name: String) async {
        let dropped = state.withLock { state in state.dropped.remove(name) == nil ? nil : state.dropped }
        if let dropped { try? await save(dropped) }  // A backend of this name that comes back ends it as well.
    }

    private func save(_ dropped: Set<String>) async throws(StoreError) {
        let text = dropped.sorted().joined(separator: "\n")
        try await store.saveState(Self.droppedKey, dropped.isEmpty ? nil : Array(text.utf8))
    }
}
