internal import PushCore
internal import Synchronization

/// Lets tasks wait until something may have changed.
///
/// A waiter reads ``generation``, looks, and waits for a later generation: a change between the look and the wait is not missed.
final class WakeSignal: Sendable {
    private struct State {
        var generation: UInt64 = 0
        var nextWaiter: UInt64 = 0
        var waiters: [UInt64: CheckedContinuation<Void, Never>] = [:]
    }

    private let state = Mutex(State())

    /// How often it was raised.
    var generation: UInt64 { state.withLock { $0.generation } }

    /// Wakes all who wait.
    func raise() {
        let waiters = state.withLock { state in
            state.generation += 1
            defer { state.waiters.removeAll() }
            return state.waiters.values.map { $0 }
        }
        for waiter in waiters { waiter.resume() }
    }

    /// Waits until it was raised after a generation, at most for a span by the clock; returns at once when the task is cancelled.
    func wait(after seen: UInt64, for span: Duration, by time: any TimeSource) async {
        guard generation == seen, span > .zero, !Task.isCancelled else { return }
        await withTaskGroup { group in
            group.addTask { await self.wait(after: seen) }
            // It throws when the task is cancelled: the wait is over then too.
            group.addTask { try? await time.sleep(for: span) }
            await group.next()
            group.cancelAll()
        }
    }

    private func wait(after seen: UInt64) async {
        let number = state.withLock { state in
            state.nextWaiter += 1
            return state.nextWaiter
        }
        await withTaskCancellationHandler {
            await withCheckedContinuation { continuation in
                let isOver = state.withLock { state in
                    // A cancellation comes to `onCancel` before or after this; when before, the task is cancelled by now.
                    if state.generation != seen || Task.isCancelled { return true }
                    state.waiters[number] = continuation
                    return false
                }
                if isOver { continuation.resume() }
            }
        } onCancel: {
            state.withLock { $0.waiters.removeValue(forKey: number) }?.resume()
        }
    }
}
