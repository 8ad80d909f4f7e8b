public import ChaparCore

/// A notification as an app received it: its source, its content, and the user's action.
public struct ChabokNotification: Sendable, Hashable {
    /// Where it came from.
    @nonexhaustive
    public enum Source: String, Sendable {
        /// A Chabok message, which the client library shows as a local notification.
        case chabokMessage
        /// Apple's push service, or another source that is not Chabok.
        case apns
    }

    /// The kinds of user action.
    @nonexhaustive
    public enum Action: Sendable, Hashable {
        /// Tapped the notification.
        case opened
        /// Dismissed it.
        case dismissed
        /// Tapped the button of this id.
        case button(String)
        /// No action: it was shown.
        case shown

        /// Reads a platform's identifier of an action; nil means a report of display.
        public init(identifier: String?) {
            self =
                switch identifier {
                case nil: .shown
                case "com.apple.UNNotificationDefaultActionIdentifier"?: .opened
                case "com.apple.UNNotificationDismissActionIdentifier"?: .dismissed
                case let identifier?: .button(identifier)
                }
        }

        /// Reads the name of an action as bridges (in lower case, one of them `opend`) and reports (in upper case)
        /// write it; nil for others.
        public init?(name: String, actionID: String? = nil) {
            switch name.lowercased() {
            case "opened", "opend": self = .opened
            case "dismissed": self = .dismissed
            case "shown": self = .shown
            case "action_taken": self = .button(actionID ?? "")
            default: return nil
            }
        }

        /// The word in reports to the server.
        public var name: String {
            switch self {
            case .opened: "OPENED"
            case .dismissed: "DISMISSED"
            case .button: "ACTION_TAKEN"
            case .shown: "SHOWN"
            }
        }

        /// The button's id.
        public var actionID: String? { if case .button(let id) = self { id } else { nil } }
    }

    /// Where it came from.
    public var source: Source
    /// Whether it is a local notification of the app whose data is the whole message.
    public var isLocalOverride: Bool
    /// Whether no part of it is known.
    public var isUnrecognised: Bool
    /// The data, found by the rule that the vendor documents; nil when there is none.
    public var messageData: JSONValue?
    /// The sender's own data, also where a local notification of the app holds the whole message as its data.
    public var customData: JSONValue?
    /// The message's id.
    public var messageID: String?
    /// The campaign's id.
    public var trackID: String?
    /// The channel.
    public var channel: String?
    /// The heading.
    public var title: String?
    /// The text.
    public var body: String?
    /// The user's action.
    public var action: Action
    /// The address to open; nil for none.
    public var url: String?
    /// The whole payload.
    public var raw: JSONObject
}
