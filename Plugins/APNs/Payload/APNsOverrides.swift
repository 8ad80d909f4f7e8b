import ChaparCore

/// A caller's `overrides.apns`: `payload` is merged into the message's payload, `headers` replace the backend's
/// headers.
///
/// It is read only when a caller gives it; every mistake in it becomes a fault with its place.
struct APNsOverrides {
    var payload: JSONObject?
    var pushType: APNsPushType?
    var priority: String?
    var expiration: String?
    var collapseID: String?
    var topic: String?
    var faults: [Finding] = []

    private static let pointer = "#/overrides/apns"
    private static let headerNames = [
        "apns-push-type", "apns-priority", "apns-expiration", "apns-collapse-id", "apns-topic",
    ]

    init(_ object: JSONObject) {
        for (name, value) in object {
            switch (name, value) {
            case ("payload", .object(let payload)): self.payload = Self.words.folded(payload)
            case ("headers", .object(let headers)): read(headers)
            case ("payload", _), ("headers", _):
                fault(name, "not_an_object", "\(name) must be an object.")
            default:
                let nearest = Suggestion.nearest(to: name, among: ["payload", "headers"])
                let fix = nearest.map { " Did you mean \"\($0)\"?" } ?? ""
                fault(name, "unknown_override", "Only payload and headers are known here.\(fix)")
            }
        }
    }

    /// Whether a second copy does harm: only types that overrides alone can choose do.
    var isRepeatHarmful: Bool {
        guard let pushType else { return false }
        return pushType.isRepeatHarmful || pushType == .liveactivity && payload?["aps"]?["event"] == "start"
    }

    /// Returns which of a device's tokens the push goes to, with the Live Activity that it is sent to; nil when none
    /// takes it.
    func tokenUse(activity: String?) -> TokenUse? {
        guard pushType == .liveactivity else { return activity == nil ? TokenUse(pushType?.tokenKind ?? .device) : nil }
        let aps = payload?["aps"]
        let event = aps?["event"]?.stringValue
        if event == "start" {
            guard activity == nil, let type = aps?["attributes-type"]?.stringValue else { return nil }
            return TokenUse(.liveActivityStart(attributesType: type))
        }
        return activity.map { TokenUse(.liveActivityUpdate(activity: $0), isLast: event == "end") }
    }

    private mutating func read(_ headers: JSONObject) {
        for (name, value) in headers {
            let pointer = "headers/\(name)"
            let text: String
            switch value {
            case .string(let value): text = value
            case .integer(let value): text = String(value)
            default:
                fault(pointer, "not_a_text", "A header's value is a text or a whole number.")
                continue
            }
            switch name.lowercased() {
            case "apns-push-type":
                pushType = APNsPushType(rawValue: text.lowercased())
                if pushType == nil {
                    let types = APNsPushType.allCases.map(\.rawValue)
                    let nearest = Suggestion.nearest(to: text, among: types).map { "Did you mean \"\($0)\"? " } ?? ""
                    fault(pointer, "unknown_push_type", "\(nearest)Allowed: \(types.joined(separator: ", ")).")
                }
            case "apns-priority":
                priority = text
                if !["1", "5", "10"].contains(text) { fault(pointer, "bad_priority", "Allowed: 1, 5, 10.") }
            case "apns-expiration":
                expiration = text
                if Int64(text).map({ $0 < 0 }) ?? true {
                    fault(pointer, "bad_expiration", "Write whole seconds since 1970, or 0 for \"now or never\".")
                }
            case "apns-collapse-id": collapseID = text
            case "apns-topic": topic = text
            case "apns-id":
                fault(pointer, "header_reserved", "apns-id is the delivery's own id, a UUID that Chapar makes.")
            case "authorization", "apns-channel-id":
                fault(pointer, "header_reserved", "\(name.lowercased()) is set by Chapar.")
            default:
                let nearest = Suggestion.nearest(to: name, among: Self.headerNames)
                let fix = nearest.map { "Did you mean \"\($0)\"? " } ?? ""
                fault(pointer, "unknown_header", "\(fix)Allowed: \(Self.headerNames.joined(separator: ", ")).")
            }
        }
    }

    /// The words of the payload.
    private static let words = PlatformWords([
        "aps/interruption-level": ["passive", "active", "time-sensitive", "critical"],
        "aps/event": ["start", "update", "end"],
    ])

    private mutating func fault(_ name: String, _ code: String, _ detail: String) {
        faults.append(Finding(pointer: "\(Self.pointer)/\(name)", code: code, detail: detail))
    }
}
