public import ChaparCore

/// The payload of a push that an app received, when it is one of Altcraft's.
///
/// Reads both dialects: Apple's, with texts in `aps.alert`, and Android's, where every value is a text. A payload
/// without Altcraft's marker is ignored.
public struct AltcraftReceivedPush: Sendable, Hashable {
    /// A button below the text.
    public struct Button: Sendable, Hashable {
        /// Its place among the buttons, from 0.
        public var index: Int
        /// The text on the button.
        public var label: String
        /// The address that a tap opens, if any.
        public var link: String?
        /// The app's name for it: `button0`, `button1`, `button2`.
        ///
        /// Only the first three can be tapped.
        public var id: String { "button\(index)" }
    }

    /// The reason why a link could not be found.
    public struct LinkFault: Error, Sendable, Hashable {
        /// 455 for a button that is not there, 454 for buttons that cannot be read, 457 for an unknown name.
        public var code: Int
        /// The name that was asked for.
        public var identifier: String
        /// The button's number, when the name holds one.
        public var index: Int?
    }

    /// The action identifier of a tap on the notification itself.
    public static let defaultAction = "com.apple.UNNotificationDefaultActionIdentifier"
    /// The key that marks a payload; its value does not count.
    public static let marker = "_ac_push"

    /// The id of the message for events; nil when the payload has none, so that no event can be sent (451).
    public var uid: String?
    /// The heading.
    public var title: String?
    /// The text.
    public var body: String?
    /// The address of a picture; nil when there is none, or none that is an http address (453).
    public var media: String?
    /// The address that a tap on the notification opens.
    public var clickURL: String?
    /// The buttons that have a label.
    public var buttons: [Button]
    /// Whether there is a list of buttons that cannot be read (454).
    public var hasBadButtons: Bool
    /// Whether there is an address of a picture that is none (453).
    public var hasBadMedia: Bool
    /// The app's own text, on Android.
    public var extra: String?
    /// The map with the members above, as it came.
    public var raw: JSONObject

    /// Whether a payload is Altcraft's: the marker is there, at the top or where FCM and HMS put the app's data.
    public static func isAltcraft(_ payload: JSONObject) -> Bool { map(of: payload) != nil }

    /// Reads a payload; nil when it is not Altcraft's.
    public init?(_ payload: JSONObject) {
        guard let map = Self.map(of: payload) else { return nil }
        raw = map
        uid = Self.text(map, "_uid")
        let alert = map["aps"]?["alert"]
        title = alert?["title"]?.stringValue ?? Self.text(map, "_title")
        body = alert?["body"]?.stringValue ?? alert?.stringValue ?? Self.text(map, "_body")
        let picture = map["_media"] ?? map["_image"]
        media = picture?.stringValue.flatMap { Self.isWebAddress($0) ? $0 : nil }
        hasBadMedia = picture.map { $0 != .null && $0 != "" } ?? false && media == nil
        clickURL = Self.text(map, "_click-url") ?? Self.text(map, "_click_action")
        extra = Self.text(map, "_extra")
        (buttons, hasBadButtons) = Self.buttons(map["_buttons"])
    }

    /// Returns the address that a tap opens, nil when it only opens the app; `action` is ``defaultAction`` or the id of
    /// a button.
    public func link(for action: String) throws(LinkFault) -> String? {
        if action == Self.defaultAction { return clickURL }
        guard action.hasPrefix("button"), let index = Int(action.dropFirst(6)), (0..<3).contains(index),
            action == "button\(index)"
        else { throw LinkFault(code: 457, identifier: String(action.prefix(64))) }
        guard !hasBadButtons else { throw LinkFault(code: 454, identifier: action, index: index) }
        guard let button = buttons.first(where: { $0.index == index }) else {
            throw LinkFault(code: 455, identifier: action, index: index)
        }
        return button.link
    }

    private static func map(of payload: JSONObject) -> JSONObject? {
        let sources = [payload["message"]?["data"], payload["data"], .object(payload)]
        for source in sources {
            switch source {
            case .object(let object)? where object[marker] != nil: return object
            case .string(let text)? where text.utf8.count <= 65_536:
                // HMS passes the data on as a text.
                if let object = (try? JSONValue(parsing: Array(text.utf8)))?.objectValue, object[marker] != nil {
                    return object
                }
            default: continue
            }
        }
        return nil
    }

    private static func buttons(_ value: JSONValue?) -> (buttons: [Button], isBad: Bool) {
        let list: [JSONValue]
        switch value {
        case nil, .null?, .string("")?: return ([], false)
        case .array(let elements)?: list = elements
        case .string(let text)?:
            guard let elements = (try? JSONValue(parsing: Array(text.utf8)))?.arrayValue else { return ([], true) }
            list = elements
        default: return ([], true)
        }
        let buttons = list.enumerated().compactMap { index, entry -> Button? in
            guard let label = entry["label"]?.stringValue, !label.isEmpty else { return nil }
            return Button(index: index, label: label, link: entry["link"]?.stringValue)
        }
        return (buttons, false)
    }

    private static func text(_ map: JSONObject, _ name: String) -> String? {
        guard let text = map[name]?.stringValue, !text.allSatisfy(\.isWhitespace) else { return nil }
        return text
    }

    private static func isWebAddress(_ text: String) -> Bool {
        let lower = text.lowercased()
        return ["https://", "http://"].contains { lower.hasPrefix($0) && lower.count > $0.count }
    }
}
