internal import ChaparCore
internal import Synchronization

/// Wakes calls that wait for work in the outbox when this node commits some, and notifies other nodes.
///
/// Waiting calls also search once in ``poll``: a lost notification only delays work.
final class OutboxSignals: Sendable {
    /// The interval at which a waiting call searches.
    static let poll = Duration.seconds(1)

    /// The signal for new changes.
    let changes = AsyncSignal()
    private let backends = Mutex<[String: AsyncSignal]>([:])
    private let announcer: Announcer

    init(_ announcer: Announcer) { self.announcer = announcer }

    /// Returns the signal for entries of a backend that may have become claimable.
    func entries(of backend: String) -> AsyncSignal {
        backends.withLock { backends in
            if let known = backends[backend] { return known }
            let new = AsyncSignal()
            backends[backend] = new
            return new
        }
    }

    /// Signals new changes, if `isChanged`, and claimable entries of backends.
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

    /// Wakes all waiting calls of this node: a notification may have been missed, or the store is closed.
    func raiseAll() {
        changes.signal()
        for signal in backends.withLock({ Array($0.values) }) { signal.signal() }
    }
}
