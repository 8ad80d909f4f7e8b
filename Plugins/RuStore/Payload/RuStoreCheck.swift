internal import ChaparCore

/// The checks of a notification that need no request to RuStore: made before acceptance and, for faults only, again
/// before sending.
enum RuStoreCheck {
    /// Finds the faults and warnings of a notification.
    static func examine(_ payload: RuStorePayload, in frame: RuStoreFrame) -> PayloadCheck {
        var check = PayloadCheck(faults: faults(payload, in: frame), warnings: warnings(payload.notification))
        guard check.faults.isEmpty else { return check }
        for language in payload.notification.languages {
            // The target is not known here: what it adds is counted before sending.
            let size = frame.opening.count + payload.encoded(language: language).count - frame.uncounted
            guard size > RuStoreFrame.limit else { continue }
            check.faults.append(tooLarge(size))
            break
        }
        return check
    }

    /// Finds everything that RuStore would refuse, except the size.
    static func faults(_ payload: RuStorePayload, in frame: RuStoreFrame) -> [Finding] {
        let notification = payload.notification
        var faults = payload.overrides?.faults ?? []
        if !notification.data.isEmpty { faults += reservedKeys(in: notification.data, at: "#/content/data") }
        if frame.isUniversal, let half = half(payload) {
            let detail = "RuStore's universal API takes a title only with a text, and a text only with a title."
            faults.append(Finding(pointer: "#/content/\(half)", code: "title_and_body", detail: detail))
        }
        return faults
    }

    /// Returns which of `title` and `body` a notification lacks; nil when it has both or none.
    private static func half(_ payload: RuStorePayload) -> String? {
        func has(_ name: String, _ text: LocalizedText?) -> Bool {
            payload.showsSomething && text != nil || payload.overrides?.brings(name) ?? false
        }
        let title = has("title", payload.notification.title)
        let body = has("body", payload.notification.body)
        return title == body ? nil : title ? "body" : "title"
    }

    /// Returns a fault for each key of `data` that is reserved by Chapar.
    static func reservedKeys(in data: JSONObject, at place: String) -> [Finding] {
        ["chapar", "chapar_id"].filter { data[$0] != nil }.map { name in
            Finding(
                pointer: "\(place)/\(name)",
                code: "reserved_key",
                detail: "\"\(name)\" is reserved by Chapar: choose another name."
            )
        }
    }

    /// Returns the fault of a message that is too large.
    static func tooLarge(_ size: Int) -> Finding {
        Finding(
            pointer: "#/content",
            code: "payload_too_large",
            detail: "The message has \(size) bytes after encoding; RuStore takes \(RuStoreFrame.limit)."
        )
    }

    private static func warnings(_ notification: PushNotification) -> [Finding] {
        var warnings: [Finding] = []
        func warn(_ pointer: String, _ code: String, _ detail: String) {
            warnings.append(Finding(pointer: "#/\(pointer)", code: code, detail: detail))
        }
        if notification.priority != .high {
            warn("options/priority", "priority_dropped", "RuStore knows no priorities.")
        }
        if notification.collapseID != nil {
            warn(
                "options/collapse_id",
                "collapse_id_dropped",
                "RuStore replaces no waiting messages: the app can, by chapar_id in data."
            )
        }
        if let span = notification.timeToLive, span > .seconds(RuStorePayload.Life.maximum) {
            warn("options/ttl", "ttl_clamped", "RuStore keeps a message for 28 days at most.")
        }
        if notification.isSilent { return warnings + notification.fieldsDroppedWhenSilent(dropsCategory: true) }
        for (name, isThere) in [
            ("subtitle", notification.subtitle != nil), ("sound", notification.sound != nil),
            ("badge", notification.badge != nil),
        ] where isThere {
            warn("content/\(name)", "dropped", "RuStore has no \(name): it is left out.")
        }
        if !notification.actions.isEmpty {
            warn(
                "content/actions",
                "needs_app_code",
                "RuStore has no buttons: the app finds them in data, under chapar."
            )
        }
        if notification.data.contains(where: { $0.value.stringValue == nil }) {
            warn("content/data", "turned_into_text", "RuStore takes texts only: other values are sent as JSON text.")
        }
        return warnings
    }
}
