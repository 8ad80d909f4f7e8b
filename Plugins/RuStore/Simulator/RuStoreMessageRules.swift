internal import ChaparCore

/// A `message` that keeps RuStore's rules.
struct RuStoreMessage: Sendable {
    let value: JSONValue
    /// The time, in seconds, that RuStore keeps it.
    let timeToLive: Double

    /// The default and the longest time to live, in seconds: four weeks.
    static let longest = 2_419_200.0
    /// The most bytes of a message.
    static let maximumBytes = 4096
}

/// RuStore's rules for a `message`: strict, since its page says that no field beyond its list is supported.
enum RuStoreMessageRules {
    private static let shown: Set<String> = ["title", "body", "image"]
    private static let androidShown: Set<String> = [
        "title", "body", "icon", "color", "image", "channel_id", "click_action", "click_action_type",
    ]

    /// Returns the message; throws a sentence about the first rule that it breaks.
    ///
    /// `target` names the further field that the direct API's message has; with `needsBoth` a title and a text are
    /// required.
    static func check(
        _ value: JSONValue?,
        target: String? = nil,
        needsBoth: Bool
    ) throws(RuStoreRuleMistake) -> RuStoreMessage {
        guard let message = value?.objectValue, let value else { throw RuStoreRuleMistake("message is not set") }
        for (name, _) in message where !["notification", "data", "android"].contains(name) && name != target {
            throw RuStoreRuleMistake("message.\(name) is not supported")
        }
        if let data = message["data"] {
            guard let texts = data.objectValue else { throw RuStoreRuleMistake("message.data is not a map") }
            for (name, text) in texts where text.stringValue == nil {
                throw RuStoreRuleMistake("message.data.\(name) is not a string")
            }
        }
        let notification = try texts(message["notification"], shown, at: "message.notification")
        if needsBoth, let notification {
            for name in ["title", "body"] where notification[name] == nil {
                throw RuStoreRuleMistake("message.notification: \(name) is a required field")
            }
        }
        guard notification != nil || message["data"]?.objectValue?.isEmpty == false else {
            throw RuStoreRuleMistake("message has neither notification nor data")
        }
        let life = try android(message["android"])
        guard value.bytes.count <= RuStoreMessage.maximumBytes else {
            throw RuStoreRuleMistake("message is too big")
        }
        return RuStoreMessage(value: value, timeToLive: life)
    }

    private static func texts(
        _ value: JSONValue?,
        _ known: Set<String>,
        at place: String
    ) throws(RuStoreRuleMistake) -> JSONObject? {
        guard let value else { return nil }
        guard let object = value.objectValue else { throw RuStoreRuleMistake("\(place) is not an object") }
        for (name, text) in object {
            guard known.contains(name) else { throw RuStoreRuleMistake("\(place).\(name) is not supported") }
            if name == "click_action_type" {
                guard text == 0 || text == 1 else { throw RuStoreRuleMistake("\(place).\(name) is not 0 or 1") }
            } else if text.stringValue == nil {
                throw RuStoreRuleMistake("\(place).\(name) is not a string")
            }
        }
        return object
    }

    /// Checks the block of Android; returns the seconds that the message is kept.
    private static func android(_ value: JSONValue?) throws(RuStoreRuleMistake) -> Double {
        guard let value else { return RuStoreMessage.longest }
        guard let android = value.objectValue else { throw RuStoreRuleMistake("message.android is not an object") }
        for (name, _) in android where name != "ttl" && name != "notification" {
            throw RuStoreRuleMistake("message.android.\(name) is not supported")
        }
        let shown = try texts(android["notification"], androidShown, at: "message.android.notification")
        if let color = shown?["color"]?.stringValue {
            let isColor = color.utf8.count == 7 && color.hasPrefix("#") && color.dropFirst().allSatisfy(\.isHexDigit)
            guard isColor else { throw RuStoreRuleMistake("message.android.notification.color is not #rrggbb") }
        }
        guard let written = android["ttl"] else { return RuStoreMessage.longest }
        guard let text = written.stringValue, text.hasSuffix("s"), let seconds = Double(text.dropLast()),
            text.dropLast().allSatisfy({ $0.isASCII && ($0.isNumber || $0 == ".") })
        else { throw RuStoreRuleMistake("message.android.ttl is not a duration") }
        guard seconds <= RuStoreMessage.longest else { throw RuStoreRuleMistake("message.android.ttl is too long") }
        return seconds > 0 ? seconds : RuStoreMessage.longest
    }
}

/// A rule that a message breaks.
struct RuStoreRuleMistake: Error {
    let words: String

    init(_ words: String) { self.words = words }
}
