internal import Foundation
internal import PushCore

/// Recipients that get nothing for a while, by the platform's wish (APNs `TooManyRequests`).
///
/// Bounded: the oldest go first.
struct RecipientPauses: Sendable {
    private var until: [Recipient: Date] = [:]
    private let capacity: Int

    /// Remembers at most `capacity` recipients.
    init(capacity: Int = 10_000) { self.capacity = capacity }

    /// Whether nothing is remembered, which is the usual case and spares the look-ups.
    var isEmpty: Bool { until.isEmpty }

    /// Leaves a recipient alone until then.
    mutating func pause(_ recipient: Recipient, until time: Date, at now: Date) {
        if until.count >= capacity {
            until = until.filter { $0.value > now }
            if until.count >= capacity, let first = until.min(by: { $0.value < $1.value }) { until[first.key] = nil }
        }
        until[recipient] = time
    }

    /// Until when a recipient is left alone; nil when it is not.
    mutating func pause(of recipient: Recipient, at now: Date) -> Date? {
        guard let time = until[recipient] else { return nil }
        if time <= now {
            until[recipient] = nil
            return nil
        }
        return time
    }
}
