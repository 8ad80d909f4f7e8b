import NIOCore
import ChaparCore

/// The time before which a pool may not connect again: exponential backoff with full jitter, shared by all its callers.
///
/// Two rules let a platform that is back get its messages soon. A server that could not be reached is tried again
/// within ``longestUnreachable``, since an attempt that reaches no server costs it nothing. A call that finds no other
/// one waiting (a breaker's single probe, the first message after *retry now*) waits only for the shortest span,
/// counted from the last failure, since its sender has waited already.
struct Backoff {
    /// The longest wait after an attempt that reached no server.
    static let longestUnreachable = Duration.seconds(2)

    private let range: ClosedRange<Duration>
    /// The number of failures in a row.
    private(set) var failures = 0
    /// The earliest time of the next attempt.
    private(set) var notBefore: NIODeadline?
    private var failedAt: NIODeadline?

    init(_ range: ClosedRange<Duration>) { self.range = range }

    /// The longest wait after `failures` failures in a row.
    var ceiling: Duration {
        var wait = range.lowerBound
        for _ in 1..<max(failures, 1) where wait < range.upperBound { wait *= 2 }
        return min(wait, range.upperBound)
    }

    /// Records a failed attempt; `random` is between 0 and 1.
    mutating func fail(_ now: NIODeadline, isUnreachable: Bool, random: Double) {
        failures += 1
        failedAt = now
        let longest = isUnreachable ? min(ceiling, max(range.lowerBound, Self.longestUnreachable)) : ceiling
        notBefore = now + TimeAmount.nanoseconds(Int64(clamping: Double(TimeAmount(longest).nanoseconds) * random))
    }

    /// Records a call that came while no other one waited.
    mutating func admitFirstCall() {
        guard let failedAt, let notBefore else { return }
        self.notBefore = min(notBefore, failedAt + TimeAmount(range.lowerBound))
    }

    /// Records a good connection.
    mutating func succeed() {
        failures = 0
        notBefore = nil
        failedAt = nil
    }
}
