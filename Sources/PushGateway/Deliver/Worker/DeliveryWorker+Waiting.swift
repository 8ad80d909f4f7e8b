internal import Foundation
internal import PushCore
internal import PushComposition
internal import PushQueue
internal import Synchronization

/// Deliveries that are not sent now: those that wait for the platform's status, and those that will not wait any longer.
extension DeliveryWorker {
    /// How many deliveries are passed on at a time.
    private static let passedOn = 512
    /// The most deliveries that the platform is asked about at a time.
    private static let mostAsked = 2_048
    /// How long a platform gets to say what became of one message.
    private static let trackingDeadline = Duration.seconds(10)

    /// While the worker stands still: sends on what has a next backend and whose fallback delay has ended, or whose wait for the
    /// platform's status is over.
    ///
    /// The others become due again when the worker may go on, which is no sooner than they could have been sent.
    ///
    /// - Returns: Those about which the platform is to be asked.
    func passOn() async -> [Silence] {
        let claims = await look(Self.passedOn, normal: Self.passedOn, wait: .zero)
        guard !claims.isEmpty else { return [] }
        gate.update { state in
            state.inFlight += claims.count
            return ((), wakes: false)
        }
        let (others, silent) = parted(claims)
        let reading = dependencies.clock.reading
        let now = reading.steady
        let (reason, since, until) = gate.update { state in
            ((state.blockReason, state.troubleSince ?? now, state.blockedUntil(at: now)), wakes: false)
        }
        let resolutions = others.map { claim in
            if let resolution = hold(claim, at: reading) { return resolution }
            let next = claim.laterSteps(settings.audiences, after: name, isTokenRefused: false).first
            let fallbackDelay = next != nil ? claim.plan.fallbackDelay ?? settings.queue.fallbackDelay : nil
            let end = fallbackDelay.map { since.addingTimeInterval($0.inSeconds) }
            if let end, end <= now { return skip(claim, reason: reason, to: next, at: reading) }
            let later = until ?? now.addingTimeInterval(30)
            return Resolution(of: claim, .retry(at: end.map { min($0, later) } ?? later, step: claim.step))
        }
        if !resolutions.isEmpty { record(resolutions) }
        if claims.count == Self.passedOn { gate.update { ($0.passOnMore(), wakes: false) } }
        return silent
    }

    /// A delivery whose wait for the platform's status is over.
    struct Silence: Sendable {
        let claim: ClaimedDelivery
        /// By what the platform knows the message.
        let platformID: String?
    }

    /// Parts the deliveries whose wait for the platform's status is over from the others.
    ///
    /// When the platform is being asked about very many already, the rest waits a little longer.
    func parted(_ claims: [ClaimedDelivery]) -> (others: [ClaimedDelivery], silent: [Silence]) {
        guard claims.contains(where: { $0.isReplay && $0.plan.onUnknown == .wait }) else { return (claims, []) }
        var others: [ClaimedDelivery] = []
        var silent: [Silence] = []
        var late: [Resolution] = []
        let capacity = Self.mostAsked - queriesInFlight.load(ordering: .relaxed)
        let later = dependencies.time.steady.addingTimeInterval(1)
        for claim in claims {
            guard let last = claim.silence(of: name) else {
                others.append(claim)
                continue
            }
            if silent.count < capacity {
                silent.append(Silence(claim: claim, platformID: last["platform_id"]?.stringValue))
            } else {
                late.append(Resolution(of: claim, .retry(at: later, step: claim.step)))
            }
        }
        queriesInFlight.wrappingAdd(silent.count, ordering: .relaxed)
        if !late.isEmpty { record(late) }
        return (others, silent)
    }

    /// Asks the platform a last time what became of messages, and settles them.
    func query(_ silent: [Silence]) async {
        guard !silent.isEmpty else { return }
        let states = await states(about: silent.map(\.platformID))
        queriesInFlight.wrappingSubtract(silent.count, ordering: .relaxed)
        let now = dependencies.clock.reading
        record(zip(silent, states).map { resolution($0.claim, $1, at: now) })
    }

    /// What the platform says about messages; nil where it says nothing in time, or cannot.
    private func states(about ids: [String?]) async -> [DeliveryState?] {
        guard let tracker = backend.tracking else { return ids.map { _ in nil } }
        return await withTaskGroup(of: (Int, DeliveryState?).self) { group in
            var states = [DeliveryState?](repeating: nil, count: ids.count)
            var running = 0
            for (index, id) in ids.enumerated() {
                guard let id else { continue }
                if running == 16, let (index, state) = await group.next() {
                    states[index] = state
                    running -= 1
                }
                running += 1
                group.addTask { [time = dependencies.time] in
                    (index, await Self.state(about: id, tracker, time))
                }
            }
            for await (index, state) in group { states[index] = state }
            return states
        }
    }

    private static func state(
        about id: String,
        _ tracker: any MessageTracker,
        _ time: any TimeSource
    ) async -> DeliveryState? {
        await withTaskGroup(of: DeliveryState?.self) { group in
            group.addTask { try? await tracker.state(of: id) }
            group.addTask {
                try? await time.sleep(for: trackingDeadline)
                return nil
            }
            defer { group.cancelAll() }
            return await group.next() ?? nil
        }
    }

    /// What becomes of a delivery after its wait for the platform's status.
    private func resolution(_ claim: ClaimedDelivery, _ state: DeliveryState?, at now: TimeReading) -> Resolution {
        let verdict = rules.decide(claim.position(at: now), .waited(state), at: now.steady, random: 0)
        let reason = state.map { "platform_says_" + $0.rawValue } ?? "no_word"
        if case .next(let step) = verdict.move {
            dependencies.observer.fellBack(from: name, to: claim.plan.backends[step], reason: reason)
        }
        let attempt = EventJSON.ending(reason, at: now.wall)
        return Resolution(
            of: claim,
            verdict.transition(claim, at: now.steady),
            attempt: attempt,
            mayHaveBeenSent: verdict.mayHaveBeenSent,
            event: EventJSON.delivery(claim, state: verdict.state, at: now.wall, attempt: attempt, reason: reason)
        )
    }
}
