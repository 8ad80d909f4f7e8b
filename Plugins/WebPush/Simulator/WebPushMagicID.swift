/// Ids of subscriptions that choose their own answer, for demonstrations without any set-up.
///
/// | prefix | answer |
/// | --- | --- |
/// | `sim-gone` | 410: the subscription has ended |
/// | `sim-unknown` | 404 |
/// | `sim-otherkey` | as for a subscription of another VAPID key |
/// | `sim-busy1` | the refusal of too many messages to the device, once for each subscription |
/// | `sim-503` | 503, once for each subscription |
/// | `sim-large` | 413 |
@nonexhaustive
public enum WebPushMagicID: String, Sendable, CaseIterable {
    /// 410.
    case gone = "sim-gone"
    /// 404.
    case unknown = "sim-unknown"
    /// Another VAPID key.
    case otherKey = "sim-otherkey"
    /// Too many messages to the device, once.
    case busyOnce = "sim-busy1"
    /// 503 once.
    case downOnce = "sim-503"
    /// 413.
    case large = "sim-large"

    /// Finds the magic of an id; nil for an ordinary one.
    public init?(_ id: String) {
        guard id.hasPrefix("sim-"), let magic = Self.allCases.first(where: { id.hasPrefix($0.rawValue) }) else {
            return nil
        }
        self = magic
    }

    /// Whether it comes once for each subscription.
    var isOnce: Bool { self == .busyOnce || self == .downOnce }

    var refusal: WebPushRefusal {
        switch self {
        case .gone: .gone
        case .unknown: .unknown
        case .otherKey: .otherKey
        case .busyOnce: .busyDevice
        case .downOnce: .down
        case .large: .tooLarge
        }
    }
}
