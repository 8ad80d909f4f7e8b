internal import Foundation
internal import ChaparCore
internal import Synchronization

/// The batches of a worker that are with the backend, so that a batch can be given up.
///
/// Batches have numbers and are given up in that order: two runs of one simulation must not differ.
final class OpenBatches: Sendable {
    /// A batch and the call that sends it.
    struct Entry {
        let batch: WorkerBatch
        let sending: Task<Void, Never>
    }

    private struct State {
        var lastNumber = 0
        var entries: [Int: Entry] = [:]
        /// The tasks that wait for calls to end, and the calls that ended before a task waited.
        var waiters: [Int: CheckedContinuation<Void, Never>] = [:]
        var ended: Set<Int> = []
        var isAbandoned = false
    }

    private let state = Mutex(State())

    /// Returns the number of a new batch.
    func nextNumber() -> Int {
        state.withLock { state in
            state.lastNumber += 1
            return state.lastNumber
        }
    }

    /// Adds a batch and the call that sends it, which reports its end to ``end(_:)``.
    func add(_ batch: WorkerBatch, _ sending: Task<Void, Never>) {
        state.withLock { $0.entries[batch.number] = Entry(batch: batch, sending: sending) }
    }

    /// Removes a batch whose call has ended or was abandoned.
    func remove(_ batch: WorkerBatch) { state.withLock { $0.entries[batch.number] = nil } }

    /// Records that the call of a batch has ended.
    func end(_ batch: WorkerBatch) {
        let id = batch.number
        let waiter = state.withLock { state in
            let waiter = state.waiters.removeValue(forKey: id)
            if waiter == nil { state.ended.insert(id) }
            return waiter
        }
        waiter?.resume()
    }

    /// Waits until the call of a batch has ended, or all are abandoned.
    func wait(for batch: WorkerBatch) async {
        let id = batch.number
        await withCheckedContinuation { continuation in
            let isOver = state.withLock { state in
                if state.ended.remove(id) != nil || state.isAbandoned { return true }
                state.waiters[id] = continuation
                return false
            }
            if isOver { continuation.resume() }
        }
    }

    /// Removes and returns the batches without a report since a moment; `earliest` is the earliest last report of the
    /// other batches.
    ///
    /// Their calls go on. The caller must first decide about unreported messages, since a cancelled call may report or
    /// end at once.
    func removeHanging(since moment: Date) -> (hanging: [Entry], earliest: Date?) {
        state.withLock { state in
            let hanging = state.entries.values.filter { $0.batch.lastReport <= moment }
                .sorted { $0.batch.number < $1.batch.number }
            for entry in hanging { state.entries[entry.batch.number] = nil }
            return (hanging, state.entries.values.lazy.map(\.batch.lastReport).min())
        }
    }

    /// Cancels every call.
    func cancelAll() {
        let entries = state.withLock { $0.entries.sorted { $0.key < $1.key } }
        for (_, entry) in entries { entry.sending.cancel() }
    }

    /// Resumes all waiting tasks: a backend may ignore cancellation.
    func abandon() {
        let waiters = state.withLock { state in
            state.isAbandoned = true
            defer { state.waiters = [:] }
            return state.waiters.sorted { $0.key < $1.key }
        }
        for (_, waiter) in waiters { waiter.resume() }
    }
}
