public import ChaparCore

/// The options of a notification that only browsers understand, as a value: the caller's `overrides.webpush`.
///
/// Source: W3C, "Push API" (declarative messages), working draft of 2025-09-10; WHATWG, "Notifications API".
public struct WebPushMessage: PlatformPayload, Hashable {
    /// `webpush`.
    public static var kind: BackendKind { WebPushBackend.kind }

    /// How urgent a message is (RFC 8030 section 5.3): a browser on battery may wait for more urgent ones.
    @nonexhaustive
    public enum Urgency: String, Sendable, Hashable, CaseIterable {
        /// On power and Wi-Fi: advertisements.
        case veryLow = "very-low"
        /// On power or Wi-Fi: news of a topic.
        case low
        /// On neither: a chat message.
        case normal
        /// With a low battery: a call, an alarm.
        case high
    }

    /// The urgency; nil follows from the notification's priority.
    public var urgency: Urgency?
    /// Members of the notification that the browser shows, beside and instead of those that Chapar makes: `icon`,
    /// `lang`, `dir`, `silent`, `requireInteraction`.
    public var notification: JSONObject?
    /// Whether the page's service worker may replace a declarative notification; nil means yes.
    public var isMutable: Bool?
    /// Whether the message is declarative, so that a browser shows it without a service worker; nil follows the
    /// backend's setting.
    public var isDeclarative: Bool?

    /// Makes a value.
    public init(
        urgency: Urgency? = nil,
        notification: JSONObject? = nil,
        isMutable: Bool? = nil,
        isDeclarative: Bool? = nil
    ) {
        self.urgency = urgency
        self.notification = notification
        self.isMutable = isMutable
        self.isDeclarative = isDeclarative
    }

    /// The value as the API takes it under `overrides.webpush`.
    public var overrides: JSONObject {
        var object = JSONObject()
        object["urgency"] = urgency.map { .string($0.rawValue) }
        object["notification"] = notification.map { .object($0) }
        object["mutable"] = isMutable.map { .bool($0) }
        object["declarative"] = isDeclarative.map { .bool($0) }
        return object
    }

    /// Finds what no push service or browser would take.
    public static func faults(in notification: PushNotification) -> [Finding] {
        WebPushCheck.examine(WebPushPayload(notification, WebPushPayload.Settings())).faults
    }
}
