import ChaparCore

/// The checks of a notification that need no request to Chabok; they report all problems at once.
///
/// Run before acceptance, and for its faults again before sending.
enum ChabokCheck {
    /// The largest body, in bytes.
    ///
    /// Chabok documents no limit; this one is Chapar's.
    static let limit = 65_536
    /// The size, in bytes, above which there is a warning: a device that is not connected gets the push notification of
    /// Apple or Google, whose limit applies.
    static let pushLimit = 3_500

    static func examine(
        _ notification: PushNotification,
        for form: Recipient.Form?,
        options: ChabokOptions
    ) -> PayloadCheck {
        var check = PayloadCheck(faults: faults(notification, options), warnings: warnings(notification, form))
        let way = ChabokPayload.mechanism(notification, options)
        if let form, let problem = problem(of: form, with: way) {
            check.faults.append(Finding(pointer: "#/to", code: "unsupported_mechanism", detail: problem))
        }
        let size = size(of: notification, language: nil, options: options).bytes
        if size > limit {
            check.faults.append(
                Finding(
                    pointer: "#/content",
                    code: "payload_too_large",
                    detail: "\(size) bytes; \(limit) is the most."
                )
            )
        } else if size > pushLimit {
            check.warnings.append(
                Finding(
                    pointer: "#/content",
                    code: "large_for_push",
                    detail: "\(size) bytes: about \(pushLimit) reach a device that is not connected."
                )
            )
        }
        if options.isStrict { (check.faults, check.warnings) = (check.faults + check.warnings, []) }
        return check
    }

    /// Returns why recipients of a form cannot be reached by a mechanism; nil when they can.
    static func problem(of form: Recipient.Form, with way: ChabokOptions.Mechanism) -> String? {
        switch (form, way) {
        case (.user, _), (_, .message): nil
        case (.tags, .notification), (.everyone, .notification): nil
        case (.token, _): nil
        case (_, .smart): "A smart message goes to users, one at a time."
        case (_, .notification): "Notifications have no channels: use the mechanism message."
        }
    }

    /// Returns the size of the message in a language.
    static func size(of notification: PushNotification, language: String?, options: ChabokOptions) -> PayloadSize {
        let message = message(notification, options, language: language)
        return PayloadSize(bytes: JSONValue.object(message.members).bytes.count, limit: limit)
    }

    /// Returns the message in a language.
    static func message(
        _ notification: PushNotification,
        _ options: ChabokOptions,
        language: String? = nil
    ) -> ChabokPayload {
        ChabokPayload(
            notification,
            language: language,
            remaining: notification.timeToLive?.components.seconds,
            options: options
        )
    }

    static func faults(_ notification: PushNotification, _ options: ChabokOptions) -> [Finding] {
        var faults: [Finding] = []
        func fault(_ pointer: String, _ code: String, _ detail: String) {
            faults.append(Finding(pointer: "#/\(pointer)", code: code, detail: detail))
        }
        let message = message(notification, options)
        if message.members["content"]?.stringValue?.isEmpty ?? true {
            fault("content", "nothing_to_show", "There is no text. Set options.silent to wake the app.")
        }
        let shown = message.members["notification"]
        if let shown, !notification.isSilent, shown["title"]?.stringValue?.isEmpty ?? true {
            fault(
                "content/title",
                "title_missing",
                "A notification with looks needs a title, or app_name in the configuration."
            )
        }
        if let span = notification.timeToLive, span < .zero {
            fault("options/ttl", "bad_ttl", "The time to live is not negative.")
        }
        checkActions(shown?["actions"]?.arrayValue ?? [], fault)
        checkOverrides(ChabokPayload.overrides(notification), message.mechanism, fault)
        guard message.mechanism == .smart else { return faults }
        if notification.timeToLive.map({ $0 <= .zero }) ?? true {
            fault("options/ttl", "ttl_missing", "A smart message needs a time to live.")
        }
        let fallback = message.members["fallback"]
        if fallback?["delay"]?.integerValue.map({ $0 > 0 }) != true
            || fallback?["media"]?.stringValue.flatMap(ChabokOptions.Fallback.Media.init) == nil
        {
            fault(
                "overrides/chabok/fallback",
                "fallback_missing",
                "A smart message needs fallback.delay in seconds and fallback.media, sms or email."
            )
        }
        return faults
    }

    private static func checkActions(_ actions: [JSONValue], _ fault: (String, String, String) -> Void) {
        var seen: Set<String> = []
        for (place, action) in actions.enumerated() {
            let pointer = "content/actions/\(place)"
            let id = action["id"]?.stringValue ?? ""
            if id.isEmpty || !seen.insert(id).inserted {
                fault("\(pointer)/id", "bad_action", "Each button has an id of its own.")
            }
            if action["title"]?.stringValue?.isEmpty ?? true {
                fault("\(pointer)/title", "bad_action", "Each button has a title.")
            }
            if let options = action["options"], options.integerValue.map({ !(0...7).contains($0) }) ?? true {
                fault("\(pointer)/options", "bad_action", "options is the sum of 1, 2 and 4.")
            }
        }
    }

    /// Finds the problems of overrides that do not depend on the backend's configuration.
    static func overrideFaults(_ notification: PushNotification) -> [Finding] {
        let overrides = ChabokPayload.overrides(notification)
        var faults: [Finding] = []
        // Without a mechanism in the overrides the check uses `message`, which takes every key: only the backend knows
        // the mechanism of its options.
        let way = overrides["mechanism"]?.stringValue.flatMap(ChabokOptions.Mechanism.init) ?? .message
        checkOverrides(overrides, way) { pointer, code, detail in
            faults.append(Finding(pointer: "#/\(pointer)", code: code, detail: detail))
        }
        return faults
    }

    private static func checkOverrides(
        _ overrides: JSONObject,
        _ way: ChabokOptions.Mechanism,
        _ fault: (String, String, String) -> Void
    ) {
        let allowed = ChabokPayload.keys[way] ?? []
        let reserved: Set<String> = ["user", "users", "target", "segment", "clientId", "ttl", "data", "id", "idr"]
        for (name, value) in overrides {
            let pointer = "overrides/chabok/\(name)"
            switch name {
            case "allow_broadcast":
                fault(pointer, "reserved_key", "The operator decides it: allow_broadcast in the backend's section.")
            case _ where reserved.contains(name):
                fault(pointer, "reserved_key", "\(name) is Chapar's: recipients, content and options decide it.")
            case _ where !allowed.contains(name):
                let nearest = Suggestion.nearest(to: name, among: allowed).map { "Did you mean \"\($0)\"? " } ?? ""
                fault(
                    pointer,
                    "unknown_override",
                    "\(nearest)With \(way.rawValue): \(allowed.sorted().joined(separator: ", "))."
                )
            case "mechanism":
                if value.stringValue.flatMap(ChabokOptions.Mechanism.init) == nil {
                    fault(pointer, "bad_value", "Allowed: message, notification, smart.")
                }
            case "channel":
                if value.stringValue.flatMap(ChabokChannel.init) == nil {
                    fault(pointer, "bad_channel", "Write name, public/name or private/name.")
                }
            case "notification", "fallback":
                if value.objectValue == nil { fault(pointer, "bad_value", "\(name) is an object.") }
                if name == "fallback", let delay = value["delay"], (delay.integerValue ?? 0) <= 0 {
                    fault("\(pointer)/delay", "bad_value", "The delay is in whole seconds, 1 or more.")
                }
            case "content", "alertText", "trackId":
                if value.stringValue?.isEmpty ?? true { fault(pointer, "bad_value", "\(name) is a text.") }
            default:
                if value.boolValue == nil { fault(pointer, "bad_value", "\(name) is true or false.") }
            }
        }
    }

    private static func warnings(_ notification: PushNotification, _ form: Recipient.Form?) -> [Finding] {
        var warnings: [Finding] = []
        func warn(_ pointer: String, _ code: String, _ detail: String) {
            warnings.append(Finding(pointer: "#/\(pointer)", code: code, detail: detail))
        }
        if notification.priority == .normal {
            warn("options/priority", "priority_dropped", "Chabok knows no priorities.")
        }
        if let span = notification.timeToLive, span.components.seconds > ChabokPayload.longestTimeToLive {
            warn("options/ttl", "ttl_clamped", "Chabok keeps a message for 30 days at most.")
        }
        let isForMany = form == .topic || form == .tags || form == .everyone
        let texts = [
            ("title", notification.title), ("subtitle", notification.subtitle), ("body", notification.body),
        ]
        for (name, text) in texts {
            if isForMany, case .localized? = text {
                warn("content/\(name)", "languages_dropped", "Everybody of such an audience gets the default text.")
            }
            if notification.isSilent, text != nil {
                warn("content/\(name)", "dropped_when_silent", "A silent message shows nothing: \(name) is not shown.")
            }
        }
        return warnings
    }
}
