internal import Foundation
internal import ChaparCore

/// The recipients that are paused because the platform asked for it (APNs `TooManyRequests`).
///
/// It is bounded: when it is full, the pause that ends first is dropped. A change takes time that grows with the
/// logarithm of their number.
struct RecipientPauses: Sendable {
    private var until: [Recipient: Date] = [:]
    /// A heap of all pauses, the one that ends first on top.
    ///
    /// Entries that ``until`` no longer has are removed later.
    private var ends: [(time: Date, recipient: Recipient)] = []
    private let capacity: Int

    /// Makes room for at most `capacity` recipients.
    init(capacity: Int = 10_000) { self.capacity = capacity }

    /// Whether there is no pause, the usual case, which saves lookups.
    var isEmpty: Bool { until.isEmpty }

    /// Pauses a recipient until a time, or until the end of an earlier pause when that is later.
    mutating func pause(_ recipient: Recipient, until time: Date, at now: Date) {
        while let first = ends.first, first.time <= now { removeFirst() }
        if let known = until[recipient], known >= time { return }
        until[recipient] = time
        ends.append((time, recipient))
        rise(from: ends.count - 1)
        while until.count > capacity { removeFirst() }
        if ends.count > 2 * capacity + 16 { rebuild() }
    }

    /// Returns the end of a recipient's pause; nil without one.
    mutating func pause(of recipient: Recipient, at now: Date) -> Date? {
        guard let time = until[recipient] else { return nil }
        if time <= now {
            until[recipient] = nil
            return nil
        }
        return time
    }

    /// Returns the number of recipients that are paused now, and the end of the longest pause; nil when there is none.
    func running(at now: Date) -> (count: Int, until: Date)? {
        let running = until.values.filter { $0 > now }
        return running.max().map { (running.count, $0) }
    }

    /// Returns the `count` pauses that last longest.
    func longest(_ count: Int, at now: Date) -> [(recipient: Recipient, until: Date)] {
        guard !until.isEmpty else { return [] }
        let running = until.filter { $0.value > now }.map { (recipient: $0.key, until: $0.value) }
        return Array(
            running.sorted {
                // Texts are made for ties only: this runs each second, for thousands.
                $0.until == $1.until
                    ? $0.recipient.storedForm < $1.recipient.storedForm : $0.until > $1.until
            }.prefix(count)
        )
    }

    // MARK: The heap

    private mutating func removeFirst() {
        guard let first = ends.first else { return }
        if until[first.recipient] == first.time { until[first.recipient] = nil }
        let last = ends.removeLast()
        guard !ends.isEmpty else { return }
        ends[0] = last
        sink(from: 0)
    }

    private mutating func rise(from index: Int) {
        var child = index
        while child > 0, ends[child].time < ends[(child - 1) / 2].time {
            ends.swapAt(child, (child - 1) / 2)
            child = (child - 1) / 2
        }
    }

    private mutating func sink(from index: Int) {
        var parent = index
        while true {
            var least = parent
            for child in [2 * parent + 1, 2 * parent + 2]
            where child < ends.count && ends[child].time < ends[least].time {
                least = child
            }
            guard least != parent else { return }
            ends.swapAt(parent, least)
            parent = least
        }
    }

    /// Rebuilds the heap without outdated entries; a sorted array is a heap.
    private mutating func rebuild() {
        ends = until.map { (time: $0.value, recipient: $0.key) }.sorted { $0.time < $1.time }
    }
}
