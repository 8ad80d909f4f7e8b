import ChaparCore

/// A notification in Chabok's words: the body of a send except its audience.
///
/// Made once for each language of a message, and shared by its recipients. It knows no recipient, and
/// sends nothing.
struct ChabokPayload: Sendable {
    /// The longest time, in seconds, that a message waits for its user.
    static let longestTimeToLive: Int64 = 30 * 86_400
    /// The text of a silent message: Chabok takes no message without one, and does not show it.
    static let silentContent = "."
    /// The keys that overrides may set, by mechanism; the audience is Chapar's to set.
    static let keys: [ChabokOptions.Mechanism: Set<String>] = [
        .message: common.union(["inApp", "silent", "alertText", "channel"]),
        .notification: common,
        .smart: common,
    ]
    private static let common: Set<String> = [
        "content", "notification", "trackId", "live", "useAsAlert", "autoNotify", "mechanism", "fallback",
    ]

    let mechanism: ChabokOptions.Mechanism
    private(set) var members = JSONObject()

    /// Makes the members.
    ///
    /// - Parameters:
    ///   - notification: The content.
    ///   - language: Whose texts are taken.
    ///   - remaining: How many seconds the platform may try; nil leaves it to the platform, 0 is "now or never".
    ///   - mechanism: How it travels; nil is what the overrides or the options say.
    ///   - options: The app.
    init(
        _ notification: PushNotification,
        language: String?,
        remaining: Int64?,
        mechanism: ChabokOptions.Mechanism? = nil,
        options: ChabokOptions
    ) {
        let overrides = Self.overrides(notification)
        let way = mechanism ?? Self.mechanism(notification, options)
        self.mechanism = way
        let title = notification.title?.resolved(for: language)
        let body = notification.body?.resolved(for: language)
        let text = [body, title].compactMap(\.self).first { !$0.isEmpty }
        members["content"] = .string(text ?? (notification.isSilent ? Self.silentContent : ""))
        if !notification.data.isEmpty { members["data"] = .object(notification.data) }
        var shown = JSONObject()
        if notification.isSilent {
            if way == .message { members["silent"] = true }
            shown["contentAvailable"] = true
        } else {
            shown = Self.shown(notification, title: title, body: body, language: language, options: options)
        }
        if case .object(let own)? = overrides["notification"] { shown = shown.merging(own) }
        if !shown.isEmpty {
            members["notification"] = .object(shown)
        } else {
            members["useAsAlert"] = true
        }
        switch remaining {
        case nil: break
        case let seconds? where seconds <= 0: members["live"] = true
        case let seconds?: members["ttl"] = .integer(min(seconds, Self.longestTimeToLive))
        }
        for (name, value) in overrides where name != "notification" {
            guard Self.keys[way]?.contains(name) ?? false, name != "mechanism" else {
                continue  // The check refuses other keys; `mechanism` is no member.
            }
            members[name] = value
        }
        if way == .smart, members["fallback"] == nil { members["fallback"] = options.fallback?.json }
    }

    /// Returns the whole body for an audience.
    func body(_ audience: JSONObject, channel: String? = nil, clientID: String? = nil) -> JSONObject {
        var body = audience
        if let channel { body["channel"] = .string(channel) }
        for (name, value) in members { body[name] = body[name] ?? value }
        if let clientID { body["clientId"] = .string(clientID) }
        return body
    }

    /// Leaves a member out.
    mutating func remove(_ name: String) { members[name] = nil }

    /// The channel that the overrides name.
    var channel: String? { members["channel"]?.stringValue }

    private static let words = PlatformWords([
        "mechanism": ChabokOptions.Mechanism.allCases.map(\.rawValue),
        "fallback/media": ChabokOptions.Fallback.Media.allCases.map(\.rawValue),
        "notification/dir": ["auto", "ltr", "rtl"],
        "notification/mediaType": ["jpeg", "png", "gif", "webp", "mp4", "mp3"],
    ])

    /// Returns a caller's own members, with Chabok's words as Chabok writes them.
    static func overrides(_ notification: PushNotification) -> JSONObject {
        notification.overrides[ChabokBackend.kind.rawValue].map(words.folded) ?? JSONObject()
    }

    static func mechanism(_ notification: PushNotification, _ options: ChabokOptions) -> ChabokOptions.Mechanism {
        overrides(notification)["mechanism"]?.stringValue.flatMap(ChabokOptions.Mechanism.init) ?? options.mechanism
    }

    /// Returns the object `notification`; empty when the notification is a single text.
    private static func shown(
        _ notification: PushNotification,
        title: String?,
        body: String?,
        language: String?,
        options: ChabokOptions
    ) -> JSONObject {
        var shown = JSONObject()
        if let title = title ?? options.appName { shown["title"] = .string(title) }
        func set(_ name: String, _ text: String?) { if let text { shown[name] = .string(text) } }
        if let subtitle = notification.subtitle { set("subtitle", subtitle.resolved(for: language)) }
        if let badge = notification.badge { shown["badge"] = .integer(Int64(badge)) }
        set("sound", notification.sound)
        set("groupId", notification.collapseID)
        set("category", notification.category)
        set("clickUrl", notification.clickURL)
        if let image = notification.image {
            set("mediaUrl", image)
            set("mediaType", mediaType(image))
            shown["mutableContent"] = true
        }
        if !notification.actions.isEmpty {
            shown["actions"] = .array(
                notification.actions.map { action in
                    var json: JSONObject = ["id": .string(action.id), "title": .string(action.title)]
                    if let url = action.url {
                        json["url"] = .string(url)
                        json["options"] = 4  // Opens the app: iOS opens no address in the background.
                    }
                    return .object(json)
                }
            )
        }
        // A text alone needs no object: the message's content is shown.
        guard !shown.isEmpty else { return shown }
        if let body { shown["body"] = .string(body) }
        return shown
    }

    /// Returns the kind of a picture or film by the ending of its address; nil for an unknown ending.
    private static func mediaType(_ address: String) -> String? {
        let path = address.prefix { $0 != "?" && $0 != "#" }
        return switch path.split(separator: ".").last?.lowercased() {
        case "jpg"?, "jpeg"?: "jpeg"
        case let ending? where ["png", "gif", "webp", "mp4", "mp3"].contains(ending): ending
        default: nil
        }
    }
}
