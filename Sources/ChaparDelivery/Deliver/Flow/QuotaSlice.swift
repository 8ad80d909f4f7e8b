internal import Foundation
internal import ChaparCore
internal import ChaparQueue

/// The part of a shared quota that this gateway has reserved, without a lock; ``FlowControl`` asks the ``QuotaLedger``.
///
/// A slice lasts for about a quarter of a second at the quota's rate, so the ledger is asked a few times a second at
/// any rate. An unused slice is quota that other gateways cannot use, so it is valid for ``lifetime`` only. All times
/// are steady.
struct QuotaSlice: Sendable {
    /// The time for which a slice may be used, and for which an unused one is kept from the others, in seconds.
    static let lifetime = 1.0
    /// The span of the quota's rate that a slice covers, in seconds.
    static let span = 0.25
    /// The pause, in seconds, before a ledger that did not answer is asked again.
    static let outagePause = 0.25
    /// The longest pause, in seconds, before an exhausted quota is asked for again; shorter for a bucket so small that
    /// it would overflow.
    private static let longestPause = 0.025

    /// The unused messages of the slice.
    private var tokens = 0
    /// The number of these that only urgent messages may use.
    private var reserve = 0
    /// The messages that were taken and are neither used nor given back yet.
    private var taken = 0
    private var grantedAt = Date.distantPast
    /// The time from which the ledger may be asked again.
    private var retryAt = Date.distantPast
    /// The used messages that the quota has not refilled yet; falls with the rate.
    private var spent = 0.0
    private var spentAt = Date.distantPast
    private var rate = 0.0

    /// The time when the rest of the slice is to be given back; nil when there is none.
    var lapsesAt: Date? { tokens > 0 ? grantedAt.addingTimeInterval(Self.lifetime) : nil }

    /// Takes messages from the slice; nil when the ledger must be asked first.
    mutating func reserve(_ wanted: Int, at now: Date) -> FlowControl.Allowance? {
        let isOver = tokens <= reserve || now.timeIntervalSince(grantedAt) >= Self.lifetime
        if isOver, now >= retryAt { return nil }
        return take(wanted)
    }

    /// Takes from the rest of the slice, without asking the ledger.
    mutating func take(_ wanted: Int) -> FlowControl.Allowance {
        let granted = max(0, min(wanted, tokens))
        let normal = min(granted, max(0, tokens - reserve))
        tokens -= granted
        taken += granted
        return FlowControl.Allowance(granted: granted, normal: normal, retryAt: retryAt)
    }

    /// Returns the unused part of a reservation; one that was made while there was no quota does not count.
    mutating func release(reserved: Int, used: Int, at now: Date) {
        let known = min(reserved, taken)
        taken -= known
        tokens += max(0, known - used)
        settle(at: now)
        spent += Double(used)
    }

    /// Makes the request for a new slice; the rest of this one goes back with it.
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

    /// Adds a grant of the ledger; `random` from 0 to 1 keeps gateways from asking in step.
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

    /// Records that the ledger did not answer.
    mutating func fail(at now: Date) { retryAt = now.addingTimeInterval(Self.outagePause) }

    private mutating func settle(at now: Date) {
        spent = max(0, spent - rate * max(0, now.timeIntervalSince(spentAt)))
        spentAt = now
    }
}
