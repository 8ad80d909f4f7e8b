import NIOCore
import PushCore

/// When a pool may try to connect again: exponential with full jitter, shared by all its callers.
///
/// Two rules keep a platform that is back from waiting for it. A server that could not be reached is tried again within
/// ``longestUnreachable``: an attempt that reaches no server costs it nothing. And a call that finds no other one
/// waiting (a breaker's single probe, the first message after *retry now*) waits for the shortest span only, counted
/// from the last failure: its sender has waited already.
struct Backoff {
    /// The longest wait after an attempt that reached no server.
    static let longestUnreachable = Duration.seconds(2)

    private let range: ClosedRange<Duration>
    /// Failures in a row.
    private(set) var failures = 0
    /// No attempt before this.
    private(set) var notBefore: NIODeadline?
    private var failedAt: NIODeadline?

    init(_ range: ClosedRange<Duration>) { self.range = range }

    /// The longest wait after `failures` failures in a row.
    var ceiling: Duration {
        var wait = range.lowerBound
        for _ in 1..<max(failures, 1) where wait < range.upperBound { wait *= 2 }
        return min(wait, range.upperBound)
    }

    /// An attempt failed; `random` is between 0 and 1.
    mutating func fail(_ now: NIODeadline, isUnreachable: Bool, random: Double) {
        failures += 1
        failedAt = now
        let longest = isUnreachable ? min(ceiling, max(range.lowerBound, Self.longestUnreachable)) : ceiling
        notBefore = now + TimeAmount.nanoseconds(Int64(clamping: Double(TimeAmount(longest).nanoseconds) * random))
    }

    /// A call came while no other one waited.
    mutating func admitFirstCall() {
        guard let failedAt, let notBefore else { return }
        self.notBefore = min(notBefore, failedAt + TimeAmount(range.lowerBound))
    }

    /// A connection proved good.
    mutating func succeed() {
        failures = 0
        notBefore = nil
        failedAt = nil
    }
}
