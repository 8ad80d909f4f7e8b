import ChaparCore

/// One request to IDPush: the path and the form of an action.
///
/// It is made without any I/O.
public struct IDPushRequest: Sendable, Hashable {
    /// The path under the base address.
    public let path: String
    /// The fields, sorted by name, values as text.
    public let fields: [Field]

    /// One field of the form.
    public struct Field: Sendable, Hashable {
        /// The name.
        public let name: String
        /// The value.
        public let value: String
    }

    /// The route that adds a device.
    static let addRoute = "device/add"
    /// The route that edits a device; the player id follows.
    static let editRoute = "device/edit/"

    /// Makes the request of an action.
    ///
    /// - Parameters:
    ///   - action: The action.
    ///   - projectID: IDPush's id of the project.
    ///   - playerID: The device's id, when it has one.
    ///   - facts: The facts about the device that every action carries.
    /// - Throws: When the action lacks a part; then nothing is sent.
    public init(
        _ action: IDPushAction,
        projectID: String,
        playerID: String?,
        facts: DeviceFacts
    ) throws(IDPushActionError) {
        var values: [String: String] = [
            "project_id": projectID, "device_type": "\(facts.type)", "game_version": facts.appVersion,
            "device_model": facts.model, "device_os": facts.osVersion,
        ]
        if case .addDevice(let token) = action {
            guard !token.allSatisfy(\.isWhitespace) else { throw .missingDeviceToken }
            path = Self.addRoute
            values["identifier"] = token
            values["notification_types"] = "1"
            values["test_type"] = facts.isTestBuild ? "1" : "2"
        } else {
            // An id such as `..`, which servers resolve as a step of the path, is no id.
            guard let playerID, let step = try? FormEncoding.path([playerID]) else { throw .missingPlayerID }
            path = Self.editRoute + step.dropFirst()
            values["player_id"] = playerID
        }
        switch action {
        case .addDevice: break
        case .subscribe: values["notification_types"] = "1"
        case .unsubscribe: values["notification_types"] = "-2"
        case .setTags(let tags):
            values["notification_types"] = "1"
            values["tags"] = JSONValue.object(tags).isJSON ? JSONValue.object(tags).text : ""
        case .editDevice(let parameters):
            for (name, value) in parameters { values[name] = Self.text(value) }
        }
        fields = values.sorted { $0.key < $1.key }.map { Field(name: $0.key, value: $0.value) }
    }

    /// The body: letters, digits and `-._~/?` as they are, everything else as `%XX` of its UTF-8.
    public var body: [UInt8] {
        FormEncoding.body(fields.map { ($0.name, $0.value) }, keeping: "/?")
    }

    /// Returns a value as text: numbers in their shortest form, truth values as 1 and 0, lists and objects as compact
    /// JSON, null as an empty text.
    static func text(_ value: JSONValue) -> String {
        switch value {
        case .null: ""
        case .bool(let flag): flag ? "1" : "0"
        case .string(let text): text
        case .double(let number) where number == number.rounded() && abs(number) < 1e15: String(Int64(clamping: number))
        case .integer, .double, .array, .object: value.text
        }
    }
}

extension JSONValue {
    /// Whether it can be written as JSON: infinite numbers cannot.
    fileprivate var isJSON: Bool {
        switch self {
        case .double(let number): number.isFinite
        case .array(let elements): elements.allSatisfy(\.isJSON)
        case .object(let object): object.allSatisfy { $0.value.isJSON }
        case .null, .bool, .integer, .string: true
        }
    }
}
