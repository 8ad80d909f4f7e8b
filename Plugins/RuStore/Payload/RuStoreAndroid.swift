public import ChaparCore

/// The options of a message that RuStore has for showing it.
///
/// A property that is nil leaves the notification's value. Lay the options over a notification with
/// ``ChaparCore/PushNotification/with(_:)``; backends of other kinds ignore them.
/// Source: RuStore, "Send push notifications", `android.notification`, read 2026-09.
public struct RuStoreAndroid: PlatformPayload, Hashable {
    /// `rustore`.
    public static var kind: BackendKind { RuStoreBackend.kind }

    /// The effect of a tap.
    @nonexhaustive
    public enum Click: Sendable, Hashable {
        /// Starts the app's activity with an intent of this action.
        case intent(action: String)
        /// Opens a deep link.
        case link(String)
    }

    /// The heading.
    public var title: String?
    /// The text.
    public var body: String?
    /// The name of a drawable of the app.
    public var icon: String?
    /// The icon's colour, `#rrggbb`.
    public var color: String?
    /// The address of a picture.
    public var image: String?
    /// The app's channel, which decides sound and prominence.
    public var channelID: String?
    /// The effect of a tap.
    public var click: Click?
    /// The time that RuStore tries to deliver, a second to 28 days.
    public var timeToLive: Duration?

    /// Makes options; everything is optional and set by name.
    public init(channelID: String? = nil, click: Click? = nil, timeToLive: Duration? = nil) {
        self.channelID = channelID
        self.click = click
        self.timeToLive = timeToLive
    }

    /// `android`, as the API takes it under `overrides.rustore`.
    public var overrides: JSONObject {
        var shown = JSONObject()
        for (name, text) in [
            ("title", title), ("body", body), ("icon", icon), ("color", color), ("image", image),
            ("channel_id", channelID),
        ] {
            shown[name] = text.map { .string($0) }
        }
        switch click {
        case .intent(let action)?: (shown["click_action"], shown["click_action_type"]) = (.string(action), 0)
        case .link(let address)?: (shown["click_action"], shown["click_action_type"]) = (.string(address), 1)
        case nil: break
        }
        var android = JSONObject()
        android["ttl"] = timeToLive.map { .string("\(max($0.components.seconds, 1))s") }
        if !shown.isEmpty { android["notification"] = .object(shown) }
        return android.isEmpty ? [:] : ["android": .object(android)]
    }

    /// Finds what RuStore's direct API would refuse.
    public static func faults(in notification: PushNotification) -> [Finding] {
        let overrides = notification.overrides[kind.rawValue].map { RuStoreOverrides($0) }
        return RuStoreCheck.examine(RuStorePayload(notification: notification, overrides: overrides), in: .direct)
            .faults
    }
}
