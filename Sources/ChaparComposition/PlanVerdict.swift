public import Foundation
public import ChaparCore

/// The position of a delivery in its plan at an event.
package struct PlanPosition: Sendable, Hashable {
    /// The plan.
    package var plan: DeliveryPlan
    /// The current step of the plan.
    package var step: Int
    /// The next step whose backend can address the recipient; nil when there is none.
    package var nextStep: Int?
    /// The number of earlier attempts, over all steps.
    package var attempts: Int
    /// The time of the first attempt, which may be the current one.
    ///
    /// ``DeliveryPlan/fallbackAfter`` and a refusal's retry limit count from this time, since a message that waits for
    /// its `sendAt` or behind other messages has not failed at any backend.
    package var startedAt: Date
    /// The time after which nothing more is tried; nil for never.
    package var expiresAt: Date?
    /// Whether an earlier attempt may have been delivered.
    package var mayHaveBeenSent: Bool
    /// Whether the message's time to live is 0: each backend of the plan gets one attempt, and there are no waits.
    package var isNowOrNever = false
    /// Whether a platform has taken the message already, and later backends take over since no report came.
    package var isAccepted = false

    /// Makes a position; by default the next step is the one that follows in the plan.
    package init(
        _ plan: DeliveryPlan,
        step: Int = 0,
        attempts: Int = 0,
        startedAt: Date,
        expiresAt: Date? = nil,
        mayHaveBeenSent: Bool = false
    ) {
        self.plan = plan
        self.step = step
        nextStep = plan.laterSteps(after: step).first
        self.attempts = attempts
        self.startedAt = startedAt
        self.expiresAt = expiresAt
        self.mayHaveBeenSent = mayHaveBeenSent
    }
}

/// An event of a delivery at a step of its plan.
@nonexhaustive
public enum PlanEvent: Sendable, Hashable {
    /// An attempt was made, with this outcome.
    case answered(DeliveryOutcome)
    /// No attempt was made, because the step's backend cannot address the recipient: the device has no live token for
    /// it.
    case skipped(reason: String)
    /// A wait after ``PlanVerdict/Move/hold(until:)`` has ended; it has the state that the platform reported, or nil
    /// without a report.
    case waited(DeliveryState?)
}

/// The consequence of a ``PlanEvent``: the delivery's next move, and the effect on its backend and recipient.
public struct PlanVerdict: Sendable, Hashable {
    /// The next move of a delivery.
    @nonexhaustive
    public enum Move: Sendable, Hashable {
        /// It ends, in a final state.
        case end(DeliveryState)
        /// It is tried again at the same step, at this time.
        case retry(at: Date)
        /// It goes to another step, at once.
        case next(step: Int)
        /// It stays at its step, unsent, until the platform reports its state, at the latest until this time.
        case hold(until: Date)
    }

    /// The next move.
    public var move: Move
    /// Whether this attempt may have been delivered.
    public var mayHaveBeenSent = false
    /// The signal about the backend.
    package var signal = BackendSignal.nothing
    /// The time before which nothing else goes to this recipient.
    public var recipientPause: Date?
    /// Whether it ends as accepted by an earlier backend, which took it, and not by the present one.
    package var isReached = false

    /// Makes a verdict.
    package init(
        _ move: Move,
        mayHaveBeenSent: Bool = false,
        signal: BackendSignal = .nothing,
        recipientPause: Date? = nil
    ) {
        self.move = move
        self.mayHaveBeenSent = mayHaveBeenSent
        self.signal = signal
        self.recipientPause = recipientPause
    }

    /// The state that events and metrics show.
    public var state: DeliveryState {
        if case .end(let state) = move { state } else { .retrying }
    }
}
