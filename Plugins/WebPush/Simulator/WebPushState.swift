public import ChaparCore
public import Foundation
internal import Synchronization

/// A message that a simulated push service took, decrypted as its browser does it.
public struct WebPushDelivery: Sendable, Hashable {
    /// Its number, from 0 on.
    public let number: Int
    /// The service that took it.
    public let service: WebPushService
    /// The id of the subscription.
    public let id: String
    /// The decrypted text; nil for a message without a body.
    public let text: String?
    /// The number of octets of the body.
    public let bodyBytes: Int
    /// The first 86 octets of the body, in base64url: the salt, the record size and the sender's public key.
    public let header: String
    /// `TTL`.
    public let timeToLive: Int
    /// `Urgency`; nil without one.
    public let urgency: String?
    /// `Topic`; nil without one.
    public let topic: String?
    /// `sub` of the VAPID token.
    public let subject: String
    /// `exp` of the VAPID token, in seconds since 1970.
    public let tokenEnd: Int64
    /// The VAPID token.
    public let token: String
    /// The public VAPID key, in base64url.
    public let applicationServerKey: String
    /// The time of the acceptance, by the server's clock.
    public let acceptedAt: Date

    /// The decrypted text as JSON; nil for another text.
    public var json: JSONValue? { text.flatMap { try? JSONValue(parsing: Array($0.utf8)) } }
}

/// The counts of a simulator of push services.
public struct WebPushCounters: Sendable, Hashable {
    /// Messages that were accepted.
    public var accepted = 0
    /// Bodies that could not be decrypted.
    public var undecryptable = 0
    /// Refusals by their reasons.
    public var refused: [String: Int] = [:]

    /// Makes counts of zero.
    public init() {}
}

/// The state that all listeners of a simulator share.
final class WebPushState: Sendable {
    struct Values: Sendable {
        var devices: [WebPushPlace: WebPushDevice] = [:]
        var inbox: [WebPushDelivery] = []
        var counters = WebPushCounters()
        /// The magic subscriptions that have had their refusal.
        var warned: Set<WebPushPlace> = []
        var next = 0
    }

    /// The most messages, and the most subscriptions, that are kept.
    static let capacity = 100_000

    /// Whether every id counts as a subscription; otherwise only those that were made.
    let takesAny: Bool
    private let values = Mutex(Values())

    init(takesAny: Bool) { self.takesAny = takesAny }

    func withValues<Value>(_ body: (inout sending Values) -> sending Value) -> sending Value {
        values.withLock { body(&$0) }
    }
}

/// A subscription's service and id.
struct WebPushPlace: Sendable, Hashable {
    let service: WebPushService
    let id: String
}
