public import Foundation
internal import ChaparCore

/// A refusal in the form of APNs: a status, a reason, and with 410 a time.
public struct APNsRefusal: Error, Sendable, Hashable {
    /// The HTTP status.
    public var status: Int
    /// The reason, in Apple's spelling.
    public var reason: String
    /// The time from which the device token has been invalid; sent in milliseconds.
    public var timestamp: Date?

    /// Makes a refusal.
    public init(_ status: Int, _ reason: String, timestamp: Date? = nil) {
        self.status = status
        self.reason = reason
        self.timestamp = timestamp
    }

    /// The body: `{"reason":"…"}`, with `timestamp` when there is one.
    var body: [UInt8] {
        var writer = JSONWriter(capacity: 64)
        writer.beginObject()
        writer.name("reason")
        writer.string(reason)
        if let timestamp {
            writer.name("timestamp")
            writer.integer(timestamp.millisecondsSince1970)
        }
        writer.endObject()
        return writer.bytes
    }

    // The reasons of Apple's table, in the order in which the simulator checks for them.
    static let badMessageID = APNsRefusal(400, "BadMessageId")
    static let methodNotAllowed = APNsRefusal(405, "MethodNotAllowed")
    static let duplicateHeaders = APNsRefusal(400, "DuplicateHeaders")
    static let missingTopic = APNsRefusal(400, "MissingTopic")
    static let topicDisallowed = APNsRefusal(400, "TopicDisallowed")
    static let badTopic = APNsRefusal(400, "BadTopic")
    static let badCollapseID = APNsRefusal(400, "BadCollapseId")
    static let badPriority = APNsRefusal(400, "BadPriority")
    static let badExpirationDate = APNsRefusal(400, "BadExpirationDate")
    static let invalidPushType = APNsRefusal(400, "InvalidPushType")
    static let missingPushType = APNsRefusal(400, "MissingPushType")
    static let badPath = APNsRefusal(404, "BadPath")
    static let missingDeviceToken = APNsRefusal(400, "MissingDeviceToken")
    static let badDeviceToken = APNsRefusal(400, "BadDeviceToken")
    static let missingProviderToken = APNsRefusal(403, "MissingProviderToken")
    static let invalidProviderToken = APNsRefusal(403, "InvalidProviderToken")
    static let expiredProviderToken = APNsRefusal(403, "ExpiredProviderToken")
    static let unrelatedKey = APNsRefusal(403, "UnrelatedKeyIdInToken")
    static let wrongEnvironmentKey = APNsRefusal(403, "BadEnvironmentKeyIdInToken")
    static let tooManyTokenUpdates = APNsRefusal(429, "TooManyProviderTokenUpdates")
    static let badCertificate = APNsRefusal(403, "BadCertificate")
    static let badCertificateEnvironment = APNsRefusal(403, "BadCertificateEnvironment")
    static let forbidden = APNsRefusal(403, "Forbidden")
    static let deviceTokenNotForTopic = APNsRefusal(400, "DeviceTokenNotForTopic")
    static let tooManyRequests = APNsRefusal(429, "TooManyRequests")
    static let payloadEmpty = APNsRefusal(400, "PayloadEmpty")
    static let payloadTooLarge = APNsRefusal(413, "PayloadTooLarge")
    static let badRequestPayload = APNsRefusal(400, "BadRequestPayload")
    static let internalServerError = APNsRefusal(500, "InternalServerError")
    static let serviceUnavailable = APNsRefusal(503, "ServiceUnavailable")

    // Reasons that only channel management and broadcast have.
    static let badChannelID = APNsRefusal(400, "BadChannelId")
    static let missingChannelID = APNsRefusal(400, "MissingChannelId")
    static let channelNotRegistered = APNsRefusal(400, "ChannelNotRegistered")
    static let badRequestParameters = APNsRefusal(400, "BadRequestParams")
    static let featureNotEnabled = APNsRefusal(400, "FeatureNotEnabled")
    static let cannotCreateChannel = APNsRefusal(400, "CannotCreateChannelConfig")
    static let topicMismatch = APNsRefusal(403, "TopicMismatch")

    static func unregistered(since: Date) -> APNsRefusal { APNsRefusal(410, "Unregistered", timestamp: since) }
    static func expiredToken(since: Date) -> APNsRefusal { APNsRefusal(410, "ExpiredToken", timestamp: since) }
}
