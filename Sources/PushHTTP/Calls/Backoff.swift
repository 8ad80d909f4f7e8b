import NIOCore
import PushCore

/// When a pool may try to connect again: exponential with full jitter, shared by all its callers.
struct Backoff {
    private let range: ClosedRange<Duration>
    /// Failures in a row.
    private(set) var failures = 0
    /// No attempt before this.
    private(set) var notBefore: NIODeadline?

    init(_ range: ClosedRange<Duration>) { self.range = range }

    /// The longest wait after `failures` failures in a row.
    var ceiling: Duration {
        var wait = range.lowerBound
        for _ in 1..<max(failures, 1) where wait < range.upperBound { wait *= 2 }
        return min(wait, range.upperBound)
    }

    /// An attempt failed; `random` is between 0 and 1.
    mutating func fail(_ now: NIODeadline, random: Double) {
        failures += 1
        notBefore = now + TimeAmount.nanoseconds(Int64(clamping: Double(TimeAmount(ceiling).nanoseconds) * random))
    }

    /// A connection proved good.
    mutating func succeed() {
        failures = 0
        notBefore = nil
    }
}
