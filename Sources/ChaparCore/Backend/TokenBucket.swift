public import Foundation

/// The number of messages that may be sent now under a ``Pacing``; the caller supplies the time.
///
/// It is a bucket that fills at the current rate. Urgent messages may empty it; other messages must leave
/// ``Pacing/urgentShare`` of it.
public struct TokenBucket: Sendable {
    private let pacing: Pacing
    /// How far the ramp has risen, from 0 to 1.
    private var level: Double
    private var tokens: Double
    private var filledAt: Date

    /// Makes a full bucket at the start of its ramp.
    public init(_ pacing: Pacing, at now: Date) {
        self.pacing = pacing
        level = pacing.rampUp > .zero ? 0 : 1
        tokens = 0
        filledAt = now
        tokens = capacity
    }

    /// Makes a bucket from a saved fill and a saved rise of its ramp, both from 0 to 1.
    public init(_ pacing: Pacing, at now: Date, fill: Double, ramp: Double) {
        self.init(pacing, at: now)
        if pacing.rampUp > .zero { level = min(1, max(0, ramp)) }
        tokens = capacity * min(1, max(0, fill))
    }

    /// The fill at the last call, from 0 to 1.
    public var fill: Double { max(0, tokens / capacity) }

    /// The rise of the ramp at the last call, from 0 to 1.
    public var ramp: Double { level }

    /// The rate that is allowed now, in messages a second.
    public var rate: Double { pacing.perSecond * (pacing.startShare + (1 - pacing.startShare) * level) }

    /// Reserves up to `wanted` messages that may go now; if none may, `retryAt` is when to try again.
    public mutating func reserve(_ wanted: Int, isUrgent: Bool = false, at now: Date) -> (granted: Int, retryAt: Date) {
        let (free, retryAt) = available(isUrgent: isUrgent, at: now)
        let granted = max(0, min(wanted, free))
        tokens -= Double(granted)
        return (granted, retryAt)
    }

    /// Returns how many messages may go now, and when there may be one more.
    public mutating func available(isUrgent: Bool = false, at now: Date) -> (free: Int, retryAt: Date) {
        fill(at: now)
        let free = tokens - (isUrgent ? 0 : urgentReserve)
        let missing = free < 1 ? 1 - free : 1 - free.truncatingRemainder(dividingBy: 1)
        // Sums of fractions fall slightly short of a whole.
        return (max(0, Int(clamping: (free + 1e-9).rounded(.down))), now.addingTimeInterval(missing / rate))
    }

    /// Returns the unused part of a reservation to the bucket.
    ///
    /// Afterwards the bucket is no fuller than if only the used part had been reserved, and only now. Otherwise a
    /// caller that reserves, waits and then sends would find a full bucket again, and would send twice the burst.
    public mutating func release(reserved: Int, used: Int, at now: Date) {
        tokens = min(capacity, tokens + Double(reserved - used))
        fill(at: now)
        tokens = min(tokens, capacity - Double(used))
    }

    private var urgentReserve: Double { pacing.urgentShare > 0 ? max(1, rate * pacing.urgentShare) : 0 }
    private var capacity: Double { max(1, rate * pacing.burst.inSeconds) + urgentReserve }

    private mutating func fill(at now: Date) {
        let elapsed = max(0, now.timeIntervalSince(filledAt))
        filledAt = now  // Also after the clock was set back: the same time twice fills once.
        let filling = min(elapsed, max(0, capacity - tokens) / rate)
        tokens += filling * rate
        guard pacing.rampUp > .zero else { return }
        // Filling makes up for use; during the rest of the time the bucket was full, so the rate was not needed.
        level = min(1, max(0, level + (filling - (elapsed - filling)) / pacing.rampUp.inSeconds))
        tokens = min(tokens, capacity)
    }
}
