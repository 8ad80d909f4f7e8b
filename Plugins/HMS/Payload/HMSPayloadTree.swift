import Crypto
import Foundation
import ChaparCore

/// Turns the neutral notification into Huawei's JSON.
///
/// A notification that shows something always has a `tag`: if it goes out twice, the second copy replaces the first on
/// the screen. The tag is the collapse id, or else a hash of the content and the expiration. So it is the same with
/// every attempt, and messages with the same content can share a request.
enum HMSPayloadTree {
    /// The longest time to live that Huawei takes: 15 days.
    static let longestLife: Int64 = 15 * 86_400
    /// The categories of Huawei's self-classification; any other category names an Android channel.
    static let categories: Set<String> = [
        "IM", "VOIP", "SUBSCRIPTION", "TRAVEL", "HEALTH", "WORK", "ACCOUNT", "EXPRESS", "FINANCE", "DEVICE_REMINDER",
        "SYSTEM_REMINDER", "MAIL", "PLAY_VOICE", "MARKETING",
    ]

    static func make(
        _ request: PushRequest,
        form: HMSPayload.Form,
        language: String?,
        options: HMSOptions,
        now: Date
    ) -> JSONObject {
        let notification = request.notification
        var message = JSONObject()
        if !notification.isSilent {
            var texts = JSONObject()
            texts["title"] = notification.title.map { .string($0.resolved(for: language)) }
            texts["body"] = notification.body.map { .string($0.resolved(for: language)) }
            texts["image"] = notification.image.map { .string($0) }
            if !texts.isEmpty, form != .apple { message["notification"] = .object(texts) }
        }
        // The app's values travel as one string. A silent message consists of nothing else.
        if form != .apple, notification.isSilent || !notification.data.isEmpty {
            message["data"] = .string(JSONValue.object(notification.data).text)
        }
        let tag = tag(request, language)
        switch form {
        case .android, .audience: message["android"] = .object(android(request, tag: tag, options: options, now: now))
        case .harmony: break  // ``HMSScene`` has its own tree.
        case .apple:
            message["apns"] = .object(
                HMSAppleBlock.make(
                    request,
                    language: language,
                    tag: tag,
                    userType: options.targetUserType,
                    now: now
                )
            )
        }
        return message
    }

    private static func android(_ request: PushRequest, tag: String, options: HMSOptions, now: Date) -> JSONObject {
        let notification = request.notification
        var android = JSONObject()
        // Nothing is shown for a silent message, and Huawei counts urgent messages against the app's right.
        android["urgency"] = notification.priority == .high && !notification.isSilent ? "HIGH" : "NORMAL"
        if let category = notification.category, categories.contains(category.uppercased()) {
            android["category"] = .string(category.uppercased())
        }
        android["ttl"] = timeToLive(of: request, now: now).map { .string("\($0)s") }
        if let receipts = options.receipts {
            android["bi_tag"] = .string(String(decoding: tag.utf8.prefix(64), as: UTF8.self))
            android["receipt_id"] = receipts.id.map { .string($0) }
        }
        if !notification.isSilent { android["notification"] = .object(shown(notification, tag: tag, options)) }
        return android
    }

    private static func shown(_ notification: PushNotification, tag: String, _ options: HMSOptions) -> JSONObject {
        var shown: JSONObject = ["click_action": clickAction(notification.clickURL), "tag": .string(tag)]
        switch notification.sound {
        case nil: break
        case "default"?: shown["default_sound"] = true
        case let name?:
            shown["default_sound"] = false
            shown["sound"] = .string(name)
        }
        if let badge = notification.badge {
            var number: JSONObject = ["set_num": .integer(Int64(badge))]
            number["class"] = options.badgeClass.map { .string($0) }
            shown["badge"] = .object(number)
        }
        if let category = notification.category, !categories.contains(category.uppercased()) {
            shown["channel_id"] = .string(category)
        }
        if !notification.actions.isEmpty {
            shown["buttons"] = .array(notification.actions.prefix(3).map(button))
        }
        return shown
    }

    /// Returns the action of a tap: type 2 opens a web page, 1 a page of the app, 3 the app.
    private static func clickAction(_ url: String?) -> JSONValue {
        guard let url else { return ["type": 3] }
        if url.hasPrefix("https://") || url.hasPrefix("http://") { return ["type": 2, "url": .string(url)] }
        return ["type": 1, "intent": .string(url)]
    }

    /// Returns a button: `action_type` 0 opens the app, 1 a page of it, 2 a web page.
    private static func button(_ action: PushNotification.Action) -> JSONValue {
        var button: JSONObject = ["name": .string(action.title)]
        guard let url = action.url else {
            button["action_type"] = 0
            button["data"] = .string(action.id)
            return .object(button)
        }
        let isWeb = url.hasPrefix("https://") || url.hasPrefix("http://")
        button["action_type"] = isWeb ? 2 : 1
        if !isWeb {
            button["intent_type"] = 0
            button["data"] = .string(action.id)
        }
        button["intent"] = .string(url)
        return .object(button)
    }

    /// Returns the remaining time to live in seconds, at least 1 and at most 15 days; nil leaves it to Huawei.
    ///
    /// A request whose time to live is over is refused before.
    static func timeToLive(of request: PushRequest, now: Date) -> Int64? {
        switch request.remaining(now: now) {
        case .platformDefault: nil
        case .now, .over: 1
        case .seconds(let left): min(longestLife, left)
        }
    }

    /// Returns the tag by which a second copy replaces the first: the collapse id, else a hash of the content.
    static func tag(_ request: PushRequest, _ language: String?) -> String {
        let notification = request.notification
        if let id = notification.collapseID { return id }
        var writer = JSONWriter(capacity: 512)
        writer.beginArray()
        for text in [notification.title, notification.subtitle, notification.body] {
            writer.string(text?.resolved(for: language) ?? "")
        }
        for text in [notification.image, notification.clickURL, notification.category] { writer.string(text ?? "") }
        writer.object(notification.data)
        for action in notification.actions { writer.string(action.id) }
        if let overrides = notification.overrides[HMSBackend.kind.rawValue] { writer.object(overrides) }
        if case .at(let end)? = request.expiration { writer.integer(end) }
        writer.endArray()
        let digest = SHA256.hash(data: writer.bytes)
        return "c" + digest.prefix(8).map { String(Int($0) + 256, radix: 16).dropFirst() }.joined()
    }

    // MARK: The finished message

    /// Whether a second copy takes the first one's place on the screen.
    static func replacesItself(_ message: JSONObject, _ form: HMSPayload.Form) -> Bool {
        if form == .apple { return message["apns"]?["headers"]?["apns-collapse-id"] != nil }
        let shown = message["android"]?["notification"]
        return shown?["tag"] != nil || shown?["notify_id"] != nil
    }

    /// Returns the message with normal urgency; nil when it has none higher.
    static func demoted(_ message: JSONObject) -> JSONObject? {
        guard var android = message["android"]?.objectValue else { return nil }
        var isChanged = false
        if android["urgency"] == "HIGH" {
            android["urgency"] = "NORMAL"
            isChanged = true
        }
        if var shown = android["notification"]?.objectValue, shown["importance"] == "HIGH" {
            shown["importance"] = "NORMAL"
            android["notification"] = .object(shown)
            isChanged = true
        }
        guard isChanged else { return nil }
        var message = message
        message["android"] = .object(android)
        return message
    }
}
