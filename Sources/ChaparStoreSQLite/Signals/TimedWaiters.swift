import Synchronization

/// A state under a lock, and the calls that wait until it fulfils their wish, or until a moment.
///
/// A wish is checked under the lock when a call begins to wait, so no change in between is missed. Moments are those
/// of the store's clock; the commit loop calls ``expire(now:)`` when they come.
final class TimedWaiters<State: Sendable, Wish: Sendable>: Sendable {
    private struct Waiter: Sendable {
        var wish: Wish
        var until: Int64
        var continuation: CheckedContinuation<Void, Never>
    }

    private struct Contents: Sendable {
        var state: State
        var waiters: [UInt64: Waiter] = [:]
        var nextWaiter: UInt64 = 0
        var isClosed = false

        mutating func take(where isTaken: (Waiter) -> Bool) -> [Waiter] {
            guard !waiters.isEmpty else { return [] }
            let taken = waiters.filter { isTaken($0.value) }
            for id in taken.keys { waiters[id] = nil }
            return Array(taken.values)
        }
    }

    private let contents: Mutex<Contents>

    init(_ state: State) { contents = Mutex(Contents(state: state)) }

    /// Reads or changes the state under the lock; wakes no call.
    func withState<Value: Sendable>(_ body: (inout State) -> Value) -> Value {
        contents.withLock { body(&$0.state) }
    }

    /// Changes the state, and wakes the calls whose wish it fulfils then.
    func change(_ body: (inout State) -> Void, waking isFulfilled: (State, Wish) -> Bool) {
        let woken = contents.withLock { contents -> [Waiter] in
            body(&contents.state)
            guard !contents.waiters.isEmpty else { return [] }
            let state = contents.state
            return contents.take { isFulfilled(state, $0.wish) }
        }
        for waiter in woken { waiter.continuation.resume() }
    }

    /// Waits until a change fulfils the wish, a moment, cancellation or the end; returns at once when `isFulfilled`.
    ///
    /// `arm` makes sure that ``expire(now:)`` is called at that moment.
    func wait(for wish: Wish, until moment: Int64, unless isFulfilled: (State) -> Bool, arm: (Int64) -> Void) async {
        let id = contents.withLock { contents in
            contents.nextWaiter += 1
            return contents.nextWaiter
        }
        await withTaskCancellationHandler {
            await withCheckedContinuation { continuation in
                let isWaiting = contents.withLock { contents in
                    // Checked inside the lock: a cancellation comes either before this or finds the waiter.
                    if contents.isClosed || Task.isCancelled || isFulfilled(contents.state) { return false }
                    contents.waiters[id] = Waiter(wish: wish, until: moment, continuation: continuation)
                    return true
                }
                if isWaiting { arm(moment) } else { continuation.resume() }
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
            let woken = contents.take { $0.until <= now }
            return (woken, contents.waiters.values.map(\.until).min())
        }
        for waiter in woken { waiter.continuation.resume() }
        return next
    }

    /// Ends every wait, and every later one at once.
    func close() {
        let woken = contents.withLock { contents in
            contents.isClosed = true
            return contents.take { _ in true }
        }
        for waiter in woken { waiter.continuation.resume() }
    }
}
