internal import ChaparDelivery
package import ChaparQueue
internal import Foundation
package import ChaparCore

/// A notification as its request describes it: read and checked field by field, not yet against the configuration.
///
/// Made by ``NotificationReader``; ``NotificationIntake`` turns it into the row that the store keeps.
package struct NotificationDraft: Sendable {
    /// The content, with its priority and time to live.
    package var notification = PushNotification()
    /// The part that the store keeps as one value; ``NotificationIntake`` completes it.
    var record = NotificationRecord(content: [], plans: [], acceptedAt: Date(millisecondsSince1970: 0))
    /// The recipients; empty when the audience is wrong, which the issues say.
    package var recipients: [Recipient] = []
    /// The positions of ``recipients`` in the request; empty when none was left out, so that each has its index.
    var positions: [Int] = []
    /// The devices of the registry behind ``recipients``, in the same order; empty for other recipients.
    var devices: [RegistryRecipient] = []
    /// Whether the registry has been asked for ``devices``.
    var isLookedUp = false
    /// The members about the campaign of an audience.
    var campaign = CampaignOptions()
    /// Warnings about recipients that are repeated or match no device.
    package var warnings: [Finding] = []
    /// The member of `to` that names the recipients, such as `tokens`.
    var audienceField = ""
    /// The audience of the registry that the request names; nil for other recipients.
    @Boxed var audienceRequest: AudienceRequest?
    /// The rule that is left out of the audience.
    var exclude: JSONValue?
    /// The options that only audiences have.
    var audienceOptions = OptionsReader.AudienceOptions()
    /// The audience, once its segments were looked up; this is what a fan-out sends to.
    @Boxed package var audience: Audience?
    /// The devices of the audience, for `dry_run`.
    @Boxed var audiencePreview: AudiencePreview?
    /// The app that the request names.
    var app: AppName?
    /// The app of the notification, once it is decided.
    package var appName = AppName.default
    /// Whether the request names something that is no app.
    var isAppFaulty = false
    /// The route that the request names.
    var route: String?
    /// The backend that the request names.
    var backend: String?
    /// Whether the request names both, or something that is no name.
    var isChoiceFaulty = false
    /// Whether content, options and overrides are valid, so that a backend can check the payload.
    package var isContentSound = true
    /// The byte range of the content in the body, when there is one.
    var content: Range<Int>?
    /// The byte range of the options in the body, when there are any.
    var options: Range<Int>?
    /// The byte range of the overrides in the body, when there are any.
    var overrides: Range<Int>?

    /// Makes an empty draft, for a reader to fill.
    package init() {}

    /// The number of JSON values in `data` and `overrides`, at every level.
    var treeValues: Int {
        notification.overrides.values.reduce(notification.data.valueCount + (audienceRequest?.values ?? 0)) {
            $0 + $1.valueCount
        }
    }

    /// The form of recipient that backends get: for a device it is a token.
    var payloadForm: Recipient.Form? { devices.isEmpty ? recipients.first?.form : .token }

    /// Returns the position in the request of a recipient by its index in ``recipients``.
    func position(ofRecipient index: Int) -> Int { positions.isEmpty ? index : positions[index] }

    /// Returns the JSON pointer of a recipient by its position in the request, relative to the notification.
    func pointer(ofRecipient position: Int) -> String {
        switch audienceField {
        case "tokens", "devices", "users", "platform_ids": "#/to/\(audienceField)/\(position)"
        case Self.testField: "#/test/devices/\(position)"
        default: "#/to/\(audienceField)"
        }
    }

    /// The value of ``audienceField`` for the devices of a test.
    static let testField = "test"

    /// Returns the stored form: content, options and overrides as received, byte for byte, and the activity.
    ///
    /// A test is sent at once, so its options are stored without `send_at`.
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
            writer.raw(audienceField == Self.testField ? Self.unscheduled(body[options])[...] : body[options])
        }
        if let overrides {
            writer.name("overrides")
            writer.raw(body[overrides])
        }
        writer.endObject()
        return writer.bytes
    }
}

extension NotificationDraft {
    /// Returns options without their time to send.
    private static func unscheduled(_ options: ArraySlice<UInt8>) -> [UInt8] {
        let bytes = Array(options)
        guard var object = (try? JSONValue(parsing: bytes))?.objectValue else { return bytes }
        object["send_at"] = nil
        return JSONValue.object(object).bytes
    }
}

extension JSONObject {
    /// The number of values in it, at every level.
    fileprivate var valueCount: Int { reduce(count) { $0 + $1.value.innerCount } }
}

extension JSONValue {
    /// The number of values in it, without itself.
    var innerCount: Int {
        switch self {
        case .array(let values): values.reduce(values.count) { $0 + $1.innerCount }
        case .object(let object): object.valueCount
        case .null, .bool, .integer, .double, .string: 0
        }
    }
}
