public import Foundation
public import ChaparCore

/// A notification with the options that a Huawei phone has for showing it.
///
/// Source: Huawei, Push Kit, "Message sending", `AndroidNotification`, read 2026-08.
public struct HMSAndroidNotification: Sendable, Hashable {
    /// How much it may disturb.
    @nonexhaustive
    public enum Importance: String, Sendable, Hashable {
        /// Into the list only.
        case low = "LOW"
        /// With a sound.
        case normal = "NORMAL"
        /// Over what is on the screen; the app needs the right to it.
        case high = "HIGH"
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

    /// How the text is laid out.
    @nonexhaustive
    public enum Style: Sendable, Hashable {
        /// In one line.
        case plain
        /// With a text that unfolds.
        case bigText(title: String, body: String)
        /// As at most five lines.
        case inbox([String])
    }

    /// The heading.
    public var title: AppText?
    /// The text.
    public var body: AppText?
    /// Texts for keys, by language: `["greeting": ["fa": "…"]]`; at most 3 languages a key.
    public var languages: [String: [String: String]]?
    /// A file of the app.
    public var icon: String?
    /// The icon's colour, `#rrggbb`.
    public var color: String?
    /// A file of the app.
    public var sound: String?
    /// Whether the system's sound is played.
    public var usesDefaultSound: Bool?
    /// A newer one with the same tag takes its place on the screen.
    public var tag: String?
    /// A newer one with the same number takes its place on the screen.
    public var notifyID: Int?
    /// The action of a tap.
    public var click: HMSClick?
    /// The app's channel.
    public var channelID: String?
    /// The text that stands for it where there is little room.
    public var summary: String?
    /// The address of a picture, `https` only.
    public var image: String?
    /// How the text is laid out.
    public var style: Style?
    /// When it leaves the screen by itself, in whole milliseconds.
    public var clearsAfter: Duration?
    /// Notifications of the same group are shown as one.
    public var group: String?
    /// The number on the app's icon.
    public var badge: HMSBadge?
    /// How much it may disturb.
    public var importance: Importance?
    /// The part that a locked screen shows.
    public var visibility: Visibility?
    /// How long to wait and to vibrate, by turns; at most 10 spans.
    public var vibration: [Duration]?
    /// Whether the system's vibration is used.
    public var usesDefaultVibration: Bool?
    /// How the device's light blinks.
    public var light: HMSLight?
    /// Whether the system's light is used.
    public var usesDefaultLight: Bool?
    /// Whether it is shown while the app is open.
    public var isShownInForeground: Bool?
    /// The buttons, at most three.
    public var buttons: [HMSButton]?
    /// The user of the app whom it is for.
    public var profileID: String?
    /// The text that screen readers speak.
    public var ticker: String?
    /// The time of the event that it is about; notifications are sorted by it.
    public var eventTime: Date?

    /// Makes what is shown; everything is optional and set by name.
    public init(title: AppText? = nil, body: AppText? = nil, click: HMSClick? = nil) {
        self.title = title
        self.body = body
        self.click = click
    }

    /// The members of `android.notification`.
    var members: JSONObject {
        var members = JSONObject()
        title?.put(as: "title", into: &members)
        body?.put(as: "body", into: &members)
        for (name, text) in [
            ("icon", icon), ("color", color), ("sound", sound), ("tag", tag), ("channel_id", channelID),
            ("notify_summary", summary), ("image", image), ("group", group), ("importance", importance?.rawValue),
            ("visibility", visibility?.rawValue), ("profile_id", profileID), ("ticker", ticker),
            ("when", eventTime.map(RFC3339.string)),
        ] {
            members[name] = text.map { .string($0) }
        }
        for (name, flag) in [
            ("default_sound", usesDefaultSound), ("use_default_vibrate", usesDefaultVibration),
            ("use_default_light", usesDefaultLight), ("foreground_show", isShownInForeground),
        ] {
            members[name] = flag.map { .bool($0) }
        }
        members["notify_id"] = notifyID.map { .integer(Int64($0)) }
        members["auto_clear"] = clearsAfter.map { .integer($0.inMilliseconds) }
        members["multi_lang_key"] = languages.map { keys in
            var object = JSONObject()
            for (key, texts) in keys.sorted(by: { $0.key < $1.key }) { object[key] = .texts(texts) }
            return .object(object)
        }
        members["click_action"] = click?.value
        members["badge"] = badge?.value
        members["vibrate_config"] = vibration.map { .array($0.map { .span($0) }) }
        members["light_settings"] = light?.value
        members["buttons"] = buttons.map { .array($0.map(\.value)) }
        switch style {
        case .plain?: members["style"] = 0
        case .bigText(let title, let body)?:
            members["style"] = 1
            members["big_title"] = .string(title)
            members["big_body"] = .string(body)
        case .inbox(let lines)?:
            members["style"] = 3
            members["inbox_content"] = .texts(lines)
        case nil: break
        }
        return members
    }
}
