internal import ChaparCore

/// The checks of a notification that need no request to Google: made before acceptance and, for faults only, again
/// before sending.
enum FCMCheck {
    private static let maximumAppleCollapseID = 64
    private static let ownKeys = ["chapar", "chapar_id"]

    /// Finds the faults and warnings of a notification for a form of recipient.
    static func examine(_ payload: FCMPayload, form: Recipient.Form) -> PayloadCheck {
        let notification = payload.notification
        var check = PayloadCheck(faults: faults(notification, overrides: payload.overrides))
        check.warnings = warnings(payload, form: form) + (payload.overrides?.warnings ?? [])
        let kinds: [FCMTarget.Class] = form == .topic ? [.topic] : [.android, .iOS, .web]
        let limit = kinds.map(\.payloadLimit).min() ?? 0
        guard check.faults.isEmpty, upperBound(notification, payload.overrides) > limit else { return check }
        for language in notification.languages {
            for kind in kinds {
                guard let fault = payload.tooLarge(payload.encoded(for: kind, language: language), for: kind) else {
                    continue
                }
                check.faults.append(fault)
                return check
            }
        }
        return check
    }

    /// Finds everything that Google would refuse, except the size.
    static func faults(_ notification: PushNotification, overrides: FCMOverrides?) -> [Finding] {
        var faults = overrides?.faults ?? []
        if !notification.data.isEmpty { faults += reservedKeys(in: notification.data, at: "#/content/data") }
        if let collapseID = notification.collapseID, collapseID.isEmpty {
            faults.append(
                Finding(
                    pointer: "#/options/collapse_id",
                    code: "bad_collapse_id",
                    detail: "The collapse id is empty: leave it out instead."
                )
            )
        }
        if let span = notification.timeToLive, span > .seconds(FCMPayload.Life.maximum) {
            faults.append(
                Finding(pointer: "#/options/ttl", code: "ttl_too_long", detail: "At most 28 days for FCM.")
            )
        }
        return faults
    }

    /// Finds what a kind of recipient cannot take, besides the faults of the notification itself.
    static func faults(_ notification: PushNotification, for kind: FCMTarget.Class) -> [Finding] {
        guard kind.includes(.iOS), let collapseID = notification.collapseID,
            collapseID.utf8.count > maximumAppleCollapseID
        else { return [] }
        return [longCollapseID(collapseID)]
    }

    /// Returns a fault for each key of `data` that is reserved by Google or Chapar.
    static func reservedKeys(in data: JSONObject, at place: String) -> [Finding] {
        var faults: [Finding] = []
        for (name, _) in data {
            let isGoogles =
                ["from", "message_type", "notification", "gcm"].contains(name) || name.hasPrefix("google.")
                || name.hasPrefix("gcm.")
            guard isGoogles || ownKeys.contains(name) else { continue }
            faults.append(
                Finding(
                    pointer: "\(place)/\(name)",
                    code: "reserved_key",
                    detail: "\"\(name)\" is reserved by \(isGoogles ? "FCM" : "Chapar"): choose another name."
                )
            )
        }
        return faults
    }

    private static func longCollapseID(_ collapseID: String) -> Finding {
        Finding(
            pointer: "#/options/collapse_id",
            code: "bad_collapse_id",
            detail: "The collapse id has \(collapseID.utf8.count) bytes; Apple devices take \(maximumAppleCollapseID)."
        )
    }

    private static func warnings(_ payload: FCMPayload, form: Recipient.Form) -> [Finding] {
        let notification = payload.notification
        var warnings: [Finding] = []
        func warn(_ pointer: String, _ code: String, _ detail: String) {
            warnings.append(Finding(pointer: "#/\(pointer)", code: code, detail: detail))
        }
        if let collapseID = notification.collapseID, collapseID.utf8.count > maximumAppleCollapseID {
            warnings.append(longCollapseID(collapseID))
        }
        if notification.isSilent {
            warnings += notification.fieldsDroppedWhenSilent(dropsCategory: true)
            return warnings
        }
        if !payload.showsSomething, notification.priority == .high {
            warn(
                "options/priority",
                "high_priority_data_only",
                "The message has no text: if the app shows nothing for it, Android demotes its later messages."
            )
        }
        if notification.subtitle != nil {
            warn(
                "content/subtitle",
                "dropped_on_android",
                "Android has no subtitle: it is shown on Apple devices only."
            )
        }
        if !notification.actions.isEmpty {
            warn("content/actions", "needs_app_code", "FCM has no buttons: the app finds them in data, under chapar.")
        }
        if notification.clickURL != nil {
            warn(
                "content/click_url",
                "needs_app_code",
                "FCM opens the app: it finds the address in data, under chapar."
            )
        }
        if notification.data.contains(where: { $0.value.stringValue == nil }) {
            warn("content/data", "turned_into_text", "FCM takes texts only: other values are sent as JSON text.")
        }
        return warnings
    }

    /// Returns an upper bound of the payload's size, in bytes.
    private static func upperBound(_ notification: PushNotification, _ overrides: FCMOverrides?) -> Int {
        var texts = 0
        for text in [notification.title, notification.subtitle, notification.body] {
            switch text {
            case nil: break
            case .plain(let text): texts += text.utf8.count
            case .localized(let fallback, let languages):
                texts += max(fallback.utf8.count, languages.values.map(\.utf8.count).max() ?? 0)
            }
        }
        for text in [
            notification.sound, notification.category, notification.image, notification.clickURL,
            notification.collapseID,
        ] {
            texts += text?.utf8.count ?? 0
        }
        for action in notification.actions {
            texts += 40 + action.id.utf8.count + action.title.utf8.count + (action.url?.utf8.count ?? 0)
        }
        var bound = 500 + 12 * texts  // A byte takes at most six, and texts with a subtitle stand twice.
        for (name, value) in notification.data {
            bound += 8 + 6 * name.utf8.count + 12 * FCMPayload.text(of: value).utf8.count
        }
        if let overrides { bound += JSONValue.object(overrides.object).bytes.count }
        return bound
    }
}
