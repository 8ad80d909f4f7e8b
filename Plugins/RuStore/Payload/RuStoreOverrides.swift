internal import ChaparCore

/// A caller's `overrides.rustore`: blocks of RuStore's own `message`, which are merged into the message that Chapar
/// makes from the notification.
///
/// It is checked field by field: RuStore says that it supports no field beyond its list, and not what it does with one.
/// The target follows from the recipient and cannot be overridden.
struct RuStoreOverrides: Sendable {
    /// The type of value that a field takes.
    private indirect enum Shape {
        case text
        /// `#rrggbb`.
        case color
        /// 0 for an intent's action, 1 for a deep link.
        case clickType
        /// `"3600s"`, fractions allowed, from a second to four weeks.
        case life
        /// A map of texts.
        case texts
        case object([(name: String, shape: Shape)])

        /// A description of the value, for a fault.
        var meaning: String {
            switch self {
            case .text: "a text"
            case .color: "a colour, such as #00ff7f"
            case .clickType: "0 for an intent's action or 1 for a deep link"
            case .life: #"a span of 1 to 2,419,200 seconds, such as "3600s"; RuStore reads "0s" as four weeks"#
            case .texts, .object: "an object"
            }
        }
    }

    /// Source: RuStore, "Send push notifications", the structure of a message, read 2026-09.
    private static let message: [(name: String, shape: Shape)] = [
        ("notification", .object([("title", .text), ("body", .text), ("image", .text)])), ("data", .texts),
        (
            "android",
            .object([
                ("ttl", .life),
                (
                    "notification",
                    .object([
                        ("title", .text), ("body", .text), ("icon", .text), ("color", .color), ("image", .text),
                        ("channel_id", .text), ("click_action", .text), ("click_action_type", .clickType),
                    ])
                ),
            ])
        ),
    ]

    static let place = "#/overrides/rustore"

    let object: JSONObject
    private(set) var faults: [Finding] = []

    init(_ object: JSONObject) {
        self.object = object
        for name in ["token", "topic"] where object[name] != nil {
            fault(name, "target_reserved", "The target is the recipient: address it with \"to\".")
        }
        for name in ["priority", "collapse_key"] where object[name] != nil || object["android"]?[name] != nil {
            let path = object[name] != nil ? name : "android/\(name)"
            fault(path, "unknown_override", "RuStore has no \(name).")
        }
        check(object, Self.message, at: "")
    }

    /// Whether they set a member of the shown notification, `title` or `body`.
    func brings(_ name: String) -> Bool { object["notification"]?[name] != nil }

    private mutating func check(_ object: JSONObject, _ members: [(name: String, shape: Shape)], at path: String) {
        for (name, value) in object {
            let place = path.isEmpty ? name : "\(path)/\(name)"
            if ["token", "topic", "priority", "collapse_key"].contains(name) { continue }
            guard let shape = members.first(where: { $0.name == name })?.shape else {
                let known = members.map(\.name).sorted()
                let nearest = Suggestion.nearest(to: name, among: known).map { "Did you mean \"\($0)\"? " } ?? ""
                fault(place, "unknown_override", "\(nearest)Known here: \(known.joined(separator: ", ")).")
                continue
            }
            check(value, shape, at: place)
        }
    }

    private mutating func check(_ value: JSONValue, _ shape: Shape, at path: String) {
        switch (shape, value) {
        case (.object(let members), .object(let object)): check(object, members, at: path)
        case (.texts, .object(let object)):
            for (name, value) in object where value.stringValue == nil {
                fault("\(path)/\(name)", "not_a_text", "RuStore takes texts only here.")
            }
            faults += RuStoreCheck.reservedKeys(in: object, at: "\(Self.place)/\(path)")
        case (.text, .string), (.clickType, .integer(0)), (.clickType, .integer(1)): break
        case (.color, .string(let text))
        where text.utf8.count == 7 && text.hasPrefix("#") && text.dropFirst().allSatisfy(\.isHexDigit):
            break
        case (.life, .string(let text)) where Self.isLife(text): break
        default: fault(path, "wrong_value", "Write \(shape.meaning).")
        }
    }

    private static func isLife(_ text: String) -> Bool {
        guard text.hasSuffix("s"), let seconds = Double(text.dropLast()) else { return false }
        let isPlain = text.dropLast().allSatisfy { $0.isASCII && ($0.isNumber || $0 == ".") }
        return isPlain && seconds >= Double(RuStorePayload.Life.least) && seconds <= Double(RuStorePayload.Life.maximum)
    }

    private mutating func fault(_ path: String, _ code: String, _ detail: String) {
        let steps = path.split(separator: "/").map { String($0).jsonPointerStep }.joined(separator: "/")
        faults.append(Finding(pointer: "\(Self.place)/\(steps)", code: code, detail: detail))
    }
}
