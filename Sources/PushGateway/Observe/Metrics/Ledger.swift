internal import PushCore
internal import PushQueue
internal import Synchronization

/// What was accepted since the start and what became of it: the two sides must be equal at any moment of rest.
///
/// accepted + waiting at the start = ended (in each final state) + waiting now. The store reports every commit.
final class Ledger: Sendable {
    private struct Books {
        var waitingAtStart: Int?
        var accepted = 0
        var ended: [DeliveryState: Int] = [:]
        var ignored = 0
    }

    private let books = Mutex(Books())

    /// Notes what was waiting before anything was accepted; without it the difference is not known.
    func begin(waiting: Int) { books.withLock { $0.waitingAtStart = waiting } }

    /// Notes what a commit changed.
    func apply(_ change: StoreChange) {
        books.withLock { books in
            books.accepted += change.accepted
            books.ignored += change.ignored
            for (state, count) in change.ended { books.ended[state, default: 0] += count }
        }
    }

    /// Resolutions that changed nothing since the start.
    var ignored: Int { books.withLock { $0.ignored } }

    /// Deliveries accepted since the start, and how many ended in each final state.
    var totals: (accepted: Int, ended: [DeliveryState: Int]) { books.withLock { ($0.accepted, $0.ended) } }

    /// What is missing, or, below zero, there too often; nil before ``begin(waiting:)``.
    func difference(waiting: Int) -> Int? {
        books.withLock { books in
            books.waitingAtStart.map { $0 + books.accepted - books.ended.values.reduce(0, +) - waiting }
        }
    }
}
