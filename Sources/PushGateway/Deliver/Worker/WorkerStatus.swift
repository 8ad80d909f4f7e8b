import PushComposition
package import Foundation

/// How a worker is doing, for `GET /v1/backends`, metrics and the dashboard.
package struct WorkerStatus: Sendable, Hashable {
    /// The backend's name.
    package var backend: String
    /// Messages with the backend now.
    package var inFlight: Int
    /// The most messages that may be with the backend now.
    package var window: Int
    /// Nothing is sent until then, because the platform asked for it; nil without a pause.
    package var pausedUntil: Date?
    /// Why it is paused or parked; nil when it flows.
    package var pauseReason: String?
    /// Whether an operator must mend the backend.
    package var isParked: Bool
    /// Whether too many failures keep messages away from the backend.
    package var breaker: Breaker
    /// Whether so many tokens were declared dead that nothing is sent until an operator decides.
    package var areInvalidationsHeld: Bool

    /// Makes a status.
    package init(
        backend: String,
        inFlight: Int = 0,
        window: Int = 0,
        pausedUntil: Date? = nil,
        pauseReason: String? = nil,
        isParked: Bool = false,
        breaker: Breaker = Breaker(.closed),
        areInvalidationsHeld: Bool = false
    ) {
        self.backend = backend
        self.inFlight = inFlight
        self.window = window
        self.pausedUntil = pausedUntil
        self.pauseReason = pauseReason
        self.isParked = isParked
        self.breaker = breaker
        self.areInvalidationsHeld = areInvalidationsHeld
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
}

extension WorkerObserver {
    /// None.
    package var invalidations: TokenInvalidation? { nil }
    /// None.
    package var goneBackends: GoneBackends? { nil }
}
