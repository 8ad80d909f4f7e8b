internal import Foundation
internal import PushCore
internal import PushQueue

/// The part of a shared quota that this gateway has reserved, without a lock; ``FlowControl`` asks the ``QuotaLedger``.
///
/// It is enough for about a quarter of a second, so that the ledger is asked some times a second whatever the rate. Who
/// reserves and then waits holds it up for the others, so it is good for ``lifetime``. All times are steady.
struct QuotaSlice: Sendable {
    /// How long a slice may be used, and how long one that is not used is kept from the others, in seconds.
    static let lifetime = 1.0
    /// For how much of the rate a slice is enough, in seconds.
    static let span = 0.25
    /// After so long a ledger that did not answer is asked again, in seconds.
    static let outagePause = 0.25
    /// A quota that is used up is not asked for again sooner, in seconds, unless the bucket is so small that it would
    /// overflow.
    private static let longestPause = 0.025

    /// What is left.
    private var tokens = 0
    /// How many of these only urgent messages may use.
    private var reserve = 0
    /// What was taken and is neither used nor given back yet.
    private var taken = 0
    private var grantedAt = Date.distantPast
    /// When the ledger may be asked again.
    private var retryAt = Date.distantPast
    /// What was used and the quota has not made up for yet: falls with the rate.
    private var spent = 0.0
    private var spentAt = Date.distantPast
    private var rate = 0.0

    /// When what is left is to be given back; nil when nothing is.
    var lapsesAt: Date? { tokens > 0 ? grantedAt.addingTimeInterval(Self.lifetime) : nil }

    /// Takes what may go now; nil when the ledger is to be asked first.
    mutating func reserve(_ wanted: Int, at now: Date) -> FlowControl.Allowance? {
        let isOver = tokens <= reserve || now.timeIntervalSince(grantedAt) >= Self.lifetime
        if isOver, now >= retryAt { return nil }
        return take(wanted)
    }

    /// Takes what is left, as it is.
    mutating func take(_ wanted: Int) -> FlowControl.Allowance {
        let granted = max(0, min(wanted, tokens))
        let normal = min(granted, max(0, tokens - reserve))
        tokens -= granted
        taken += granted
        return FlowControl.Allowance(granted: granted, normal: normal, retryAt: retryAt)
    }

    /// Says how much of what was taken is used, now; what was reserved while there was no quota is none of it.
    mutating func release(reserved: Int, used: Int, at now: Date) {
        let known = min(reserved, taken)
        taken -= known
        tokens += max(0, known - used)
        settle(at: now)
        spent += Double(used)
    }

    /// Makes the request for a new slice, of which what is left of this one is no part any more.
    mutating func makeRequest(_ wanted: Int, _ pacing: Pacing, at now: Date) -> QuotaRequest {
        settle(at: now)
        var request = QuotaRequest(pacing: pacing, wanted: 0, unused: tokens, spent: Int(clamping: spent))
        (tokens, reserve) = (0, 0)
        guard wanted > 0 else { return request }
        request.wanted = max(wanted, Int(clamping: pacing.perSecond * Self.span))
        guard pacing.urgentShare > 0 else { return request }
        request.urgent = max(1, Int(clamping: pacing.perSecond * pacing.urgentShare * Self.span))
        return request
    }

    /// Takes what the ledger granted; `random` from 0 to 1 keeps gateways from asking in step.
    mutating func add(_ grant: QuotaGrant, to request: QuotaRequest, at now: Date, random: Double) {
        tokens += grant.granted
        reserve += grant.granted - grant.normal
        rate = grant.rate
        grantedAt = now
        retryAt = now
        guard grant.normal < request.wanted else { return }
        let pause = min(Self.longestPause, request.pacing.burst.inSeconds / 4) * (0.75 + random / 2)
        retryAt += max(pause, grant.normal > 0 ? 0 : grant.retryAfter.inSeconds)
    }

    /// Notes that the ledger did not answer.
    mutating func fail(at now: Date) { retryAt = now.addingTimeInterval(Self.outagePause) }

    private mutating func settle(at now: Date) {
        spent = max(0, spent - rate * max(0, now.timeIntervalSince(spentAt)))
        spentAt = now
    }
}
