public import Foundation

/// How a lane is doing, for `GET /v1/backends`, metrics and the dashboard.
public struct LaneStatus: Sendable, Hashable {
    /// The backend's name.
    public var backend: String
    /// Messages with the backend now.
    public var inFlight: Int
    /// The most messages that may be with the backend now.
    public var window: Int
    /// Nothing is sent until then, by the platform's wish; nil when it flows.
    public var pausedUntil: Date?
    /// Why it is paused or parked; nil when it flows.
    public var pauseReason: String?
    /// Whether an operator must mend the backend.
    public var isParked: Bool

    /// Makes a status.
    public init(
        backend: String,
        inFlight: Int = 0,
        window: Int = 0,
        pausedUntil: Date? = nil,
        pauseReason: String? = nil,
        isParked: Bool = false
    ) {
        self.backend = backend
        self.inFlight = inFlight
        self.window = window
        self.pausedUntil = pausedUntil
        self.pauseReason = pauseReason
        self.isParked = isParked
    }
}

/// Who knows how the lanes are doing: the dispatcher, or a test's stand-in.
public protocol LaneObserver: Sendable {
    /// Every lane, in the order of the configuration.
    var lanes: [LaneStatus] { get }
}
