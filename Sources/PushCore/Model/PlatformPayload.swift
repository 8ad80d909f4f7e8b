/// What one platform alone understands of a notification, as a Swift value: the typed way to write its overrides.
///
/// Plugins define such values (`APNsPush`, `FCMAndroid`, `HMSAndroid`), and ``PushNotification/with(_:)`` lays them
/// over a notification. A value becomes the JSON that a caller of the HTTP API would write under `overrides`, so that
/// the two ways are one: the same rules check them, and the same encoder sends them. It is never asked whom a
/// notification goes to.
public protocol PlatformPayload: Sendable {
    /// The kind of backend whose overrides it becomes.
    static var kind: BackendKind { get }

    /// The value in the platform's form: what stands under `overrides` and the kind's name in a request of the API.
    var overrides: JSONObject { get }

    /// What the platform would refuse of a notification after the value was laid over it.
    ///
    /// Only what can be checked without a backend; the backend checks again, with its configuration, before it sends.
    static func faults(in notification: PushNotification) -> [Finding]
}

extension PushNotification {
    /// This notification with platforms' own values laid over it, each seen by backends of its kind only.
    ///
    /// Values of the same kind add up; where two say something different the later one counts. Call it last: what is
    /// checked is the whole notification as it is now.
    ///
    /// - Returns: The notification, its ``overrides`` filled in.
    /// - Throws: ``PayloadError`` with everything that a platform would refuse.
    public func with(_ payloads: any PlatformPayload...) throws(PayloadError) -> PushNotification {
        var notification = self
        for payload in payloads {
            let kind = type(of: payload).kind.rawValue
            let earlier = notification.overrides[kind] ?? JSONObject()
            notification.overrides[kind] = earlier.merging(payload.overrides)
        }
        var faults: [Finding] = []
        for payload in payloads {
            // Values of one kind find the same faults.
            for fault in type(of: payload).faults(in: notification) where !faults.contains(fault) {
                faults.append(fault)
            }
        }
        guard faults.isEmpty else { throw PayloadError(faults) }
        return notification
    }
}

/// A notification says something that a platform would refuse: found before anything is sent.
public struct PayloadError: Error, Hashable, CustomStringConvertible {
    /// What is wrong, each with its field as a JSON pointer into the request that the notification would be
    /// (`#/overrides/apns/payload/aps/content-state`); at least one.
    public let faults: [Finding]

    /// Makes an error.
    public init(_ faults: [Finding]) { self.faults = faults }

    /// Each field with what is wrong about it.
    public var description: String { faults.map { "\($0.pointer): \($0.detail)" }.joined(separator: "\n") }
}
