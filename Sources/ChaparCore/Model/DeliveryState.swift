/// The state of a delivery.
///
/// API, events, metrics and dashboard use this one closed list. The counts of the states always add up to the number of
/// deliveries.
@nonexhaustive
public enum DeliveryState: String, Sendable, CaseIterable {
    /// Waits for its turn.
    case queued
    /// Waits for its scheduled time.
    case scheduled
    /// On its way to the platform.
    case sending
    /// Waits for another attempt.
    case retrying
    /// The platform took it.
    case acceptedByPlatform = "accepted_by_platform"
    /// The platform or the app reported that it reached the device.
    case delivered
    /// The user opened it.
    case opened
    /// Refused for good; the last attempt says why.
    case failed
    /// Its time to live ended first.
    case expired
    /// Cancelled before it was sent, by the caller or by a newer message with the same collapse id.
    case cancelled
    /// Sent, no answer came, and the rule says not to try again.
    case unknown

    /// Whether nothing more will be tried.
    public var isFinal: Bool {
        switch self {
        case .queued, .scheduled, .sending, .retrying: false
        case .acceptedByPlatform, .delivered, .opened, .failed, .expired, .cancelled, .unknown: true
        }
    }
}
