public import ChaparCore

/// The options of a message through Huawei that only Apple's devices get.
///
/// Headers and payload are Apple's own. They have the form of the overrides of `APNsPush` (ChaparAPNs), which
/// ``init(_:)`` takes. Source: Huawei, Push Kit, `ApnsConfig`, read 2026-08.
public struct HMSApple: PlatformPayload, Hashable {
    /// `hms`.
    public static var kind: BackendKind { HMSBackend.kind }

    /// Apple's header fields, such as `apns-priority`.
    public var headers: [String: String]?
    /// Apple's payload, laid over what the notification becomes: `aps` and the app's own members.
    public var payload: JSONObject?
    /// The kind of message; nil is the backend's configured one.
    public var targetUserType: HMSOptions.TargetUserType?

    /// Makes a block.
    public init(
        headers: [String: String]? = nil,
        payload: JSONObject? = nil,
        targetUserType: HMSOptions.TargetUserType? = nil
    ) {
        self.headers = headers
        self.payload = payload
        self.targetUserType = targetUserType
    }

    /// Takes the `headers` and `payload` that another value's overrides have for Apple itself
    /// (`HMSApple(APNsPush(…))`).
    public init(_ push: some PlatformPayload) {
        let overrides = push.overrides
        var headers: [String: String] = [:]
        for (name, value) in overrides["headers"]?.objectValue ?? JSONObject() { headers[name] = value.stringValue }
        self.init(headers: headers.isEmpty ? nil : headers, payload: overrides["payload"]?.objectValue)
    }

    /// `apns`, as the API takes it under `overrides.hms`.
    public var overrides: JSONObject {
        var apple = JSONObject()
        apple["headers"] = headers.map { .texts($0) }
        apple["payload"] = payload.map { .object($0) }
        apple["hms_options"] = targetUserType.map { ["target_user_type": .integer($0.number)] }
        return ["apns": .object(apple)]
    }

    /// Finds what Huawei would refuse.
    public static func faults(in notification: PushNotification) -> [Finding] { HMSCheck.faults(in: notification) }
}
