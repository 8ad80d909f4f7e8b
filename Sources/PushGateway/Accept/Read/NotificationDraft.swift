internal import PushCore

/// A notification as its request describes it: read and checked field by field, not yet against the configuration.
///
/// Made by ``NotificationReader``; ``NotificationIntake`` turns it into the row that the store keeps.
struct NotificationDraft: Sendable {
    /// What to show, how urgently, for how long.
    var notification = PushNotification()
    /// Who gets it; empty when the audience is wrong, which is among the issues.
    var recipients: [Recipient] = []
    /// The devices of the registry behind ``recipients``, in the same order; empty for other recipients.
    var devices: [RegistryRecipient] = []
    /// Whether the registry was asked for ``devices``.
    var isLookedUp = false
    /// Recipients that turned out to be nobody.
    var warnings: [Finding] = []
    /// The member of `to` that names the recipients, such as `tokens`.
    var audienceField = ""
    /// The app that it names.
    var app: AppName?
    /// The app that it is of, once that is settled.
    var appName = AppName.default
    /// Whether it names something that is no app.
    var isAppFaulty = false
    /// The route it asks for.
    var route: String?
    /// The backend it asks for.
    var backend: String?
    /// Whether it asked for both, or for something that is no name.
    var isChoiceFaulty = false
    /// Whether content, options and overrides are in order, so that a backend can look at the payload.
    var isContentSound = true
    /// Where the content stands in the body, when there is one.
    var content: Range<Int>?
    /// Where the options stand in the body, when there are any.
    var options: Range<Int>?
    /// Where the overrides stand in the body, when there are any.
    var overrides: Range<Int>?

    /// The JSON values of `data` and `overrides`, at every level.
    var treeValues: Int {
        notification.overrides.values.reduce(notification.data.valueCount) { $0 + $1.valueCount }
    }

    /// The form that backends get to see: of a device they get a token.
    var payloadForm: Recipient.Form? { devices.isEmpty ? recipients.first?.form : .token }

    /// The JSON pointer of a recipient, from the notification.
    func pointer(ofRecipient position: Int) -> String {
        switch audienceField {
        case "tokens", "devices", "users", "platform_ids": "#/to/\(audienceField)/\(position)"
        default: "#/to/\(audienceField)"
        }
    }

    /// What goes into the store: content, options and overrides, byte for byte as they were received, and the activity.
    func stored(from body: [UInt8]) -> [UInt8] {
        let capacity = (content?.count ?? 0) + (options?.count ?? 0) + (overrides?.count ?? 0)
        var writer = JSONWriter(capacity: capacity + 40 + (notification.activity.map { $0.utf8.count + 14 } ?? 0))
        writer.beginObject()
        writer.field("activity", notification.activity)
        if let content {
            writer.name("content")
            writer.raw(body[content])
        }
        if let options {
            writer.name("options")
            writer.raw(body[options])
        }
        if let overrides {
            writer.name("overrides")
            writer.raw(body[overrides])
        }
        writer.endObject()
        return writer.bytes
    }
}

extension JSONObject {
    /// The values within, at every level.
    fileprivate var valueCount: Int { reduce(count) { $0 + $1.value.innerCount } }
}

extension JSONValue {
    /// The values within it, itself not counted.
    fileprivate var innerCount: Int {
        switch self {
        case .array(let values): values.reduce(values.count) { $0 + $1.innerCount }
        case .object(let object): object.valueCount
        case .null, .bool, .integer, .double, .string: 0
        }
    }
}
