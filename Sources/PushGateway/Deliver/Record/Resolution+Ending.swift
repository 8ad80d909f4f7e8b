internal import PushCore
internal import PushQueue

extension Resolution {
    /// The end of a delivery that is not sent any more: it was cancelled, or its time is over; nil for any other.
    ///
    /// What may have been sent ends as `unknown`: neither end is certain then.
    static func ending(_ claim: ClaimedDelivery, at now: TimeReading) -> Resolution? {
        let mayHaveBeenSent = claim.isReplay || claim.isRecovered
        if claim.isCancelled {
            let reason = EndReason.cancelled.rawValue
            return ending(claim, as: mayHaveBeenSent ? .unknown : .cancelled, reason: reason, at: now)
        }
        guard now.steady >= claim.expiresAt else { return nil }
        return ending(claim, as: mayHaveBeenSent ? .unknown : .expired, reason: "ttl_ended", at: now)
    }

    /// The end of a delivery by the gateway's own decision.
    static func ending(
        _ claim: ClaimedDelivery,
        as state: DeliveryState,
        reason: String,
        at now: TimeReading
    ) -> Resolution {
        let attempt = EventJSON.ending(reason, at: now.wall)
        let event = EventJSON.delivery(claim, state: state, at: now.wall, attempt: attempt, reason: reason)
        return Resolution(of: claim, .end(state), attempt: attempt, event: event)
    }
}
