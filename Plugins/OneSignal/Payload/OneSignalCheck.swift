import ChaparCore

/// The checks of a notification that need no request to OneSignal: made before acceptance and, for faults only, again
/// before sending.
enum OneSignalCheck {
    /// The most bytes of `data` as JSON.
    static let dataLimit = 2_048
    /// The most bytes of the whole message, estimated: APNs and FCM take 4 KB, and OneSignal adds members of its own.
    static let payloadLimit = 3_500

    /// Finds what OneSignal would refuse (faults) and what it would drop (warnings).
    static func examine(_ notification: PushNotification) -> PayloadCheck {
        PayloadCheck(faults: faults(notification), warnings: warnings(notification))
    }

    static func faults(_ notification: PushNotification) -> [Finding] {
        var faults: [Finding] = []
        func fault(_ pointer: String, _ code: String, _ detail: String) {
            faults.append(Finding(pointer: "#/\(pointer)", code: code, detail: detail))
        }
        let overrides = OneSignalPayload.overrides(notification)
        let hasTemplate = overrides["template_id"] != nil
        if !notification.isSilent, notification.body == nil, notification.title == nil, overrides["contents"] == nil,
            !hasTemplate
        {
            fault(
                "content",
                "nothing_to_show",
                "There is no text: OneSignal refuses it. Set options.silent to wake the app."
            )
        }
        if let contents = overrides["contents"], contents["en"]?.stringValue.map({ $0.isEmpty }) ?? true {
            fault(
                "overrides/onesignal/contents",
                "english_missing",
                "OneSignal wants contents.en, whatever the language."
            )
        }
        let data = JSONValue.object(notification.data).bytes.count
        if data > dataLimit {
            fault("content/data", "data_too_large", "The data has \(data) bytes as JSON; OneSignal takes \(dataLimit).")
        }
        let size = OneSignalPayload(notification, remaining: nil, sendAfter: nil).estimatedSize
        if size > payloadLimit, data <= dataLimit {
            fault(
                "content",
                "payload_too_large",
                "The payload has about \(size) bytes; about \(payloadLimit) reach a device."
            )
        }
        if notification.actions.count > 3 {
            fault("content/actions", "too_many_actions", "OneSignal takes 3 buttons.")
        }
        for (name, value) in overrides { check(name, value, fault) }
        if overrides["delayed_option"] != nil, let rate = overrides["throttle_rate_per_minute"], rate != 0 {
            fault(
                "overrides/onesignal/throttle_rate_per_minute",
                "wrong_combination",
                "With a time for each user it must be 0."
            )
        }
        return faults
    }

    private static func check(_ name: String, _ value: JSONValue, _ fault: (String, String, String) -> Void) {
        let pointer = "overrides/onesignal/\(name)"
        if OneSignalPayload.isReserved(name) {
            fault(pointer, "reserved_key", "\(name) is Chapar's: the recipients decide the audience.")
            return
        }
        switch name {
        case "name":
            if (value.stringValue ?? "").count > 128 {
                fault(pointer, "too_long", "A name has at most 128 characters.")
            }
        case "ttl":
            let seconds = value.integerValue ?? -1
            if !(0...OneSignalPayload.longestTimeToLive).contains(seconds) {
                fault(pointer, "bad_ttl", "ttl is 0 to \(OneSignalPayload.longestTimeToLive) seconds.")
            }
        case "collapse_id":
            if (value.stringValue ?? "").count > 64 { fault(pointer, "too_long", "At most 64 characters.") }
        case "web_buttons":
            if (value.arrayValue ?? []).count > 2 {
                fault(pointer, "too_many_actions", "OneSignal takes 2 web buttons.")
            }
        case "buttons":
            if (value.arrayValue ?? []).count > 3 { fault(pointer, "too_many_actions", "OneSignal takes 3 buttons.") }
        case "priority":
            if value != 5 && value != 10 { fault(pointer, "bad_priority", "priority is 5 or 10.") }
        case "ios_interruption_level":
            let words = OneSignalPayload.interruptionLevels
            if !words.contains(value.stringValue ?? "") {
                fault(pointer, "bad_value", "Allowed: \(words.joined(separator: ", ")), with an underscore.")
            }
        case "ios_relevance_score":
            if !(value.numberValue.map { (0...1).contains($0) } ?? false) {
                fault(pointer, "bad_value", "The relevance is from 0 to 1.")
            }
        case "huawei_badge_add_num":
            if !(1...99).contains(value.integerValue ?? 0) { fault(pointer, "bad_value", "A number from 1 to 99.") }
        case "apns_push_type_override":
            if value != "voip" { fault(pointer, "bad_value", "Allowed: voip; OneSignal chooses the others itself.") }
        case "delayed_option":
            if !OneSignalPayload.delayedOptions.contains(value.stringValue ?? "") {
                let known = OneSignalPayload.delayedOptions.joined(separator: ", ")
                fault(pointer, "bad_value", "Allowed: \(known).")
            }
        case "throttle_rate_per_minute":
            if (value.integerValue ?? -1) < 0 { fault(pointer, "bad_value", "A whole number, 0 or more.") }
        case "custom_data":
            if value.bytes.count > dataLimit { fault(pointer, "data_too_large", "custom_data has at most 2048 bytes.") }
        default: break
        }
    }

    private static func warnings(_ notification: PushNotification) -> [Finding] {
        var warnings: [Finding] = []
        func warn(_ pointer: String, _ code: String, _ detail: String) {
            warnings.append(Finding(pointer: "#/\(pointer)", code: code, detail: detail))
        }
        if let span = notification.timeToLive, span.components.seconds > OneSignalPayload.longestTimeToLive {
            warn("options/ttl", "ttl_clamped", "OneSignal keeps a message for 28 days at most.")
        }
        if let id = notification.collapseID, id.count > 64 {
            warn("options/collapse_id", "collapse_id_hashed", "It has more than 64 characters: its hash is sent.")
        }
        if notification.actions.contains(where: { $0.url != nil }) {
            warn("content/actions", "action_url_dropped", "Only web buttons open an address of their own.")
        }
        if notification.isSilent {
            warnings += notification.fieldsDroppedWhenSilent()
        }
        return warnings
    }
}
