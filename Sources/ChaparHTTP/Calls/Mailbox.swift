import ChaparCore
import Synchronization

/// The mailbox in which callers on any thread leave batches for a pool's event loop, with the pool's last status.
///
/// It is emptied at the loop's next turn; every batch in it has a waiting caller, so it needs no limit of its own.
final class Mailbox: Sendable {
    private struct Contents {
        var batches: [Batch] = []
        var calls = 0
        var isAwaited = false
        var status = HTTPPoolStatus()
    }

    private let contents = Mutex(Contents())

    /// Adds a batch; returns true when the caller must wake the loop.
    ///
    /// One wake-up serves all batches added before the next turn.
    func put(_ batch: Batch) -> Bool {
        contents.withLock { contents in
            contents.batches.append(batch)
            contents.calls += batch.calls.count
            defer { contents.isAwaited = true }
            return !contents.isAwaited
        }
    }

    /// Removes and returns all batches.
    func drain() -> [Batch] {
        contents.withLock { contents in
            contents.isAwaited = false
            contents.calls = 0
            var drained: [Batch] = []
            swap(&drained, &contents.batches)
            return drained
        }
    }

    /// The pool's last status; calls in the mailbox count as waiting.
    var status: HTTPPoolStatus {
        contents.withLock { contents in
            var status = contents.status
            status.waiting += contents.calls
            return status
        }
    }

    /// Publishes a status.
    func publish(_ status: HTTPPoolStatus) { contents.withLock { $0.status = status } }
}
