internal import Foundation
internal import PushCore

/// What follows from the outcome of an attempt: the delivery's next state, and what it means for its lane and recipient.
///
/// Pure: time and randomness come in, a decision goes out. Source of the rules: DESIGN "The way of a notification" and
/// each platform's error table, which the plugin has turned into a ``Refusal/Advice`` already.
struct OutcomeRules: Sendable {
    /// What to do with a delivery after an attempt.
    struct Decision: Equatable {
        var transition: Resolution.Transition
        /// The state that events and metrics tell.
        var state: DeliveryState
        var retryAt: Date?
        var mayHaveBeenSent = false
        var lane = LaneEffect.none
        /// Nothing else goes to this recipient until then.
        var recipientPause: Date?
    }

    /// What an outcome means for the whole lane.
    enum LaneEffect: Equatable {
        /// Nothing.
        case none
        /// The platform took a message: whatever was wrong before is over.
        case works
        /// Nothing is sent until then.
        case pause(until: Date, reason: String)
        /// An operator must act.
        case park(reason: String, detail: String?)
    }

    var queue: GatewayConfiguration.Queue
    /// How long a backend is left alone that asks for a pause without saying how long.
    var defaultPause = Duration.seconds(5)

    /// Decides what follows; `random` draws a number from 0 to 1, and does so only for a wait.
    func decide(
        _ claim: ClaimedDelivery,
        _ outcome: DeliveryOutcome,
        at now: Date,
        random: @autoclosure () -> Double
    ) -> Decision {
        switch outcome {
        case .accepted:
            return Decision(transition: .end(.acceptedByPlatform), state: .acceptedByPlatform, lane: .works)
        case .refused(let refusal):
            return decide(claim, refusal, at: now, random: random())
        case .unknown(let unknown):
            return decide(claim, unknown, at: now, random: random())
        }
    }

    /// When to try again: the platform's wish is the floor, the rest is full jitter below an exponential bound.
    func retryTime(attempt: Int, floor: Duration?, at now: Date, random: Double) -> Date {
        let doubled = queue.firstRetry.inSeconds * pow(2, Double(min(attempt - 1, 40)))
        let jitter = min(doubled, queue.maximumRetry.inSeconds) * random
        return now.addingTimeInterval((floor?.inSeconds ?? 0) + jitter)
    }

    private func decide(_ claim: ClaimedDelivery, _ refusal: Refusal, at now: Date, random: Double) -> Decision {
        switch refusal.advice {
        case .never:
            return next(claim, at: now) ?? Decision(transition: .end(.failed), state: .failed)
        case .retry(let after):
            return again(claim, floor: after, at: now, random: random)
        case .slowRecipient(let after):
            var decision = again(claim, floor: after, at: now, random: random)
            decision.recipientPause = decision.retryAt
            return decision
        case .slowBackend(let after):
            let pause = after ?? defaultPause
            var decision = again(claim, floor: pause, at: now, random: random)
            decision.lane = .pause(until: now.addingTimeInterval(pause.inSeconds), reason: refusal.reason)
            return decision
        case .parkBackend:
            var decision = next(claim, at: now) ?? again(claim, floor: nil, at: now, random: random, counted: false)
            decision.lane = .park(reason: refusal.reason, detail: refusal.detail)
            return decision
        }
    }

    private func decide(_ claim: ClaimedDelivery, _ unknown: UnknownOutcome, at now: Date, random: Double) -> Decision {
        let stop = Decision(transition: .end(.unknown), state: .unknown, mayHaveBeenSent: true)
        switch claim.plan.onUnknown ?? (unknown.isRepeatHarmful ? .stop : .retry) {
        case .stop, .wait:
            return stop
        case .next:
            guard var decision = next(claim, at: now) else { return stop }
            decision.mayHaveBeenSent = true
            return decision
        case .retry:
            var decision = again(claim, floor: nil, at: now, random: random)
            guard decision.retryAt != nil else { return stop }
            decision.mayHaveBeenSent = true
            return decision
        }
    }

    private func next(_ claim: ClaimedDelivery, at now: Date) -> Decision? {
        guard claim.step + 1 < claim.plan.backends.count, now < claim.expiresAt else { return nil }
        return Decision(transition: .retry(at: now, step: claim.step + 1), state: .retrying, retryAt: now)
    }

    /// Another attempt, or the end when there is no time or no attempt left.
    private func again(
        _ claim: ClaimedDelivery,
        floor: Duration?,
        at now: Date,
        random: Double,
        counted: Bool = true
    ) -> Decision {
        let attempt = claim.attempts + 1
        if counted, attempt >= queue.maximumAttempts { return Decision(transition: .end(.failed), state: .failed) }
        let time = retryTime(attempt: attempt, floor: floor, at: now, random: random)
        if time >= claim.expiresAt { return Decision(transition: .end(.expired), state: .expired) }
        return Decision(transition: .retry(at: time, step: claim.step), state: .retrying, retryAt: time)
    }
}
