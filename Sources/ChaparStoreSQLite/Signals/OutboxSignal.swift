import ChaparCore
import Synchronization

/// Wakes calls that wait for entries of a backend.
///
/// The commit loop signals after each commit that made some claimable. A caller that found none waits with the mark
/// that it took before its search, so that no signal in between is missed.
final class OutboxSignal: Sendable {
    private struct Waiter {
        var backend: String
        var until: Int64
        var continuation: CheckedContinuation<Void, Never>
    }

    private struct Contents {
        var marks: [String: UInt64] = [:]
        var waiters: [UInt64: Waiter] = [:]
        var nextWaiter: UInt64 = 0
        var isClosed = false
    }

    private let contents = Mutex(Contents())

    /// Returns how many signals a backend has had.
    func mark(_ backend: String) -> UInt64 { contents.withLock { $0.marks[backend] ?? 0 } }

    /// Wakes calls that wait for these backends: something may be claimable.
    func notify(_ backends: Set<String>) {
        let woken = contents.withLock { contents in
            for backend in backends { contents.marks[backend, default: 0] += 1 }
            return Self.take(&contents) { backends.contains($0.backend) }
        }
        for waiter in woken { waiter.continuation.resume() }
    }

    /// Waits for a signal after a mark, a moment, cancellation or the end.
    ///
    /// `arm` makes sure that ``expire(now:)`` is called at that moment.
    func wait(_ backend: String, since mark: UInt64, until: Int64, arm: (Int64) -> Void) async {
        let id = contents.withLock { contents in
            contents.nextWaiter += 1
            return contents.nextWaiter
        }
        await withTaskCancellationHandler {
            await withCheckedContinuation { continuation in
                let isWaiting = contents.withLock { contents in
                    // Checked inside the lock: a cancellation comes either before this or finds the waiter.
                    if contents.isClosed || Task.isCancelled || contents.marks[backend] ?? 0 != mark { return false }
                    contents.waiters[id] = Waiter(backend: backend, until: until, continuation: continuation)
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
            let woken = Self.take(&contents) { $0.until <= now }
            return (woken, contents.waiters.values.map(\.until).min())
        }
        for waiter in woken { waiter.continuation.resume() }
        return next
    }

    /// Ends every wait, and every later one at once.
    func close() {
        let woken = contents.withLock { contents in
            contents.isClosed = true
            return Self.take(&contents) { _ in true }
        }
        for waiter in woken { waiter.continuation.resume() }
    }

    private static func take(_ contents: inout Contents, where isTaken: (Waiter) -> Bool) -> [Waiter] {
        guard !contents.waiters.isEmpty else { return [] }
        let taken = contents.waiters.filter { isTaken($0.value) }
        for id in taken.keys { contents.waiters[id] = nil }
        return Array(taken.values)
    }
}
