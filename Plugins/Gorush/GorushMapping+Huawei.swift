import ChaparCore

extension GorushMapping {
    /// Maps an entry for Huawei.
    ///
    /// The values that Huawei's library gives a message of gorush's are written out, so that phones show it as before.
    func huawei(_ entry: GorushEntry) throws(Refusal) -> Draft {
        let object = entry.object
        guard let backend = object.string("app_id").flatMap({ options.huaweiApps[$0] }) ?? options.huawei else {
            throw Refusal(
                sentence: "not_configured: The platform 3 (Huawei) has no backend here.",
                isUnconfigured: true
            )
        }
        var draft = Draft(backend: backend, service: .androidHuawei, kind: "hms")
        draft.options["priority"] = .string(try priority(entry) ?? "normal")
        draft.content["title"] = entry.title.map { .string($0) }
        draft.content["body"] = entry.message.map { .string($0) }

        var android = JSONObject()
        if let key = object.value("huawei_collapse_key")?.integerValue, key != 0 {
            android["collapse_key"] = .integer(key)
        }
        android["bi_tag"] = object.string("bi_tag").map { .string($0) }
        android["category"] = object.string("category").map { .string($0) }
        if let target = object.value("fast_app_target")?.integerValue, target != 0 {
            android["fast_app_target"] = .integer(target)
        }
        if let ttl = object.value("huawei_ttl") {
            if let life = Self.seconds(ttl) {
                draft.life = life
            } else {
                android["ttl"] = ttl.stringValue == "" ? nil : ttl
            }
        }
        let own = object.value("huawei_notification")?.objectValue?.withoutNulls
        if own != nil || !draft.content.isEmpty {
            android["notification"] = .object(shown(entry, own))
        } else {
            draft.options["silent"] = true
        }
        if !android.isEmpty { draft.overrides["android"] = .object(android) }
        draft.overrides["data"] = object.string("huawei_data").map { .string($0) }
        return draft
    }

    private func shown(_ entry: GorushEntry, _ own: JSONObject?) -> JSONObject {
        var shown: JSONObject
        if let own {
            shown = ["foreground_show": false]
            for (name, value) in own { shown[name] = value }
        } else {
            shown = [
                "default_sound": true, "use_default_vibrate": true, "use_default_light": true, "visibility": "PRIVATE",
                "foreground_show": true, "auto_cancel": true,
            ]
        }
        if shown["click_action"] == nil { shown["click_action"] = ["type": 1, "action": "Action"] }
        if let sound = entry.object.value("sound")?.stringValue, !sound.isEmpty {
            shown["sound"] = .string(sound)
            shown["default_sound"] = false
        }
        shown["image"] = entry.image.map { .string($0) } ?? shown["image"]
        return shown
    }
}
