internal import Foundation
internal import Logging
internal import PushCore
internal import Synchronization

/// The batches of a lane that are with the backend, so that one can be given up.
final class OpenBatches: Sendable {
    private struct Entry {
        let batch: LaneBatch
        let sending: Task<Void, Never>
    }

    private let entries = Mutex<[ObjectIdentifier: Entry]>([:])

    /// Notes a batch and the call that sends it.
    func add(_ batch: LaneBatch, _ sending: Task<Void, Never>) {
        entries.withLock { $0[ObjectIdentifier(batch)] = Entry(batch: batch, sending: sending) }
    }

    /// Forgets a batch whose call has ended.
    func remove(_ batch: LaneBatch) { entries.withLock { $0[ObjectIdentifier(batch)] = nil } }

    /// Takes out the batches of which nothing has been heard since a moment; the others tell when they were heard of last.
    func takeSilent(since moment: Date) -> (silent: [LaneBatch], earliest: Date?) {
        let (silent, earliest) = entries.withLock { entries in
            let silent = entries.filter { $0.value.batch.lastHeard <= moment }
            for key in silent.keys { entries[key] = nil }
            return (Array(silent.values), entries.values.lazy.map(\.batch.lastHeard).min())
        }
        for entry in silent { entry.sending.cancel() }
        return (silent.map(\.batch), earliest)
    }

    /// Cancels every call.
    func cancelAll() {
        for entry in entries.withLock({ Array($0.values) }) { entry.sending.cancel() }
    }
}

extension Lane {
    /// Gives up batches of which the backend says nothing for `queue.lease`, until it is cancelled.
    ///
    /// A claim holds as long as the process lives, so a backend that hangs would keep its window for ever. What it had not
    /// reported counts as sent without an answer, once; what it reports later is ignored.
    func watchForSilence() async {
        let limit = settings.queue.lease
        while !Task.isCancelled {
            let now = around.time.steady
            let (silent, earliest) = open.takeSilent(since: now.addingTimeInterval(-limit.inSeconds))
            for batch in silent { giveUp(batch) }
            let next = (earliest ?? now).addingTimeInterval(limit.inSeconds)
            try? await around.time.sleep(for: .seconds(clamping: max(0.001, next.timeIntervalSince(now))))
        }
    }

    private func giveUp(_ batch: LaneBatch) {
        let unreported = batch.unreported(reason: "no_answer", isRepeatHarmful: backend.isRepeatHarmful)
        guard !unreported.isEmpty else { return }
        around.logger.warning(
            "a backend said nothing for queue.lease and is not waited for any longer",
            metadata: ["backend": "\(name)", "deliveries": "\(unreported.count)"]
        )
        finish(unreported, of: batch)
    }
}
