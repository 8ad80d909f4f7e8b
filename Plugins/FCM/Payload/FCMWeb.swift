public import ChaparCore

/// The options of a message through Google for browsers only: tokens of `web-firebase`, and members of topics.
///
/// A message to a token of an Android or Apple device is sent without them. Source: Firebase, REST resource
/// `projects.messages`, `WebpushConfig`, read 2026-08.
public struct FCMWeb: PlatformPayload, Hashable {
    /// `fcm`.
    public static var kind: BackendKind { FCMBackend.kind }

    /// The `https` address that a click opens.
    public var link: String?
    /// The notification that the browser shows: the options of the Web Notification API (`icon`, `badge`, `actions`,
    /// `requireInteraction`).
    public var notification: JSONObject?
    /// The app's values, instead of the notification's.
    public var data: [String: String]?
    /// Fields of the Web Push protocol: `TTL` in seconds, `Urgency`, `Topic`.
    public var headers: [String: String]?
    /// The label in Google's reports, 1 to 50 of `a-z`, `A-Z`, `0-9`, `-_.~%`.
    public var analyticsLabel: String?

    /// Makes a block.
    public init(
        link: String? = nil,
        notification: JSONObject? = nil,
        data: [String: String]? = nil,
        headers: [String: String]? = nil,
        analyticsLabel: String? = nil
    ) {
        self.link = link
        self.notification = notification
        self.data = data
        self.headers = headers
        self.analyticsLabel = analyticsLabel
    }

    /// `webpush`, as the API takes it under `overrides.fcm`.
    public var overrides: JSONObject {
        var web = JSONObject()
        web["headers"] = headers.map { .texts($0) }
        web["data"] = data.map { .texts($0) }
        web["notification"] = notification.map { .object($0) }
        var options = JSONObject()
        options["link"] = link.map { .string($0) }
        options["analytics_label"] = analyticsLabel.map { .string($0) }
        if !options.isEmpty { web["fcm_options"] = .object(options) }
        return ["webpush": .object(web)]
    }

    /// Finds what Google would refuse.
    public static func faults(in notification: PushNotification) -> [Finding] { FCMCheck.faults(in: notification) }
}
