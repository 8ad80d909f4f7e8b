internal import Foundation
internal import ChaparCore

/// Checks the body of a v1 or v2 send against Huawei's reference.
///
/// Written from the reference and not from the plugin, so that a mistake is not made twice.
enum HMSMessageRules {
    /// A body that passed all rules, except those on its recipients.
    struct Accepted: Sendable {
        var tokens: [String]
        /// The topic or condition.
        var audience: String?
        var isValidation: Bool
        /// The message without its recipients.
        var message: JSONObject
        var tag: String?
        var biTag: String?
    }

    static func read(_ body: [UInt8], _ settings: HMSSimulatorConfiguration) throws(HMSCode) -> Accepted {
        guard let root = (try? JSONValue(parsing: body))?.objectValue else { throw .structure("not JSON") }
        for (name, _) in root where name != "validate_only" && name != "message" { throw .structure(name) }
        let isValidation: Bool
        switch root["validate_only"] {
        case nil: isValidation = false
        case .bool(let flag)?: isValidation = flag
        default: throw .parameter("validate_only")
        }
        guard var message = root["message"]?.objectValue else { throw .structure("message") }
        let targets = ["token", "topic", "condition"].filter { message[$0] != nil }
        guard targets.count == 1, let target = targets.first else {
            throw .structure("exactly one of token, topic and condition")
        }
        var tokens: [String] = []
        var audience: String?
        if target == "token" {
            guard let list = message["token"]?.arrayValue else { throw .parameter("token") }
            guard (1...1000).contains(list.count) else { throw .tokenCount }
            for token in list {
                guard let text = token.stringValue, !text.isEmpty else { throw .parameter("token") }
                tokens.append(text)
            }
        } else {
            guard let text = message[target]?.stringValue, !text.isEmpty else { throw .parameter(target) }
            audience = text
        }
        message[target] = nil
        guard JSONValue.object(message).bytes.count <= 4096 else { throw .tooLarge }
        try check(message, settings)
        return Accepted(
            tokens: tokens,
            audience: audience,
            isValidation: isValidation,
            message: message,
            tag: message["android"]?["notification"]?["tag"]?.stringValue
                ?? message["apns"]?["headers"]?["apns-collapse-id"]?.stringValue,
            biTag: message["android"]?["bi_tag"]?.stringValue
        )
    }

    private static func check(_ message: JSONObject, _ settings: HMSSimulatorConfiguration) throws(HMSCode) {
        let known = ["data", "notification", "android", "apns", "webpush"]
        for (name, _) in message where !known.contains(name) { throw .parameter(name) }
        if let data = message["data"], data.stringValue == nil { throw .parameter("data") }
        if let notification = message["notification"] {
            guard let parts = notification.objectValue else { throw .parameter("notification") }
            for name in ["title", "body", "image"] {
                if let part = parts[name], part.stringValue == nil { throw .parameter("notification.\(name)") }
            }
        }
        if let android = message["android"] { try check(android: android, settings) }
        if let apns = message["apns"] {
            guard apns["payload"]?.objectValue != nil else { throw .parameter("apns.payload") }
            guard let type = apns["hms_options"]?["target_user_type"]?.integerValue, (1...3).contains(type) else {
                throw .parameter("apns.hms_options.target_user_type")
            }
            for (name, value) in apns["headers"]?.objectValue ?? [:] where value.stringValue == nil {
                throw .parameter("apns.headers.\(name)")
            }
        }
        let shows = message["notification"] != nil || message["android"]?["notification"] != nil
        if message["notification"] != nil, message["android"] != nil || message["apns"] == nil,
            message["android"]?["notification"]?["click_action"] == nil, message["webpush"] == nil
        {
            throw .parameter("android.notification.click_action")
        }
        if !shows, message["data"] == nil, message["apns"] == nil, message["webpush"] == nil {
            throw .structure("nothing to send")
        }
    }

    private static func check(android: JSONValue, _ settings: HMSSimulatorConfiguration) throws(HMSCode) {
        guard android.objectValue != nil else { throw .parameter("android") }
        if let key = android["collapse_key"] {
            guard let number = key.integerValue, (-1...100).contains(number) else { throw .badCollapseKey }
        }
        if let ttl = android["ttl"] {
            guard let text = ttl.stringValue, text.last == "s", let seconds = Double(text.dropLast()),
                seconds > 0, seconds <= 1_296_000
            else { throw .parameter("android.ttl") }
        }
        if let urgency = android["urgency"] {
            guard urgency == "HIGH" || urgency == "NORMAL" else { throw .parameter("android.urgency") }
            if urgency == "HIGH", !settings.hasUrgentRight { throw .noUrgentRight }
        }
        if let tag = android["bi_tag"] {
            guard let text = tag.stringValue, text.utf8.count <= 64 else { throw .parameter("android.bi_tag") }
        }
        if let data = android["data"], data.stringValue == nil { throw .parameter("android.data") }
        guard let shown = android["notification"] else { return }
        guard shown.objectValue != nil else { throw .parameter("android.notification") }
        guard let action = shown["click_action"]?.objectValue, let type = action["type"]?.integerValue else {
            throw .parameter("android.notification.click_action")
        }
        let isComplete =
            switch type {
            case 1: action["intent"]?.stringValue != nil || action["action"]?.stringValue != nil
            case 2: action["url"]?.stringValue?.hasPrefix("http") ?? false
            case 3: true
            default: false
            }
        guard isComplete else { throw .parameter("android.notification.click_action") }
        if let importance = shown["importance"] {
            guard ["LOW", "NORMAL", "HIGH"].contains(importance) else {
                throw .parameter("android.notification.importance")
            }
            if importance == "HIGH", !settings.hasUrgentRight { throw .noUrgentRight }
        }
        if let buttons = shown["buttons"] {
            guard let list = buttons.arrayValue, list.count <= 3,
                list.allSatisfy({ $0["name"]?.stringValue != nil && $0["action_type"]?.integerValue != nil })
            else { throw .parameter("android.notification.buttons") }
        }
        if let number = shown["badge"]?["add_num"] {
            guard let count = number.integerValue, (1...99).contains(count) else {
                throw .parameter("android.notification.badge.add_num")
            }
        }
    }
}
