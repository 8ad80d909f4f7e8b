package import Foundation
package import ChaparCore

/// The facts about a delivery on which the effect of a ``Resolution`` depends.
///
/// A store fills it in from its row. It holds plain values, so a decision allocates nothing.
package struct RecordFacts: Sendable, Hashable {
    /// The relation of a resolution to the claim of its delivery.
    package enum Standing: Sendable, Hashable, CaseIterable {
        /// The delivery is claimed under the lease of the resolution, which is in force.
        ///
        /// A resolution without a lease belongs to the current claim, whichever that is.
        case claimed
        /// The delivery waits, and has not changed since the gateway read it.
        ///
        /// This is the case of ``NotificationStore/settle(_:of:event:)``.
        case settled
        /// The delivery has not ended, and the lease of the resolution is not in force.
        case stale
        /// The delivery has ended.
        case ended
    }

    /// The relation of the resolution to the claim.
    package var standing: Standing
    /// Whether an earlier attempt may have been delivered: its outcome was unknown, or its owner died during the claim.
    package var mayHaveBeenSent = false
    /// Whether it was cancelled while it was claimed.
    package var isCancelled = false
    /// Whether a newer delivery with its collapse id has the queue in which it would wait again.
    ///
    /// A store looks for such a delivery only when a decision without one says ``RecordDecision/waits``, and then
    /// decides again.
    package var isReplaced = false
    /// The number of steps of its plan.
    package var steps = 0

    /// Makes facts of which only the standing is known: enough to decide about an ``Resolution/Transition/end(_:)``.
    package init(_ standing: Standing) { self.standing = standing }

    /// Makes facts of a delivery that is not replaced.
    package init(_ standing: Standing, mayHaveBeenSent: Bool, isCancelled: Bool, steps: Int) {
        self.standing = standing
        self.mayHaveBeenSent = mayHaveBeenSent
        self.isCancelled = isCancelled
        self.steps = steps
    }
}

/// The effect of a ``Resolution`` on its delivery.
package enum RecordDecision: Sendable, Hashable {
    /// Nothing changes, for a reason; the resolution counts in ``StoreChange/ignored``.
    case ignore(IgnoredResolution)
    /// Nothing changes, and the call that brought the resolution fails.
    case refuse(RefusedResolution)
    /// The delivery ends in the state that its owner names, and counts in ``StoreChange/ended``.
    ///
    /// The attempt of the resolution is added to the delivery's log, the event is written, and a receipt is expected.
    case end(DeliveryState)
    /// The delivery ends as accepted, by the backend at an earlier step of its plan, and counts in
    /// ``StoreChange/ended``.
    ///
    /// The attempt is added to the delivery's log, and the event is written. From now on the delivery belongs to that
    /// backend.
    case reached(step: Int)
    /// The delivery ends instead of waiting again, and counts in ``StoreChange/ended``.
    ///
    /// The attempt is added to the delivery's log. The resolution's event is replaced by one that the caller of the
    /// store makes for the reason.
    case withdraw(DeliveryState, EndReason)
    /// The delivery waits until a time, at a step of its plan.
    ///
    /// The attempt, if there was one, is counted and added to the delivery's log. The event is written.
    case retry(at: Date, step: Int, isReplay: Bool)
    /// The delivery waits as before it was claimed: due at the same time, at the same step.
    ///
    /// No attempt is counted or added to the delivery's log. The event is written.
    case release(isReplay: Bool)

    /// Whether the delivery waits again.
    package var waits: Bool {
        switch self {
        case .retry, .release: true
        case .ignore, .refuse, .end, .reached, .withdraw: false
        }
    }
}

/// The reason why a resolution changes nothing.
package enum IgnoredResolution: Sendable, Hashable {
    /// The delivery has ended: nothing but a receipt changes its state.
    case hasEnded
    /// The lease is not in force, so another owner may have the delivery.
    case leaseIsOver
}

/// The reason why no store can write a resolution.
package enum RefusedResolution: Sendable, Hashable {
    /// No delivery ends in this state.
    case state(DeliveryState)
    /// The plan of the delivery has no such step.
    case step(Int)

    /// Returns the error of the call that brought the resolution of a delivery.
    package func error(of delivery: Int64) -> StoreError {
        switch self {
        case .state(let state): .refused("a delivery cannot end in the state \(state.rawValue)")
        case .step(let step): .refused("the plan of delivery \(delivery) has no step \(step)")
        }
    }
}

/// The rules of what a resolution does to a delivery, the same in every store.
///
/// The rules are pure: a store reads the facts, asks, and writes the decision. A statement that decides by itself, as
/// PostgreSQL's for plain ends does, names the rule that it stands for.
package enum RecordRules {
    /// Returns the effect of a transition; the first row that fits is the rule.
    ///
    /// `mayHaveBeenSent` says whether the owner's own attempt may have been delivered, and the facts whether an earlier
    /// one may have been.
    package static func decide(
        _ transition: Resolution.Transition,
        mayHaveBeenSent: Bool,
        _ facts: RecordFacts
    ) -> RecordDecision {
        let isReplay = mayHaveBeenSent || facts.mayHaveBeenSent
        return switch (transition, facts.standing) {
        case (_, .ended): .ignore(.hasEnded)
        // The platform's acceptance is true no matter who reports it.
        case (.end(let state), .stale) where state.canBeRecordedLate: .end(state)
        case (_, .stale): .ignore(.leaseIsOver)
        case (.end(let state), _): state.canBeRecorded ? .end(state) : .refuse(.state(state))
        case (.retry(_, let step), _) where step < 0 || step >= facts.steps: .refuse(.step(step))
        case (.reached(let step), _): step < 0 || step >= facts.steps ? .refuse(.step(step)) : .reached(step: step)
        case _ where facts.isCancelled: .withdraw(withdrawnState(mayHaveBeenSent: isReplay), .cancelled)
        // It must not overtake the newer one.
        case _ where facts.isReplaced: .withdraw(withdrawnState(mayHaveBeenSent: isReplay), .replaced)
        case (.retry(let moment, let step), _): .retry(at: moment, step: step, isReplay: isReplay)
        case (.release, _): .release(isReplay: facts.mayHaveBeenSent)
        }
    }

    /// Returns the state in which a delivery ends that is cancelled, replaced or erased before its owner ends it.
    ///
    /// A waiting delivery ends at once. A claimed one is marked, and ends when its owner would put it back.
    package static func withdrawnState(mayHaveBeenSent: Bool) -> DeliveryState {
        mayHaveBeenSent ? .unknown : .cancelled
    }

    /// Returns the state in which a withdrawn delivery ends; `state` is the one by the other rules.
    ///
    /// A delivery that a platform has accepted, and that waits for a report before other backends take over, ends as
    /// accepted. `log` has its attempts, `attempt` is the one that is recorded now.
    package static func withdrawn(_ state: DeliveryState, _ log: [UInt8], _ attempt: [UInt8]? = nil) -> DeliveryState {
        guard state == .unknown else { return state }
        let isAccepted = AttemptLog.isAccepted(log) || attempt.map { AttemptLog.isAccepted($0) } ?? false
        return isAccepted ? .acceptedByPlatform : state
    }

    /// Returns why a transition cannot be written under any lease; nil for one that can.
    ///
    /// A store asks this before it writes the first of several resolutions, so that it writes all of them or none.
    /// Without the number of steps of the delivery's plan it allows every step.
    package static func refusal(of transition: Resolution.Transition, steps: Int?) -> RefusedResolution? {
        switch transition {
        case .end(let state): return state.canBeRecorded ? nil : .state(state)
        case .retry(_, let step), .reached(let step):
            guard let steps, step < 0 || step >= steps else { return nil }
            return .step(step)
        case .release: return nil
        }
    }
}
