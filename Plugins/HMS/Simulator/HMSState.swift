public import Foundation
internal import ChaparCore
internal import ChaparSimulator

/// The state of an HMS simulator: access tokens, devices, topics, messages.
///
/// The service owns it and lends it to handlers under its lock. All randomness comes from its seed, so that a run can
/// be repeated.
struct HMSState: Sendable {
    /// An access token that was issued.
    struct Grant: Sendable {
        var appID: String
        var endsAt: Date
        var isRevoked = false
    }

    var devices: [String: HMSDevice] = [:]
    var topics: [String: Set<String>] = [:]
    var grants: [String: Grant] = [:]
    var fetches: [String: [Date]] = [:]
    var inbox: [HMSDelivery] = []
    var counters = HMSCounters()
    var magicSeen = BoundedSet<String>(limit: 100_000)
    var seen = BoundedSet<String>(limit: 200_000)
    var bucket: (level: Double, at: Date)?
    var random: SeededGenerator
    /// Receipts that are due.
    var owed: [HMSReceiptSender.Status] = []
    private var nextRequest: UInt64 = 0
    private var nextDelivery = 0

    init(seed: UInt64) { random = SeededGenerator(seed: seed ^ 0x484D53) }

    mutating func makeRequestID(at now: Date) -> String {
        nextRequest += 1
        let number = String(nextRequest % 1_000_000)
        return "\(now.millisecondsSince1970)" + String(repeating: "0", count: 6 - number.utf8.count) + number
    }

    /// Takes `count` devices from the app's quota a second; returns false when too few are left.
    ///
    /// A count above the quota needs a full one.
    mutating func reserveQuota(_ count: Int, perSecond: Int, at now: Date) -> Bool {
        let limit = Double(perSecond)
        var level = limit
        if let bucket { level = min(limit, bucket.level + now.timeIntervalSince(bucket.at) * limit) }
        let isEnough = level >= min(Double(count), limit)
        bucket = (isEnough ? level - Double(count) : level, now)
        return isEnough
    }

    /// Puts an accepted message into the inbox.
    mutating func record(_ delivery: HMSDelivery, limit: Int) {
        var delivery = delivery
        delivery.number = nextDelivery
        nextDelivery += 1
        counters.accepted += 1
        if let tag = delivery.tag, !seen.insert("\(delivery.token)\u{0}\(tag)") {
            delivery.isDuplicate = true
            counters.duplicates += 1
        }
        inbox.append(delivery)
        if inbox.count > limit { inbox.removeFirst(inbox.count - limit / 2) }
    }

    /// Marks the messages with a `notifyId` that devices got as taken back.
    mutating func revoke(_ notifyID: Int64, pushType: Int64, from tokens: Set<String>) {
        for index in inbox.indices where tokens.contains(inbox[index].token) && !inbox[index].isRevoked {
            guard inbox[index].tag == String(notifyID), inbox[index].pushType == pushType else { continue }
            inbox[index].isRevoked = true
            counters.revoked += 1
        }
    }

    /// Clears the inbox, the counters, the quotas in use and the memory of magic tokens; devices, topics and access
    /// tokens stay.
    mutating func reset() {
        inbox = []
        counters = HMSCounters()
        magicSeen = BoundedSet(limit: 100_000)
        seen = BoundedSet(limit: 200_000)
        bucket = nil
        fetches = [:]
    }
}

/// A message that the simulator accepted for one recipient.
public struct HMSDelivery: Sendable, Hashable {
    /// Its number, rising by one from 0.
    public internal(set) var number = 0
    /// The request's id.
    public var requestID: String
    /// The recipient's token; empty for an audience.
    public var token: String
    /// The topic or condition; empty for a token.
    public var topic: String
    /// The `tag`: a later message with the same one replaces it on the device.
    public var tag: String?
    /// The message without its recipients, as compact JSON.
    public var message: String
    /// The number of recipients in the request.
    public var batch: Int
    /// When it was accepted.
    public var acceptedAt: Date
    /// The `push-type` of a message of v3.
    public internal(set) var pushType: Int64?
    /// Whether the message was taken back.
    public internal(set) var isRevoked = false
    /// Whether the token got a message with this tag before.
    public internal(set) var isDuplicate = false
}

/// The counts of events since the start or the last reset.
public struct HMSCounters: Sendable, Hashable {
    /// Access tokens that were issued.
    public var tokensIssued = 0
    /// Requests to the token endpoint that were refused.
    public var tokensRefused = 0
    /// Requests to send.
    public var sends = 0
    /// Messages accepted, one for each recipient.
    public var accepted = 0
    /// Accepted messages that repeat a token and tag.
    public var duplicates = 0
    /// Requests to take a message back.
    public var revocations = 0
    /// Messages taken back, one for each recipient.
    public var revoked = 0
    /// Messages checked and not sent.
    public var validated = 0
    /// Answers by code; `http_503` and the like for those without.
    public var answers: [String: Int] = [:]
    /// Callbacks that were sent, repeats included.
    public var callbacks = 0
    /// Callbacks that were answered with 200.
    public var callbacksTaken = 0
    /// Callbacks abandoned after the last attempt.
    public var callbacksLost = 0

    /// Makes counters at zero.
    public init() {}
}
