internal import Foundation
internal import PushCore

/// A token bucket: so many messages a second, with a burst of a tenth of a second.
struct RateLimiter: Sendable {
    private let rate: Double
    private let burst: Double
    private var tokens: Double
    private var filledAt: Date

    /// Makes a full bucket.
    init(rate: Int, at now: Date) {
        self.rate = Double(rate)
        burst = max(1, Double(rate) / 10)
        tokens = burst
        filledAt = now
    }

    /// How many of `wanted` may go now, and when to ask again if that is none.
    mutating func take(_ wanted: Int, at now: Date) -> (granted: Int, retryAt: Date) {
        tokens = min(burst, tokens + max(0, now.timeIntervalSince(filledAt)) * rate)
        filledAt = now
        let granted = min(wanted, Int(tokens))
        tokens -= Double(granted)
        return (granted, now.addingTimeInterval((1 - tokens.truncatingRemainder(dividingBy: 1)) / rate))
    }

    /// Gives back what was taken and not used.
    mutating func giveBack(_ count: Int) { tokens = min(burst, tokens + Double(count)) }
}
