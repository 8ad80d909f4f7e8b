internal import Foundation
internal import Logging
internal import PushCore
internal import Synchronization

/// Carries the deliveries of one backend: claims what there is room for, hands it to the backend, records what became of it.
///
/// One task per claimed batch, none per message. The lane knows nothing of the platform: what an outcome means is
/// ``OutcomeRules``, how much may be under way is ``LaneGate``.
final class Lane: Sendable {
    /// What a lane needs of the gateway.
    struct Surroundings: Sendable {
        let store: any NotificationStore
        let recorder: Recorder
        let time: any TimeSource
        let observer: any DispatchObserver
        let logger: Logger
        /// Turns stored content back into a notification.
        let decode: @Sendable ([UInt8]) throws -> PushNotification
        /// Marks the message ids of this gateway, so that two gateways never use the same.
        let instance: UInt64
    }

    /// The most deliveries in one claim: large enough to share the cost, small enough to keep latency low.
    static let largestClaim = 512
    /// The window of a backend that knows no limit of its own.
    static let defaultWindow = 1_000
    /// With so much not yet recorded the lane waits for the store.
    static let largestBacklog = 50_000
    /// How long one look for work may last; a stop ends it at once.
    static let patience = Duration.seconds(30)

    let name: String
    let backend: any PushBackend
    private let configured: BackendRegistry.ConfiguredBackend
    private let queue: GatewayConfiguration.Queue
    private let rules: OutcomeRules
    private let around: Surroundings
    private let gate = LaneGate()
    private let limiter: Mutex<RateLimiter?>
    private let pauses = Mutex(RecipientPauses())
    private let looking = Mutex<Task<[ClaimedDelivery], any Error>?>(nil)

    init(_ configured: BackendRegistry.ConfiguredBackend, queue: GatewayConfiguration.Queue, _ around: Surroundings) {
        self.configured = configured
        self.queue = queue
        self.around = around
        name = configured.name
        backend = configured.backend
        rules = OutcomeRules(queue: queue)
        limiter = Mutex(configured.rateLimit.map { RateLimiter(rate: $0, at: around.time.now) })
    }

    /// How the lane is doing.
    var status: LaneStatus {
        let state = gate.state
        return LaneStatus(
            backend: name,
            inFlight: state.inFlight,
            window: state.window,
            pausedUntil: state.pausedUntil,
            pauseReason: state.pauseReason,
            isParked: state.isParked
        )
    }

    /// Works until ``stop()``, then waits for what is under way and ends the backend.
    func run() async {
        await withDiscardingTaskGroup { group in
            while let claims = await claim() {
                group.addTask { await self.deliver(claims) }
            }
        }
        await backend.shutdown(grace: .seconds(1))
    }

    /// Claims nothing more.
    func stop() {
        gate.stop()
        looking.withLock { $0 }?.cancel()
    }

    /// Ends what is still under way: it is reported as not sent or as unknown.
    func abandon() async { await backend.shutdown(grace: .zero) }

    // MARK: Claiming

    /// The next deliveries, nil when the lane is to end.
    private func claim() async -> [ClaimedDelivery]? {
        while true {
            let now = around.time.now
            let window = window()
            switch gate.update({ ($0.step(window: window, at: now), wakes: false) }) {
            case .stop:
                return nil
            case .wait(until: nil):
                await gate.waitForChange()
            case .wait(until: let time?):
                await pause(until: time)
            case .claim(let room):
                guard around.recorder.backlog < Self.largestBacklog else {
                    await pause(until: now.addingTimeInterval(0.05))
                    continue
                }
                let (granted, retryAt) = allowance(min(room, Self.largestClaim), at: now)
                guard granted > 0 else {
                    await pause(until: retryAt)
                    continue
                }
                let claims = await look(granted)
                if granted > claims.count { limiter.withLock { $0?.giveBack(granted - claims.count) } }
                guard !claims.isEmpty else { continue }
                gate.update { state in
                    state.inFlight += claims.count
                    return ((), wakes: false)
                }
                return claims
            }
        }
    }

    /// The most deliveries that may be with the backend: twice what its peers take at once, so that an answered one is
    /// replaced without a trip to the store, within the configured bound.
    private func window() -> Int {
        let own = backend.window.map { max(64, $0 * 2) } ?? Self.defaultWindow
        return min(own, configured.maximumInFlight ?? own)
    }

    private func allowance(_ wanted: Int, at now: Date) -> (granted: Int, retryAt: Date) {
        limiter.withLock { $0?.take(wanted, at: now) } ?? (wanted, now)
    }

    /// Asks the store.
    ///
    /// A task of its own, awaited here, so that ``stop()`` can end the wait and nothing else.
    private func look(_ limit: Int) async -> [ClaimedDelivery] {
        let task = Task<[ClaimedDelivery], any Error> { [around, name, queue] in
            try await around.store.claim(lane: name, limit: limit, lease: queue.lease, patience: Self.patience)
        }
        looking.withLock { $0 = task }
        if gate.state.isStopped { task.cancel() }
        do {
            return try await withTaskCancellationHandler {
                try await task.value
            } onCancel: {
                task.cancel()
            }
        } catch {
            around.logger.error("claiming failed, trying again", metadata: ["backend": "\(name)", "error": "\(error)"])
            await pause(until: around.time.now.addingTimeInterval(1))
            return []
        }
    }

    /// Waits until a time, or until the gate changes.
    private func pause(until time: Date) async {
        await withTaskGroup(of: Void.self) { group in
            group.addTask { [around] in
                let span = Duration.milliseconds(Int64(max(1, time.timeIntervalSince(around.time.now) * 1000)))
                _ = try? await around.time.sleep(for: span)  // Cancelled when the gate was first.
            }
            group.addTask { [gate] in await gate.waitForChange() }
            await group.next()
            group.cancelAll()
        }
    }

    // MARK: Delivering

    private func deliver(_ claims: [ClaimedDelivery]) async {
        let batch = LaneBatch(claims, decode: around.decode, instance: around.instance) { self.settle($0) }
        let due = batch.select(at: around.time.now) {
            self.hold($0, at: $1)
        } mayRepeat: {
            self.mayRepeat($0, $1)
        }
        guard !due.isEmpty else { return }
        let started = ContinuousClock.now
        await backend.send(due) { reports in
            self.around.observer.answered(
                backend: self.name,
                kind: self.backend.kind,
                after: .now - started,
                count: reports.count
            )
            self.finish(batch.take(reports))
        }
        finish(batch.unreported())
    }

    /// What is to be done with a claim instead of sending it; nil when it is to be sent.
    private func hold(_ claim: ClaimedDelivery, at now: Date) -> Resolution? {
        if now >= claim.expiresAt {
            let event = EventJSON.delivery(claim, state: .expired, at: now, reason: "ttl_ended")
            return Resolution(
                delivery: claim.id,
                transition: .end(.expired),
                attempt: EventJSON.ending("ttl_ended", at: now),
                event: event
            )
        }
        if let until = pauses.withLock({ $0.isEmpty ? nil : $0.pause(of: claim.recipient, at: now) }) {
            return Resolution(delivery: claim.id, transition: .retry(at: until, step: claim.step))
        }
        return nil
    }

    /// Whether a delivery whose last owner died may be sent again: by the plan's rule, else unless a second copy does harm.
    private func mayRepeat(_ claim: ClaimedDelivery, _ notification: PushNotification) -> Bool {
        switch claim.plan.onUnknown {
        case .retry?, .next?: true
        case .stop?, .wait?: false
        case nil: !backend.isRepeatHarmful(notification)
        }
    }

    /// Gives back deliveries that were not handed to the backend.
    private func settle(_ resolutions: [Resolution]) {
        around.recorder.append(resolutions)
        gate.update { ((), wakes: $0.finish(resolutions.count)) }
    }

    private func finish(_ outcomes: [(claim: ClaimedDelivery, outcome: DeliveryOutcome)]) {
        guard !outcomes.isEmpty else { return }
        let now = around.time.now
        var resolutions: [Resolution] = []
        resolutions.reserveCapacity(outcomes.count)
        var events: [[UInt8]] = []
        var accepted = 0
        let state = gate.state
        for (claim, outcome) in outcomes {
            if state.isStopped, outcome.isCancelled {
                resolutions.append(Resolution(delivery: claim.id, transition: .release))
                continue
            }
            let decision = rules.decide(claim, outcome, at: now, random: .random(in: 0...1))
            let attempt = EventJSON.attempt(outcome, backend: name, at: now, retryAt: decision.retryAt)
            resolutions.append(
                Resolution(
                    delivery: claim.id,
                    transition: decision.transition,
                    attempt: attempt,
                    mayHaveBeenSent: decision.mayHaveBeenSent,
                    event: EventJSON.delivery(claim, state: decision.state, at: now, attempt: attempt)
                )
            )
            if case .accepted = outcome {
                accepted += 1
                if !state.isParked { continue }  // Nothing else follows from the usual case.
            } else {
                note(claim, outcome, decision)
            }
            if let until = decision.recipientPause {
                pauses.withLock { $0.pause(claim.recipient, until: until, at: now) }
            }
            if case .refused(let refusal) = outcome, let dead = refusal.invalidation {
                around.observer.invalidatedToken(backend: name, reason: refusal.reason)
                events.append(
                    EventJSON.tokenInvalidated(
                        claim,
                        backend: name,
                        reason: refusal.reason,
                        asOf: dead.asOf,
                        isCertain: dead.isCertain,
                        at: now
                    )
                )
            }
            if let event = apply(decision.lane, at: now) { events.append(event) }
        }
        if accepted > 0 {
            around.observer.attempted(
                backend: name,
                kind: backend.kind,
                outcome: "accepted",
                reason: "",
                count: accepted
            )
        }
        around.recorder.append(resolutions, events: events)
        gate.update { ((), wakes: $0.finish(outcomes.count)) }
    }

    private func note(_ claim: ClaimedDelivery, _ outcome: DeliveryOutcome, _ decision: OutcomeRules.Decision) {
        let observer = around.observer
        let (word, reason) = outcome.label
        observer.attempted(backend: name, kind: backend.kind, outcome: word, reason: reason, count: 1)
        guard case .retry(_, let step) = decision.transition else { return }
        if step == claim.step {
            observer.retried(backend: name, reason: reason)
        } else {
            observer.fellBack(from: name, to: claim.plan.backends[step], reason: reason)
        }
    }

    /// Brings the lane's state up to date; gives the event that tells of a change.
    private func apply(_ effect: OutcomeRules.LaneEffect, at now: Date) -> [UInt8]? {
        switch effect {
        case .none:
            return nil
        case .works:
            guard gate.update({ ($0.works(), wakes: true) }) else { return nil }
            around.logger.notice("backend works again", metadata: ["backend": "\(name)"])
            return EventJSON.backend("resumed", name, reason: nil, until: nil, at: now)
        case .pause(let until, let reason):
            guard gate.update({ ($0.pause(until: until, reason: reason), wakes: false) }) else { return nil }
            return EventJSON.backend("paused", name, reason: reason, until: until, at: now)
        case .park(let reason, let detail):
            guard let until = gate.update({ ($0.park(reason: reason, at: now), wakes: false) }) else { return nil }
            around.logger.error(
                "backend is parked, an operator must act",
                metadata: ["backend": "\(name)", "reason": "\(reason)", "detail": "\(detail ?? "")"]
            )
            return EventJSON.backend("parked", name, reason: detail ?? reason, until: until, at: now)
        }
    }
}

extension DeliveryOutcome {
    /// The words that metrics use: the outcome, and the reason where there is one.
    var label: (outcome: String, reason: String) {
        switch self {
        case .accepted: ("accepted", "")
        case .refused(let refusal): (refusal.kind.rawValue, refusal.reason)
        case .unknown(let unknown): ("unknown", unknown.reason)
        }
    }

    /// Whether the message was surely not sent because its sender is ending.
    var isCancelled: Bool {
        if case .refused(let refusal) = self {
            refusal.kind == .platform && refusal.reason == "cancelled"
        } else {
            false
        }
    }
}
