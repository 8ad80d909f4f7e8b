internal import Synchronization

/// Since when a node has renewed its lease without a gap: what it was kept from by an outage of the database, others
/// were kept from as well.
final class LeaseHealth: Sendable {
    /// The clock is read so often at least, however long the lease is.
    private static let longestPause = Duration.seconds(5)

    private let lease: Duration
    /// How long after a renewal the next one is due.
    let pause: Duration
    /// A renewal that comes later than this after the last one counts as a gap.
    private let longestGap: Duration
    private let state: Mutex<(since: ContinuousClock.Instant, renewed: ContinuousClock.Instant)>

    init(lease: Duration) {
        self.lease = lease
        pause = min(lease / 3, Self.longestPause)
        longestGap = pause * 2
        let now = ContinuousClock.now
        state = Mutex((now, now))
    }

    /// The lease was renewed; one that should have been long before counts as a gap.
    func noteRenewal(at now: ContinuousClock.Instant = .now) {
        state.withLock { state in
            if state.renewed.duration(to: now) > longestGap { state.since = now }
            state.renewed = now
        }
    }

    /// The lease could not be renewed, or those of others say nothing before they are renewed.
    func noteGap(at now: ContinuousClock.Instant = .now) { state.withLock { $0.since = now } }

    /// Whether nobody can have taken this node for dead since a moment: it has renewed its lease without a gap, and a
    /// moment ago.
    func isUnbroken(since moment: ContinuousClock.Instant, at now: ContinuousClock.Instant = .now) -> Bool {
        state.withLock { $0.since <= moment && $0.renewed.duration(to: now) < longestGap }
    }

    /// Whether this node may take others for dead: it has renewed its lease for a whole one without a gap, and a moment
    /// ago.
    var mayJudge: Bool { mayJudge(at: .now) }

    func mayJudge(at now: ContinuousClock.Instant) -> Bool {
        state.withLock { $0.since.duration(to: now) > lease && $0.renewed.duration(to: now) < longestGap }
    }
}
