public import Foundation
public import PushCore

/// Where a delivery stands in its plan when something happens to it.
public struct PlanPosition: Sendable, Hashable {
    /// The plan.
    public var plan: DeliveryPlan
    /// The step of the plan it has reached.
    public var step: Int
    /// The next step whose backend can address the recipient; nil when there is none.
    public var nextStep: Int?
    /// How many attempts were made before this one, over all steps.
    public var attempts: Int
    /// When the first attempt was made, or is being made: ``DeliveryPlan/fallbackDelay`` and a refusal's retry limit
    /// count from here, since what waits for its time, or behind others, has failed at no backend.
    public var startedAt: Date
    /// When trying ends; nil for never.
    public var expiresAt: Date?
    /// Whether an earlier attempt may have been delivered.
    public var mayHaveBeenSent: Bool
    /// Whether the message's time to live is 0: each backend of the plan gets one attempt, and none is waited for.
    public var isNowOrNever = false

    /// Makes a position; the next step is the one that follows in the plan.
    public init(
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

/// What happens to a delivery at a step of its plan.
@nonexhaustive
public enum PlanEvent: Sendable, Hashable {
    /// An attempt was made and ended so.
    case answered(DeliveryOutcome)
    /// No attempt was made, for the step's backend cannot address the recipient: the device has no live token for it.
    case skipped(reason: String)
    /// A wait after ``PlanVerdict/Move/hold(until:)`` ended: with the platform's status, or with nil when there was
    /// none.
    case waited(DeliveryState?)
}

/// What follows from a ``PlanEvent``: the delivery's next move, and what it means for its backend and recipient.
public struct PlanVerdict: Sendable, Hashable {
    /// Where the delivery goes.
    @nonexhaustive
    public enum Move: Sendable, Hashable {
        /// It ends, in a final state.
        case end(DeliveryState)
        /// Another attempt at the same step, then.
        case retry(at: Date)
        /// On to another step, at once.
        case next(step: Int)
        /// It stays at its step, unsent, until the platform says what became of it or the time has come.
        case hold(until: Date)
    }

    /// Where the delivery goes.
    public var move: Move
    /// Whether this attempt may have been delivered.
    public var mayHaveBeenSent = false
    /// What it tells of the backend.
    public var signal = BackendSignal.nothing
    /// Nothing else goes to this recipient until then.
    public var recipientPause: Date?

    /// Makes a verdict.
    public init(
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
