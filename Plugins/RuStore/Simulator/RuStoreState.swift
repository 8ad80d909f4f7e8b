public import Foundation
public import ChaparCore
internal import ChaparSimulator

/// The state of a token in the RuStore simulator.
@nonexhaustive
public enum RuStoreDevice: String, Sendable, Hashable, CaseIterable {
    /// It gets messages of both APIs.
    case alive
    /// Expired: 404 `NOT_FOUND`.
    case dead
    /// The app is gone: 404 `UNREGISTERED`.
    case unregistered
    /// No token at all: 400 `INVALID_ARGUMENT` that names it.
    case malformed
    /// Of the universal SDK: the direct API answers 200, and the app throws the message away.
    case universal
}

/// A message that the RuStore simulator accepted.
public struct RuStoreDelivery: Sendable {
    /// Its number in the order of acceptance, from 0; the cursor of the inbox.
    public let number: Int
    /// The token or the topic.
    public let target: String
    /// Whether the target is a topic.
    public let isForTopic: Bool
    /// The `message` as it was sent.
    public let message: JSONValue
    /// The seconds that RuStore keeps it: four weeks for a `ttl` that is missing or zero.
    public let timeToLive: Double
    /// The listener that took it.
    public let listener: RuStoreListener
    /// When it was accepted, by the simulator's clock.
    public let acceptedAt: Date
    /// Whether the same delivery had been accepted for the same target before.
    public let isDuplicate: Bool
}

/// The counts of events since the RuStore simulator started or was reset.
public struct RuStoreCounters: Sendable, Hashable {
    /// Sends that arrived.
    public var sends = 0
    /// Messages that were accepted.
    public var accepted = 0
    /// Accepted messages to topics.
    public var acceptedForTopics = 0
    /// Accepted messages of the direct API to tokens of the universal SDK, which no app shows.
    public var thrownAway = 0
    /// Refused sends, by status word.
    public var refused: [String: Int] = [:]
    /// Accepted messages whose target and delivery id had been accepted before.
    public var duplicates = 0

    /// Makes counters at zero.
    public init() {}
}

/// The state of the RuStore simulator: a value, changed behind a lock.
struct RuStoreState: Sendable {
    var devices: [String: RuStoreDevice] = [:]
    var answers: RuStoreSimulatorConfiguration.Answers
    var counters = RuStoreCounters()
    var magicSeen = BoundedSet<String>(limit: 100_000)
    /// The messages kept; a quarter of the limit is dropped at a time, oldest first.
    private(set) var inbox: [RuStoreDelivery] = []
    private var total = 0
    private var seen = BoundedSet<Int>(limit: 500_000)
    private let limit: Int

    init(_ configuration: RuStoreSimulatorConfiguration) {
        answers = configuration.answers
        limit = max(4, configuration.inboxLimit)
    }

    /// Clears the inbox, the counters and the memory of magic tokens; tokens and shapes of answers stay.
    mutating func reset() {
        counters = RuStoreCounters()
        magicSeen = BoundedSet(limit: 100_000)
        inbox = []
        total = 0
        seen = BoundedSet(limit: 500_000)
    }

    /// Adds an accepted message.
    mutating func add(
        _ message: RuStoreMessage,
        to target: String,
        isForTopic: Bool,
        at now: Date,
        by listener: RuStoreListener
    ) {
        var hasher = Hasher()
        hasher.combine(target)
        hasher.combine(message.value["data"]?["chapar_id"]?.stringValue ?? message.value.text)
        let isDuplicate = !seen.insert(hasher.finalize())
        counters.accepted += 1
        if isForTopic { counters.acceptedForTopics += 1 }
        if isDuplicate { counters.duplicates += 1 }
        inbox.append(
            RuStoreDelivery(
                number: total,
                target: target,
                isForTopic: isForTopic,
                message: message.value,
                timeToLive: message.timeToLive,
                listener: listener,
                acceptedAt: now,
                isDuplicate: isDuplicate
            )
        )
        total += 1
        if inbox.count > limit { inbox.removeFirst(limit / 4) }
    }

    /// Returns at most `limit` messages from number `first` on.
    func page(from first: Int, limit: Int) -> ArraySlice<RuStoreDelivery> {
        let start = min(max(0, first - (inbox.first?.number ?? 0)), inbox.count)
        return inbox[start..<min(inbox.count, start + max(0, limit))]
    }
}
