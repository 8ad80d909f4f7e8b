import ChaparCore

/// The rules for the payload of a Live Activity push: the keys that it must and must not hold.
enum APNsLiveActivityCheck {
    private static let startOnly = ["attributes-type", "attributes", "input-push-token", "input-push-channel"]

    /// Finds the faults of a payload to recipients of a form; `hasText` says whether the notification itself makes an
    /// alert.
    static func faults(_ aps: JSONObject?, form: Recipient.Form, hasText: Bool) -> [Finding] {
        guard let aps else {
            let detail = "A Live Activity push needs timestamp, event and content-state in its payload."
            return [APNsCheck.fault("/aps", "missing", detail)]
        }
        var faults: [Finding] = []
        func wrong(_ name: String, _ code: String, _ detail: String) {
            faults.append(APNsCheck.fault("/aps/\(name)", code, detail))
        }
        func need(_ name: String, _ meaning: String, _ isRight: (JSONValue) -> Bool) {
            if aps[name].map(isRight) ?? false { return }
            wrong(name, aps[name] == nil ? "missing" : "wrong_type", "\(name) must be \(meaning).")
        }
        func allow(_ name: String, _ meaning: String, _ isRight: (JSONValue) -> Bool) {
            if let value = aps[name], value != .null, !isRight(value) {
                wrong(name, "wrong_type", "\(name) must be \(meaning).")
            }
        }
        func forbid(_ names: [String], _ event: String) {
            for name in names where aps[name] != nil {
                wrong(name, "wrong_combination", "\(name) does not go with the event \(event).")
            }
        }
        need("timestamp", "whole seconds since 1970") { $0.integerValue != nil }
        allow("alert", "an object with title and body") { $0.objectValue != nil }
        switch aps["event"]?.stringValue {
        case "start"?:
            if form == .platformID {
                wrong("event", "wrong_combination", "A broadcast updates and ends, it cannot start.")
            }
            need("content-state", "an object") { $0.objectValue != nil }
            need("attributes-type", "the name of the app's attributes type") { !($0.stringValue ?? "").isEmpty }
            need("attributes", "an object") { $0.objectValue != nil }
            if !hasText { need("alert", "there, or content.title and body: a start shows something") { $0 != .null } }
            allow("input-push-token", "1") { $0 == 1 }
            allow("input-push-channel", "a channel's id") { APNsPath.isChannel($0.stringValue ?? "") }
            if aps["input-push-token"] != nil, aps["input-push-channel"] != nil {
                wrong(
                    "input-push-channel",
                    "wrong_combination",
                    "Updates come by a token or by a channel, not by both."
                )
            }
            forbid(["dismissal-date"], "start")
        case "update"?:
            need("content-state", "an object") { $0.objectValue != nil }
            forbid(startOnly + ["dismissal-date"], "update")
        case "end"?:
            allow("content-state", "an object") { $0.objectValue != nil }
            allow("dismissal-date", "whole seconds since 1970") { $0.integerValue != nil }
            forbid(startOnly, "end")
        default: wrong("event", "bad_event", "event must be start, update or end.")
        }
        return faults
    }
}
