package import ChaparCore
package import ChaparQueue
internal import Synchronization

/// The accepted deliveries since the start and their ends: the two sides must be equal whenever nothing is under way.
///
/// accepted + waiting at the start = ended (in each final state) + waiting now. The store reports every commit.
package final class Ledger: Sendable {
    private struct Books {
        var waitingAtStart: Int?
        var accepted = 0
        var ended: [DeliveryState: Int] = [:]
        var ignored = 0
    }

    private let books = Mutex(Books())

    /// Records the number of deliveries that waited before any was accepted; the difference is unknown without it.
    package func begin(waiting: Int) { books.withLock { $0.waitingAtStart = waiting } }

    /// Adds the changes of a commit.
    package func apply(_ change: StoreChange) {
        books.withLock { books in
            books.accepted += change.accepted
            books.ignored += change.ignored
            for (state, count) in change.ended { books.ended[state, default: 0] += count }
        }
    }

    /// The number of resolutions since the start that changed nothing.
    package var ignored: Int { books.withLock { $0.ignored } }

    /// The number of deliveries accepted since the start, and of those that ended in each final state.
    package var totals: (accepted: Int, ended: [DeliveryState: Int]) { books.withLock { ($0.accepted, $0.ended) } }

    /// Returns the number of missing deliveries, negative if there are too many; nil before ``begin(waiting:)``.
    package func difference(waiting: Int) -> Int? {
        books.withLock { books in
            books.waitingAtStart.map { $0 + books.accepted - books.ended.values.reduce(0, +) - waiting }
        }
    }
}
