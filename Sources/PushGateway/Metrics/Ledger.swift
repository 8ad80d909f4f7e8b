internal import PushCore
internal import Synchronization

/// What was accepted since the start and what became of it: the two sides must be equal at any moment of rest.
///
/// accepted + waiting at the start = ended (in each final state) + waiting now. ``LedgerStore`` keeps the books, where every
/// change passes.
final class Ledger: Sendable {
    private struct Books {
        var waitingAtStart: Int?
        var accepted = 0
        var ended: [DeliveryState: Int] = [:]
    }

    private let books = Mutex(Books())

    /// Notes what was waiting before anything was accepted; without it the difference is not known.
    func begin(waiting: Int) { books.withLock { $0.waitingAtStart = waiting } }

    func accept(_ deliveries: Int) { books.withLock { $0.accepted += deliveries } }

    func end(_ state: DeliveryState, _ count: Int = 1) { books.withLock { $0.ended[state, default: 0] += count } }

    /// Deliveries accepted since the start, and how many ended in each final state.
    var totals: (accepted: Int, ended: [DeliveryState: Int]) { books.withLock { ($0.accepted, $0.ended) } }

    /// What is missing, or, below zero, there too often; nil before ``begin(waiting:)``.
    func difference(waiting: Int) -> Int? {
        books.withLock { books in
            books.waitingAtStart.map { $0 + books.accepted - books.ended.values.reduce(0, +) - waiting }
        }
    }
}
