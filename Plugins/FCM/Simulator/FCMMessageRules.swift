internal import ChaparCore

/// Checks a `message` as Google's front end does: first the names and types of its fields, then their values.
///
/// Source: Firebase, REST resource `projects.messages`, read 2026-08. Written from that page, without code of the
/// plugin that is tested against it.
enum FCMMessageRules {
    /// The type of a field's value.
    private indirect enum Field: Sendable {
        case string
        case bool
        case number
        /// A map of strings.
        case strings
        /// Any object.
        case open
        case list(Field)
        case fields([String: Field])
        /// A name of an enumeration.
        case oneOf(Set<String>)
    }

    private static let options: Field = .fields(["analytics_label": .string])
    private static let message: [String: Field] = [
        "name": .string, "token": .string, "fid": .string, "topic": .string, "condition": .string, "data": .strings,
        "notification": .fields(["title": .string, "body": .string, "image": .string]),
        "android": .fields([
            "collapse_key": .string, "priority": .oneOf(["NORMAL", "HIGH"]), "ttl": .string,
            "restricted_package_name": .string, "data": .strings, "notification": .fields(androidNotification),
            "fcm_options": options, "direct_boot_ok": .bool, "bandwidth_constrained_ok": .bool,
            "restricted_satellite_ok": .bool,
        ]),
        "android_v2": .fields([
            "collapse_key": .string, "ttl": .string, "restricted_package_name": .string, "data": .strings,
            "fcm_options": options, "direct_boot_ok": .bool, "bandwidth_constrained_ok": .bool,
            "restricted_satellite_ok": .bool, "background_sync": .fields([:]),
            "remote_notification": .fields([
                "mutable_content": .bool, "use_as_v1_data_message": .bool,
                "notification": .fields(androidNotification.merging(["id": .number]) { first, _ in first }),
            ]),
        ]),
        "apns": .fields([
            "headers": .strings, "payload": .open,
            "fcm_options": .fields(["analytics_label": .string, "image": .string]), "live_activity_token": .string,
        ]),
        "webpush": .fields([
            "headers": .strings, "data": .strings, "notification": .open,
            "fcm_options": .fields(["link": .string, "analytics_label": .string]),
        ]),
        "fcm_options": options,
    ]

    private static let androidNotification: [String: Field] = {
        var fields: [String: Field] = [:]
        for name in [
            "title", "body", "icon", "color", "sound", "tag", "click_action", "title_loc_key", "body_loc_key",
            "channel_id", "ticker", "event_time", "image",
        ] {
            fields[name] = .string
        }
        for name in [
            "sticky", "local_only", "default_sound", "default_vibrate_timings", "default_light_settings",
            "bypass_proxy_notification",
        ] {
            fields[name] = .bool
        }
        for name in ["title_loc_args", "body_loc_args", "vibrate_timings"] { fields[name] = .list(.string) }
        let priorities = ["UNSPECIFIED", "MIN", "LOW", "DEFAULT", "HIGH", "MAX"].map { "PRIORITY_" + $0 }
        fields["notification_priority"] = .oneOf(Set(priorities))
        fields["visibility"] = .oneOf(["VISIBILITY_UNSPECIFIED", "PRIVATE", "PUBLIC", "SECRET"])
        fields["proxy"] = .oneOf(["PROXY_UNSPECIFIED", "ALLOW", "DENY", "IF_PRIORITY_LOWERED"])
        fields["notification_count"] = .number
        fields["light_settings"] = .fields([
            "color": .fields(["red": .number, "green": .number, "blue": .number, "alpha": .number]),
            "light_on_duration": .string, "light_off_duration": .string,
        ])
        return fields
    }()

    /// Returns the message in snake_case, and its target; throws Google's refusal.
    static func check(_ value: JSONValue) throws(FCMRefusal) -> (message: JSONValue, target: FCMDelivery.Target) {
        let message = try checked(value, .fields(message), "message")
        let targets = ["token", "fid", "topic", "condition"].filter { message[$0] != nil }
        guard targets.count <= 1 else {
            throw .malformed("message", "oneof field 'target' is already set. Cannot set '\(targets[1])'")
        }
        guard let name = targets.first, let text = message[name]?.stringValue, !text.isEmpty else {
            throw .invalid("message", "Recipient of the message is not set.")
        }
        try checkData(message["data"], "message.data")
        try checkData(message["android"]?["data"], "message.android.data")
        try checkData(message["android_v2"]?["data"], "message.android_v2.data")
        try checkSecondGeneration(message)
        try checkAndroid(message["android"])
        try checkAPNs(message["apns"])
        try checkWeb(message["webpush"])
        for path in [
            ["fcm_options"], ["android", "fcm_options"], ["apns", "fcm_options"], ["webpush", "fcm_options"],
        ] {
            var options: JSONValue? = message
            for name in path { options = options?[name] }
            guard let label = options?["analytics_label"]?.stringValue else { continue }
            guard (1...50).contains(label.utf8.count), label.utf8.allSatisfy(FCMTopicRules.isNameByte) else {
                throw .invalid("message.\(path.joined(separator: ".")).analytics_label", "Invalid analytics label")
            }
        }
        let target = try self.target(name, text)
        guard size(message) <= (name == "topic" ? 2048 : 4096) else { throw .tooLarge }
        return (message, target)
    }

    /// Checks that a message does not have both `android` and `android_v2`, and that `android_v2` has one kind of
    /// message.
    private static func checkSecondGeneration(_ message: JSONValue) throws(FCMRefusal) {
        guard let block = message["android_v2"] else { return }
        guard message["android"] == nil else { throw .invalid("message.android_v2", "android is set as well") }
        guard (block["remote_notification"] == nil) != (block["background_sync"] == nil) else {
            throw .malformed("message.android_v2", "oneof field 'message_type' takes one value")
        }
        try checkAndroid([
            "ttl": block["ttl"] ?? "1s", "notification": block["remote_notification"]?["notification"] ?? [:],
        ])
    }

    private static func target(_ name: String, _ text: String) throws(FCMRefusal) -> FCMDelivery.Target {
        switch name {
        case "token": return .token(text)
        case "fid": return .fid(text)
        case "topic":
            guard text.utf8.allSatisfy(FCMTopicRules.isNameByte) else {
                throw .invalid("message.topic", "Invalid topic name: it must match [a-zA-Z0-9-_.~%]+")
            }
            return .topic(text)
        default:
            guard FCMTopicRules.isCondition(text) else {
                throw .invalid("message.condition", "Invalid condition expression provided.")
            }
            return .condition(text)
        }
    }

    // MARK: Names and types

    private static func checked(_ value: JSONValue, _ field: Field, _ path: String) throws(FCMRefusal) -> JSONValue {
        switch (field, value) {
        case (.fields(let fields), .object(let object)):
            var result = JSONObject()
            for (written, value) in object {
                let name = snakeCase(written)
                guard let field = fields[name] else {
                    throw .malformed(path, "Unknown name \"\(written)\" at '\(path)': Cannot find field.")
                }
                guard value != .null else { continue }
                guard result[name] == nil else { throw .malformed(path, "Field \"\(name)\" is there twice.") }
                result[name] = try checked(value, field, "\(path).\(name)")
            }
            return .object(result)
        case (.strings, .object(let object)):
            for (index, member) in object.enumerated() where member.value.stringValue == nil {
                let place = "\(path)[\(index)].value"
                throw .mistyped(place, "Invalid value at '\(place)' (TYPE_STRING), \(member.value.text)")
            }
            return value
        case (.list(let field), .array(let values)):
            for (index, value) in values.enumerated() { _ = try checked(value, field, "\(path)[\(index)]") }
            return value
        case (.oneOf(let words), .string(let word)):
            // Compared in any case: Google's own SDK for Python writes "high".
            guard words.contains(word.uppercased()) else {
                throw .mistyped(path, "Invalid value at '\(path)', \"\(word)\"")
            }
            return value
        case (.open, .object), (.string, .string), (.bool, .bool), (.number, .integer), (.number, .double): return value
        default: throw .mistyped(path, "Invalid value at '\(path)', \(value.text)")
        }
    }

    /// Returns a name in snake_case: Proto3 JSON allows both styles of names.
    private static func snakeCase(_ name: String) -> String {
        guard name.utf8.contains(where: { (UInt8(ascii: "A")...UInt8(ascii: "Z")).contains($0) }) else { return name }
        var result = ""
        for character in name {
            if character.isUppercase { result += "_" + character.lowercased() } else { result.append(character) }
        }
        return result
    }

    // MARK: Values of fields

    private static func checkData(_ data: JSONValue?, _ path: String) throws(FCMRefusal) {
        guard let data = data?.objectValue else { return }
        for (name, _) in data {
            let isReserved =
                ["from", "message_type", "notification", "gcm"].contains(name) || name.hasPrefix("google.")
                || name.hasPrefix("gcm.")
            if isReserved { throw .invalid("\(path).\(name)", "Invalid data payload key: \(name)") }
        }
    }

    private static func checkAndroid(_ android: JSONValue?) throws(FCMRefusal) {
        if let ttl = android?["ttl"]?.stringValue {
            guard let seconds = seconds(ttl), (0...2_419_200).contains(seconds) else {
                throw .invalid("message.android.ttl", "Invalid ttl: it must be 0s to 2419200s")
            }
        }
        let notification = android?["notification"]
        if let color = notification?["color"]?.stringValue {
            guard color.utf8.count == 7, color.hasPrefix("#"), color.dropFirst().allSatisfy(\.isHexDigit) else {
                throw .invalid("message.android.notification.color", "Invalid color: it must be #rrggbb")
            }
        }
        for (index, timing) in (notification?["vibrate_timings"]?.arrayValue ?? []).enumerated() {
            guard seconds(timing.stringValue ?? "") != nil else {
                throw .invalid("message.android.notification.vibrate_timings[\(index)]", "Invalid duration")
            }
        }
    }

    private static func checkAPNs(_ apns: JSONValue?) throws(FCMRefusal) {
        guard let payload = apns?["payload"] else { return }
        guard payload["aps"]?.objectValue != nil else {
            throw .invalid("message.apns.payload", "Invalid APNs payload: aps is missing")
        }
        if let id = apns?["headers"]?["apns-collapse-id"]?.stringValue, id.utf8.count > 64 {
            throw .invalid("message.apns.headers", "Invalid apns-collapse-id")
        }
        if let priority = apns?["headers"]?["apns-priority"]?.stringValue, !["1", "5", "10"].contains(priority) {
            throw .invalid("message.apns.headers", "Invalid apns-priority")
        }
    }

    private static func checkWeb(_ web: JSONValue?) throws(FCMRefusal) {
        if let link = web?["fcm_options"]?["link"]?.stringValue, !link.hasPrefix("https://") {
            throw .invalid("message.webpush.fcm_options.link", "Invalid link: it must be https")
        }
    }

    private static func seconds(_ text: String) -> Double? {
        guard text.hasSuffix("s"), let value = Double(text.dropLast()), value >= 0, value.isFinite else { return nil }
        return value
    }

    /// Returns the bytes that count against the limit: the most that a device of any platform gets.
    private static func size(_ message: JSONValue) -> Int {
        func bytes(_ value: JSONValue?) -> Int { value?.bytes.count ?? 0 }
        let android = bytes(message["android"]?["notification"]) + bytes(message["android"]?["data"])
        let web = bytes(message["webpush"]?["notification"]) + bytes(message["webpush"]?["data"])
        return bytes(message["notification"]) + bytes(message["data"])
            + max(android, bytes(message["apns"]?["payload"]), web)
    }
}

/// Topics and conditions, as Google's documentation writes them.
///
/// Written apart from the plugin's own check, so that the simulator finds mistakes in that one.
enum FCMTopicRules {
    static func isNameByte(_ byte: UInt8) -> Bool {
        switch byte {
        case UInt8(ascii: "a")...UInt8(ascii: "z"), UInt8(ascii: "A")...UInt8(ascii: "Z"),
            UInt8(ascii: "0")...UInt8(ascii: "9"), UInt8(ascii: "-"), UInt8(ascii: "_"), UInt8(ascii: "."),
            UInt8(ascii: "~"), UInt8(ascii: "%"):
            true
        default: false
        }
    }

    /// Returns whether a text is a condition: splits it into tokens, then checks their order with a stack of brackets.
    static func isCondition(_ text: String) -> Bool {
        var rest = Substring(text)
        var wantsOperand = true
        var depth = 0
        var topics = 0
        while let first = rest.first {
            switch first {
            case " ": rest.removeFirst()
            case "!" where wantsOperand: rest.removeFirst()
            case "(" where wantsOperand:
                rest.removeFirst()
                depth += 1
            case ")" where !wantsOperand && depth > 0:
                rest.removeFirst()
                depth -= 1
            case "&" where !wantsOperand && rest.hasPrefix("&&"), "|" where !wantsOperand && rest.hasPrefix("||"):
                rest.removeFirst(2)
                wantsOperand = true
            case "'" where wantsOperand, "\"" where wantsOperand:
                rest.removeFirst()
                let name = rest.prefix { $0 != first }
                rest = rest.dropFirst(name.count + 1)
                rest = rest.drop { $0 == " " }
                guard !name.isEmpty, name.utf8.allSatisfy(isNameByte), rest.hasPrefix("in ") else { return false }
                rest = rest.dropFirst(3).drop { $0 == " " }
                guard rest.hasPrefix("topics") else { return false }
                rest = rest.dropFirst(6)
                topics += 1
                wantsOperand = false
            default: return false
            }
        }
        return !wantsOperand && depth == 0 && (1...5).contains(topics)
    }
}
