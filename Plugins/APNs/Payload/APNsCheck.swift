import ChaparCore

/// The checks of a notification that need no request to Apple: made before acceptance and, for faults only, again
/// before sending.
enum APNsCheck {
    /// Finds the faults and warnings of a notification whose headers are known.
    static func examine(
        _ notification: PushNotification,
        headers: APNsHeaders,
        overrides: APNsOverrides?,
        form: Recipient.Form
    ) -> PayloadCheck {
        var check = PayloadCheck(faults: faults(notification, headers: headers, overrides: overrides, form: form))
        check.warnings = warnings(notification, headers: headers)
        check.warnings += APSWarnings.of(overrides?.payload?["aps"], at: "#/overrides/apns/payload/aps")
        let limit = limit(headers, form)
        if APNsPayload.upperBound(notification, overrides: overrides) > limit {
            for language in notification.languages {
                let bytes = APNsPayload.encode(
                    notification,
                    language: language,
                    pushType: headers.pushType,
                    overrides: overrides
                )
                guard let fault = tooLarge(bytes.count, headers, form) else { continue }
                check.faults.append(fault)
                break
            }
        }
        return check
    }

    /// Whether a notification is of the usual kind, whose only possible fault is its size: it shows a text, replaces
    /// nothing and overrides nothing.
    static func isPlain(_ notification: PushNotification) -> Bool {
        guard notification.hasText, !notification.isSilent, notification.collapseID == nil,
            notification.overrides.isEmpty
        else { return false }
        let data = notification.data
        return data.isEmpty || reservedKeys.allSatisfy { data[$0] == nil }
    }

    /// The keys that data cannot have: `aps`, and the key that the plugin adds.
    private static let reservedKeys = ["aps", "chapar"]

    /// Returns Apple's limit of the payload, in bytes.
    static func limit(_ headers: APNsHeaders, _ form: Recipient.Form) -> Int {
        form == .platformID ? 5120 : headers.pushType.payloadLimit
    }

    static func tooLarge(_ count: Int, _ headers: APNsHeaders, _ form: Recipient.Form) -> Finding? {
        let limit = limit(headers, form)
        guard count > limit else { return nil }
        let what = form == .platformID ? "a broadcast" : "a push of type \(headers.pushType.rawValue)"
        return Finding(
            pointer: "#/content",
            code: "payload_too_large",
            detail: "The payload has \(count) bytes after encoding; \(what) takes \(limit)."
        )
    }

    /// Finds everything that Apple would refuse, except the size.
    static func faults(
        _ notification: PushNotification,
        headers: APNsHeaders,
        overrides: APNsOverrides?,
        form: Recipient.Form
    ) -> [Finding] {
        var faults = headers.faults
        if let overrides { faults += overrides.faults }
        if !notification.data.isEmpty {
            for name in reservedKeys where notification.data[name] != nil {
                faults.append(
                    Finding(
                        pointer: "#/content/data/\(name)",
                        code: "reserved_key",
                        detail: "\"\(name)\" is reserved; Apple's own keys go under overrides.apns.payload.aps."
                    )
                )
            }
        }
        if let aps = overrides?.payload?["aps"], aps.objectValue == nil {
            faults.append(fault("/aps", "not_an_object", "aps must be an object."))
        }
        let aps = overrides?.payload?["aps"]?.objectValue
        if let aps { faults += APNsAPSCheck.faults(aps, pushType: headers.pushType) }
        switch headers.pushType {
        case .alert:
            let shows =
                notification.title != nil || notification.subtitle != nil || notification.body != nil
                || notification.badge != nil || notification.sound != nil
                || aps.map { $0["alert"] != nil || $0["badge"] != nil || $0["sound"] != nil } ?? false
            if !shows {
                faults.append(
                    Finding(
                        pointer: "#/content",
                        code: "nothing_to_show",
                        detail: "There is no text, sound or badge: Apple drops it. Set options.silent to wake the app."
                    )
                )
            }
        case .background: faults += backgroundFaults(aps)
        case .liveactivity:
            let hasText = notification.title != nil || notification.body != nil
            faults += APNsLiveActivityCheck.faults(aps, form: form, hasText: hasText)
        case .widgets:
            if let changed = aps?["content-changed"], changed != true {
                faults.append(fault("/aps/content-changed", "wrong_combination", "A widget push has it true."))
            }
        default: break
        }
        return faults
    }

    private static func backgroundFaults(_ aps: JSONObject?) -> [Finding] {
        guard let aps else { return [] }
        var faults: [Finding] = []
        for name in ["alert", "sound", "badge"] where aps[name] != nil {
            faults.append(
                fault("/aps/\(name)", "wrong_combination", "A background push must not hold \(name).")
            )
        }
        if let available = aps["content-available"], available != 1 {
            faults.append(fault("/aps/content-available", "wrong_combination", "A background push has it 1."))
        }
        return faults
    }

    static func fault(_ place: String, _ code: String, _ detail: String) -> Finding {
        Finding(pointer: "#/overrides/apns/payload\(place)", code: code, detail: detail)
    }

    private static func warnings(_ notification: PushNotification, headers: APNsHeaders) -> [Finding] {
        var warnings: [Finding] = []
        func warn(_ field: String, _ code: String, _ detail: String) {
            warnings.append(Finding(pointer: "#/content/\(field)", code: code, detail: detail))
        }
        if headers.pushType == .background {
            warnings += notification.fieldsDroppedWhenSilent(dropsCategory: true)
            return warnings
        }
        if notification.image != nil {
            warn("image", "needs_extension", "iOS shows a picture only if the app's notification extension loads it.")
        }
        if !notification.actions.isEmpty {
            warn("actions", "needs_extension", "iOS takes buttons from the app: by category, or by its extension.")
        }
        return warnings
    }
}
