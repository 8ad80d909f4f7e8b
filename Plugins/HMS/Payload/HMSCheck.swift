import Foundation
import ChaparCore

/// The checks of a notification that need no request to Huawei: made before acceptance and, for faults only, again
/// before sending.
enum HMSCheck {
    /// The largest message, in bytes, without the list of recipients.
    static let limit = 4096
    private static let parts = ["notification", "android", "apns", "webpush", "data", HMSScene.overrides]

    /// Finds the faults and warnings of a notification for recipients of a form.
    static func examine(_ notification: PushNotification, for form: Recipient.Form, options: HMSOptions) -> PayloadCheck
    {
        if options.isHarmony { return examineScene(notification, options: options) }
        let overrides = notification.overrides[HMSBackend.kind.rawValue]
        let request = PushRequest(notification, to: [])
        // A token may be of a phone or of an Apple device, so the message must be small enough for both.
        let forms: [HMSPayload.Form] = form == .topic ? [.audience] : [.android, .apple]
        var check = PayloadCheck(warnings: warnings(notification, form: forms[0]))
        if let overrides { check.warnings += warnings(overrides) }
        let ownClass = overrides?["android"]?["notification"]?["badge"]?["class"]
        if notification.badge != nil, !notification.isSilent, options.badgeClass == nil, ownClass == nil {
            let detail = "Huawei finds the icon by the class of the app's first screen: set badge_class."
            check.warnings.append(Finding(pointer: "#/content/badge", code: "badge_class_missing", detail: detail))
        }
        for (place, form) in forms.enumerated() {
            for language in notification.languages {
                var tree = HMSPayloadTree.make(request, form: form, language: language, options: options, now: Date())
                if let overrides { tree = tree.merging(form.blocks(of: overrides)) }
                if place == 0, language == nil {
                    check.faults = faults(notification, tree: tree, form: form, overrides: overrides)
                }
                if let fault = tooLarge(JSONValue.object(tree).bytes.count) {
                    check.faults.append(fault)
                    return check
                }
            }
        }
        return check
    }

    /// Finds the faults and warnings of a message to HarmonyOS 5 and later.
    private static func examineScene(_ notification: PushNotification, options: HMSOptions) -> PayloadCheck {
        let request = PushRequest(notification, to: [])
        var check = PayloadCheck(warnings: warnings(notification, form: .harmony))
        for language in notification.languages {
            let tag = HMSPayloadTree.tag(request, language)
            let (pushType, tree) = HMSScene.make(request, language: language, tag: tag, options: options, now: Date())
            if language == nil { check.faults = HMSScene.faults(notification, pushType, tree) }
            if let fault = tooLarge(JSONValue.object(tree).bytes.count) {
                check.faults.append(fault)
                return check
            }
        }
        return check
    }

    /// Returns the size of the message for a recipient, without the list of recipients; nil for one that this
    /// generation of the API does not take.
    static func size(
        of notification: PushNotification,
        for addressee: Addressee,
        options: HMSOptions
    ) -> PayloadSize? {
        message(notification, for: addressee, options: options).map {
            PayloadSize(bytes: JSONValue.object($0).bytes.count, limit: limit)
        }
    }

    /// Returns the message for a recipient, without the list of recipients; nil for one that this generation of the API
    /// does not take.
    static func message(
        _ notification: PushNotification,
        for addressee: Addressee,
        options: HMSOptions
    ) -> JSONObject? {
        let form: HMSPayload.Form
        switch addressee.recipient {
        case .token(let token):
            guard let found = HMSPayload.Form(token.service, isHarmony: options.isHarmony) else { return nil }
            form = found
        case .topic where !options.isHarmony: form = .audience
        default: return nil
        }
        let request = PushRequest(notification, to: [])
        let language = addressee.language
        var tree: JSONObject
        if form == .harmony {
            let tag = HMSPayloadTree.tag(request, language)
            tree = HMSScene.make(request, language: language, tag: tag, options: options, now: Date()).tree
        } else {
            tree = HMSPayloadTree.make(request, form: form, language: language, options: options, now: Date())
            if let overrides = notification.overrides[HMSBackend.kind.rawValue] {
                tree = tree.merging(form.blocks(of: overrides))
            }
        }
        return tree
    }

    static func tooLarge(_ count: Int) -> Finding? {
        guard count > limit else { return nil }
        return Finding(
            pointer: "#/content",
            code: "payload_too_large",
            detail: "The message has \(count) bytes after encoding; Huawei takes \(limit) without the recipients."
        )
    }

    /// Finds everything that Huawei would refuse, except the size.
    static func faults(
        _ notification: PushNotification,
        tree: JSONObject,
        form: HMSPayload.Form,
        overrides: JSONObject?
    ) -> [Finding] {
        var faults: [Finding] = []
        if let overrides {
            for (name, _) in overrides where !parts.contains(name) {
                if ["token", "topic", "condition"].contains(name) {
                    faults.append(fault("/\(name)", "reserved_key", "\(name) is set by Chapar, from \"to\"."))
                } else if let nearest = misspelt(name) {
                    let detail = "Did you mean \"\(nearest)\"? Allowed: \(parts.joined(separator: ", "))."
                    faults.append(fault("/\(name)", "unknown_override", detail))
                }
            }
        }
        if !notification.isSilent, !shows(tree, form) {
            faults.append(
                Finding(
                    pointer: "#/content",
                    code: "nothing_to_show",
                    detail: "There is no title or body. Set options.silent for a message that only wakes the app."
                )
            )
        }
        for (place, value) in [("/data", tree["data"]), ("/android/data", tree["android"]?["data"])] {
            if let value, value.stringValue == nil {
                faults.append(fault(place, "not_a_text", "data is one string for Huawei, usually JSON as text."))
            }
        }
        if let android = tree["android"] { faults += HMSAndroidCheck.faults(android) }
        faults += appleFaults(overrides?["apns"])
        if form == .apple, notification.data["aps"] != nil {
            faults.append(
                Finding(
                    pointer: "#/content/data/aps",
                    code: "reserved_key",
                    detail: "\"aps\" is Apple's; its keys go under overrides.hms.apns.payload.aps."
                )
            )
        }
        return faults
    }

    /// Returns the known part that a name is a misspelling of; nil for a field that Huawei may have added.
    private static func misspelt(_ name: String) -> String? {
        Suggestion.nearest(to: name, among: parts).flatMap { name.hasPrefix("\($0)_") ? nil : $0 }
    }

    /// Finds warnings about a caller's own blocks: unknown fields, and values that iOS drops.
    private static func warnings(_ overrides: JSONObject) -> [Finding] {
        var warnings = APSWarnings.of(overrides["apns"]?["payload"]?["aps"], at: "#/overrides/hms/apns/payload/aps")
        for (name, _) in overrides where !parts.contains(name) && misspelt(name) == nil {
            let detail = "Chapar does not know this field: it goes to Huawei as it is, which may refuse the message."
            warnings.append(fault("/\(name.jsonPointerStep)", "unknown_field", detail))
        }
        return warnings
    }

    /// Finds the faults of a caller's block for Apple's devices, for any recipient.
    private static func appleFaults(_ apple: JSONValue?) -> [Finding] {
        guard let apple else { return [] }
        var faults: [Finding] = []
        for (name, value) in apple["headers"]?.objectValue ?? JSONObject() where value.stringValue == nil {
            faults.append(fault("/apns/headers/\(name)", "not_a_text", "A header's value is a text."))
        }
        if let type = apple["hms_options"]?["target_user_type"], !(1...3).contains(type.integerValue ?? 0) {
            let detail = "Allowed: 1 (test), 2 (formal), 3 (VoIP)."
            faults.append(fault("/apns/hms_options/target_user_type", "bad_value", detail))
        }
        return faults
    }

    private static func shows(_ tree: JSONObject, _ form: HMSPayload.Form) -> Bool {
        if form == .apple {
            let aps = tree["apns"]?["payload"]?["aps"]
            return aps?["alert"] != nil || aps?["badge"] != nil || aps?["sound"] != nil
        }
        return [tree["notification"], tree["android"]?["notification"]].contains { part in
            part?["title"] != nil || part?["body"] != nil || part?["body_loc_key"] != nil
                || part?["title_loc_key"] != nil
        }
    }

    static func fault(_ place: String, _ code: String, _ detail: String) -> Finding {
        Finding(pointer: "#/overrides/hms\(place)", code: code, detail: detail)
    }

    private static func warnings(_ notification: PushNotification, form: HMSPayload.Form) -> [Finding] {
        var warnings: [Finding] = []
        func warn(_ pointer: String, _ code: String, _ detail: String) {
            warnings.append(Finding(pointer: "#/\(pointer)", code: code, detail: detail))
        }
        if notification.isSilent {
            warnings += notification.fieldsDroppedWhenSilent()
        } else {
            if form == .harmony {
                if notification.subtitle != nil { warn("content/subtitle", "dropped", "HarmonyOS shows no subtitle.") }
                if !notification.actions.isEmpty {
                    warn("content/actions", "dropped", "Huawei documents no buttons for HarmonyOS 5.")
                }
                return warnings
            }
            if notification.subtitle != nil {
                warn("content/subtitle", "dropped", "Huawei's phones show no subtitle; Apple's devices do.")
            }
            if notification.actions.count > 3 {
                warn("content/actions", "too_many", "Huawei shows three buttons: the first three are kept.")
            }
        }
        if let span = notification.timeToLive, span.components.seconds > HMSPayloadTree.longestLife {
            warn("options/ttl", "shortened", "Huawei keeps a message for 15 days at most.")
        }
        return warnings
    }
}

/// The rules of the `android` block, as far as they can be checked without Huawei.
enum HMSAndroidCheck {
    static func faults(_ android: JSONValue) -> [Finding] {
        guard android.objectValue != nil else {
            return [HMSCheck.fault("/android", "not_an_object", "android must be an object.")]
        }
        var faults: [Finding] = []
        func check(
            _ place: String,
            _ value: JSONValue?,
            _ code: String,
            _ detail: String,
            _ isRight: (JSONValue) -> Bool
        ) {
            guard let value, !isRight(value) else { return }
            faults.append(HMSCheck.fault("/android/\(place)", code, detail))
        }
        func number(_ range: ClosedRange<Int64>) -> (JSONValue) -> Bool {
            { $0.integerValue.map(range.contains) ?? false }
        }
        func atMost(_ count: Int) -> (JSONValue) -> Bool { { $0.arrayValue.map { $0.count <= count } ?? false } }
        func oneOf(_ values: String...) -> (JSONValue) -> Bool { { $0.stringValue.map(values.contains) ?? false } }

        check("ttl", android["ttl"], "bad_ttl", "ttl is like \"3600s\", from 1 second to 15 days.") { value in
            guard let text = value.stringValue, text.hasSuffix("s"), let seconds = Double(text.dropLast()) else {
                return false
            }
            return (1...Double(HMSPayloadTree.longestLife)).contains(seconds)
        }
        check("urgency", android["urgency"], "bad_urgency", "Allowed: HIGH, NORMAL.", oneOf("HIGH", "NORMAL"))
        check(
            "collapse_key",
            android["collapse_key"],
            "bad_collapse_key",
            "collapse_key is from -1 to 100.",
            number(-1...100)
        )
        check("bi_tag", android["bi_tag"], "too_long", "bi_tag is a text of at most 64 bytes.") {
            $0.stringValue.map { $0.utf8.count <= 64 } ?? false
        }
        check("fast_app_target", android["fast_app_target"], "bad_value", "Allowed: 1, 2.", number(1...2))
        guard let shown = android["notification"], shown != .null else { return faults }
        check("notification/click_action", shown["click_action"] ?? .null, "bad_click_action", clickHint, isClickAction)
        check("notification/image", shown["image"], "not_https", "image is an https address.") {
            $0.stringValue?.hasPrefix("https://") ?? false
        }
        check(
            "notification/importance",
            shown["importance"],
            "bad_importance",
            "Allowed: LOW, NORMAL, HIGH.",
            oneOf("LOW", "NORMAL", "HIGH")
        )
        check(
            "notification/visibility",
            shown["visibility"],
            "bad_visibility",
            "Allowed: VISIBILITY_UNSPECIFIED, PRIVATE, PUBLIC, SECRET.",
            oneOf("VISIBILITY_UNSPECIFIED", "PRIVATE", "PUBLIC", "SECRET")
        )
        check("notification/style", shown["style"], "bad_style", "Allowed: 0, 1, 3.") { [0, 1, 3].contains($0) }
        check("notification/buttons", shown["buttons"], "too_many", "At most 3 buttons.", atMost(3))
        check("notification/inbox_content", shown["inbox_content"], "too_many", "At most 5 lines.", atMost(5))
        check("notification/vibrate_config", shown["vibrate_config"], "too_many", "At most 10 entries.", atMost(10))
        check(
            "notification/badge/add_num",
            shown["badge"]?["add_num"],
            "bad_badge",
            "add_num is from 1 to 99.",
            number(1...99)
        )
        check(
            "notification/badge/set_num",
            shown["badge"]?["set_num"],
            "bad_badge",
            "set_num is from 0 to 99.",
            number(0...99)
        )
        check("notification/multi_lang_key", shown["multi_lang_key"], "too_many", "Texts in at most 3 languages.") {
            value in
            value.objectValue.map { keys in keys.allSatisfy { ($0.value.objectValue?.count ?? 0) <= 3 } } ?? false
        }
        return faults
    }

    private static let clickHint =
        "A shown message needs click_action: type 1 with intent or action, 2 with url, or 3."

    private static func isClickAction(_ value: JSONValue) -> Bool {
        switch value["type"]?.integerValue {
        case 1?: value["intent"]?.stringValue != nil || value["action"]?.stringValue != nil
        case 2?: value["url"]?.stringValue != nil
        case 3?: true
        default: false
        }
    }
}
