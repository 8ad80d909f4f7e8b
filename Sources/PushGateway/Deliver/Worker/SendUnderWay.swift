internal import PushQueue
internal import Synchronization

/// Whether what a send has to write may still leave this process: while it is under way, as long as its claims hold.
///
/// What a backend starts meanwhile and keeps, such as a task that watches something, inherits the question; after the send it is answered
/// with yes.
final class SendUnderWay: Sendable {
    private let store: any NotificationStore
    private let since: ContinuousClock.Instant
    private let isOver = Atomic(false)

    init(_ store: any NotificationStore, since: ContinuousClock.Instant) { (self.store, self.since) = (store, since) }

    var mayWrite: Bool { isOver.load(ordering: .relaxed) || store.holdsClaims(since: since) }

    func end() { isOver.store(true, ordering: .relaxed) }
}
