package import ChaparComposition

/// The state of an outbox entry.
package enum OutboxEntryState: String, Sendable, CaseIterable {
    /// An older entry of the same device at the same backend has not ended.
    case blocked
    /// It is the first of its device and backend, and not yet due.
    case waiting
    /// It can be claimed.
    case due
    /// A worker has it under a lease.
    case claimed
    /// The platform took or refused it, or it was tried too often; it is no longer in the store.
    case ended
    /// It was removed before it was sent; it is no longer in the store.
    case cancelled
}

/// An event that moves an outbox entry from one state to another.
package enum OutboxEntryEvent: String, Sendable, CaseIterable {
    case enqueue, unblock, due, claim, retry, release, lapse, end
    case lateEnd = "late end"
    case cancel
}

extension OutboxEntryState {
    /// The states of an entry and the events between them, obeyed by every store and shown in `docs/States.md`.
    package static let transitions = StateTable<OutboxEntryState, OutboxEntryEvent>([
        .init(
            .enqueue,
            to: [.due, .blocked],
            "it was kept: at once due, or behind an older entry of its device at the backend"
        ),
        .init(.unblock, from: [.blocked], to: [.due], "the older entry ended or was cancelled"),
        .init(.claim, from: [.due], to: [.claimed], "a worker took it under a lease"),
        .init(
            .retry,
            from: [.claimed],
            to: [.waiting, .due],
            "its owner tried it, and asks for another attempt at a time"
        ),
        .init(.due, from: [.waiting], to: [.due], "that time has come"),
        .init(.release, from: [.claimed], to: [.due], "its owner did not try it"),
        .init(.lapse, from: [.claimed], to: [.due], "the lease is over: its owner may have tried it"),
        .init(.end, from: [.claimed], to: [.ended], "its owner says that it is over"),
        .init(
            .lateEnd,
            from: [.waiting, .due],
            to: [.ended],
            "an owner whose lease has ended says so while no other owner has it: an owner may still call the platform before the next entry"
        ),
        .init(
            .cancel,
            from: [.blocked, .waiting, .due, .claimed],
            to: [.cancelled],
            "what waits for its backend was removed; one that is claimed may still reach the platform"
        ),
    ])
}

extension OutboxResult.Ending {
    /// Returns the event for an entry; nil when the result of an owner without a lease does not count.
    package func event(isLeased: Bool) -> OutboxEntryEvent? {
        switch self {
        case .end: isLeased ? .end : .lateEnd
        case .retry: isLeased ? .retry : nil
        case .release: isLeased ? .release : nil
        }
    }
}
