import Foundation
import ChaparCore
import ChaparQueue
import Synchronization

/// The newest events, in memory, and the readers that wait for the next one.
///
/// The writer appends after each commit; readers that keep up never touch the disk.
final class EventFeed: Sendable {
    private struct Waiter {
        var after: Int64
        var until: Int64
        var continuation: CheckedContinuation<Void, Never>
    }

    private struct Contents {
        var events: [[UInt8]] = []
        var start = 0
        var last: Int64
        var waiters: [UInt64: Waiter] = [:]
        var nextWaiter: UInt64 = 0
        var isClosed = false

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
    private let contents: Mutex<Contents>

    init(last: Int64, capacity: Int) {
        self.capacity = capacity
        contents = Mutex(Contents(last: last))
    }

    /// The number of the newest event.
    var last: Int64 { contents.withLock { $0.last } }

    /// Appends committed events, and wakes readers that wait for them.
    func append(_ events: [[UInt8]]) {
        guard !events.isEmpty else { return }
        let woken = contents.withLock { contents -> [Waiter] in
            contents.last = contents.last.adding(clamping: Int64(events.count))
            contents.events.append(contentsOf: events)
            contents.start = max(contents.start, contents.events.count - capacity)
            if contents.start > capacity {
                contents.events.removeFirst(contents.start)
                contents.start = 0
            }
            let last = contents.last
            return Self.takeWaiters(&contents) { $0.after < last }
        }
        for waiter in woken { waiter.continuation.resume() }
    }

    /// Returns events above `after`, when memory has all of them; nil when older ones are needed.
    func read(after: Int64, limit: Int) -> [StoredEvent]? {
        contents.withLock { contents in
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
        contents.withLock { contents in
            contents.events.indices.dropFirst(contents.start).map {
                StoredEvent(number: contents.number(at: $0), json: contents.events[$0])
            }
        }
    }

    /// Replaces the events with these numbers, as far as they are still in memory.
    func replace(_ others: [Int64: [UInt8]]) {
        contents.withLock { contents in
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
        let id = contents.withLock { contents in
            contents.nextWaiter += 1
            return contents.nextWaiter
        }
        await withTaskCancellationHandler {
            await withCheckedContinuation { continuation in
                let isWaiting = contents.withLock { contents in
                    // Checked inside the lock: a cancellation comes either before this or finds the waiter.
                    if contents.last > after || contents.isClosed || Task.isCancelled { return false }
                    contents.waiters[id] = Waiter(after: after, until: until, continuation: continuation)
                    return true
                }
                if isWaiting { arm(until) } else { continuation.resume() }
            }
        } onCancel: {
            contents.withLock { $0.waiters.removeValue(forKey: id) }?.continuation.resume()
        }
    }

    /// Ends the waits whose moment has come.
    ///
    /// Returns when the next one ends.
    func expire(now: Int64) -> Int64? {
        let (woken, next) = contents.withLock { contents in
            guard !contents.waiters.isEmpty else { return ([Waiter](), Int64?.none) }
            let woken = Self.takeWaiters(&contents) { $0.until <= now }
            return (woken, contents.waiters.values.map(\.until).min())
        }
        for waiter in woken { waiter.continuation.resume() }
        return next
    }

    /// Ends every wait, and every later one at once.
    func close() {
        let woken = contents.withLock { contents in
            contents.isClosed = true
            return Self.takeWaiters(&contents) { _ in true }
        }
        for waiter in woken { waiter.continuation.resume() }
    }

    private static func takeWaiters(_ contents: inout Contents, where isTaken: (Waiter) -> Bool) -> [Waiter] {
        guard !contents.waiters.isEmpty else { return [] }
        let taken = contents.waiters.filter { isTaken($0.value) }
        for id in taken.keys { contents.waiters[id] = nil }
        return Array(taken.values)
    }
}
