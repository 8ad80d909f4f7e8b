public import ChaparCore

/// The options of a notification that only OneSignal has.
///
/// A property that is nil keeps the notification's value; where the notification has none, the app's settings at
/// OneSignal apply. ``ChaparCore/PushNotification/with(_:)`` merges the options into a notification. The backend of
/// IDPush, which sends through OneSignal, applies them too. Source: OneSignal, "Create message", read 2026-08.
public struct OneSignalExtras: PlatformPayload, Hashable {
    /// `onesignal`.
    public static var kind: BackendKind { OneSignalBackend.kind }

    /// How much a notification may interrupt on an Apple device.
    @nonexhaustive
    public enum InterruptionLevel: String, Sendable, Hashable {
        /// Into the list, without lighting the screen.
        case passive
        /// At once.
        case active
        /// Through a Focus and a scheduled summary.
        case timeSensitive = "time_sensitive"
        /// Through the mute switch too.
        case critical
    }

    /// An Android notification channel.
    @nonexhaustive
    public enum Channel: Sendable, Hashable {
        /// One made at OneSignal, by its UUID.
        case oneSignal(String)
        /// One that the app has made itself.
        case app(String)
    }

    /// When each user gets it.
    @nonexhaustive
    public enum Timing: Sendable, Hashable {
        /// When the user is usually active.
        case lastActive
        /// At a time of the user's own day, such as `9:00AM`.
        case timeOfDay(String)
    }

    /// The campaign's name, at most 128 characters.
    public var name: String?
    /// A template made at OneSignal, which may bring the texts.
    public var templateID: String?
    /// Values for the template, at most 2,048 bytes as JSON.
    public var customData: JSONObject?
    /// How much it may interrupt on an Apple device.
    public var interruptionLevel: InterruptionLevel?
    /// Its place in a summary on an Apple device, 0 to 1.
    public var relevanceScore: Double?
    /// Notifications with the same one are grouped on Apple's devices.
    public var threadID: String?
    /// Notifications with the same one are grouped on Android.
    public var androidGroup: String?
    /// The channel on Android.
    public var androidChannel: Channel?
    /// The channel on Huawei's phones.
    public var huaweiChannel: Channel?
    /// By how much the number on the icon grows: 1 to 99.
    public var badgeIncrease: Int?
    /// Whether it is a call for Apple's devices.
    public var isCall: Bool
    /// When each user gets it.
    public var timing: Timing?
    /// How many devices a minute get it; 0 takes a limit of the app's away.
    public var devicesPerMinute: Int?
    /// Whether the app's limit of notifications for each user applies.
    public var isFrequencyCapped: Bool?

    /// Makes extras; everything is optional and set by name.
    public init(
        name: String? = nil,
        templateID: String? = nil,
        customData: JSONObject? = nil,
        interruptionLevel: InterruptionLevel? = nil,
        relevanceScore: Double? = nil,
        threadID: String? = nil,
        androidGroup: String? = nil,
        androidChannel: Channel? = nil,
        huaweiChannel: Channel? = nil,
        badgeIncrease: Int? = nil,
        isCall: Bool = false,
        timing: Timing? = nil,
        devicesPerMinute: Int? = nil,
        isFrequencyCapped: Bool? = nil
    ) {
        self.name = name
        self.templateID = templateID
        self.customData = customData
        self.interruptionLevel = interruptionLevel
        self.relevanceScore = relevanceScore
        self.threadID = threadID
        self.androidGroup = androidGroup
        self.androidChannel = androidChannel
        self.huaweiChannel = huaweiChannel
        self.badgeIncrease = badgeIncrease
        self.isCall = isCall
        self.timing = timing
        self.devicesPerMinute = devicesPerMinute
        self.isFrequencyCapped = isFrequencyCapped
    }

    /// The members of a create, as the API takes them under `overrides.onesignal`.
    public var overrides: JSONObject {
        var members = JSONObject()
        for (member, text) in [
            ("name", name), ("template_id", templateID), ("ios_interruption_level", interruptionLevel?.rawValue),
            ("thread_id", threadID), ("android_group", androidGroup),
            ("apns_push_type_override", isCall ? "voip" : nil),
        ] {
            members[member] = text.map { .string($0) }
        }
        members["custom_data"] = customData.map { .object($0) }
        members["ios_relevance_score"] = relevanceScore.map { .number($0) }
        if let androidChannel {
            androidChannel.put(into: &members, "android_channel_id", "existing_android_channel_id")
        }
        if let huaweiChannel { huaweiChannel.put(into: &members, "huawei_channel_id", "huawei_existing_channel_id") }
        if let badgeIncrease {
            members["ios_badgeType"] = "Increase"
            members["ios_badgeCount"] = .integer(Int64(badgeIncrease))
            members["huawei_badge_add_num"] = .integer(Int64(badgeIncrease))
        }
        members["throttle_rate_per_minute"] = devicesPerMinute.map { .integer(Int64($0)) }
        members["enable_frequency_cap"] = isFrequencyCapped.map { .bool($0) }
        switch timing {
        case .lastActive?: members["delayed_option"] = "last-active"
        case .timeOfDay(let time)?:
            members["delayed_option"] = "timezone"
            members["delivery_time_of_day"] = .string(time)
        case nil: return members
        }
        // A throttle and a time for each user exclude each other.
        if devicesPerMinute == nil { members["throttle_rate_per_minute"] = 0 }
        return members
    }

    /// Finds what OneSignal would refuse.
    public static func faults(in notification: PushNotification) -> [Finding] {
        OneSignalCheck.faults(notification)
    }
}

extension OneSignalExtras.Channel {
    /// Writes it as the one or the other member.
    fileprivate func put(into members: inout JSONObject, _ ofOneSignal: String, _ ofApp: String) {
        switch self {
        case .oneSignal(let id): members[ofOneSignal] = .string(id)
        case .app(let id): members[ofApp] = .string(id)
        }
    }
}
