import Foundation
import ChaparCore
import ChaparQueue

/// The newest events, in memory, and the readers that wait for the next one.
///
/// The writer appends after each commit; readers that keep up never touch the disk.
final class EventFeed: Sendable {
    private struct Contents: Sendable {
        var events: [[UInt8]] = []
        var start = 0
        var last: Int64

        /// Returns the number of the event at an index of ``events``.
        func number(at place: Int) -> Int64 { first.adding(clamping: Int64(place - start)) }

        /// Returns the index of an event in ``events``; an index beyond them for other numbers.
        func place(of number: Int64) -> Int {
            Int(count: number.subtracting(clamping: first).adding(clamping: Int64(start)))
        }

        /// The number of the oldest event in memory.
        var first: Int64 { last.subtracting(clamping: Int64(events.count - start)).adding(clamping: 1) }
    }

    private let capacity: Int
    /// The events, and the readers, each of which waits for an event above a number.
    private let waiters: TimedWaiters<Contents, Int64>

    init(last: Int64, capacity: Int) {
        self.capacity = capacity
        waiters = TimedWaiters(Contents(last: last))
    }

    /// The number of the newest event.
    var last: Int64 { waiters.withState { $0.last } }

    /// Appends committed events, and wakes readers that wait for them.
    func append(_ events: [[UInt8]]) {
        guard !events.isEmpty else { return }
        waiters.change { contents in
            contents.last = contents.last.adding(clamping: Int64(events.count))
            contents.events.append(contentsOf: events)
            contents.start = max(contents.start, contents.events.count - capacity)
            if contents.start > capacity {
                contents.events.removeFirst(contents.start)
                contents.start = 0
            }
        } waking: { contents, after in
            after < contents.last
        }
    }

    /// Returns events above `after`, when memory has all of them; nil when older ones are needed.
    func read(after: Int64, limit: Int) -> [StoredEvent]? {
        waiters.withState { contents in
            if after >= contents.last { return [] }
            let next = after.adding(clamping: 1)
            guard next >= contents.first else { return nil }
            return contents.events[contents.place(of: next)...].prefix(max(0, limit)).indices.map {
                StoredEvent(number: contents.number(at: $0), json: contents.events[$0])
            }
        }
    }

    /// Returns all events in memory.
    func newest() -> [StoredEvent] {
        waiters.withState { contents in
            contents.events.indices.dropFirst(contents.start).map {
                StoredEvent(number: contents.number(at: $0), json: contents.events[$0])
            }
        }
    }

    /// Replaces the events with these numbers, as far as they are still in memory.
    func replace(_ others: [Int64: [UInt8]]) {
        waiters.withState { contents in
            for (number, event) in others where number >= contents.first && number <= contents.last {
                contents.events[contents.place(of: number)] = event
            }
            // Events that are no longer kept are still in the array until it is cleared.
            for index in 0..<contents.start { contents.events[index] = [] }
        }
    }

    /// Waits for an event above `after` until a moment, for cancellation or for the end of the feed.
    ///
    /// `arm` makes sure that ``expire(now:)`` is called at that moment.
    func wait(after: Int64, until: Int64, arm: (Int64) -> Void) async {
        await waiters.wait(for: after, until: until, unless: { $0.last > after }, arm: arm)
    }

    /// Ends the waits whose moment has come.
    ///
    /// Returns when the next one ends.
    func expire(now: Int64) -> Int64? { waiters.expire(now: now) }

    /// Ends every wait, and every later one at once.
    func close() { waiters.close() }
}
