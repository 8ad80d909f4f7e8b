public import Foundation
public import ChaparCore
internal import ChaparSimulator

/// A message that the FCM simulator accepted.
public struct FCMDelivery: Sendable {
    /// The target of a message.
    @nonexhaustive
    public enum Target: Sendable, Hashable {
        /// A registration token.
        case token(String)
        /// A Firebase Installation ID.
        case fid(String)
        /// A topic.
        case topic(String)
        /// A condition over topics.
        case condition(String)

        /// The token, installation ID, topic or condition.
        public var value: String {
            switch self {
            case .token(let value), .fid(let value), .topic(let value), .condition(let value): value
            }
        }
    }

    /// Its number in the order of acceptance, from 0; the cursor of the inbox.
    public let number: Int
    /// The part of the answer's name after `messages/`.
    public let messageID: String
    /// The target of the message.
    public let target: Target
    /// The `message` as it was sent.
    public let message: JSONValue
    /// When it was accepted, by the simulator's clock.
    public let acceptedAt: Date
    /// The number of its connection.
    public let connection: Int
    /// The number of its stream; with HTTP/1.1 the request's number.
    public let stream: Int
    /// Whether the same notification had been accepted for the same target before.
    public let isDuplicate: Bool
}

/// The accepted messages, the newest up to a limit.
struct FCMInbox: Sendable {
    let limit: Int
    /// The messages kept; a quarter of the limit is dropped at a time, oldest first.
    private(set) var deliveries: [FCMDelivery] = []
    private var total = 0
    private var seen = BoundedSet<Int>(limit: 500_000)

    init(limit: Int) { self.limit = max(4, limit) }

    /// Adds a message; returns whether its notification was there before, and whether a person would see it twice.
    mutating func add(
        _ messageID: String,
        _ target: FCMDelivery.Target,
        _ message: JSONValue,
        _ request: SandboxRequest,
        at now: Date
    ) -> (isDuplicate: Bool, isDoubled: Bool) {
        let shown =
            message["android"]?["notification"] ?? message["android_v2"]?["remote_notification"]?["notification"]
        let tag = shown?["tag"] ?? message["android"]?["collapse_key"] ?? message["android_v2"]?["collapse_key"]
        let appleID = message["apns"]?["headers"]?["apns-collapse-id"]
        let identity = message["data"]?["chapar_id"] ?? tag ?? appleID
        var isDuplicate = false
        var hasher = Hasher()
        hasher.combine(target)
        hasher.combine(identity?.text ?? message.text)
        isDuplicate = !seen.insert(hasher.finalize())
        let shows = message["notification"] != nil || shown != nil
        deliveries.append(
            FCMDelivery(
                number: total,
                messageID: messageID,
                target: target,
                message: message,
                acceptedAt: now,
                connection: request.connection,
                stream: request.stream,
                isDuplicate: isDuplicate
            )
        )
        total += 1
        if deliveries.count > limit { deliveries.removeFirst(limit / 4) }
        return (isDuplicate, isDuplicate && shows && tag == nil && appleID == nil)
    }

    /// Returns at most `limit` messages from number `first` on.
    func page(from first: Int, limit: Int) -> ArraySlice<FCMDelivery> {
        let start = min(max(0, first - (deliveries.first?.number ?? 0)), deliveries.count)
        return deliveries[start..<min(deliveries.count, start + max(0, limit))]
    }
}
