internal import PushCore
internal import Synchronization

/// Wakes the calls that wait for work in the outbox, when this node commits some, and tells other nodes.
///
/// Waiting calls also look once in ``poll``: nothing is lost when nobody is told.
final class OutboxSignals: Sendable {
    /// How often a waiting call looks.
    static let poll = Duration.seconds(1)

    /// Raised when changes were added.
    let changes = AsyncSignal()
    private let backends = Mutex<[String: AsyncSignal]>([:])
    private let announcer: Announcer

    init(_ announcer: Announcer) { self.announcer = announcer }

    /// Raised when entries of a backend may have become claimable.
    func entries(of backend: String) -> AsyncSignal {
        backends.withLock { backends in
            if let known = backends[backend] { return known }
            let new = AsyncSignal()
            backends[backend] = new
            return new
        }
    }

    /// There are changes, when there are some, and entries of backends.
    func raise(changes isChanged: Bool = false, entriesOf names: some Sequence<String> = []) {
        if isChanged {
            changes.signal()
            announcer.announce(.changes)
        }
        for name in names {
            entries(of: name).signal()
            announcer.announce(.entries(backend: name))
        }
    }

    /// Lets everybody on this node look: something may have been missed, or the store is closed.
    func raiseAll() {
        changes.signal()
        for signal in backends.withLock({ Array($0.values) }) { signal.signal() }
    }
}

/// The claims of this node that are not over, so that a node that ends in good order gives back what it did not finish.
///
/// Other nodes wait for the end of the leases of a node that does not.
final class OutboxLeases: Sendable {
    private struct Lease {
        var attempt: Int64
        var end: Int64
    }

    /// With so many known ones, those that have lapsed are forgotten.
    private static let sweep = 10_000

    private let leases = Mutex<[Int64: Lease]>([:])

    /// Adds claims whose leases end at a time, in milliseconds.
    func add(_ claims: [(number: Int64, attempt: Int)], until end: Int64, now: Int64) {
        leases.withLock { leases in
            if leases.count > Self.sweep { leases = leases.filter { $0.value.end > now } }
            for claim in claims { leases[claim.number] = Lease(attempt: Int64(claim.attempt), end: end) }
        }
    }

    /// Forgets claims that are over.
    func remove(_ numbers: some Sequence<Int64>) {
        leases.withLock { leases in for number in numbers { leases[number] = nil } }
    }

    /// All of them, which it forgets.
    func takeAll() -> [(number: Int64, attempt: Int64)] {
        leases.withLock { leases in
            defer { leases.removeAll() }
            return leases.map { ($0.key, $0.value.attempt) }
        }
    }
}
