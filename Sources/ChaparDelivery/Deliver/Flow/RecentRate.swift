internal import Foundation

/// A rate of messages over about the last ten seconds; older ones count for less and less.
struct RecentRate: Sendable {
    /// The time after which a message counts for 37 percent, in seconds.
    private static let span = 10.0

    /// The messages, each for what it still counts.
    private var sum = 0.0
    private var at = Date.distantPast

    /// Counts messages; the time is steady.
    mutating func add(_ count: Int, at now: Date) {
        sum = weight(at: now) + Double(count)
        at = max(at, now)
    }

    /// Returns the messages a second.
    func perSecond(at now: Date) -> Double { weight(at: now) / Self.span }

    private func weight(at now: Date) -> Double { sum * exp(-max(0, now.timeIntervalSince(at)) / Self.span) }
}
