package import Foundation
import PushComposition
package import PushCore

/// How a worker is doing, for `GET /v1/backends`, metrics and the dashboard.
package struct WorkerStatus: Sendable, Hashable {
    /// The backend's name.
    package var backend: String
    /// Messages with the backend now.
    package var inFlight: Int
    /// The most messages that may be with the backend now.
    package var window: Int
    /// The end of the pause that the platform asked for, or the time of the next probe; nil without a pause.
    package var pausedUntil: Date?
    /// Why it is paused or parked; nil when it flows.
    package var pauseReason: String?
    /// The same in a sentence with the fix; nil when there is none.
    package var pauseDetail: String?
    /// Whether an operator must mend the backend.
    package var isParked: Bool
    /// Whether the platform asks for a pause and names no time, so that one message at a time is tried.
    package var isSlowed: Bool
    /// Whether a pause of the length that the platform asked for is what holds now.
    package var isPaused: Bool
    /// Whether too many failures keep messages away from the backend.
    package var breaker: Breaker
    /// Whether so many tokens were declared dead that nothing is sent until an operator decides.
    package var areInvalidationsHeld: Bool
    /// How many API keys' dead-token answers are held until an operator decides, while the backend goes on.
    package var undecidedCallers: Int

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
        areInvalidationsHeld: Bool = false,
        undecidedCallers: Int = 0
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
        self.areInvalidationsHeld = areInvalidationsHeld
        self.undecidedCallers = undecidedCallers
    }

    /// The backend's health by its worker: `own` is the backend's own report, which may not show that the account is
    /// refused.
    package func health(_ own: BackendHealth) -> BackendHealth {
        guard isParked || isSlowed || isPaused else { return own }
        var health = own
        if health.status != .down { health.status = isParked ? .down : .degraded }
        let words = [pauseReason, pauseDetail].compactMap(\.self).joined(separator: ": ")
        let state = isPaused ? "paused by the platform" : isParked ? "parked" : "slowed"
        health.detail = own.detail ?? "\(state)\(words.isEmpty ? "" : ", ")\(words)"
        return health
    }

    /// How a worker's circuit breaker stands.
    package struct Breaker: Sendable, Hashable {
        /// Its status.
        package enum Status: String, Sendable, CaseIterable {
            /// Messages pass.
            case closed
            /// One passes, to see.
            case halfOpen = "half_open"
            /// None pass.
            case open
        }

        /// How it stands.
        package var status: Status
        /// When a probe is made; nil when nobody knows.
        package var until: Date?
        /// Why it is not closed.
        package var reason: String?

        /// Makes a state.
        package init(_ status: Status, until: Date? = nil, reason: String? = nil) {
            self.status = status
            self.until = until
            self.reason = reason
        }
    }
}

/// Gives the status of the workers: the dispatcher, or a test's stand-in.
package protocol WorkerObserver: Sendable {
    /// Every worker, in the order of the configuration.
    var workers: [WorkerStatus] { get }
    /// Where an operator settles held invalidations; nil where there are none.
    var invalidations: TokenInvalidation? { get }
    /// Where an operator settles what waits for backends that are not configured any more; nil where nothing does.
    var goneBackends: GoneBackends? { get }
    /// Ends the pauses of a backend that no platform asked for; says what it ended and what stays.
    func endOwnPauses(of backend: String) -> EndedPauses
}

extension WorkerObserver {
    /// None.
    package var invalidations: TokenInvalidation? { nil }
    /// None.
    package var goneBackends: GoneBackends? { nil }
    /// Nothing.
    package func endOwnPauses(of backend: String) -> EndedPauses { EndedPauses() }
}
