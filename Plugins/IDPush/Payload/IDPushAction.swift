public import ChaparCore

/// The actions on a device at IDPush: the seed's five.
@nonexhaustive
public enum IDPushAction: Sendable, Hashable {
    /// Registers the device; the answer carries its player id.
    case addDevice(token: String)
    /// The registered device gets messages.
    case subscribe
    /// The device stays registered and gets no message of any kind.
    case unsubscribe
    /// Sets OneSignal tags. It subscribes the device as well, as the seed's action does.
    case setTags(tags: JSONObject)
    /// Edits anything; a parameter takes the place of a shared one of the same name.
    case editDevice(parameters: JSONObject)

    /// Whether it needs no player id.
    package var isAddition: Bool { if case .addDevice = self { true } else { false } }
}

/// The reason why an action failed.
@nonexhaustive
public enum IDPushActionError: Error, Sendable, Hashable, CustomStringConvertible {
    /// The token is empty or white space.
    case missingDeviceToken
    /// The device has no player id yet.
    case missingPlayerID
    /// No project id was given.
    case isNotConfigured
    /// The server's answer was not the expected one.
    case invalidResponse
    /// Anything else: no answer came.
    case custom(message: String)

    /// The sentence that the developer reads.
    public var description: String {
        switch self {
        case .missingDeviceToken: "IDPush: no APNs token was given"
        case .missingPlayerID: "IDPush: this device has no player id yet: add the device first"
        case .isNotConfigured: "IDPush: call setup(projectID:) first"
        case .invalidResponse: "IDPush: the server gave an unexpected answer"
        case .custom(let message): "IDPush: \(message)"
        }
    }
}

/// The facts about a device that IDPush wants with every action.
public struct DeviceFacts: Sendable, Hashable {
    /// OneSignal's code: 0 iOS, 1 Android, 13 Huawei.
    public var type: Int
    /// The app's version for people.
    public var appVersion: String
    /// The model, such as `iPhone14,2`.
    public var model: String
    /// The version of the system.
    public var osVersion: String
    /// Whether it is a debug build, whose tokens are valid at Apple's development host only.
    public var isTestBuild: Bool

    /// Makes facts; a library cannot see how the app was built, so that is a parameter.
    public init(
        type: Int = 0,
        appVersion: String = "",
        model: String = "",
        osVersion: String = "",
        isTestBuild: Bool = false
    ) {
        self.type = type
        self.appVersion = appVersion
        self.model = model
        self.osVersion = osVersion
        self.isTestBuild = isTestBuild
    }
}
