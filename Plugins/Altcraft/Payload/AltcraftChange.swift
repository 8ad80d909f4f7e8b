package import ChaparCore

/// The parameters of a subscription's change, read from the options that a caller gave.
package struct AltcraftChange: Hashable {
    static let names = ["sync", "profile_fields", "custom_fields", "cats", "replace", "skip_triggers"]
    /// The most categories in one request.
    static let maximumCategories = 200

    var sync: Bool
    var profileFields: JSONObject?
    var customFields = JSONObject()
    var categories: [CategoryData] = []
    var replace = false
    var skipTriggers = false

    init(sync: Bool) { self.sync = sync }

    /// Reads options; each mistake is added to `issues`, and its value is ignored.
    package init(_ options: JSONObject, sync fallback: Bool, issues: inout [Finding]) {
        sync = fallback
        for (name, value) in options where value != .null {
            let pointer = "#/options/\(name.jsonPointerStep)"
            func wrong(_ wanted: String) {
                let detail = "\(name) must be \(wanted)."
                issues.append(Finding(pointer: pointer, code: "wrong_type", detail: detail))
            }
            switch name {
            case "sync", "replace", "skip_triggers":
                guard let flag = value.boolValue else {
                    wrong("true or false")
                    continue
                }
                if name == "sync" {
                    sync = flag
                } else if name == "replace" {
                    replace = flag
                } else {
                    skipTriggers = flag
                }
            case "profile_fields":
                guard let fields = value.objectValue else {
                    wrong("an object of field names and values (474)")
                    continue
                }
                issues += AltcraftFields.issues(profile: fields, at: pointer)
                profileFields = AltcraftFields.folded(profile: fields).withoutNulls
            case "custom_fields":
                guard let fields = value.objectValue else {
                    wrong("an object of field names and texts, numbers, true or false (475)")
                    continue
                }
                issues += AltcraftFields.issues(custom: fields, at: pointer)
                customFields = fields.withoutNulls
            case "cats": readCategories(value, pointer, &issues)
            default:
                let detail =
                    "There is no option \(AltcraftFields.shown(name)). Options: \(Self.names.joined(separator: ", "))."
                issues.append(Finding(pointer: pointer, code: "unknown_field", detail: detail))
            }
        }
    }

    private mutating func readCategories(_ value: JSONValue, _ pointer: String, _ issues: inout [Finding]) {
        func wrong(_ path: String, _ detail: String) {
            issues.append(Finding(pointer: path, code: "invalid_category", detail: detail))
        }
        guard let list = value.arrayValue else {
            return wrong(pointer, "cats must be a list of {\"name\": …, \"active\": true or false}.")
        }
        guard list.count <= Self.maximumCategories else {
            return wrong(
                pointer,
                "There are \(list.count) categories; at most \(Self.maximumCategories) go in one request."
            )
        }
        for (index, entry) in list.enumerated() {
            let path = "\(pointer)/\(index)"
            guard let object = entry.objectValue else {
                wrong(path, "A category is an object: {\"name\": …, \"active\": true or false}.")
                continue
            }
            guard let name = object["name"]?.stringValue, !name.allSatisfy(\.isWhitespace) else {
                wrong("\(path)/name", "A category's name must be a text that is not empty.")
                continue
            }
            if let active = object["active"], active.boolValue == nil {
                wrong("\(path)/active", "active must be true or false.")
                continue
            }
            // A title and a lock come in answers only; a request ignores them.
            if let other = object.first(where: { !["name", "active", "title", "steady"].contains($0.name) })?.name {
                wrong("\(path)/\(other.jsonPointerStep)", "A category has name and active.")
                continue
            }
            categories.append(CategoryData(name: name, active: object["active"]?.boolValue))
        }
    }
}

extension JSONObject {
    /// The members that are not null.
    var withoutNulls: JSONObject {
        var object = JSONObject()
        for (name, value) in self where value != .null { object[name] = value }
        return object
    }
}

extension DeviceRecord {
    /// Returns the system fields of a subscription, from the device's attributes that the app reported.
    ///
    /// A value that is unknown or of another type is left out. Source: the SDK's table of system fields.
    func altcraftFields(_ appInfo: AppInfo?) -> JSONObject {
        var fields = JSONObject()
        func text(_ name: String) -> String? {
            guard let text = attributes[name]?.stringValue, !text.isEmpty else { return nil }
            return text
        }
        func put(_ name: String, _ value: String?) {
            if let value { fields[name] = .string(value) }
        }
        put("_os", text("os") ?? tokens.first.map { $0.service.platform == "ios" ? "IOS" : "Android" })
        put("_os_ver", text("os_version"))
        put("_os_tz", text("os_tz").flatMap(Self.offset) ?? text("time_zone").flatMap(Self.offset))
        put("_os_language", text("os_language") ?? language.map { String($0.prefix { $0 != "-" && $0 != "_" }) })
        put("_device_type", text("device_type"))
        put("_device_model", text("model") ?? text("device_model"))
        put("_device_name", text("device_name"))
        if let allowed = (attributes["ad_track"] ?? attributes["_ad_track"])?.boolValue {
            fields["_ad_track"] = .bool(allowed)
            if allowed { put("_ad_id", text("ad_id")) }
        }
        for (name, value) in appInfo?.fields ?? JSONObject() { fields[name] = value }
        put("_app_id", text("app_id"))
        put("_app_iid", text("app_iid"))
        put("_app_ver", text("app_version"))
        return fields
    }

    /// The offset of the device's time zone in minutes west of UTC, as events of an app's own need it; 0 when it is
    /// unknown.
    var minutesWest: Int {
        let texts = ["os_tz", "time_zone"].compactMap { attributes[$0]?.stringValue }
        guard let offset = texts.lazy.compactMap(Self.offset).first,
            let hours = Int(offset.dropFirst().prefix(2)), let minutes = Int(offset.suffix(2))
        else { return 0 }
        return (offset.hasPrefix("-") ? 1 : -1) * (hours * 60 + minutes)
    }

    /// Returns an offset such as `+0300`, from an offset in one of the usual forms or from a time zone's name.
    private static func offset(_ text: String) -> String? {
        let plain = text.replacing(":", with: "")
        if let sign = plain.first, "+-".contains(sign), plain.count == 5, plain.dropFirst().allSatisfy(\.isNumber) {
            return plain
        }
        guard let seconds = ZoneOffset.seconds(of: text) else { return nil }
        let minutes = abs(seconds) / 60
        func two(_ number: Int) -> String { number < 10 ? "0\(number)" : "\(number)" }
        return (seconds < 0 ? "-" : "+") + two(minutes / 60) + two(minutes % 60)
    }
}
