internal import Foundation
internal import Logging
internal import PushCore
internal import PushQueue
internal import Synchronization

/// Keeps the store going: the partitions of the days to come, the work of nodes that have died, what other nodes have made.
struct Keeper {
    /// Days ahead for which partitions are made.
    private static let daysAhead: Int64 = 2
    /// How often claims are looked for whose answers were lost a while ago, and who holds snapshots.
    private static let lookInterval = Duration.seconds(60)
    /// So long the server may take for an estimate of how much waits.
    private static let longestEstimate = Duration.seconds(5)

    let core: StoreCore
    private var strays = StrayClaims()
    /// When the first of the other nodes' leases ends, unless it is renewed before.
    private var nextEnd: ContinuousClock.Instant?

    init(_ core: StoreCore) { self.core = core }

    /// Does what must be done before work is taken, by a node that has its place.
    ///
    /// Others' work is left alone until the node has renewed its lease for a while, see ``run()``.
    mutating func begin() async throws(PostgresError) {
        try await core.followWallClock()
        try await ClockShift(core).run(within: core.options.nodeLease / 3)
        try await makePartitions()
        try await lookAround()
    }

    /// How long it waits before it looks around: a third of the lease, or until another node's ends.
    static func pause(
        _ third: Duration,
        until nextEnd: ContinuousClock.Instant?,
        at now: ContinuousClock.Instant = .now
    ) -> Duration {
        guard let left = nextEnd.map({ now.duration(to: $0) }) else { return third }
        // A little later than that, by when it may have been renewed; one that has ended may not be judged yet.
        return min(third, left > .zero ? left + .milliseconds(50) : .seconds(1))
    }

    /// Reads what other nodes have made, and until when they have their leases.
    private mutating func lookAround() async throws(PostgresError) {
        let waiting = try await waiting()
        let left = try await core.keeper.session { [core] (db) throws(PostgresError) in
            try core.flows.read(db)
            try Announcer.forgetOld(db)
            core.waiting = waiting
            let nodes = try db.run(
                """
                SELECT count(*) > 1, (extract(epoch FROM min(lease_until) FILTER (WHERE number <> $1) - clock_timestamp()) * 1000)::bigint
                FROM chapar.nodes
                """,
                [.integer(core.nodeNumber)]
            )
            core.announcer.hasPeers = nodes.bool(0, 0)
            db.isNew.store(false, ordering: .releasing)
            return nodes.integer(0, 1)
        }
        nextEnd = left.map { .now + .milliseconds($0) }
    }

    /// Works until the task is cancelled.
    mutating func run() async {
        let pause = core.options.nodeLease / 3
        var looked: ContinuousClock.Instant?
        var isBusy = false
        while true {
            let span = Self.pause(isNearBound ? min(pause, .milliseconds(250)) : pause, until: nextEnd)
            do { try await Task.sleep(for: isBusy ? .zero : span) } catch { return }
            do throws(PostgresError) {
                // The others have their turn after a while, however much is to be moved.
                isBusy = try await ClockShift(core).run(within: pause)
                if looked.map({ $0.duration(to: .now) > Self.lookInterval }) ?? true {
                    if looked != nil { core.unknownClaims.lookAgain() }
                    try await lookForSnapshots()
                    looked = .now
                }
                if core.leaseHealth.mayJudge {
                    if try await takeOver(within: pause) { isBusy = true }
                    try await strays.look(core)
                }
                try await makePartitions()
                try await lookAround()
                let dead = try await VacuumPacing.look(span: min(pause * 2, .seconds(10)), on: core.keeper)
                core.remains.withLock { $0.deadRows = dead }
                core.noteSuccess()
            } catch {
                core.noteFailure(error)
                nextEnd = nil
                isBusy = false
            }
        }
    }

    /// Whether so much waits that it has to be known soon how much: other nodes accept as well.
    private var isNearBound: Bool { core.waiting > Int64(core.options.maximumWaiting) / 2 }

    /// How many deliveries have not ended: counted up to a small bound, else as the server counts what its sessions add and remove.
    ///
    /// A session tells that once a second at most, so near the bound those of this node are asked to do it now; what they change between
    /// two looks ``StoreCore/tell(_:)`` adds. A server that was started again or took over has forgotten it: after a new connection the
    /// table is estimated anew. Where that takes too long the old estimate must do.
    private func waiting() async throws(PostgresError) -> Int64 {
        let (bound, isStale) = (core.options.maximumWaiting, core.keeper.isNew.load(ordering: .acquiring))
        guard bound > 100_000 else {
            return try await core.keeper.session { (db) throws(PostgresError) in
                try db.run("SELECT count(*) FROM (SELECT FROM chapar.waiting LIMIT \(bound + 1)) AS w").integer(0, 0)
                    ?? 0
            }
        }
        func number(_ what: String) async throws(PostgresError) -> Int64 {
            try await core.keeper.session { (db) throws(PostgresError) in
                max(
                    0,
                    try db.run("SELECT \(what) FROM pg_class WHERE oid = 'chapar.waiting'::regclass").integer(0, 0) ?? 0
                )
            }
        }
        if !isStale {
            for connection in isNearBound ? [core.writer, core.recorder] : [] {
                // One that is away changes nothing at this moment.
                _ = try? await connection.session { (db) throws(PostgresError) in
                    try db.run("SELECT pg_stat_force_next_flush()").count
                }
            }
            return try await number("pg_stat_get_live_tuples(oid)")
        }
        do throws(PostgresError) {
            try await core.keeper.transaction { (db) throws(PostgresError) in
                try db.perform(
                    """
                    SET LOCAL statement_timeout = \(Self.longestEstimate.inMilliseconds);
                    ANALYZE (SKIP_LOCKED) chapar.waiting
                    """
                )
            }
        } catch {
            guard error.isTimeout else { throw error }
            return try await number("greatest(reltuples::bigint, pg_stat_get_live_tuples(oid))")
        }
        return try await number("pg_stat_get_live_tuples(oid)")
    }

    /// Looks for how long somebody has kept dead rows from being removed.
    func lookForSnapshots() async throws(PostgresError) {
        let snapshot = try await core.keeper.session { (db) throws(PostgresError) in
            try PostgresLook.oldestSnapshot(db, hasEvents: true)
        }
        core.remains.withLock { $0.oldestSnapshot = snapshot?.age }
    }

    /// Frees what dead nodes had; whether something is left after the span.
    private func takeOver(within span: Duration) async throws(PostgresError) -> Bool {
        let freed = try await TakeOver.run(within: span, core)
        core.outboxSignals.raise(entriesOf: freed.backends)
        if freed.deliveries > 0 {
            core.logger.notice(
                "took over what a dead node had claimed",
                metadata: ["deliveries": "\(freed.deliveries)"]
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
