package import Foundation
internal import Synchronization

/// A signal that wakes tasks which wait for a change by another task.
///
/// The package has no other way to wake tasks. A waiter reads ``mark``, checks its condition, and waits for a signal
/// after the mark, so that a signal between the check and the wait is not lost. A signal wakes every waiter.
package final class AsyncSignal: Sendable {
    /// A position in the sequence of signals.
    package struct Mark: Hashable, Sendable {
        fileprivate var count: UInt64 = 0

        /// The position before the first signal.
        package static let start = Mark()
    }

    private struct State {
        var last = Mark.start
        var waiters: [UInt64: CheckedContinuation<Void, Never>] = [:]
        var nextWaiter: UInt64 = 0
    }

    private let state = Mutex(State())

    package init() {}

    /// The position of the last signal.
    package var mark: Mark { state.withLock { $0.last } }

    /// Wakes every waiter whose mark is older.
    package func signal() {
        let waiters = state.withLock { state in
            state.last.count += 1
            defer { state.waiters.removeAll() }
            return Array(state.waiters.values)
        }
        for waiter in waiters { waiter.resume() }
    }

    /// Waits for a signal after `mark`, or until the task is cancelled.
    package func wait(after mark: Mark) async {
        let id = state.withLock { state in
            state.nextWaiter += 1
            return state.nextWaiter
        }
        await withTaskCancellationHandler {
            await suspend(id, after: mark, unlessCancelled: true)
        } onCancel: {
            state.withLock { $0.waiters.removeValue(forKey: id) }?.resume()
        }
    }

    /// Waits for a signal after `mark`, even when the task is cancelled: for work that must be finished.
    package func waitThroughCancellation(after mark: Mark) async {
        let id = state.withLock { state in
            state.nextWaiter += 1
            return state.nextWaiter
        }
        await suspend(id, after: mark, unlessCancelled: false)
    }

    private func suspend(_ id: UInt64, after mark: Mark, unlessCancelled: Bool) async {
        await withCheckedContinuation { continuation in
            let isWaiting = state.withLock { state in
                // Read under the lock: a cancellation either comes before this or finds the waiter.
                if state.last != mark || unlessCancelled && Task.isCancelled { return false }
                state.waiters[id] = continuation
                return true
            }
            if !isWaiting { continuation.resume() }
        }
    }

    /// Waits for a signal after `mark`, for at most `span`; ends early when the task is cancelled.
    package func wait(after mark: Mark, atMost span: Duration, _ time: any TimeSource) async {
        await wait(after: mark) { try await time.sleep(for: span) }
    }

    /// Waits for a signal after `mark`, at most until a steady time; ends early when the task is cancelled.
    package func wait(after mark: Mark, until end: Date, _ time: any TimeSource) async {
        await wait(after: mark) { try await time.sleep(until: end) }
    }

    private func wait(after mark: Mark, orUntil sleep: @escaping @Sendable () async throws -> Void) async {
        guard self.mark == mark else { return }
        await withTaskGroup(of: Void.self) { group in
            group.addTask { try? await sleep() }  // Cancelled when the signal was first.
            group.addTask { await self.wait(after: mark) }
            await group.next()
            group.cancelAll()
        }
    }
}
