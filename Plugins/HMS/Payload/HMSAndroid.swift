public import ChaparCore

/// The options of a message that only Huawei's Android phones get.
///
/// A property that is nil leaves the notification's value. Lay the options over a notification with
/// ``ChaparCore/PushNotification/with(_:)``; backends of other kinds ignore them. Source: Huawei, Push Kit, "Message
/// sending", `AndroidConfig`, read 2026-08.
public struct HMSAndroid: PlatformPayload, Hashable {
    /// `hms`.
    public static var kind: BackendKind { HMSBackend.kind }

    /// How urgent it is.
    @nonexhaustive
    public enum Urgency: String, Sendable, Hashable {
        /// When it suits the battery.
        case normal = "NORMAL"
        /// At once; the app needs the right to it.
        case high = "HIGH"
    }

    /// The versions of a quick app that can get a message.
    @nonexhaustive
    public enum FastAppTarget: Int, Sendable, Hashable {
        /// The one under development.
        case development = 1
        /// The published one.
        case production = 2
    }

    /// The notification that is shown, with Huawei's own options.
    public var notification: HMSAndroidNotification?
    /// The data that the app gets instead of the notification's, usually JSON as text.
    public var data: String?
    /// How urgent it is.
    public var urgency: Urgency?
    /// The category in Huawei's self-classification, such as `EXPRESS`; most need the app's right to it.
    public var category: String?
    /// The time for which Huawei tries to deliver, 1 second to 15 days.
    public var timeToLive: Duration?
    /// The number of messages that are kept for a device that is offline: −1 all, 0 the newest, 1 to 100 the newest of
    /// each group.
    public var collapseKey: Int?
    /// A label of the batch, which comes back in receipts; at most 64 bytes.
    public var batchTag: String?
    /// The id of the receipt configuration that Huawei uses.
    public var receiptID: String?
    /// The version of a quick app that gets it.
    public var fastAppTarget: FastAppTarget?

    /// Makes a block.
    public init(
        notification: HMSAndroidNotification? = nil,
        data: String? = nil,
        urgency: Urgency? = nil,
        category: String? = nil,
        timeToLive: Duration? = nil,
        collapseKey: Int? = nil,
        batchTag: String? = nil,
        receiptID: String? = nil,
        fastAppTarget: FastAppTarget? = nil
    ) {
        self.notification = notification
        self.data = data
        self.urgency = urgency
        self.category = category
        self.timeToLive = timeToLive
        self.collapseKey = collapseKey
        self.batchTag = batchTag
        self.receiptID = receiptID
        self.fastAppTarget = fastAppTarget
    }

    /// `android`, as the API takes it under `overrides.hms`.
    public var overrides: JSONObject {
        var android = JSONObject()
        android["collapse_key"] = collapseKey.map { .integer(Int64($0)) }
        android["urgency"] = urgency.map { .string($0.rawValue) }
        android["category"] = category.map { .string($0) }
        android["ttl"] = timeToLive.map { .span($0) }
        android["bi_tag"] = batchTag.map { .string($0) }
        android["receipt_id"] = receiptID.map { .string($0) }
        android["fast_app_target"] = fastAppTarget.map { .integer(Int64($0.rawValue)) }
        android["data"] = data.map { .string($0) }
        android["notification"] = notification.map { .object($0.members) }
        return ["android": .object(android)]
    }

    /// Finds what Huawei would refuse.
    public static func faults(in notification: PushNotification) -> [Finding] { HMSCheck.faults(in: notification) }
}

extension HMSCheck {
    /// Finds what Huawei would refuse of a notification to a device, for code that has no backend at hand.
    static func faults(in notification: PushNotification) -> [Finding] {
        // The app's id makes no difference here.
        let options = HMSOptions(credential: .client(id: "", secret: Secret("")), api: .v1(appID: ""))
        return examine(notification, for: .token, options: options).faults
    }
}
