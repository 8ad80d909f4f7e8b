public import Foundation

/// A notification as an app received it, with the user's action, as the app or its server reports it.
public struct ReportedClick: Sendable, Hashable {
    /// The payload, as the app received it.
    public var payload: JSONObject
    /// The operating system's identifier of the tapped item; nil reports that the notification was shown.
    public var action: String?
    /// The user, where it is known.
    public var user: String?
    /// The platform's id of the device, where it is known.
    public var installation: String?
    /// The gateway's id of the device, where it is known.
    public var device: String?
    /// When it happened.
    public var at: Date
    /// Other values that the app reports, in the platform's form: the channel of the notification, the system.
    public var context: JSONObject

    /// Makes a report.
    public init(
        _ payload: JSONObject,
        action: String?,
        user: String? = nil,
        installation: String? = nil,
        device: String? = nil,
        at: Date,
        context: JSONObject = JSONObject()
    ) {
        self.payload = payload
        self.action = action
        self.user = user
        self.installation = installation
        self.device = device
        self.at = at
        self.context = context
    }
}

/// The result of reading a reported click.
public struct ClickResult: Sendable {
    /// The receipt for the delivery; nil when the click concerns none.
    public var receipt: DeliveryReceipt?
    /// The notification as read: kind, data, link, in the platform's words.
    public var notification: JSONObject
    /// The result of reporting it to the platform; nil when the platform takes no such report.
    public var forwarding: Result<Void, PushError>?

    /// Makes a result.
    public init(
        receipt: DeliveryReceipt?,
        notification: JSONObject,
        forwarding: Result<Void, PushError>? = nil
    ) {
        self.receipt = receipt
        self.notification = notification
        self.forwarding = forwarding
    }
}

/// Reads clicks that apps report, for platforms whose payloads only a plugin understands.
///
/// The gateway passes it the requests to `POST /v1/backends/{name}/clicks`, and records the receipt for the delivery.
public protocol ClickReader: Sendable {
    /// Reads a click, announces it, and reports it to platforms that take such reports.
    ///
    /// - Throws: When the report itself is wrong; a failed report to the platform is part of the result.
    func read(_ click: ReportedClick) async throws(PushError) -> ClickResult
}
