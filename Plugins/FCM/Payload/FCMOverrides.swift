internal import ChaparCore

/// A caller's `overrides.fcm`: blocks of FCM's own `message`, which are merged into the message that Chapar makes from
/// the notification.
///
/// It is checked field by field against ``FCMSchema``, since Google refuses a whole message for one unknown name.
/// Google adds fields at the top level: an unknown field that is no misspelling of a known one is sent with a warning.
/// Google's words may be in any letter case. Targets follow from the recipient and cannot be overridden.
struct FCMOverrides: Sendable {
    private(set) var object = JSONObject()
    private(set) var faults: [Finding] = []
    /// Findings about fields that Chapar does not know and sends to Google unchanged.
    private(set) var warnings: [Finding] = []

    static let place = "#/overrides/fcm"

    init(_ object: JSONObject) {
        for (name, value) in object {
            switch name {
            case "token", "fid", "topic", "condition":
                fault(name, "target_reserved", "The target is the recipient: address it with \"to\".")
            case "validate_only":
                fault(name, "field_reserved", "Set options.dry_run instead.")
            default:
                guard let shape = FCMSchema.message[name] else {
                    readUnknown(name, value)
                    continue
                }
                self.object[name] = checked(value, shape, at: name)
            }
        }
        let aps = self.object["apns"]?["payload"]?["aps"]
        warnings += APSWarnings.of(aps, at: "\(Self.place)/apns/payload/aps")
        checkAppleHeaders()
        if let data = object["data"]?.objectValue {
            faults += FCMCheck.reservedKeys(in: data, at: "\(Self.place)/data")
        }
        for block in ["android", Self.second] {
            guard let data = object[block]?["data"]?.objectValue else { continue }
            faults += FCMCheck.reservedKeys(in: data, at: "\(Self.place)/\(block)/data")
        }
        checkSecondGeneration()
    }

    /// The block of the second generation of Android's options, which a message has instead of `android`.
    private static let second = "android_v2"
    /// The two kinds of message of the second generation: one is shown at once, the other syncs when it suits the
    /// battery.
    private static let kinds = ["remote_notification", "background_sync"]

    /// Whether an Android device gets the options of the second generation.
    var isSecondGeneration: Bool { object[Self.second] != nil }

    /// Whether the overrides have a text of their own.
    var showsSomething: Bool {
        let blocks = [
            object["notification"], object["android"]?["notification"],
            object[Self.second]?["remote_notification"]?["notification"],
        ]
        for block in blocks {
            for name in ["title", "body", "title_loc_key", "body_loc_key"] where block?[name] != nil { return true }
        }
        return object["apns"]?["payload"]?["aps"]?["alert"] != nil
    }

    /// Whether an Apple device gets a change of a Live Activity.
    var isLiveActivity: Bool { object["apns"]?["live_activity_token"] != nil }

    /// Whether a second copy does harm: it would start a second activity.
    var isRepeatHarmful: Bool { isLiveActivity && object["apns"]?["payload"]?["aps"]?["event"] == "start" }

    /// Returns a message to an Android device without the common texts for which the overrides name a text of the app
    /// (`title_loc_key`, `body_loc_key`): a device shows only one of the two.
    func untranslated(_ message: JSONObject) -> JSONObject {
        let own = object["android"]?["notification"] ?? object[Self.second]?["remote_notification"]?["notification"]
        guard let keys = own?.objectValue,
            var common = message["notification"]?.objectValue
        else { return message }
        for name in ["title", "body"] where keys["\(name)_loc_key"] != nil { common[name] = nil }
        var message = message
        message["notification"] = common.isEmpty ? nil : .object(common)
        return message
    }

    /// Returns a message whose block `android` has become `android_v2`, when the overrides have that block.
    ///
    /// The block has a kind in place of a priority: `remote_notification` or `background_sync`.
    func inSecondGeneration(_ message: JSONObject) -> JSONObject {
        guard let own = object[Self.second]?.objectValue, let android = message["android"]?.objectValue else {
            return message
        }
        var block = android
        block["priority"] = nil
        block["notification"] = nil
        if own["remote_notification"] != nil, let shown = android["notification"] {
            block["remote_notification"] = ["notification": shown]
        }
        var message = message
        message["android"] = nil
        message[Self.second] = .object(block)
        return message
    }

    /// Returns the blocks that apply to a kind of recipient.
    func blocks(for kind: FCMTarget.Class) -> JSONObject {
        var blocks = object
        let devices = [
            ("android", FCMTarget.Class.android), (Self.second, .android), ("apns", .iOS), ("webpush", .web),
        ]
        for (name, device) in devices
        where !kind.includes(device) { blocks[name] = nil }
        return blocks
    }

    /// Accepts an unknown field at the top level, unless it is a misspelling of a known one; `android_v3` is no
    /// misspelling.
    private mutating func readUnknown(_ name: String, _ value: JSONValue) {
        // Google's own examples are whole requests, with the message in an object of its own.
        if name == "message" { return fault(name, "unknown_override", "Leave message out: its members stand here.") }
        let nearest = Suggestion.nearest(to: name, among: FCMSchema.message.keys)
        func letters(_ name: String) -> String { name.filter { !$0.isNumber } }
        if let nearest, !name.hasPrefix("\(nearest)_"), letters(name) != letters(nearest) {
            unknown(name, among: FCMSchema.message.keys, at: name)
            return
        }
        object[name] = value
        let detail = "Chapar does not know this field: it goes to Google as it is, which may refuse the message."
        warnings.append(
            Finding(pointer: "\(Self.place)/\(name.jsonPointerStep)", code: "unknown_field", detail: detail)
        )
    }

    /// Checks a value, and returns it with Google's words in Google's case.
    private mutating func checked(_ value: JSONValue, _ shape: FCMSchema.Shape, at path: String) -> JSONValue {
        switch (shape, value) {
        case (.object(let members), .object(var object)):
            for (name, value) in object {
                guard let shape = members[name] else {
                    unknown(name, among: members.keys, at: "\(path)/\(name)")
                    continue
                }
                let folded = checked(value, shape, at: "\(path)/\(name)")
                if folded != value { object[name] = folded }
            }
            return .object(object)
        case (.oneOf(let words), .string(let text)) where words.contains(text.uppercased()):
            return .string(text.uppercased())
        case (.texts(let limit), .object(let object)):
            for (name, value) in object where value.stringValue == nil {
                fault("\(path)/\(name)", "not_a_text", "FCM takes texts only here.")
            }
            if let limit, object.count > limit { fault(path, "too_many", "At most \(limit) entries.") }
        case (.anyObject, .object): break
        case (.list(let shape), .array(let values)):
            for (index, value) in values.enumerated() { _ = checked(value, shape, at: "\(path)/\(index)") }
        default:
            if let problem = shape.problem(with: value) { fault(path, "wrong_value", problem) }
        }
        return value
    }

    /// Checks that a message has one generation of Android's options, and one kind of message within the second.
    private mutating func checkSecondGeneration() {
        guard let block = object[Self.second] else { return }
        if object["android"] != nil {
            fault(Self.second, "stands_beside", "Stands beside android: keep one of the two.")
        }
        guard block.objectValue != nil else { return }
        let found = Self.kinds.filter { block[$0] != nil }
        if found.isEmpty {
            fault(Self.second, "missing", "Say remote_notification, which is shown at once, or background_sync.")
        } else if found.count > 1 {
            fault("\(Self.second)/\(found[1])", "stands_beside", "Stands beside \(found[0]): keep one of the two.")
        }
    }

    /// Checks the header fields that Google refuses because Apple would refuse them.
    private mutating func checkAppleHeaders() {
        let headers = object["apns"]?["headers"]
        if let priority = headers?["apns-priority"]?.stringValue, !["1", "5", "10"].contains(priority) {
            fault("apns/headers/apns-priority", "bad_priority", "Allowed: 1, 5, 10.")
        }
        if let id = headers?["apns-collapse-id"]?.stringValue, !(1...64).contains(id.utf8.count) {
            fault("apns/headers/apns-collapse-id", "bad_collapse_id", "Apple takes 1 to 64 bytes.")
        }
    }

    private mutating func unknown(_ name: String, among known: some Sequence<String>, at path: String) {
        let known = known.sorted()
        let nearest = Suggestion.nearest(to: name, among: known).map { "Did you mean \"\($0)\"? " } ?? ""
        fault(path, "unknown_override", "\(nearest)Known here: \(known.joined(separator: ", ")).")
    }

    private mutating func fault(_ path: String, _ code: String, _ detail: String) {
        faults.append(Finding(pointer: "\(Self.place)/\(path)", code: code, detail: detail))
    }
}

/// The fields of FCM's `message` and the types of their values.
///
/// Source: Firebase, REST resource `projects.messages`, read 2026-08. One style of names, snake_case.
enum FCMSchema {
    /// The type of value that a field takes.
    indirect enum Shape: Sendable {
        case text
        case bool
        case integer
        case number
        /// `"3600s"`, fractions allowed; at most `maximum` seconds.
        case duration(maximum: Double?)
        /// `#rrggbb`.
        case color
        /// `[a-zA-Z0-9-_.~%]{1,50}`.
        case label
        /// An `https` address.
        case secureLink
        /// An RFC 3339 time.
        case time
        case oneOf([String])
        /// A map of texts.
        case texts(limit: Int?)
        /// An object of any content.
        case anyObject
        case list(Shape)
        case object([String: Shape])
    }

    static let message: [String: Shape] = [
        "notification": .object(["title": .text, "body": .text, "image": .text]), "data": .texts(limit: nil),
        "android": .object(android), "android_v2": .object(androidV2), "apns": .object(apns),
        "webpush": .object(webpush),
        "fcm_options": .object(["analytics_label": .label]),
    ]

    private static let android: [String: Shape] = [
        "collapse_key": .text, "priority": .oneOf(["NORMAL", "HIGH"]), "ttl": .duration(maximum: 2_419_200),
        "restricted_package_name": .text, "data": .texts(limit: nil), "notification": .object(androidNotification),
        "fcm_options": .object(["analytics_label": .label]), "direct_boot_ok": .bool,
        "bandwidth_constrained_ok": .bool, "restricted_satellite_ok": .bool,
    ]

    private static let androidNotification: [String: Shape] = [
        "title": .text, "body": .text, "icon": .text, "color": .color, "sound": .text, "tag": .text,
        "click_action": .text, "title_loc_key": .text, "title_loc_args": .list(.text), "body_loc_key": .text,
        "body_loc_args": .list(.text), "channel_id": .text, "ticker": .text, "sticky": .bool, "event_time": .time,
        "local_only": .bool,
        "notification_priority": .oneOf(
            ["UNSPECIFIED", "MIN", "LOW", "DEFAULT", "HIGH", "MAX"].map { "PRIORITY_" + $0 }
        ),
        "default_sound": .bool, "default_vibrate_timings": .bool, "default_light_settings": .bool,
        "vibrate_timings": .list(.duration(maximum: nil)),
        "visibility": .oneOf(["VISIBILITY_UNSPECIFIED", "PRIVATE", "PUBLIC", "SECRET"]),
        "notification_count": .integer,
        "light_settings": .object([
            "color": .object(["red": .number, "green": .number, "blue": .number, "alpha": .number]),
            "light_on_duration": .duration(maximum: nil), "light_off_duration": .duration(maximum: nil),
        ]),
        "image": .text, "proxy": .oneOf(["PROXY_UNSPECIFIED", "ALLOW", "DENY", "IF_PRIORITY_LOWERED"]),
    ]

    /// Source: Firebase, "Migrate from FCM HTTP v1 API to AndroidConfigV2", a preview, and Google's generated clients,
    /// read 2026-11.
    private static let androidV2: [String: Shape] = [
        "collapse_key": .text, "ttl": .duration(maximum: 2_419_200), "restricted_package_name": .text,
        "data": .texts(limit: nil), "fcm_options": .object(["analytics_label": .label]), "direct_boot_ok": .bool,
        "bandwidth_constrained_ok": .bool, "restricted_satellite_ok": .bool, "background_sync": .object([:]),
        "remote_notification": .object([
            "mutable_content": .bool, "use_as_v1_data_message": .bool, "notification": .object(androidNotificationV2),
        ]),
    ]

    private static let androidNotificationV2: [String: Shape] = {
        var fields = androidNotification
        fields["proxy"] = nil
        fields["id"] = .integer
        return fields
    }()

    private static let apns: [String: Shape] = [
        "headers": .texts(limit: nil), "payload": .anyObject,
        "fcm_options": .object(["analytics_label": .label, "image": .text]), "live_activity_token": .text,
    ]

    private static let webpush: [String: Shape] = [
        "headers": .texts(limit: nil), "data": .texts(limit: nil), "notification": .anyObject,
        "fcm_options": .object(["link": .secureLink, "analytics_label": .label]),
    ]
}

extension FCMSchema.Shape {
    /// Returns the problem of a value that is neither an object nor a list; nil when there is none.
    func problem(with value: JSONValue) -> String? {
        switch (self, value) {
        case (.text, .string), (.bool, .bool), (.integer, .integer), (.number, .integer), (.number, .double): return nil
        case (.duration(let maximum), .string(let text)):
            guard text.hasSuffix("s"), let seconds = Double(text.dropLast()), seconds >= 0 else { break }
            if let maximum, seconds > maximum { return "At most \(Int(clamping: maximum))s." }
            return nil
        case (.color, .string(let text)):
            if text.utf8.count == 7, text.hasPrefix("#"), text.dropFirst().allSatisfy(\.isHexDigit) { return nil }
        case (.label, .string(let text)):
            if FCMSchema.isLabel(text) { return nil }
        case (.secureLink, .string(let text)):
            if text.hasPrefix("https://") { return nil }
        case (.time, .string(let text)):
            if RFC3339.parse(text) != nil { return nil }
        case (.oneOf(let values), .string(let text)):
            if values.contains(text) { return nil }
        default: break
        }
        return "Write \(meaning)."
    }

    private var meaning: String {
        switch self {
        case .text: "a text"
        case .bool: "true or false"
        case .integer: "a whole number"
        case .number: "a number"
        case .duration: #"a span in seconds, such as "3600s""#
        case .color: "a colour, such as #00ff7f"
        case .label: "1 to 50 of a-z, A-Z, 0-9, - _ . ~ %"
        case .secureLink: "an https address"
        case .time: "an RFC 3339 time"
        case .oneOf(let values): "one of \(values.joined(separator: ", "))"
        case .texts, .anyObject, .object: "an object"
        case .list: "a list"
        }
    }
}

extension FCMSchema {
    /// Whether a text can be an analytics label.
    static func isLabel(_ text: String) -> Bool {
        (1...50).contains(text.utf8.count) && text.utf8.allSatisfy(FCMTopic.isNameByte)
    }
}
