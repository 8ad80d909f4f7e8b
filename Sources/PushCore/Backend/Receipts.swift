public import Foundation

/// A platform's callback as it arrived, not yet believed.
public struct ReceiptCallback: Sendable {
    /// The header fields, names in lower case.
    public var headers: [HTTPHeader]
    /// The body.
    public var body: [UInt8]
    /// When it arrived.
    public var receivedAt: Date
    /// The secret at the end of the path that it came to, for platforms that take an address and nothing else.
    public var pathSecret: Secret?

    /// Makes a callback.
    public init(headers: [HTTPHeader], body: [UInt8], receivedAt: Date, pathSecret: Secret? = nil) {
        self.pathSecret = pathSecret
        self.headers = headers
        self.body = body
        self.receivedAt = receivedAt
    }

    /// The first value of the field `name`, which is given in lower case.
    public func header(_ name: String) -> String? {
        headers.first { $0.name == name }?.value
    }
}

/// What a platform reports about one message after it has taken it.
public struct DeliveryReceipt: Sendable, Hashable {
    /// What happened.
    @nonexhaustive
    public enum Event: String, Sendable, CaseIterable {
        /// It reached the device.
        case delivered
        /// The user opened it.
        case opened
        /// It will not reach the device, or was not shown.
        case failed
        /// Something worth telling that decides nothing: the device keeps it for later.
        case note
    }

    /// What happened.
    public var event: Event
    /// The platform's id of the message, as in ``Acceptance/platformID``.
    public var platformID: String?
    /// The device token it went to; nil when the platform's id says it all.
    public var token: String?
    /// What the message carried for its receipts, where the platform gives it back.
    public var deliveryTag: String?
    /// The platform's word or number, of bounded variety, fit for a metric label.
    public var reason: String
    /// A sentence for people.
    public var detail: String?
    /// When it happened, by the platform's clock.
    public var at: Date
    /// Set when the receipt says that the device token is dead.
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

/// Why a callback is not believed.
@nonexhaustive
public enum ReceiptRefusal: Error, Sendable, Hashable {
    /// It does not carry the platform's signature, or an old one. The sentence is for the log and names no secret.
    case notAuthentic(String)
    /// It is signed, and yet cannot be read.
    case malformed(String)
}

/// Checks and reads the callbacks of a platform that reports what became of its messages.
///
/// The gateway hands it what arrives at `POST /v1/backends/{name}/receipts`, without any key of its own: the platform's
/// signature is the credential. Repeats are possible, and are harmless.
public protocol ReceiptReader: Sendable {
    /// Whether the head alone shows that a callback is the platform's.
    ///
    /// Asked before the body is read, so that strangers cost nothing; the callback has no body yet. False, which is the
    /// default, leaves it to ``receipts(in:)``. Throws when the head shows that the callback is not the platform's.
    func isAuthentic(head callback: ReceiptCallback) throws(ReceiptRefusal) -> Bool

    /// The receipts of a callback, or why it is not believed. It must not wait for anything.
    func receipts(in callback: ReceiptCallback) throws(ReceiptRefusal) -> [DeliveryReceipt]

    /// The body that the platform requires in the answer, as JSON.
    var acknowledgement: [UInt8] { get }
}

extension ReceiptReader {
    /// False: it takes the body to tell.
    public func isAuthentic(head callback: ReceiptCallback) throws(ReceiptRefusal) -> Bool { false }
}
