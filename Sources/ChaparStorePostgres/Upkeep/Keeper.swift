internal import Foundation
internal import Logging
internal import ChaparCore
internal import ChaparQueue
internal import Synchronization

/// The upkeep of the store: the partitions of the days to come, the claims of dead nodes, the changes by other nodes.
struct Keeper {
    /// The number of days ahead for which partitions are made.
    private static let daysAhead: Int64 = 2
    /// The interval of searches for claims whose answers were lost a while ago, and for old snapshots.
    private static let searchInterval = Duration.seconds(60)

    let core: StoreCore
    private var orphans = OrphanedClaims()
    private var handOver = HandOver()
    /// The end of the first of the other nodes' leases, unless it is renewed before.
    private var nextEnd: ContinuousClock.Instant?
    /// The pause between rounds, which ends early when a node joins.
    private let pace: RoundPace

    init(_ core: StoreCore) {
        self.core = core
        pace = RoundPace(core.nodeJoined)
    }

    /// Does what must be done before work is taken, once the node has its place.
    ///
    /// Claims of other nodes are left alone until the node has renewed its lease for a while, see ``run()``.
    mutating func begin() async throws(PostgresError) {
        try await core.followWallClock()
        try await ClockShift(core).run(within: core.options.nodeLease / 3)
        try await makePartitions()
        try await readNodes()
    }

    /// Returns the pause before the next round: a third of the lease, or until another node's lease ends.
    static func pause(
        _ third: Duration,
        until nextEnd: ContinuousClock.Instant?,
        at now: ContinuousClock.Instant = .now
    ) -> Duration {
        guard let left = nextEnd.map({ now.duration(to: $0) }) else { return third }
        // A little later, since it may be renewed by then; one that has ended may not be judged yet.
        return min(third, left > .zero ? left + .milliseconds(50) : .seconds(1))
    }

    /// Reads the flows that other nodes have made, and when their leases end.
    private mutating func readNodes() async throws(PostgresError) {
        try await WaitingEstimate(core).refresh()
        let left = try await core.keeper.session { [core] (db) throws(PostgresError) in
            try core.flows.read(db)
            try Announcer.forgetOld(db)
            let nodes = try db.run(
                """
                SELECT count(*) > 1, (extract(epoch FROM min(lease_until) FILTER (WHERE number <> $1) - clock_timestamp()) * 1000)::bigint,
                    count(*) FILTER (WHERE lease_until > clock_timestamp())
                FROM chapar.nodes
                """,
                [.integer(core.nodeNumber)]
            )
            core.announcer.hasPeers = nodes.bool(0, 0)
            let alive = max(1, nodes.integer(0, 2) ?? 1)
            core.waitingCount.withLock { $0.nodes = alive }
            db.isNew.store(false, ordering: .releasing)
            return nodes.integer(0, 1)
        }
        nextEnd = left.map { .now + .milliseconds($0) }
    }

    /// Works until the task is cancelled.
    mutating func run() async {
        let pause = core.options.nodeLease / 3
        var searched: ContinuousClock.Instant?
        var isBusy = false
        while true {
            let third = WaitingEstimate(core).isNearBound ? min(pause, .milliseconds(250)) : pause
            let span = Self.pause(third, until: nextEnd)
            await pace.wait(atMost: isBusy ? .zero : span, SystemTime())
            if Task.isCancelled { return }
            do throws(PostgresError) {
                // Other work gets its turn after a while, however much is to be shifted.
                isBusy = try await ClockShift(core).run(within: pause)
                if try await giveToPresentNumber(within: pause) { isBusy = true }
                if searched.map({ $0.duration(to: .now) > Self.searchInterval }) ?? true {
                    if searched != nil { core.unknownClaims.searchAgain() }
                    try await readOldestSnapshot()
                    searched = .now
                }
                if core.leaseHealth.mayJudge {
                    if try await recoverDeadNodes(within: pause) { isBusy = true }
                    try await orphans.sweep(core)
                }
                try await makePartitions()
                try await readNodes()
                let dead = try await VacuumPacing.adjust(span: min(pause * 2, .seconds(10)), on: core.keeper)
                core.remains.withLock { $0.deadRows = dead }
                core.noteSuccess()
            } catch {
                core.noteFailure(error)
                nextEnd = nil
                isBusy = false
            }
        }
    }

    /// Moves the claims under this node's former numbers to its present one; returns whether some are left after the
    /// span.
    ///
    /// It waits for rows that others have locked. After a failure the rest of the round goes on, and the next round
    /// continues.
    private mutating func giveToPresentNumber(within span: Duration) async throws(PostgresError) -> Bool {
        do throws(PostgresError) {
            return try await handOver.run(within: span, core)
        } catch {
            core.noteFailure(error)
            return false
        }
    }

    /// Reads for how long a snapshot has kept dead rows from being removed.
    func readOldestSnapshot() async throws(PostgresError) {
        let snapshot = try await core.keeper.session { (db) throws(PostgresError) in
            try PostgresLook.oldestSnapshot(db, hasEvents: true)
        }
        core.remains.withLock { $0.oldestSnapshot = snapshot?.age }
    }

    /// Frees the claims of dead nodes; returns whether some are left after the span.
    private func recoverDeadNodes(within span: Duration) async throws(PostgresError) -> Bool {
        let freed = try await NodeRecovery.run(within: span, core)
        core.outboxSignals.raise(entriesOf: freed.backends)
        if freed.deliveries > 0 {
            core.logger.notice(
                "freed the claims of a dead node",
                metadata: ["deliveries": .stringConvertible(freed.deliveries)]
            )
            core.stirAll()
        }
        return freed.isLeft
    }

    private func makePartitions() async throws(PostgresError) {
        let today = Partitions.day(core.now)
        let missing = core.partitions.missing(Set(today...today.adding(clamping: Self.daysAhead)))
        if !missing.isEmpty { try await core.partitions.make(missing, on: core.keeper) }
    }
}
