public import ChaparCore

/// The action of a tap on a notification on a Huawei phone.
///
/// Source: Huawei, Push Kit, `ClickAction`, read 2026-08.
@nonexhaustive
public enum HMSClick: Sendable, Hashable {
    /// Opens the app.
    case app
    /// Opens a page of the app by its intent's address.
    case intent(String)
    /// Opens a page of the app by its intent's action.
    case action(String)
    /// Opens a web page.
    case url(String)

    var value: JSONValue {
        switch self {
        case .intent(let intent): ["type": 1, "intent": .string(intent)]
        case .action(let action): ["type": 1, "action": .string(action)]
        case .url(let url): ["type": 2, "url": .string(url)]
        case .app: ["type": 3]
        }
    }
}

/// A button below a notification on a Huawei phone.
///
/// Source: Huawei, Push Kit, `Button`, read 2026-08.
public struct HMSButton: Sendable, Hashable {
    /// The action of a tap on a button.
    @nonexhaustive
    public enum Action: Sendable, Hashable {
        /// Opens the app.
        case app
        /// Opens a page of the app by its intent's address.
        case intent(String)
        /// Opens a web page.
        case url(String)
    }

    /// The label.
    public var name: String
    /// The action of a tap.
    public var action: Action
    /// The data that the app gets.
    public var data: String?

    /// Makes a button.
    public init(_ name: String, _ action: Action, data: String? = nil) {
        self.name = name
        self.action = action
        self.data = data
    }

    var value: JSONValue {
        var button: JSONObject = ["name": .string(name)]
        switch action {
        case .app: button["action_type"] = 0
        case .intent(let intent):
            button["action_type"] = 1
            button["intent_type"] = 0
            button["intent"] = .string(intent)
        case .url(let url):
            button["action_type"] = 2
            button["intent"] = .string(url)
        }
        button["data"] = data.map { .string($0) }
        return .object(button)
    }
}

/// The number on an app's icon on a Huawei phone.
///
/// Source: Huawei, Push Kit, `BadgeNotification`, read 2026-08.
public struct HMSBadge: Sendable, Hashable {
    /// How the number changes.
    @nonexhaustive
    public enum Change: Sendable, Hashable {
        /// Adds a number, 1 to 99.
        case add(Int)
        /// Sets a number, 0 to 99.
        case set(Int)
    }

    /// How the number changes.
    public var change: Change
    /// The class of the app's entry activity, with its package.
    public var entry: String?

    /// Makes a badge.
    public init(_ change: Change, entry: String? = nil) {
        self.change = change
        self.entry = entry
    }

    var value: JSONValue {
        var badge = JSONObject()
        switch change {
        case .add(let number): badge["add_num"] = .integer(Int64(number))
        case .set(let number): badge["set_num"] = .integer(Int64(number))
        }
        badge["class"] = entry.map { .string($0) }
        return .object(badge)
    }
}

/// How the light of a Huawei phone blinks: Huawei and Google write it alike.
public typealias HMSLight = AndroidLight
