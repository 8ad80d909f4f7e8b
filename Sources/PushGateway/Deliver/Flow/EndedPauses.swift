package import Foundation
internal import PushComposition

/// What a *retry now* did with the pauses of a backend.
package struct EndedPauses: Sendable, Equatable {
    /// What keeps a backend from sending, or from telling its platform about devices.
    package enum Kind: String, Sendable {
        /// Too many failures.
        case breaker
        /// The platform refuses the account: an operator must act.
        case parked
        /// The gateway waits by itself, since the platform did not say how long.
        case backoff
        /// The same for what a platform is told about devices.
        case operations
        /// The platform asked for it.
        case platform
        /// The platform asked to leave single recipients alone.
        case recipients
        /// Too many tokens were called dead: an operator decides.
        case invalidationsHeld = "invalidations_held"
    }

    /// One of them.
    package struct Pause: Sendable, Equatable {
        package var kind: Kind
        /// The platform's or the gateway's word for it.
        package var reason: String?
        /// When it ends, as a time of day; nil when that is not known.
        package var until: Date?
        /// How many recipients it is about; nil when it is about all.
        package var count: Int?

        package init(_ kind: Kind, reason: String?, until: Date? = nil, count: Int? = nil) {
            self.kind = kind
            self.reason = reason
            self.until = until
            self.count = count
        }
    }

    /// The pauses that are over now.
    package var ended: [Pause] = []
    /// The pauses that stay.
    package var kept: [Pause] = []

    package init() {}
}

extension FlowGate.State {
    /// Ends every pause that no platform asked for, so that the next look may claim.
    ///
    /// The one place for that. A parked or slowed worker and an open breaker try one delivery at once; the others follow when it succeeds, and the
    /// waits between tries begin anew. What the platform asked for stays, and so do quarantined dead-token answers, which an operator
    /// decides about.
    mutating func endOwnPauses(at now: Date) -> EndedPauses {
        var result = EndedPauses()
        if isHeld { result.kept.append(EndedPauses.Pause(.invalidationsHeld, reason: nil)) }
        if let until = pausedUntil, until > now {
            result.kept.append(EndedPauses.Pause(.platform, reason: pauseReason, until: until))
        }
        if isProbing {
            if let probeAt, probeAt > now {
                result.ended.append(EndedPauses.Pause(isParked ? .parked : .backoff, reason: probeReason))
            }
            probeAt = nil  // It stays parked or slowed until a delivery succeeds, and one may go now.
        }
        nextProbe = BackendSignal.firstWait
        if let reason = breaker?.endCooldown(at: now) {
            result.ended.append(EndedPauses.Pause(.breaker, reason: reason))
        }
        return result
    }
}
