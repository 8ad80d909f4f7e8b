import ChaparCore

extension GorushMapping {
    /// Members that gorush's README names under `notification`, and FCM has under `android.notification`.
    private static let legacy = [
        ("icon", "icon"), ("tag", "tag"), ("color", "color"), ("click_action", "click_action"), ("sound", "sound"),
        ("body_loc_key", "body_loc_key"), ("body_loc_args", "body_loc_args"), ("title_loc_key", "title_loc_key"),
        ("title_loc_args", "title_loc_args"), ("android_channel_id", "channel_id"), ("channel_id", "channel_id"),
    ]

    /// Maps an entry for Google.
    func google(_ entry: GorushEntry) throws(Refusal) -> Draft {
        guard let backend = options.google else {
            throw Refusal(
                sentence: "not_configured: The platform 2 (Android) has no backend here.",
                isUnconfigured: true
            )
        }
        let object = entry.object
        // Callers of gorush send to Firebase's tokens of iOS and of browsers under this platform as well.
        var draft = Draft(backend: backend, service: TokenService(rawValue: "x-firebase"), kind: "fcm")
        for name in ["android", "webpush", "apns", "fcm_options"] {
            if let block = object.value(name)?.objectValue { draft.overrides[name] = .object(block.withoutNulls) }
        }
        putNotification(entry, into: &draft)
        putTexts(entry, into: &draft)
        try putLife(object, into: &draft)
        putApple(entry, into: &draft)
        draft.content["data"] = entry.data.map { .object($0) }
        let shows = draft.content["title"] != nil || draft.content["body"] != nil || hasKeys(draft.overrides)
        draft.options["priority"] = .string(try priority(entry) ?? (shows ? "high" : "normal"))
        if draft.content.isEmpty, draft.overrides.isEmpty { draft.options["silent"] = true }
        return draft
    }

    /// Whether the overrides bring texts of their own.
    private func hasKeys(_ overrides: JSONObject) -> Bool {
        let android = overrides["android"]?["notification"]
        return ["title", "body", "title_loc_key", "body_loc_key"].contains { android?[$0] != nil }
    }

    /// Reads `notification`: its texts, which the entry's own texts replace later, and members that FCM has elsewhere.
    private func putNotification(_ entry: GorushEntry, into draft: inout Draft) {
        guard let block = entry.object.value("notification")?.objectValue?.withoutNulls else { return }
        var rest = JSONObject()
        for (name, value) in block {
            let lower = name.lowercased()
            if let (_, field) = Self.legacy.first(where: { $0.0 == lower }) {
                // A block of FCM's own wins over the older form.
                if draft.overrides["android"]?["notification"]?[field] == nil {
                    draft.overrides.put(Self.list(value, for: field), at: "android", "notification", field)
                }
            } else if ["title", "body", "image"].contains(lower), let text = value.stringValue {
                if !text.isEmpty { draft.content[lower] = .string(text) }
            } else {
                rest[name] = value
            }
        }
        if !rest.isEmpty { draft.overrides["notification"] = .object(rest) }
    }

    /// Returns arguments of a text as a list: the older form is one text with a list in it.
    private static func list(_ value: JSONValue, for field: String) -> JSONValue {
        guard field.hasSuffix("_args"), let text = value.stringValue else { return value }
        if let list = try? JSONValue(parsing: Array(text.utf8)), list.arrayValue != nil { return list }
        return [.string(text)]
    }

    private func putTexts(_ entry: GorushEntry, into draft: inout Draft) {
        if let title = entry.title { draft.content["title"] = .string(title) }
        if let message = entry.message { draft.content["body"] = .string(message) }
        if let image = entry.image { draft.content["image"] = .string(image) }
        // The API takes pictures over https only; Google takes any address.
        if let image = draft.content["image"]?.stringValue, !image.lowercased().hasPrefix("https://") {
            draft.content["image"] = nil
            draft.overrides.put(.string(image), at: "notification", "image")
        }
        switch entry.object.value("sound") {
        case .string(let name)? where !name.isEmpty: draft.content["sound"] = .string(name)
        case .object(let sound)? where draft.overrides["apns"]?["payload"]?["aps"]?["sound"] == nil:
            draft.overrides.put(.object(Self.audible(sound)), at: "apns", "payload", "aps", "sound")
        default: break
        }
    }

    /// Puts the time to live and the collapse id, which the gateway keeps itself.
    private func putLife(_ object: GoObject, into draft: inout Draft) throws(Refusal) {
        var android = draft.overrides["android"]?.objectValue ?? JSONObject()
        if let life = Self.seconds(android["ttl"]) {
            draft.life = life
            android["ttl"] = nil
        } else if let value = object.value("time_to_live") {
            guard let life = value.integerValue ?? value.stringValue.flatMap({ Int64($0) }), life >= 0 else {
                throw Self.wrongValue("time_to_live", "a whole number of seconds, 0 or more")
            }
            draft.life = life
        }
        for name in ["collapse_key", "restricted_package_name"] {
            if let value = object.value(name), value.stringValue == nil { throw Self.wrongValue(name, "a text") }
        }
        if android["collapse_key"] == "" { android["collapse_key"] = nil }
        let key = android["collapse_key"]?.stringValue ?? object.string("collapse_key")
        if let key, (1...64).contains(key.utf8.count) {
            draft.options["collapse_id"] = .string(key)
            android["collapse_key"] = nil
        } else if let key, !key.isEmpty {
            android["collapse_key"] = .string(key)
        }
        if let package = object.string("restricted_package_name"), android["restricted_package_name"] == nil {
            android["restricted_package_name"] = .string(package)
        }
        draft.overrides["android"] = android.isEmpty ? nil : .object(android)
    }

    /// Adds the members for Apple's devices to the caller's own block `apns`; gorush replaces that block.
    private func putApple(_ entry: GorushEntry, into draft: inout Draft) {
        let aps = draft.overrides["apns"]?["payload"]?["aps"]
        if entry.isContentAvailable {
            if aps?["content-available"] == nil {
                draft.overrides.put(1, at: "apns", "payload", "aps", "content-available")
            }
            if draft.overrides["apns"]?["headers"]?["apns-priority"] == nil {
                draft.overrides.put("5", at: "apns", "headers", "apns-priority")
            }
        }
        if entry.isContentMutable, aps?["mutable-content"] == nil {
            draft.overrides.put(1, at: "apns", "payload", "aps", "mutable-content")
        }
    }

    /// Returns a span such as `3600s` in seconds, rounded up; nil for another text, and for more than
    /// ``GorushOptions/longestLife``.
    static func seconds(_ value: JSONValue?) -> Int64? {
        guard let text = value?.stringValue, text.hasSuffix("s"), let seconds = Double(text.dropLast()),
            seconds >= 0, seconds <= Double(GorushOptions.longestLife)
        else { return nil }
        return Int64(clamping: seconds.rounded(.up))
    }
}
