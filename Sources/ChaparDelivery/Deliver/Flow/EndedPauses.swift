package import Foundation
internal import ChaparComposition

/// The pauses of a backend that a *retry now* ended, and those that it left.
package struct EndedPauses: Sendable, Equatable {
    /// The cause that stops a backend's messages, or its calls about devices.
    package enum Kind: String, Sendable {
        /// Too many failures.
        case breaker
        /// The platform refuses the account: an operator must act.
        case parked
        /// The gateway waits by its own choice, since the platform named no time.
        case backoff
        /// The same for the outbox entries of the backend.
        case operations
        /// The platform asked for a pause.
        case platform
        /// The platform asked for a pause of single recipients.
        case recipients
        /// Too many tokens were called dead: an operator decides.
        case invalidationsQuarantined = "invalidations_held"
    }

    /// One pause.
    package struct Pause: Sendable, Equatable {
        package var kind: Kind
        /// The code of the cause, from the platform or the gateway.
        package var reason: String?
        /// The end of the pause, on the wall clock; nil when it is not known.
        package var until: Date?
        /// The number of paused recipients; nil when the pause is for all.
        package var count: Int?

        init(_ kind: Kind, reason: String?, until: Date? = nil, count: Int? = nil) {
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

    init() {}
}

extension FlowGate.State {
    /// Ends every pause that no platform asked for, so that the next step may claim.
    ///
    /// No other code ends such pauses. A parked or slowed worker and an open breaker try one delivery at once; the
    /// others follow when it succeeds, and the waits between probes start from the shortest. A pause that the platform
    /// asked for stays, and so do quarantined tokens, about which an operator decides.
    mutating func endOwnPauses(at now: Date) -> EndedPauses {
        var result = EndedPauses()
        if isQuarantined { result.kept.append(EndedPauses.Pause(.invalidationsQuarantined, reason: nil)) }
        if let until = pausedUntil, until > now {
            result.kept.append(EndedPauses.Pause(.platform, reason: pauseReason, until: until))
        }
        if isProbing {
            if let probeAt, probeAt > now {
                result.ended.append(EndedPauses.Pause(isParked ? .parked : .backoff, reason: probeReason))
            }
            // It stays parked or slowed until a delivery succeeds. One may be sent now, even while an earlier probe
            // hangs.
            (probeAt, probedAt) = (nil, nil)
        }
        nextProbe = BackendSignal.firstWait
        if let reason = breaker?.endCooldown(at: now) {
            result.ended.append(EndedPauses.Pause(.breaker, reason: reason))
        }
        return result
    }
}
