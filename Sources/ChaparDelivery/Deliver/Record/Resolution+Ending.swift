internal import ChaparCore
internal import ChaparQueue

extension Resolution {
    /// Returns the end of a delivery that was cancelled or whose time to live is over; nil for any other delivery.
    ///
    /// A delivery that may have been sent ends as `unknown`, since neither end is certain.
    static func ending(_ claim: ClaimedDelivery, at now: TimeReading) -> Resolution? {
        if claim.isCancelled {
            let state = RecordRules.withdrawnState(mayHaveBeenSent: mayHaveBeenSent(claim))
            return ending(claim, as: state, reason: EndReason.cancelled.rawValue, at: now)
        }
        return now.steady >= claim.expiresAt ? expiry(claim, at: now) : nil
    }

    /// Returns the end of a delivery whose time to live is over, by the caller's clock or by the store's.
    static func expiry(_ claim: ClaimedDelivery, at now: TimeReading) -> Resolution {
        ending(claim, as: mayHaveBeenSent(claim) ? .unknown : .expired, reason: "ttl_ended", at: now)
    }

    private static func mayHaveBeenSent(_ claim: ClaimedDelivery) -> Bool { claim.isReplay || claim.isRecovered }

    /// Returns the end of a delivery by the gateway's own decision.
    static func ending(
        _ claim: ClaimedDelivery,
        as state: DeliveryState,
        reason: String,
        at now: TimeReading
    ) -> Resolution {
        let attempt = EventJSON.ending(reason, at: now.wall)
        // A platform may have accepted it while other backends were to take over.
        let reached = claim.acceptingStep
        let event = EventJSON.delivery(
            claim,
            state: reached == nil ? state : .acceptedByPlatform,
            at: now.wall,
            attempt: attempt,
            reason: reason
        )
        return Resolution(
            of: claim,
            reached.map { Transition.reached(step: $0) } ?? .end(state),
            attempt: attempt,
            event: event
        )
    }
}
