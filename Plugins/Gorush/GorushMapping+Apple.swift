import ChaparCore

extension GorushMapping {
    private static let alertMembers = [
        "action", "action-loc-key", "launch-image", "loc-key", "loc-args", "title-loc-key", "title-loc-args",
        "summary-arg", "summary-arg-count",
    ]

    /// Maps an entry for Apple.
    func apple(_ entry: GorushEntry) throws(Refusal) -> Draft {
        let object = entry.object
        var draft = Draft(service: .iOSAPNs, kind: "apns")
        draft.backend = try appleBackend(entry)

        let alert = GoObject(object.value("alert")?.objectValue ?? JSONObject())
        draft.content["title"] = (alert.string("title") ?? entry.title).map { .string($0) }
        draft.content["subtitle"] = alert.string("subtitle").map { .string($0) }
        draft.content["body"] = (alert.string("body") ?? entry.message).map { .string($0) }
        draft.content["category"] = object.string("category").map { .string($0) }
        if let badge = object.value("badge")?.integerValue, badge >= 0 { draft.content["badge"] = .integer(badge) }
        draft.content["data"] = entry.data.map { .object($0) }

        // The README's example, which gorush does not read on this platform; members of their own win over it.
        if let own = object.value("apns")?.objectValue { draft.overrides = own }
        var aps = JSONObject()
        var keys = JSONObject()
        for name in Self.alertMembers { keys[name] = alert.value(name) }
        if !keys.isEmpty { aps["alert"] = .object(keys) }
        let sound = Self.sound(object)
        if let name = sound?.stringValue { draft.content["sound"] = .string(name) } else { aps["sound"] = sound }
        if entry.isContentMutable { aps["mutable-content"] = 1 }
        for name in ["thread-id", "interruption-level"] {
            let own = name == "interruption-level" ? "interruption_level" : name
            aps[name] = object.string(own).map { .string($0) }
        }
        if let arguments = object.value("url-args") { aps["url-args"] = arguments }
        let isActivity = putActivity(object, into: &aps)

        let shows = !draft.content.members.allSatisfy { $0.name == "data" || $0.name == "category" }
        if entry.isContentAvailable {
            let isSilent = !shows && aps["alert"] == nil && aps["sound"] == nil && !isActivity
            if isSilent { draft.options["silent"] = true } else { aps["content-available"] = 1 }
        }
        if !aps.isEmpty { draft.overrides.lay(["aps": .object(aps)], over: "payload") }
        try putHeaders(entry, into: &draft)
        if draft.content.isEmpty, draft.overrides.isEmpty, draft.options["silent"] == nil {
            throw Refusal(sentence: "content_empty: There is nothing to show and no data.")
        }
        return draft
    }

    private func appleBackend(_ entry: GorushEntry) throws(Refusal) -> String {
        let object = entry.object
        let environment =
            object.value("production") == .bool(true)
            ? GorushOptions.Environment.production
            : object.value("development") == .bool(true) ? .development : options.environment
        let apple = entry.topic.map { options.apple(topic: $0) } ?? options.apple
        guard let apple else {
            throw Refusal(sentence: "not_configured: The platform 1 (iOS) has no backend here.", isUnconfigured: true)
        }
        guard let backend = apple.backend(environment) else {
            let word = environment.rawValue
            throw Refusal(sentence: "no_environment: No backend is configured for Apple's \(word) host.")
        }
        return backend
    }

    /// Returns the sound: its name, or an object for a critical alert.
    ///
    /// `name` and `volume` alone make one, with any value of `sound`.
    static func sound(_ object: GoObject) -> JSONValue? {
        let (name, volume) = (object.string("name"), object.value("volume"))
        if name != nil || volume != nil {
            return .object(audible(["critical": 1, "name": .string(name ?? "default"), "volume": volume ?? 1.0]))
        }
        switch object.value("sound") {
        case .string(let name)?: return name.isEmpty ? nil : .string(name)
        case .object(let sound)?: return sound.isEmpty ? nil : .object(audible(sound))
        default: return nil
        }
    }

    /// Returns the sound with a volume of at most 1, the end of Apple's scale: gorush's README has 2.0.
    static func audible(_ sound: JSONObject) -> JSONObject {
        guard let volume = sound["volume"]?.numberValue, volume > 1 else { return sound }
        var sound = sound
        sound["volume"] = 1.0
        return sound
    }

    /// Puts the members of a Live Activity into `aps`; returns whether the entry is one.
    private func putActivity(_ object: GoObject, into aps: inout JSONObject) -> Bool {
        for name in ["content-state", "event", "timestamp", "stale-date", "attributes-type", "attributes"] {
            guard let value = object.value(name), value.stringValue != "" else { continue }
            aps[name] = value
        }
        aps["relevance-score"] = object.value("relevance-score")
        if let end = object.value("dismissal-date")?.integerValue, end > 0 { aps["dismissal-date"] = .integer(end) }
        let isActivity =
            object.string("push_type")?.lowercased() == "liveactivity" || aps["event"] != nil
            || aps["content-state"] != nil
        if isActivity, aps["timestamp"] == nil { aps["timestamp"] = .integer(now) }
        return isActivity
    }

    private func putHeaders(_ entry: GorushEntry, into draft: inout Draft) throws(Refusal) {
        let object = entry.object
        draft.options["priority"] = try priority(entry).map { .string($0) }
        draft.options["collapse_id"] = object.string("collapse_id").map { .string($0) }
        var headers = JSONObject()
        headers["apns-topic"] = entry.topic.map { .string($0) }
        headers["apns-push-type"] = object.string("push_type").map { .string($0) }
        if let end = object.value("expiration")?.integerValue, end >= 0 {
            headers["apns-expiration"] = .string(String(end))
            draft.life = end == 0 ? 0 : end.subtracting(clamping: now)
        }
        if !headers.isEmpty { draft.overrides.lay(headers, over: "headers") }
    }
}
