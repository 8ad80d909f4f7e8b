import PushCore
import Synchronization

/// Where callers on any thread leave batches for a pool's event loop, and read what the pool is doing.
///
/// It is emptied at the loop's next turn; every batch in it has a caller that waits, so it needs no bound of its own.
final class Mailbox: Sendable {
    private struct Contents {
        var batches: [Batch] = []
        var calls = 0
        var isAwaited = false
        var status = HTTPPoolStatus()
    }

    private let contents = Mutex(Contents())

    /// Leaves a batch; true when the caller must wake the loop, which one wake-up does for all that come before.
    func put(_ batch: Batch) -> Bool {
        contents.withLock { contents in
            contents.batches.append(batch)
            contents.calls += batch.calls.count
            defer { contents.isAwaited = true }
            return !contents.isAwaited
        }
    }

    /// Takes everything out.
    func drain() -> [Batch] {
        contents.withLock { contents in
            contents.isAwaited = false
            contents.calls = 0
            var drained: [Batch] = []
            swap(&drained, &contents.batches)
            return drained
        }
    }

    /// What the pool said last; calls in the mailbox count as waiting.
    var status: HTTPPoolStatus {
        contents.withLock { contents in
            var status = contents.status
            status.waiting += contents.calls
            return status
        }
    }

    /// Makes a status visible.
    func publish(_ status: HTTPPoolStatus) { contents.withLock { $0.status = status } }
}
