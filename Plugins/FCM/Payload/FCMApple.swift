public import ChaparCore

/// The options of a message through Google that only Apple's devices get.
///
/// Headers and payload are Apple's own. They have the form of the overrides of `APNsPush` (ChaparAPNs), which
/// ``init(_:liveActivityToken:)`` takes. Source: Firebase, REST resource `projects.messages`, `ApnsConfig`, and "Get
/// started with Live Activity", read 2026-08.
public struct FCMApple: PlatformPayload, Hashable {
    /// `fcm`.
    public static var kind: BackendKind { FCMBackend.kind }

    /// Apple's header fields, such as `apns-priority`.
    public var headers: [String: String]?
    /// Apple's payload, laid over what the notification becomes: `aps` and the app's own members.
    public var payload: JSONObject?
    /// The address of a picture, which Google's extension in the app shows.
    public var image: String?
    /// The label in Google's reports, 1 to 50 of `a-z`, `A-Z`, `0-9`, `-_.~%`.
    public var analyticsLabel: String?
    /// The push-to-start token, or the token of a running Live Activity.
    ///
    /// With one, the message goes to the activity instead of the app. The message's recipient is still the Firebase
    /// token of the app. Google sets push type and topic itself.
    public var liveActivityToken: String?

    /// Makes a block.
    public init(
        headers: [String: String]? = nil,
        payload: JSONObject? = nil,
        image: String? = nil,
        analyticsLabel: String? = nil,
        liveActivityToken: String? = nil
    ) {
        self.headers = headers
        self.payload = payload
        self.image = image
        self.analyticsLabel = analyticsLabel
        self.liveActivityToken = liveActivityToken
    }

    /// Takes the headers and payload that another value has for Apple itself (`FCMApple(APNsPush(…))`).
    ///
    /// - Parameters:
    ///   - push: A value whose overrides are `headers` and `payload`; other members are left out.
    ///   - liveActivityToken: Where a Live Activity push goes. Push type and topic are then left to Google.
    public init(_ push: some PlatformPayload, liveActivityToken: String? = nil) {
        let overrides = push.overrides
        var headers: [String: String] = [:]
        for (name, value) in overrides["headers"]?.objectValue ?? JSONObject() { headers[name] = value.stringValue }
        if liveActivityToken != nil {
            headers["apns-push-type"] = nil
            headers["apns-topic"] = nil
        }
        self.init(
            headers: headers.isEmpty ? nil : headers,
            payload: overrides["payload"]?.objectValue,
            liveActivityToken: liveActivityToken
        )
    }

    /// `apns`, as the API takes it under `overrides.fcm`.
    public var overrides: JSONObject {
        var apple = JSONObject()
        apple["headers"] = headers.map { .texts($0) }
        apple["payload"] = payload.map { .object($0) }
        var options = JSONObject()
        options["analytics_label"] = analyticsLabel.map { .string($0) }
        options["image"] = image.map { .string($0) }
        if !options.isEmpty { apple["fcm_options"] = .object(options) }
        apple["live_activity_token"] = liveActivityToken.map { .string($0) }
        return ["apns": .object(apple)]
    }

    /// Finds what Google would refuse.
    public static func faults(in notification: PushNotification) -> [Finding] { FCMCheck.faults(in: notification) }
}
