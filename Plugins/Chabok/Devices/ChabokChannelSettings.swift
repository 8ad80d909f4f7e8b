import ChaparCore

/// A user's settings for the messages of one channel.
public struct ChabokChannelSettings: Sendable, Hashable {
    /// The sound file; empty for silence, nil for the message's own sound.
    public var sound: String?
    /// Whether anything is shown.
    public var alert: Bool

    /// Makes settings.
    public init(sound: String? = nil, alert: Bool = true) {
        self.sound = sound
        self.alert = alert
    }

    /// Reads settings; nil for anything but an object.
    init?(_ json: JSONValue) {
        guard let object = json.objectValue else { return nil }
        let alert = object["alert"]
        self.init(sound: object["sound"]?.stringValue, alert: alert != .bool(false) && alert != .integer(0))
    }

    var json: JSONValue {
        var object: JSONObject = ["alert": .bool(alert)]
        if let sound { object["sound"] = .string(sound) }
        return .object(object)
    }
}
