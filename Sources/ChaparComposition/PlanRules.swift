package import Foundation
import ChaparCore

/// The rules that decide what happens to a delivery after an attempt, shared by the gateway and code without one.
///
/// They are pure: time and randomness are arguments, a verdict is the result. They never allow these, whatever the
/// outcome of an attempt is: * a second copy under ``DeliveryPlan/UnknownRule/stop``; * a gap under
/// ``DeliveryPlan/UnknownRule/next``: while a backend is left and there is time, it is tried; * a message that may have
/// arrived to be reported as failed.
///
/// Plugins have already turned a platform's error codes into a ``ChaparCore/Refusal/Advice``.
package struct PlanRules: Sendable, Hashable {
    /// The number of attempts and the waits between them, unless the plan says otherwise.
    package var retry: RetryPolicy
    /// The longest time trouble of a platform is tolerated at a step with a later one, unless the plan says otherwise.
    package var fallbackAfter: Duration
    /// Whether a message waits at its last step, until its time to live ends, for an operator to correct the backend.
    package var waitsForOperator: Bool
    /// The shortest wait of a message after its platform asked for a pause of the backend without a length.
    package var defaultPause: Duration

    /// Makes rules.
    package init(
        retry: RetryPolicy,
        fallbackAfter: Duration = .seconds(60),
        waitsForOperator: Bool = true,
        defaultPause: Duration = .seconds(5)
    ) {
        self.retry = retry
        self.fallbackAfter = fallbackAfter
        self.waitsForOperator = waitsForOperator
        self.defaultPause = defaultPause
    }

    /// Decides what happens next; `random` returns a number from 0 to 1, and is called only for a wait.
    package func decide(
        _ position: PlanPosition,
        _ event: PlanEvent,
        at now: Date,
        random: @autoclosure () -> Double
    ) -> PlanVerdict {
        var verdict = decideAlone(position, event, at: now, random: random())
        // Answers of later backends do not change that a platform has the message.
        if position.isAccepted, case .end(let state) = verdict.move, !state.isWithPlatform {
            (verdict.move, verdict.isReached) = (.end(.acceptedByPlatform), true)
        }
        return verdict
    }

    private func decideAlone(
        _ position: PlanPosition,
        _ event: PlanEvent,
        at now: Date,
        random: @autoclosure () -> Double
    ) -> PlanVerdict {
        switch event {
        case .answered(let outcome):
            var verdict = decide(position, outcome, at: now, random: random())
            verdict.signal = outcome.signal
            return verdict
        case .skipped:
            return next(position, at: now) ?? PlanVerdict(.end(position.mayHaveBeenSent ? .unknown : .failed))
        case .waited(let state):
            return decide(position, afterWaitWith: state, at: now)
        }
    }

    private func decide(_ position: PlanPosition, _ outcome: DeliveryOutcome, at now: Date, random: Double)
        -> PlanVerdict
    {
        switch outcome {
        case .accepted: PlanVerdict(.end(.acceptedByPlatform))
        case .refused(let refusal): decide(position, refusal, at: now, random: random)
        case .unknown(let unknown): decide(position, unknown, at: now, random: random)
        }
    }

    private func decide(_ position: PlanPosition, _ refusal: Refusal, at now: Date, random: Double) -> PlanVerdict {
        switch refusal.advice {
        case .never:
            if let next = next(position, at: now) { return next }
            // Its time to live ended before it was sent: no platform refused it, and earlier silence stays unsettled.
            if refusal.kind == .message, refusal.reason == GatewayReason.expired {
                return PlanVerdict(.end(position.mayHaveBeenSent ? .unknown : .expired))
            }
            return refused(position)
        case .retry(let after):
            return again(position, floor: after, at: now, random: random, limit: refusal.retryLimit)
        case .slowRecipient(let after):
            var verdict = again(position, floor: after, at: now, random: random)
            if case .retry(let time) = verdict.move { verdict.recipientPause = time }
            return verdict
        case .slowBackend(let after):
            return again(position, floor: after ?? defaultPause, at: now, random: random)
        case .parkBackend:
            if let next = next(position, at: now) { return next }
            guard waitsForOperator, !position.isNowOrNever else { return refused(position) }
            return again(position, floor: nil, at: now, random: random, isCounted: false)
        }
    }

    private func decide(_ position: PlanPosition, _ unknown: UnknownOutcome, at now: Date, random: Double)
        -> PlanVerdict
    {
        let stop = PlanVerdict(.end(.unknown), mayHaveBeenSent: true)
        switch position.plan.onUnknown ?? (unknown.isRepeatHarmful ? .stop : .retry) {
        case .stop:
            return stop
        case .next:
            guard var verdict = next(position, at: now) else { return stop }
            verdict.mayHaveBeenSent = true
            return verdict
        case .retry:
            var here = position
            here.nextStep = nil  // The rule is to try again, not to send a second copy another way.
            var verdict = again(here, floor: nil, at: now, random: random)
            guard case .retry = verdict.move else { return stop }
            verdict.mayHaveBeenSent = true
            return verdict
        case .wait:
            var end = now.addingTimeInterval(position.plan.unknownWait.inSeconds)
            if let expiresAt = position.expiresAt { end = min(end, expiresAt) }
            return end > now ? PlanVerdict(.hold(until: end), mayHaveBeenSent: true) : stop
        }
    }

    private func decide(_ position: PlanPosition, afterWaitWith state: DeliveryState?, at now: Date) -> PlanVerdict {
        switch state {
        case .acceptedByPlatform?, .delivered?, .opened?, .cancelled?:
            return PlanVerdict(.end(state ?? .acceptedByPlatform))
        case .failed?, .expired?:
            return next(position, at: now) ?? refused(position)
        case .queued?, .scheduled?, .sending?, .retrying?, .unknown?, nil:
            var verdict = next(position, at: now) ?? PlanVerdict(.end(.unknown))
            verdict.mayHaveBeenSent = true
            return verdict
        }
    }

    /// Returns the end after a definite refusal: by the only backend that was asked, or by the last of several.
    private func refused(_ position: PlanPosition) -> PlanVerdict {
        // The refusal of the only backend also settles its earlier attempts without an answer; another backend's does
        // not.
        PlanVerdict(.end(position.mayHaveBeenSent && position.step > 0 ? .unknown : .failed))
    }

    private func next(_ position: PlanPosition, at now: Date) -> PlanVerdict? {
        guard let step = position.nextStep, position.expiresAt.map({ now < $0 }) ?? true else { return nil }
        return PlanVerdict(.next(step: step))
    }

    /// Returns another attempt at this step; when no time or no attempt is left for the step, returns the next step, or
    /// the end of the delivery.
    ///
    /// A message with a time to live of 0 gets no second attempt at any step.
    private func again(
        _ position: PlanPosition,
        floor: Duration?,
        at now: Date,
        random: Double,
        isCounted: Bool = true,
        limit: Refusal.RetryLimit? = nil
    ) -> PlanVerdict {
        let attempt = position.attempts + 1
        let retry = position.plan.retry ?? retry
        let time = retry.time(after: attempt, floor: floor, at: now, random: random)
        let isExhausted =
            position.isNowOrNever || isCounted && attempt >= min(retry.maximumAttempts, limit?.attempts ?? .max)
        let isTooLate = limit.map { time > position.startedAt.addingTimeInterval($0.span.inSeconds) } ?? false
        if isExhausted || isTooLate {
            return next(position, at: now) ?? PlanVerdict(.end(position.mayHaveBeenSent ? .unknown : .failed))
        }
        if let expiresAt = position.expiresAt, time >= expiresAt {
            return next(position, at: now) ?? PlanVerdict(.end(position.mayHaveBeenSent ? .unknown : .expired))
        }
        let borne = (position.plan.fallbackAfter ?? fallbackAfter).inSeconds * Double(position.step + 1)
        if time > position.startedAt.addingTimeInterval(borne), let next = next(position, at: now) { return next }
        return PlanVerdict(.retry(at: time))
    }
}

extension DeliveryState {
    /// Whether a platform has taken the message, as far as is known.
    fileprivate var isWithPlatform: Bool {
        switch self {
        case .acceptedByPlatform, .delivered, .opened: true
        case .queued, .scheduled, .sending, .retrying, .failed, .expired, .cancelled, .unknown: false
        }
    }
}
