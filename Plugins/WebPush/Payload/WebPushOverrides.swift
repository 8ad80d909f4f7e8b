internal import ChaparCore

/// A caller's `overrides.webpush`, checked member by member.
struct WebPushOverrides: Sendable {
    static let place = "#/overrides/webpush"
    private static let members = ["declarative", "mutable", "notification", "urgency"]

    private(set) var urgency: WebPushMessage.Urgency?
    private(set) var notification = JSONObject()
    private(set) var isMutable = true
    private(set) var isDeclarative: Bool?
    private(set) var faults: [Finding] = []

    init(_ object: JSONObject) {
        for (name, value) in object {
            switch name {
            case "urgency":
                let words = WebPushMessage.Urgency.allCases.map(\.rawValue)
                urgency = value.stringValue.flatMap { WebPushMessage.Urgency(rawValue: $0.lowercased()) }
                if urgency == nil { fault(name, "wrong_value", "Allowed: \(words.joined(separator: ", ")).") }
            case "notification":
                guard let members = value.objectValue else {
                    fault(name, "wrong_value", "Must be an object of the Notification API's members.")
                    continue
                }
                read(members)
            case "mutable":
                guard let flag = value.boolValue else {
                    fault(name, "wrong_value", "Must be true or false.")
                    continue
                }
                isMutable = flag
            case "declarative":
                isDeclarative = value.boolValue
                if isDeclarative == nil { fault(name, "wrong_value", "Must be true or false.") }
            case "topic": fault(name, "field_reserved", "Set options.collapse_id instead: the topic follows from it.")
            case "ttl": fault(name, "field_reserved", "Set options.ttl instead.")
            default:
                let nearest = Suggestion.nearest(to: name, among: Self.members).map { "Did you mean \"\($0)\"? " } ?? ""
                let known = Self.members.joined(separator: ", ")
                fault(name.jsonPointerStep, "unknown_override", "\(nearest)Known here: \(known).")
            }
        }
    }

    /// Texts and flags of the Notification API; anything else goes to the browser as it is.
    private static let texts: Set<String> = [
        "title", "body", "lang", "dir", "tag", "icon", "badge", "image", "navigate",
    ]
    private static let flags: Set<String> = ["silent", "requireInteraction", "renotify"]

    private static let directions = ["auto", "ltr", "rtl"]
    private static let words = PlatformWords(["dir": directions])

    private mutating func read(_ members: JSONObject) {
        notification = Self.words.folded(members)
        for (name, value) in members {
            let path = "notification/\(name.jsonPointerStep)"
            if Self.texts.contains(name), value.stringValue == nil { fault(path, "wrong_value", "Must be a text.") }
            if Self.flags.contains(name), value.boolValue == nil {
                fault(path, "wrong_value", "Must be true or false.")
            }
        }
        if let url = members["navigate"]?.stringValue, !WebPushPayload.isAbsolute(url) {
            fault("notification/navigate", "not_absolute", "Must be an absolute address, such as https://example.com/.")
        }
        if let text = notification["dir"]?.stringValue, !Self.directions.contains(text) {
            fault("notification/dir", "wrong_value", "Allowed: \(Self.directions.joined(separator: ", ")).")
        }
    }

    private mutating func fault(_ path: String, _ code: String, _ detail: String) {
        faults.append(Finding(pointer: "\(Self.place)/\(path)", code: code, detail: detail))
    }
}
