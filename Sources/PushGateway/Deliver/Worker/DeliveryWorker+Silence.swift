internal import Foundation
internal import Logging
internal import PushCore
internal import Synchronization

/// The batches of a worker that are with the backend, so that one can be given up.
///
/// They have numbers, and several are given up in the order of these: two runs of one simulation must not differ.
final class OpenBatches: Sendable {
    private struct Entry {
        let batch: WorkerBatch
        let sending: Task<Void, Never>
    }

    private struct State {
        var lastNumber = 0
        var entries: [Int: Entry] = [:]
        /// Those who wait for calls to end, and the calls that ended before somebody waited.
        var waiters: [Int: CheckedContinuation<Void, Never>] = [:]
        var ended: Set<Int> = []
        var isAbandoned = false
    }

    private let state = Mutex(State())

    /// The number of a new batch.
    func nextNumber() -> Int {
        state.withLock { state in
            state.lastNumber += 1
            return state.lastNumber
        }
    }

    /// Notes a batch and the call that sends it, which says its end to ``end(_:)``.
    func add(_ batch: WorkerBatch, _ sending: Task<Void, Never>) {
        state.withLock { $0.entries[batch.number] = Entry(batch: batch, sending: sending) }
    }

    /// Forgets a batch whose call has ended or was abandoned.
    func remove(_ batch: WorkerBatch) { state.withLock { $0.entries[batch.number] = nil } }

    /// The call of a batch has ended.
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

    /// Takes out the batches that have reported nothing since a moment; `earliest` is the last report of the others.
    func removeSilent(since moment: Date) -> (silent: [WorkerBatch], earliest: Date?) {
        let (silent, earliest) = state.withLock { state in
            let silent = state.entries.values.filter { $0.batch.lastHeard <= moment }
                .sorted { $0.batch.number < $1.batch.number }
            for entry in silent { state.entries[entry.batch.number] = nil }
            return (silent, state.entries.values.lazy.map(\.batch.lastHeard).min())
        }
        for entry in silent { entry.sending.cancel() }
        return (silent.map(\.batch), earliest)
    }

    /// Cancels every call.
    func cancelAll() {
        let entries = state.withLock { $0.entries.sorted { $0.key < $1.key } }
        for (_, entry) in entries { entry.sending.cancel() }
    }

    /// Lets nobody wait any longer: a backend may be deaf to cancellation.
    func abandon() {
        let waiters = state.withLock { state in
            state.isAbandoned = true
            defer { state.waiters = [:] }
            return state.waiters.sorted { $0.key < $1.key }
        }
        for (_, waiter) in waiters { waiter.resume() }
    }
}

extension DeliveryWorker {
    /// Gives up batches of which the backend says nothing for `queue.lease`, until it is cancelled.
    ///
    /// A claim holds as long as the process lives, so a backend that hangs would keep its window for ever. What it had not
    /// reported counts as sent without an answer, once; what it reports later is ignored.
    func watchForSilence() async {
        let limit = settings.queue.lease
        while !Task.isCancelled {
            let now = dependencies.time.steady
            let (silent, earliest) = open.removeSilent(since: now.addingTimeInterval(-limit.inSeconds))
            for batch in silent { giveUp(batch) }
            let next = (earliest ?? now).addingTimeInterval(limit.inSeconds)
            try? await dependencies.time.sleep(for: .seconds(clamping: max(0.001, next.timeIntervalSince(now))))
        }
    }

    private func giveUp(_ batch: WorkerBatch) {
        let unreported = batch.unreported(reason: "no_answer", isRepeatHarmful: backend.isRepeatHarmful)
        guard !unreported.isEmpty else { return }
        dependencies.logger.warning(
            "a backend said nothing for queue.lease and is not waited for any longer",
            metadata: ["backend": "\(name)", "deliveries": "\(unreported.count)"]
        )
        finish(unreported, of: batch)
    }
}
