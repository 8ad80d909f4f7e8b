public import Foundation
public import ChaparCore

/// The form in which a device would show a Chabok message, for previews and for payloads of other plugins.
public struct ChabokDisplayPlan: Sendable, Hashable {
    /// The heading.
    public var title: String?
    /// The text.
    public var body: String?
    /// The group that it is shown in.
    public var group: String?
    /// A picture.
    public var image: String?
    /// The number on the icon; 0 removes it.
    public var badge: Int64?
    /// The name of the time zone that times are shown in; nil for the device's.
    public var timeZone: String?
    /// The word on the button of an alert; nil for the system's.
    public var action: String?
    /// The values that the app gets back when the notification is tapped; empty for the message itself.
    public var userInfo: JSONObject
    /// The rest, as the message has it, such as `icon`, `sound`, `dir`, `actions` and `clickUrl`.
    public var rest: JSONObject

    /// Makes a plan.
    public init(
        title: String? = nil,
        body: String? = nil,
        group: String? = nil,
        image: String? = nil,
        badge: Int64? = nil,
        timeZone: String? = nil,
        action: String? = nil,
        userInfo: JSONObject = JSONObject(),
        rest: JSONObject = JSONObject()
    ) {
        self.timeZone = timeZone
        self.action = action
        self.userInfo = userInfo
        self.title = title
        self.body = body
        self.group = group
        self.image = image
        self.badge = badge
        self.rest = rest
    }
}

/// Decides which parts of a message are shown; an override replaces all of the client's own rules.
///
/// If an override returns nil, nothing is shown, as with the delegate method of the client library.
public struct ChabokDisplayPolicy: Sendable {
    /// The state of the client that the decision depends on.
    public struct Client: Sendable {
        /// Whether the client is set to show nothing.
        public var isSilent = false
        /// Ids of messages that it has seen.
        public var seen: Set<String> = []
        /// The user's settings by channel, as ``ChabokInstallations/Installation/channels`` has them.
        public var channels: [String: ChabokChannelSettings] = [:]
        /// Its time.
        public var now: Date

        /// Makes a client that has seen nothing.
        public init(now: Date) { self.now = now }
    }

    /// The settings of the app's clients; see ``ChabokOptions/display``.
    public struct Settings: Sendable, Hashable {
        /// Whether its clients are set to show nothing.
        public var isSilent: Bool
        /// How messages of single channels are shown.
        public var channels: [String: ChabokChannelSettings]

        /// Makes settings; those of the client library by default.
        public init(isSilent: Bool = false, channels: [String: ChabokChannelSettings] = [:]) {
            self.isSilent = isSilent
            self.channels = channels
        }
    }

    private let settings: Settings
    private let override: (@Sendable (JSONObject) -> ChabokDisplayPlan?)?

    /// Makes the client's own rules with the app's settings, or an override of all of them.
    public init(
        _ settings: Settings = Settings(),
        override: (@Sendable (JSONObject) -> ChabokDisplayPlan?)? = nil
    ) {
        self.settings = settings
        self.override = override
    }

    /// Returns what is shown of a message; nil for nothing.
    public func plan(_ message: JSONObject, for client: Client) -> ChabokDisplayPlan? {
        if let override { return override(message) }
        let notification = message["notification"]?.objectValue ?? JSONObject()
        func isTrue(_ value: JSONValue?) -> Bool { value == .bool(true) || value == .integer(1) }
        guard !client.isSilent, !isTrue(message["silent"]), !isTrue(notification["disableLocalNotif"]) else {
            return nil
        }
        if let id = ChabokAnswer.text(message["id"]), client.seen.contains(id) { return nil }
        if let made = ChabokTime.read(message["createdAt"]), let life = message["ttl"]?.integerValue,
            made.addingTimeInterval(Double(life)) < client.now
        {
            return nil
        }
        let settings = ChabokAnswer.text(message["channel"]).flatMap { client.channels[$0] }
        guard settings?.alert ?? true else { return nil }
        func text(_ values: JSONValue?...) -> String? {
            values.lazy.compactMap { ChabokAnswer.text($0) }.first
        }
        var rest = JSONObject()
        for name in ["icon", "sound", "dir", "vibrate", "clickUrl", "renotify", "requireInteraction"] {
            if let value = notification[name] { rest[name] = value }
        }
        if let sound = settings?.sound { rest["sound"] = sound.isEmpty ? nil : .string(sound) }
        if let actions = notification["actions"]?.arrayValue {
            rest["actions"] = .array(actions.map(Self.withAlias))
        }
        return ChabokDisplayPlan(
            title: text(notification["title"]),
            body: text(notification["body"], notification["text"], message["content"]),
            group: text(notification["groupId"], message["channel"]),
            image: text(notification["mediaUrl"]),
            badge: notification["badge"]?.integerValue,
            rest: rest
        )
    }

    /// Returns what a device shows of a payload that reached it; nil for nothing, and where the system itself shows it.
    func plan(of notification: ChabokNotification, at now: Date) -> ChabokDisplayPlan? {
        guard notification.source == .chabokMessage, let message = notification.raw["message"]?.objectValue else {
            return nil
        }
        var client = Client(now: now)
        client.isSilent = settings.isSilent
        client.channels = settings.channels
        return plan(message, for: client)
    }

    private static func withAlias(_ action: JSONValue) -> JSONValue {
        guard var object = action.objectValue, object["action"] == nil, let id = object["id"] else { return action }
        object["action"] = id
        return .object(object)
    }
}

extension ChabokDisplayPlan {
    /// The plan as a gateway's answer shows it.
    var json: JSONValue {
        var json = rest
        func set(_ name: String, _ text: String?) { if let text { json[name] = .string(text) } }
        set("title", title)
        set("body", body)
        set("group", group)
        set("image", image)
        set("time_zone", timeZone)
        set("action", action)
        if let badge { json["badge"] = .integer(badge) }
        if !userInfo.isEmpty { json["user_info"] = .object(userInfo) }
        return .object(json)
    }
}
