import ChaparCore

/// The rules for the keys of `aps`, whether code sets them with ``APNsPush`` or a caller of the API sends them as JSON.
///
/// Unknown keys are not checked: Apple adds some each year. A null removes the notification's value. Source: Apple,
/// "Generating a remote notification", read 2026-08.
enum APNsAPSCheck {
    private static let levels = ["passive", "active", "time-sensitive", "critical"]
    private static let activityKeys = ["event", "content-state", "attributes-type", "attributes", "dismissal-date"]

    static func faults(_ aps: JSONObject, pushType: APNsPushType) -> [Finding] {
        var faults: [Finding] = []
        func need(_ name: String, _ meaning: String, _ isRight: (JSONValue) -> Bool) {
            guard let value = aps[name], value != .null, !isRight(value) else { return }
            faults.append(APNsCheck.fault("/aps/\(name)", "wrong_value", "\(name) must be \(meaning)."))
        }
        need("alert", "a text or an object") { $0.stringValue != nil || $0.objectValue != nil }
        need("badge", "a whole number, 0 or more") { ($0.integerValue ?? -1) >= 0 }
        need("interruption-level", "one of \(levels.joined(separator: ", "))") {
            levels.contains($0.stringValue ?? "")
        }
        if pushType == .liveactivity {
            need("relevance-score", "a number") { $0.numberValue?.isFinite ?? false }
        } else {
            need("relevance-score", "from 0 to 1") { isShare($0) }
            for name in activityKeys where aps[name] != nil {
                let detail = "\(name) belongs to a Live Activity: set apns-push-type to liveactivity."
                faults.append(APNsCheck.fault("/aps/\(name)", "wrong_push_type", detail))
            }
        }
        for name in ["thread-id", "category", "target-content-id", "filter-criteria"] {
            need(name, "a text") { $0.stringValue != nil }
        }
        need("stale-date", "whole seconds since 1970") { $0.integerValue != nil }
        if let sound = aps["sound"], sound != .null { faults += soundFaults(sound) }
        return faults
    }

    private static func soundFaults(_ sound: JSONValue) -> [Finding] {
        if sound.stringValue != nil { return [] }
        guard let parts = sound.objectValue else {
            return [
                APNsCheck.fault("/aps/sound", "wrong_value", "sound must be a name, or an object for critical ones.")
            ]
        }
        var faults: [Finding] = []
        func need(_ name: String, _ meaning: String, _ isRight: (JSONValue) -> Bool) {
            guard let value = parts[name], !isRight(value) else { return }
            faults.append(APNsCheck.fault("/aps/sound/\(name)", "wrong_value", "\(name) must be \(meaning)."))
        }
        need("critical", "0 or 1") { $0 == 0 || $0 == 1 }
        need("name", "the name of a sound") { $0.stringValue != nil }
        need("volume", "from 0 to 1", isShare)
        return faults
    }

    private static func isShare(_ value: JSONValue) -> Bool { value.numberValue.map { (0...1).contains($0) } ?? false }
}
