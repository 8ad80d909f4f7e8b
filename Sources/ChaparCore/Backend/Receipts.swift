public import Foundation

/// A platform's callback as it arrived, not yet authenticated.
public struct ReceiptCallback: Sendable {
    /// The header fields, names in lower case.
    public var headers: [HTTPHeader]
    /// The body.
    public var body: [UInt8]
    /// When it arrived.
    public var receivedAt: Date
    /// The secret at the end of its path, for platforms whose only setting is an address.
    public var pathSecret: Secret?

    /// Makes a callback.
    public init(headers: [HTTPHeader], body: [UInt8], receivedAt: Date, pathSecret: Secret? = nil) {
        self.pathSecret = pathSecret
        self.headers = headers
        self.body = body
        self.receivedAt = receivedAt
    }

    /// Returns the first value of the field `name`, which is given in lower case.
    public func header(_ name: String) -> String? {
        headers.first { $0.name == name }?.value
    }
}

/// A platform's report about a message that it has taken.
public struct DeliveryReceipt: Sendable, Hashable {
    /// The event that a receipt reports.
    @nonexhaustive
    public enum Event: String, Sendable, CaseIterable {
        /// It reached the device.
        case delivered
        /// The user opened it.
        case opened
        /// It will not reach the device, or was not shown.
        case failed
        /// It is worth reporting but decides nothing: for example, the device keeps the message for later.
        case note
    }

    /// The event.
    public var event: Event
    /// The platform's id of the message, as in ``Acceptance/platformID``.
    public var platformID: String?
    /// The device token it went to; nil when the platform's id is enough.
    public var token: String?
    /// The tag that the message carried for its receipts, where the platform returns it.
    public var deliveryTag: String?
    /// The platform's word or number, of bounded variety, fit for a metric label.
    public var reason: String
    /// A sentence for people.
    public var detail: String?
    /// The time of the event, by the platform's clock.
    public var at: Date
    /// The invalidation of the device token, when the receipt says that it is dead.
    public var invalidation: Refusal.Invalidation?

    /// Makes a receipt.
    public init(
        _ event: Event,
        platformID: String? = nil,
        token: String? = nil,
        deliveryTag: String? = nil,
        reason: String,
        detail: String? = nil,
        at: Date,
        invalidation: Refusal.Invalidation? = nil
    ) {
        self.event = event
        self.platformID = platformID
        self.token = token
        self.deliveryTag = deliveryTag
        self.reason = reason
        self.detail = detail
        self.at = at
        self.invalidation = invalidation
    }
}

/// The reason why a callback is rejected.
@nonexhaustive
public enum ReceiptRefusal: Error, Sendable, Hashable {
    /// The callback lacks the platform's signature, or has an old one.
    ///
    /// The sentence is for the log and names no secret.
    case notAuthentic(String)
    /// It is signed, but cannot be read.
    case malformed(String)
}

/// Checks and reads the callbacks of a platform that reports the later state of its messages.
///
/// The gateway passes it the requests to `POST /v1/backends/{name}/receipts`. They need no API key: the platform's
/// signature is the credential. Repeated callbacks are possible and harmless.
public protocol ReceiptReader: Sendable {
    /// Whether the head alone proves that a callback is the platform's.
    ///
    /// Called before the body is read, so that requests from strangers cost nothing; the callback has no body yet. With
    /// false, the default, ``receipts(in:)`` decides. Throws when the head shows that the callback is not the
    /// platform's.
    func isAuthentic(head callback: ReceiptCallback) throws(ReceiptRefusal) -> Bool

    /// Returns the receipts of a callback, or throws why it is rejected.
    ///
    /// It must not wait for anything.
    func receipts(in callback: ReceiptCallback) throws(ReceiptRefusal) -> [DeliveryReceipt]

    /// The body that the platform requires in the answer, as JSON.
    var acknowledgement: [UInt8] { get }
}

extension ReceiptReader {
    /// Returns false: the body is needed to decide.
    public func isAuthentic(head callback: ReceiptCallback) throws(ReceiptRefusal) -> Bool { false }
}
