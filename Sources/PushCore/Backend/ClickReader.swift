public import Foundation

/// A notification as an app received it, with what its user did, as the app or its server reports it.
public struct ReportedClick: Sendable, Hashable {
    /// The payload, as the app received it.
    public var payload: JSONObject
    /// The operating system's identifier of what was tapped; nil reports that the notification was shown.
    public var action: String?
    /// The user, where it is known.
    public var user: String?
    /// The platform's id of the device, where it is known.
    public var installation: String?
    /// The gateway's id of the device, where it is known.
    public var device: String?
    /// When it happened.
    public var at: Date
    /// What else the app reports, in the platform's form: the channel of the notification, the system.
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

/// What a platform's plugin found in a reported click.
public struct ClickResult: Sendable {
    /// What it means for a delivery; nil when it is about none.
    public var receipt: DeliveryReceipt?
    /// The notification, read: kind, data, what to open, in the platform's words.
    public var notification: JSONObject
    /// Whether it was reported to the platform; nil when the platform takes no such report.
    public var forwarding: Result<Void, PushError>?

    /// Makes a finding.
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
/// The gateway hands it what arrives at `POST /v1/backends/{name}/clicks`, and settles the delivery by the receipt.
public protocol ClickReader: Sendable {
    /// Reads a click, announces it, and reports it to platforms that take such reports.
    ///
    /// - Throws: When the report itself is wrong; a failed report to the platform is part of the finding.
    func read(_ click: ReportedClick) async throws(PushError) -> ClickResult
}
