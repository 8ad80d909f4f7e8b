public import Foundation
public import ChaparCore

/// A notification with the options that Android has for showing it.
///
/// Source: Firebase, REST resource `projects.messages`, `AndroidNotification`, read 2026-08.
public struct FCMAndroidNotification: Sendable, Hashable {
    /// The prominence of the notification, below Android 8.
    @nonexhaustive
    public enum Priority: String, Sendable, Hashable {
        /// Not at all, unless the list is opened far enough.
        case minimum = "PRIORITY_MIN"
        /// Small, below the others.
        case low = "PRIORITY_LOW"
        /// As usual.
        case standard = "PRIORITY_DEFAULT"
        /// Larger, above the others.
        case high = "PRIORITY_HIGH"
        /// With the greatest prominence.
        case maximum = "PRIORITY_MAX"
    }

    /// The part of a notification that a locked screen shows.
    @nonexhaustive
    public enum Visibility: String, Sendable, Hashable {
        /// The existence of the notification, not its content.
        case `private` = "PRIVATE"
        /// Everything.
        case `public` = "PUBLIC"
        /// Nothing.
        case secret = "SECRET"
    }

    /// Whether Google's service may hand it to another device on the user's behalf.
    @nonexhaustive
    public enum Proxy: String, Sendable, Hashable {
        /// Always.
        case allow = "ALLOW"
        /// Never.
        case deny = "DENY"
        /// Only if Android lowered its priority.
        case ifPriorityLowered = "IF_PRIORITY_LOWERED"
    }

    /// The heading.
    public var title: AppText?
    /// The text.
    public var body: AppText?
    /// The name of a drawable of the app.
    public var icon: String?
    /// The icon's colour, `#rrggbb`.
    public var color: String?
    /// A file of the app, or `default`.
    public var sound: String?
    /// A newer one with the same tag takes its place on the screen.
    public var tag: String?
    /// The name of the activity that a tap opens.
    public var clickAction: String?
    /// The app's channel, which decides sound and prominence from Android 8 on.
    public var channelID: String?
    /// The text that screen readers speak.
    public var ticker: String?
    /// Whether it stays after a tap.
    public var isSticky: Bool?
    /// The time of the event that it is about; notifications are sorted by it.
    public var eventTime: Date?
    /// Whether it stays on this device, without a copy on a watch.
    public var isLocalOnly: Bool?
    /// The prominence of the notification, below Android 8.
    public var priority: Priority?
    /// Whether the system's sound is played.
    public var usesDefaultSound: Bool?
    /// Whether the system's vibration is used.
    public var usesDefaultVibration: Bool?
    /// Whether the system's light is used.
    public var usesDefaultLight: Bool?
    /// How long to wait and to vibrate, by turns.
    public var vibration: [Duration]?
    /// The part that a locked screen shows.
    public var visibility: Visibility?
    /// How many items it stands for, in the number on the app's icon.
    public var count: Int?
    /// How the device's light blinks.
    public var light: FCMLight?
    /// The address of a picture.
    public var image: String?
    /// Whether Google's service may hand it to another device.
    public var proxy: Proxy?

    /// Makes what is shown; everything is optional and set by name.
    public init(title: AppText? = nil, body: AppText? = nil, channelID: String? = nil) {
        self.title = title
        self.body = body
        self.channelID = channelID
    }

    /// The members of `android.notification`.
    var members: JSONObject {
        var members = JSONObject()
        title?.put(as: "title", into: &members)
        body?.put(as: "body", into: &members)
        for (name, text) in [
            ("icon", icon), ("color", color), ("sound", sound), ("tag", tag), ("click_action", clickAction),
            ("channel_id", channelID), ("ticker", ticker), ("image", image),
            ("notification_priority", priority?.rawValue), ("visibility", visibility?.rawValue),
            ("proxy", proxy?.rawValue), ("event_time", eventTime.map(RFC3339.string)),
        ] {
            members[name] = text.map { .string($0) }
        }
        for (name, flag) in [
            ("sticky", isSticky), ("local_only", isLocalOnly), ("default_sound", usesDefaultSound),
            ("default_vibrate_timings", usesDefaultVibration), ("default_light_settings", usesDefaultLight),
        ] {
            members[name] = flag.map { .bool($0) }
        }
        members["vibrate_timings"] = vibration.map { .array($0.map { .span($0) }) }
        members["notification_count"] = count.map { .integer(Int64($0)) }
        members["light_settings"] = light?.value
        return members
    }
}

/// How the light of an Android device blinks: Google and Huawei write it alike.
public typealias FCMLight = AndroidLight
