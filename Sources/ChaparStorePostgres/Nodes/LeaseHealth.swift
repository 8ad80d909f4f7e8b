internal import Synchronization

/// The time since which a node has renewed its lease without a gap.
///
/// An outage of the database keeps all nodes from renewing, so a node judges no other one before it has renewed for a
/// whole lease itself.
final class LeaseHealth: Sendable {
    /// The longest time between two readings of the clock, however long the lease is.
    private static let longestPause = Duration.seconds(5)

    private let lease: Duration
    /// The time from a renewal to the next one.
    let pause: Duration
    /// The longest time between two renewals that is no gap.
    private let longestGap: Duration
    private let state: Mutex<(since: ContinuousClock.Instant, renewed: ContinuousClock.Instant)>

    init(lease: Duration) {
        self.lease = lease
        pause = min(lease / 3, Self.longestPause)
        longestGap = pause * 2
        let now = ContinuousClock.now
        state = Mutex((now, now))
    }

    /// Records a renewal; one that comes too long after the last counts as a gap.
    func noteRenewal(at now: ContinuousClock.Instant = .now) {
        state.withLock { state in
            if state.renewed.duration(to: now) > longestGap { state.since = now }
            state.renewed = now
        }
    }

    /// Records a gap: the lease could not be renewed, or the leases of others are meaningless until they are renewed.
    func noteGap(at now: ContinuousClock.Instant = .now) { state.withLock { $0.since = now } }

    /// Whether no node can have declared this one dead since a moment: it has renewed its lease without a gap, and
    /// recently.
    func isUnbroken(since moment: ContinuousClock.Instant, at now: ContinuousClock.Instant = .now) -> Bool {
        state.withLock { $0.since <= moment && $0.renewed.duration(to: now) < longestGap }
    }

    /// Whether this node may declare others dead: it has renewed its lease without a gap for a whole lease, and
    /// recently.
    var mayJudge: Bool { mayJudge(at: .now) }

    func mayJudge(at now: ContinuousClock.Instant) -> Bool {
        state.withLock { $0.since.duration(to: now) > lease && $0.renewed.duration(to: now) < longestGap }
    }
}
