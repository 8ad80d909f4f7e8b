public import Foundation
public import PushCore

/// A store that several gateways share, and in which they count what they send against one quota.
///
/// Each backend with a ``PushCore/Pacing`` has a quota. A gateway reserves a part of it and sends without asking until
/// that is used up; what it does not use it gives back. Gateways whose pacing of one quota differs share what is left
/// as a part of the whole, and each request counts by its own: the quota follows whoever asks last.
public protocol QuotaLedger: Sendable {
    /// Gives back what a gateway did not use and reserves more for it, in one step that no other gateway comes between.
    ///
    /// - Parameters:
    ///   - request: What is given back and what is wanted.
    ///   - quota: The quota's name, the same on every gateway.
    /// - Returns: What is reserved, which is never more than the quota allows now.
    /// - Throws: `StoreError` when the store cannot answer: then nothing is reserved, and what was to be given back
    ///   counts as used.
    func reserve(_ request: QuotaRequest, of quota: String) async throws(StoreError) -> QuotaGrant
}

/// What a gateway gives back to a quota and what it wants of it.
public struct QuotaRequest: Sendable, Hashable {
    /// What the quota allows.
    public var pacing: Pacing
    /// How many messages of any priority are wanted.
    public var wanted: Int
    /// How many of those that only urgent messages may use are wanted besides.
    public var urgent: Int
    /// How many of the former slices were not used and are given back.
    public var unused: Int
    /// How many were used so lately that the quota has not made up for them yet.
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

/// What a gateway may use of a quota.
public struct QuotaGrant: Sendable, Hashable {
    /// The most messages, if all are urgent.
    public var granted: Int
    /// The most messages of normal priority among them.
    public var normal: Int
    /// After how long there is another one of normal priority, if nobody else takes it.
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

/// How much of a quota is left: what a ``QuotaLedger`` keeps of it.
///
/// The arithmetic is that of ``PushCore/TokenBucket``, which is made anew for each request.
public struct QuotaLevel: Sendable, Hashable {
    /// How full the bucket was, from 0 to 1.
    public var fill: Double
    /// How far the ramp had risen, from 0 to 1.
    public var ramp: Double
    /// When it was so, by the ledger's clock.
    public var filledAt: Date

    /// A clock that goes back by less, in seconds, is that of a request that was overtaken; by more, somebody has set
    /// it.
    private static let largestLag = 1.0

    /// Makes a level: a full bucket at the start of its ramp, or as it was kept.
    public init(fill: Double = 1, ramp: Double = 0, filledAt: Date) {
        self.fill = fill
        self.ramp = ramp
        self.filledAt = filledAt
    }

    /// Gives back and reserves at a time of the ledger's clock.
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
