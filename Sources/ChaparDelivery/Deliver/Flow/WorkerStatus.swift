package import Foundation
import ChaparComposition
package import ChaparCore

/// The status of a worker, for `GET /v1/backends`, metrics and the dashboard.
package struct WorkerStatus: Sendable, Hashable {
    /// The backend's name.
    package var backend: String
    /// The number of messages with the backend now.
    package var inFlight: Int
    /// The most messages that may be with the backend now.
    package var window: Int
    /// The end of the pause that the platform asked for, or the time of the next probe; nil without a pause.
    package var pausedUntil: Date?
    /// The reason why it is paused or parked; nil when messages flow.
    package var pauseReason: String?
    /// The reason as a sentence with the fix; nil when there is none.
    var pauseDetail: String?
    /// Whether an operator must correct the backend.
    package var isParked: Bool
    /// Whether the platform asks for a pause without naming a time, so that one message at a time is tried.
    package var isSlowed: Bool
    /// Whether a pause of a length that the platform asked for is in force.
    var isPaused: Bool
    /// The breaker, which keeps messages away from the backend after too many failures.
    package var breaker: Breaker
    /// Whether too many tokens were called dead, so that nothing is sent until an operator decides.
    package var areInvalidationsQuarantined: Bool
    /// The number of API keys whose dead-token answers are quarantined until an operator decides.
    ///
    /// The backend goes on sending.
    package var undecidedCallers: Int
    /// The rate at which the gateway sends to the backend, and how much of it is used; nil without one.
    package var quota: Quota?

    /// Makes a status.
    package init(
        backend: String,
        inFlight: Int = 0,
        window: Int = 0,
        pausedUntil: Date? = nil,
        pauseReason: String? = nil,
        pauseDetail: String? = nil,
        isParked: Bool = false,
        isSlowed: Bool = false,
        isPaused: Bool = false,
        breaker: Breaker = Breaker(.closed),
        areInvalidationsQuarantined: Bool = false,
        undecidedCallers: Int = 0,
        quota: Quota? = nil
    ) {
        self.backend = backend
        self.inFlight = inFlight
        self.window = window
        self.pausedUntil = pausedUntil
        self.pauseReason = pauseReason
        self.pauseDetail = pauseDetail
        self.isParked = isParked
        self.isSlowed = isSlowed
        self.isPaused = isPaused
        self.breaker = breaker
        self.areInvalidationsQuarantined = areInvalidationsQuarantined
        self.undecidedCallers = undecidedCallers
        self.quota = quota
    }

    /// Returns the backend's health as its worker sees it; `own` is the backend's own report, which may not show that
    /// the account is refused.
    package func health(_ own: BackendHealth) -> BackendHealth {
        guard isParked || isSlowed || isPaused else { return own }
        var health = own
        if health.status != .down { health.status = isParked ? .down : .degraded }
        let words = [pauseReason, pauseDetail].compactMap(\.self).joined(separator: ": ")
        let state = isPaused ? "paused by the platform" : isParked ? "parked" : "slowed"
        health.detail = own.detail ?? "\(state)\(words.isEmpty ? "" : ", ")\(words)"
        return health
    }

    /// A rate of messages, and its use.
    package struct Quota: Sendable, Hashable {
        /// The messages a second that may go.
        package var perSecond: Double
        /// The part of it that this gateway used over about the last ten seconds, from 0 to 1.
        package var used: Double

        /// Makes a quota.
        package init(perSecond: Double, used: Double) {
            self.perSecond = perSecond
            self.used = used
        }
    }

    /// The state of a worker's circuit breaker.
    package struct Breaker: Sendable, Hashable {
        /// The status of a breaker.
        package enum Status: String, Sendable, CaseIterable {
            /// Messages pass.
            case closed
            /// One message passes as a probe.
            case halfOpen = "half_open"
            /// No message passes.
            case open
        }

        /// The status.
        package var status: Status
        /// The time of the next probe; nil when it is unknown.
        package var until: Date?
        /// The reason why it is not closed.
        package var reason: String?

        /// Makes a state.
        init(_ status: Status, until: Date? = nil, reason: String? = nil) {
            self.status = status
            self.until = until
            self.reason = reason
        }
    }
}
