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
