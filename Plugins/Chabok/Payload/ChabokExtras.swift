public import ChaparCore

/// The options of a notification that only Chabok has.
///
/// A property that is nil leaves the notification's value, or the backend's configured one. Lay the options over a
/// notification with ``ChaparCore/PushNotification/with(_:)``. Source: Chabok, "REST API", pages on sending, read
/// 2026-08.
public struct ChabokExtras: PlatformPayload, Hashable {
    /// `chabok`.
    public static var kind: BackendKind { ChabokBackend.kind }

    /// The mechanism by which it is sent.
    public var mechanism: ChabokOptions.Mechanism?
    /// The second message that follows when it was not shown in time.
    public var fallback: ChabokOptions.Fallback?
    /// The channel of a message: `name`, `public/name` or `private/name`.
    public var channel: String?
    /// The campaign's id in reports.
    public var trackID: String?
    /// The text of a message in the inbox, where it differs from what is shown.
    public var content: String?
    /// The text that is shown instead of the message's own.
    public var alertText: String?
    /// Whether a message is delivered only while the app is open.
    public var isInApp: Bool?
    /// Whether only users who are connected at this moment get it; nothing is reported of such a message.
    public var isLive: Bool?
    /// Whether the text of a message is shown.
    public var showsContent: Bool?
    /// Whether Google, not the app, shows it on Android.
    public var isShownByGoogle: Bool?
    /// The looks of the notification.
    public var looks: ChabokLooks?

    /// Makes extras; everything is optional and set by name.
    public init(
        mechanism: ChabokOptions.Mechanism? = nil,
        fallback: ChabokOptions.Fallback? = nil,
        channel: String? = nil,
        trackID: String? = nil,
        content: String? = nil,
        alertText: String? = nil,
        isInApp: Bool? = nil,
        isLive: Bool? = nil,
        showsContent: Bool? = nil,
        isShownByGoogle: Bool? = nil,
        looks: ChabokLooks? = nil
    ) {
        self.mechanism = mechanism
        self.fallback = fallback
        self.channel = channel
        self.trackID = trackID
        self.content = content
        self.alertText = alertText
        self.isInApp = isInApp
        self.isLive = isLive
        self.showsContent = showsContent
        self.isShownByGoogle = isShownByGoogle
        self.looks = looks
    }

    /// The members of a send, as the API takes them under `overrides.chabok`.
    public var overrides: JSONObject {
        var members = JSONObject()
        for (name, text) in [
            ("mechanism", mechanism?.rawValue), ("channel", channel), ("trackId", trackID), ("content", content),
            ("alertText", alertText),
        ] {
            members[name] = text.map { .string($0) }
        }
        for (name, flag) in [
            ("inApp", isInApp), ("live", isLive), ("useAsAlert", showsContent), ("autoNotify", isShownByGoogle),
        ] {
            members[name] = flag.map { .bool($0) }
        }
        members["fallback"] = fallback?.json
        members["notification"] = looks.map { .object($0.members) }
        return members
    }

    /// Finds what Chabok would refuse, except for rules that depend on the backend's configuration.
    public static func faults(in notification: PushNotification) -> [Finding] {
        ChabokCheck.overrideFaults(notification)
    }
}

/// The looks of a Chabok notification for which the neutral notification has no property.
///
/// Source: Chabok, "REST API", the object `notification`, read 2026-08.
public struct ChabokLooks: Sendable, Hashable {
    /// The direction of the text.
    @nonexhaustive
    public enum Direction: String, Sendable, Hashable {
        /// From right to left, as in Persian and Arabic.
        case rightToLeft = "rtl"
        /// From left to right, as in English.
        case leftToRight = "ltr"
    }

    /// Notifications with the same one are grouped on Apple's devices, and replace each other on Android.
    public var groupID: String?
    /// The picture beside the text.
    public var icon: String?
    /// The large picture on Android.
    public var largeIcon: String?
    /// The small picture on Android.
    public var smallIcon: String?
    /// The colour of the light on Android, hexadecimal.
    public var ledColor: String?
    /// The icon's colour, hexadecimal.
    public var color: String?
    /// How long to wait and to vibrate by turns, in milliseconds.
    public var vibration: [Int]?
    /// The direction of the text.
    public var direction: Direction?
    /// Whether it stays until the user does something, in browsers.
    public var requiresInteraction: Bool?
    /// Whether one that replaces another alerts again, in browsers.
    public var alertsAgain: Bool?
    /// Whether the app's extension may change it before it is shown.
    public var isMutable: Bool?
    /// Whether the app is asked to report that it was shown.
    public var isShowingReported: Bool?

    /// Makes looks; everything is optional and set by name.
    public init(groupID: String? = nil, icon: String? = nil, color: String? = nil) {
        self.groupID = groupID
        self.icon = icon
        self.color = color
    }

    /// The members of `notification`.
    var members: JSONObject {
        var members = JSONObject()
        for (name, text) in [
            ("groupId", groupID), ("icon", icon), ("largeIcon", largeIcon), ("smallIcon", smallIcon),
            ("ledColor", ledColor), ("color", color), ("dir", direction?.rawValue),
        ] {
            members[name] = text.map { .string($0) }
        }
        for (name, flag) in [
            ("requireInteraction", requiresInteraction), ("renotify", alertsAgain), ("mutableContent", isMutable),
            ("notifDelivery", isShowingReported),
        ] {
            members[name] = flag.map { .bool($0) }
        }
        members["vibrate"] = vibration.map { .array($0.map { .integer(Int64($0)) }) }
        return members
    }
}
