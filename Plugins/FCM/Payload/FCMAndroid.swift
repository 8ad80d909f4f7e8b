public import ChaparCore

/// The options of a message through Google that only Android devices get.
///
/// A property that is nil leaves the notification's value. Lay the options over a notification with
/// ``ChaparCore/PushNotification/with(_:)``; backends of other kinds ignore them, and Apple's devices do not get them.
/// Source: Firebase, REST resource `projects.messages`, `AndroidConfig`, read 2026-08.
public struct FCMAndroid: PlatformPayload, Hashable {
    /// `fcm`.
    public static var kind: BackendKind { FCMBackend.kind }

    /// How urgent it is: Google's words.
    @nonexhaustive
    public enum Priority: String, Sendable, Hashable {
        /// When it suits the battery.
        case normal = "NORMAL"
        /// At once, also when the device sleeps; if nothing is shown for it, Android demotes later ones.
        case high = "HIGH"
    }

    /// The notification that is shown, with Android's own options.
    public var notification: FCMAndroidNotification?
    /// The app's values, instead of the notification's.
    public var data: [String: String]?
    /// How urgent it is.
    public var priority: Priority?
    /// The time for which Google tries to deliver, 0 to 28 days; 0 means one attempt at once.
    public var timeToLive: Duration?
    /// While the device is offline, a newer message with the same key replaces this one; at most 4 keys for a device.
    public var collapseKey: String?
    /// The only package that may get it.
    public var restrictedPackageName: String?
    /// Whether it is delivered before the device is unlocked for the first time.
    public var isDirectBootAllowed: Bool?
    /// Whether it is delivered over a network of little bandwidth.
    public var isConstrainedBandwidthAllowed: Bool?
    /// Whether it is delivered over a satellite.
    public var isSatelliteAllowed: Bool?
    /// The label in Google's reports, 1 to 50 of `a-z`, `A-Z`, `0-9`, `-_.~%`.
    public var analyticsLabel: String?

    /// Makes a block.
    public init(
        notification: FCMAndroidNotification? = nil,
        data: [String: String]? = nil,
        priority: Priority? = nil,
        timeToLive: Duration? = nil,
        collapseKey: String? = nil,
        restrictedPackageName: String? = nil,
        isDirectBootAllowed: Bool? = nil,
        isConstrainedBandwidthAllowed: Bool? = nil,
        isSatelliteAllowed: Bool? = nil,
        analyticsLabel: String? = nil
    ) {
        self.notification = notification
        self.data = data
        self.priority = priority
        self.timeToLive = timeToLive
        self.collapseKey = collapseKey
        self.restrictedPackageName = restrictedPackageName
        self.isDirectBootAllowed = isDirectBootAllowed
        self.isConstrainedBandwidthAllowed = isConstrainedBandwidthAllowed
        self.isSatelliteAllowed = isSatelliteAllowed
        self.analyticsLabel = analyticsLabel
    }

    /// `android`, as the API takes it under `overrides.fcm`.
    public var overrides: JSONObject {
        var android = JSONObject()
        android["collapse_key"] = collapseKey.map { .string($0) }
        android["priority"] = priority.map { .string($0.rawValue) }
        android["ttl"] = timeToLive.map { .span($0) }
        android["restricted_package_name"] = restrictedPackageName.map { .string($0) }
        android["data"] = data.map { .texts($0) }
        android["notification"] = notification.map { .object($0.members) }
        android["fcm_options"] = analyticsLabel.map { ["analytics_label": .string($0)] }
        android["direct_boot_ok"] = isDirectBootAllowed.map { .bool($0) }
        android["bandwidth_constrained_ok"] = isConstrainedBandwidthAllowed.map { .bool($0) }
        android["restricted_satellite_ok"] = isSatelliteAllowed.map { .bool($0) }
        return ["android": .object(android)]
    }

    /// Finds what Google would refuse.
    public static func faults(in notification: PushNotification) -> [Finding] { FCMCheck.faults(in: notification) }
}

extension FCMCheck {
    /// Finds what Google would refuse of a notification to a device, for code that has no backend at hand.
    static func faults(in notification: PushNotification) -> [Finding] {
        let overrides = notification.overrides[FCMBackend.kind.rawValue].map { FCMOverrides($0) }
        let payload = FCMPayload(
            notification: notification,
            overrides: overrides,
            label: nil,
            life: FCMPayload.Life()
        )
        return examine(payload, form: .token).faults
    }
}
