/// The part of a notification that only one platform understands, as a Swift value: the typed way to write overrides.
///
/// Plugins define such values (`APNsPush`, `FCMAndroid`, `HMSAndroid`), and ``PushNotification/with(_:)`` merges them
/// into a notification. A value becomes the JSON that a caller of the HTTP API would write under `overrides`, so the
/// same checks and the same encoder apply. A value does not depend on the recipient.
public protocol PlatformPayload: Sendable {
    /// The kind of backend whose overrides it becomes.
    static var kind: BackendKind { get }

    /// The value as JSON in the platform's form: the content of `overrides` under the kind's name in an API request.
    var overrides: JSONObject { get }

    /// Returns the faults for which the platform would refuse a notification that has this value.
    ///
    /// It checks only rules that do not depend on a backend's settings; the backend checks again, with its settings,
    /// before it sends.
    static func faults(in notification: PushNotification) -> [Finding]
}

extension PushNotification {
    /// Returns this notification with platform-specific values merged into it; only backends of a value's kind use the
    /// value.
    ///
    /// Values of the same kind are merged; where they differ, the later one is used. Call it after all other changes,
    /// since it checks the whole notification.
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
            // Several values of one kind report the same faults.
            for fault in type(of: payload).faults(in: notification) where !faults.contains(fault) {
                faults.append(fault)
            }
        }
        guard faults.isEmpty else { throw PayloadError(faults) }
        return notification
    }
}

/// A notification that a platform would refuse, found before anything is sent.
public struct PayloadError: Error, Hashable, CustomStringConvertible {
    /// The faults, at least one.
    ///
    /// Each names its field by a JSON pointer into the API's request for the notification
    /// (`#/overrides/apns/payload/aps/content-state`).
    public let faults: [Finding]

    /// Makes an error.
    public init(_ faults: [Finding]) { self.faults = faults }

    /// One line for each fault: its field and its detail.
    public var description: String { faults.map { "\($0.pointer): \($0.detail)" }.joined(separator: "\n") }
}
