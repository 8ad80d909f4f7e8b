public import Foundation
public import ChaparCore

/// A store that several gateways share, in which they count their messages against common quotas.
///
/// Each backend with a ``ChaparCore/Pacing`` has a quota. A gateway reserves a slice of the quota, sends without asking
/// until the slice is used up, and returns the unused rest. Gateways may have different pacing for one quota: the store
/// keeps the level as a part of the whole, and computes each request with the request's own pacing.
public protocol QuotaLedger: Sendable {
    /// Returns unused messages of a gateway and reserves more for it, in one atomic step.
    ///
    /// - Parameters:
    ///   - request: The messages to return and to reserve.
    ///   - quota: The quota's name, the same on every gateway.
    /// - Returns: The reservation, which is never more than the quota allows now.
    /// - Throws: `StoreError` when the store cannot answer: then nothing is reserved, and the messages to return count
    ///   as used.
    func reserve(_ request: QuotaRequest, of quota: String) async throws(StoreError) -> QuotaGrant
}

/// The messages that a gateway returns to a quota and wants to reserve.
public struct QuotaRequest: Sendable, Hashable {
    /// The rate that the quota allows.
    public var pacing: Pacing
    /// The number of messages of any priority to reserve.
    public var wanted: Int
    /// The number of further messages to reserve from the share for urgent ones.
    public var urgent: Int
    /// The number of unused messages of former slices to return.
    public var unused: Int
    /// The number of messages used so recently that the quota has not refilled since.
    public var spent: Int

    /// Makes a request.
    public init(pacing: Pacing, wanted: Int, urgent: Int = 0, unused: Int = 0, spent: Int = 0) {
        self.pacing = pacing
        self.wanted = wanted
        self.urgent = urgent
        self.unused = unused
        self.spent = spent
    }
}

/// The part of a quota that a gateway may use.
public struct QuotaGrant: Sendable, Hashable {
    /// The most messages, if all are urgent.
    public var granted: Int
    /// The most messages of normal priority among them.
    public var normal: Int
    /// The time until another message of normal priority is allowed, if no other gateway takes it.
    public var retryAfter: Duration
    /// The messages a second that the quota allows now.
    public var rate: Double

    /// Makes a grant.
    public init(granted: Int, normal: Int, retryAfter: Duration, rate: Double) {
        self.granted = granted
        self.normal = normal
        self.retryAfter = retryAfter
        self.rate = rate
    }
}

/// The level of a quota, as a ``QuotaLedger`` stores it.
///
/// It is computed by a ``ChaparCore/TokenBucket``, which is made anew for each request.
public struct QuotaLevel: Sendable, Hashable {
    /// The fill of the bucket, from 0 to 1.
    public var fill: Double
    /// The rise of the ramp, from 0 to 1.
    public var ramp: Double
    /// The time of this level, by the ledger's clock.
    public var filledAt: Date

    /// The largest step back of the clock, in seconds, that a delayed request can cause; a larger step means that the
    /// clock was set.
    private static let largestLag = 1.0

    /// Makes a level: by default a full bucket at the start of its ramp.
    public init(fill: Double = 1, ramp: Double = 0, filledAt: Date) {
        self.fill = fill
        self.ramp = ramp
        self.filledAt = filledAt
    }

    /// Returns and reserves messages at a time of the ledger's clock.
    public mutating func reserve(_ request: QuotaRequest, at time: Date) -> QuotaGrant {
        let now = filledAt.timeIntervalSince(time) < Self.largestLag ? max(time, filledAt) : time
        var bucket = TokenBucket(request.pacing, at: min(filledAt, now), fill: fill, ramp: ramp)
        if request.unused > 0 || request.spent > 0 {
            bucket.release(reserved: request.unused + request.spent, used: request.spent, at: now)
        }
        let normal = bucket.reserve(request.wanted, at: now).granted
        let urgent = bucket.reserve(request.urgent, isUrgent: true, at: now).granted
        let next = bucket.available(at: now).retryAt.timeIntervalSince(now)
        (fill, ramp, filledAt) = (bucket.fill, bucket.ramp, now)
        return QuotaGrant(
            granted: normal + urgent,
            normal: normal,
            retryAfter: .seconds(clamping: next),
            rate: bucket.rate
        )
    }
}
