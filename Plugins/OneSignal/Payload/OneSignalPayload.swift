import Crypto
import Foundation
import ChaparCore
import ChaparOneSignalDevices

/// A notification in OneSignal's words: the members of a create except app, audience and key.
struct OneSignalPayload {
    /// The longest time to live, in seconds.
    static let longestTimeToLive: Int64 = 2_419_200

    private(set) var members = JSONObject()
    /// How many language tags were read for it.
    private(set) var tagsRead = 0

    /// Makes the members.
    ///
    /// - Parameters:
    ///   - notification: The content.
    ///   - remaining: How many seconds the platform may try; nil leaves it to the platform.
    ///   - sendAfter: When OneSignal itself is to send; nil is at once.
    init(_ notification: PushNotification, remaining: Int64?, sendAfter: Date?) {
        if notification.isSilent {
            members["content_available"] = true
            members["huawei_msg_type"] = "data"
        } else {
            addTexts(notification)
            addLooks(notification)
        }
        if !notification.data.isEmpty { members["data"] = .object(notification.data) }
        members["priority"] = notification.isSilent || notification.priority == .normal ? 5 : 10
        if let remaining { members["ttl"] = .integer(min(max(remaining, 0), Self.longestTimeToLive)) }
        if let id = notification.collapseID { members["collapse_id"] = .string(Self.collapseID(id)) }
        if let sendAfter { members["send_after"] = .string(RFC3339.string(sendAfter)) }
        for (name, value) in Self.overrides(notification) {
            guard !OneSignalPayload.isReserved(name) else { continue }  // The check, which comes first, refuses it.
            members[name] = value
        }
    }

    /// How much a notification may interrupt on an Apple device.
    static let interruptionLevels = ["active", "passive", "time_sensitive", "critical"]
    /// When each user gets it.
    static let delayedOptions = ["timezone", "last-active"]
    private static let words = PlatformWords([
        "ios_interruption_level": interruptionLevels, "delayed_option": delayedOptions,
        "apns_push_type_override": ["voip"], "ios_badgeType": ["None", "SetTo", "Increase"],
        "huawei_msg_type": ["data", "message"],
    ])

    /// Returns a caller's own members, with OneSignal's words as OneSignal writes them.
    static func overrides(_ notification: PushNotification) -> JSONObject {
        notification.overrides[OneSignalBackend.kind.rawValue].map(words.folded) ?? JSONObject()
    }

    /// Whether a member must not be set by overrides.
    static func isReserved(_ name: String) -> Bool {
        OneSignalAudience.isName(name) || ["app_id", "idempotency_key", "external_id"].contains(name)
    }

    /// Returns the bytes of the whole request.
    func bytes(appID: String, audience: OneSignalAudience, key: String, isLegacy: Bool) -> [UInt8] {
        var request: JSONObject = ["app_id": .string(appID), "idempotency_key": .string(key)]
        for (name, value) in audience.members(isLegacy: isLegacy) { request[name] = value }
        for (name, value) in members { request[name] = value }
        return JSONValue.object(request).bytes
    }

    /// The size of what reaches the device, roughly: everything but audience and key.
    var estimatedSize: Int { JSONValue.object(members).bytes.count }

    private mutating func addTexts(_ notification: PushNotification) {
        let texts = [notification.body, notification.title, notification.subtitle].map { text in
            text.map { OneSignalText($0, &tagsRead) }
        }
        let languages = texts.reduce(into: Set(["en"])) { $0.formUnion($1?.byCode.keys.map(\.self) ?? []) }.sorted()
        func map(_ text: OneSignalText) -> JSONValue {
            var object = JSONObject()
            for language in languages { object[language] = .string(text.byCode[language] ?? text.fallback) }
            return .object(object)
        }
        let (body, title, subtitle) = (texts[0], texts[1], texts[2])
        // A title alone becomes the contents: OneSignal shows nothing without them.
        if let contents = body ?? title { members["contents"] = map(contents) }
        if body != nil, let title { members["headings"] = map(title) }
        if let subtitle { members["subtitle"] = map(subtitle) }
    }

    private mutating func addLooks(_ notification: PushNotification) {
        if let image = notification.image {
            members["ios_attachments"] = ["image": .string(image)]
            for name in ["big_picture", "huawei_big_picture", "adm_big_picture", "chrome_web_image"] {
                members[name] = .string(image)
            }
        }
        if let url = notification.clickURL { members["url"] = .string(url) }
        if !notification.actions.isEmpty {
            members["buttons"] = .array(
                notification.actions.prefix(3).map { ["id": .string($0.id), "text": .string($0.title)] }
            )
            let web = notification.actions.filter { $0.url != nil }.prefix(2).map { action -> JSONValue in
                ["id": .string(action.id), "text": .string(action.title), "url": .string(action.url ?? "")]
            }
            if !web.isEmpty { members["web_buttons"] = .array(Array(web)) }
        }
        switch notification.sound {
        case nil: members["ios_sound"] = "nil"  // The word for "no sound".
        case "default": break
        case let sound?: members["ios_sound"] = .string(sound)
        }
        if let badge = notification.badge {
            members["ios_badgeType"] = "SetTo"
            members["ios_badgeCount"] = .integer(Int64(badge))
            members["huawei_badge_set_num"] = .integer(Int64(min(99, max(0, badge))))
        }
        if let category = notification.category { members["ios_category"] = .string(category) }
    }

    /// Returns a collapse id of at most 64 characters: a longer one becomes its hash.
    static func collapseID(_ id: String) -> String {
        guard id.count > 64 else { return id }
        return SHA256.hash(data: Array(id.utf8)).map { ($0 < 16 ? "0" : "") + String($0, radix: 16) }.joined()
    }
}

/// A text in OneSignal's languages, of which each is read once.
struct OneSignalText {
    /// The text in each language, by OneSignal's code.
    ///
    /// Of several tags with one code, the tag that equals the code counts, else the first.
    private(set) var byCode: [String: String] = [:]
    /// The text in every other language.
    let fallback: String

    /// Reads a text, and counts its language tags.
    init(_ text: LocalizedText, _ tagsRead: inout Int) {
        fallback = text.resolved(for: nil)
        guard case .localized(_, let languages) = text else { return }
        tagsRead += languages.count
        for (tag, text) in languages.sorted(by: { $0.key < $1.key }) {
            let code = OneSignalLanguage.code(tag)
            if tag == code || byCode[code] == nil { byCode[code] = text }
        }
    }
}
