internal import Foundation
internal import Logging
internal import PushCore
internal import PushQueue
internal import Synchronization

/// Keeps a node going: its lease, its clock, the partitions of the days to come, and the work of nodes that have died.
///
/// A lease belongs to the node, one row, renewed three times before it ends; all times of it are the database's.
struct Keeper {
    /// Days ahead for which partitions are made.
    private static let daysAhead: Int64 = 2
    /// How often claims are looked for whose answers were lost a while ago.
    private static let lookInterval = Duration.seconds(60)
    /// A reading of the clock that took longer says too little.
    private static let longestReading = Duration.milliseconds(500)
    /// So many leases a node waits for the one that judges a step of the database's clock.
    private static let leasesOfPatience = 4

    let core: StoreCore
    private var strays = StrayClaims()
    private var clock = ClockWatch()
    /// Under which number the clock was read last.
    private var readAs: Int64?
    /// Since when this node has renewed its lease without a gap: it does not judge others sooner after the database was away.
    private var healthySince = ContinuousClock.now

    init(_ core: StoreCore) { self.core = core }

    /// Takes up the node's place, before anything else is done.
    mutating func begin() async throws(PostgresError) {
        try await readClock()
        // Others' work is left alone until this node has renewed its lease for a while, see ``run()``.
        try await register()
        readAs = core.nodeNumber
        try await core.followWallClock()
        try await ClockShift(core).run(within: core.options.nodeLease / 3)
        try await makePartitions()
        try await lookAround()
    }

    /// Reads what other nodes have made, and whether there are any.
    private func lookAround() async throws(PostgresError) {
        let isNew = core.keeper.isNew.load(ordering: .acquiring)
        try await core.keeper.session { [core] (db) throws(PostgresError) in
            try core.flows.read(db)
            try Announcer.forgetOld(db)
            core.waiting = try Self.waiting(upTo: core.options.maximumWaiting, isStale: isNew, db)
            core.announcer.hasPeers = try db.run("SELECT count(*) > 1 FROM chapar.nodes").bool(0, 0)
            db.isNew.store(false, ordering: .releasing)
        }
    }

    /// Works until the task is cancelled.
    mutating func run() async {
        let pause = core.options.nodeLease / 3
        var (renewed, looked) = (ContinuousClock.now, ContinuousClock.now)
        var isBusy = false
        while true {
            do { try await Task.sleep(for: isBusy ? .zero : pause) } catch { return }
            do throws(PostgresError) {
                try await renew()
                // What held this node up may have held up the others.
                if renewed.duration(to: .now) > pause * 2 { healthySince = .now }
                renewed = .now
                try await readClock()
                // The lease comes first again after a while, however much is to be moved.
                isBusy = try await ClockShift(core).run(within: pause)
                if looked.duration(to: .now) > Self.lookInterval {
                    core.unknownClaims.lookAgain()
                    looked = .now
                }
                if healthySince.duration(to: .now) > core.options.nodeLease, renewed.duration(to: .now) < pause {
                    if try await takeOver(within: pause - renewed.duration(to: .now)) { isBusy = true }
                    try await strays.look(core)
                }
                try await makePartitions()
                try await lookAround()
                try await VacuumPacing.look(span: min(pause * 2, .seconds(10)), on: core.keeper)
                core.noteSuccess()
            } catch {
                core.noteFailure(error)
                healthySince = .now
                isBusy = false
            }
        }
    }

    /// How many deliveries have not ended: counted up to a small bound, else as the server last estimated.
    ///
    /// A server that was started again or took over has forgotten how much has changed since, and goes by an old estimate for long: a stale one
    /// is made anew, as is one that there never was.
    private static func waiting(
        upTo bound: Int,
        isStale: Bool,
        _ db: isolated PostgresConnection
    ) throws(PostgresError) -> Int64 {
        guard bound > 100_000 else {
            return try db.run("SELECT count(*) FROM (SELECT FROM chapar.waiting LIMIT \(bound + 1)) AS w").integer(0, 0)
                ?? 0
        }
        let estimate = "SELECT reltuples::bigint FROM pg_class WHERE oid = 'chapar.waiting'::regclass"
        if !isStale, let known = try db.run(estimate).integer(0, 0), known >= 0 { return known }
        try db.perform("ANALYZE (SKIP_LOCKED) chapar.waiting")
        return max(0, try db.run(estimate).integer(0, 0) ?? 0)
    }

    /// Gives up the node's place: what it has claimed can be claimed again, as what may have been sent.
    func end() async throws(PostgresError) {
        let (numbers, pages, now) = (core.ownNumbers, core.options.pagesOfPortion, core.now)
        try await core.keeper.transaction { (db) throws(PostgresError) in
            try TakeOver.end(numbers, pages: pages, now: now, db)
        }
    }

    /// Takes a number that was never used and the lowest free slot.
    private func register() async throws(PostgresError) {
        let (options, core) = (core.options, core)
        let former = core.nodeNumber
        try await core.pulse.transaction { (db) throws(PostgresError) in
            try db.run("SELECT pg_advisory_xact_lock(hashtextextended('chapar.nodes', 0))")
            try Self.makeRoom(pages: options.pagesOfPortion, now: core.now, db)
            let rows = try db.run(
                """
                INSERT INTO chapar.nodes (slot, name, lease_until)
                SELECT s, $2, clock_timestamp() + make_interval(secs => $3::float8) FROM generate_series(0, $1 - 1) AS s
                WHERE s NOT IN (SELECT slot FROM chapar.nodes) ORDER BY s LIMIT 1 RETURNING number, slot
                """,
                [.integer(NodeNumbers.slots), .text(options.nodeName), .text("\(options.nodeLease.inSeconds)")]
            )
            guard let number = rows.integer(0, 0), let slot = rows.integer(0, 1) else {
                throw .declined(.failed("\(NodeNumbers.slots) gateways share \(options) already: no more can"))
            }
            let highest = try db.run(
                """
                SELECT greatest(
                    (SELECT id + count FROM chapar.notifications ORDER BY id DESC LIMIT 1),
                    (SELECT max(id) FROM chapar.waiting)
                )
                """
            ).integer(0, 0)
            if former != 0 {
                // What it still has goes with it: others would take it for what a node left that is gone.
                try ClaimedPortion.giveAll(of: [former], to: number, pages: options.pagesOfPortion, db)
            }
            core.become(node: number, slot: slot, above: highest ?? 0)
        }
    }

    /// Gives up the place of the node that has been dead for longest, where no place is free: when gateways are killed soon after each
    /// start, none lives long enough to do so.
    private static func makeRoom(
        pages: Int64,
        now: Int64,
        _ db: isolated PostgresConnection
    ) throws(PostgresError) {
        let rows = try db.run(
            """
            SELECT number FROM chapar.nodes WHERE lease_until < clock_timestamp() AND (SELECT count(*) >= $1 FROM chapar.nodes)
            ORDER BY lease_until LIMIT 1 FOR UPDATE SKIP LOCKED
            """,
            [.integer(NodeNumbers.slots)]
        )
        if let number = rows.integer(0, 0) { try TakeOver.end([number], pages: pages, now: now, db) }
    }

    private func renew() async throws(PostgresError) {
        let (options, number) = (core.options, core.nodeNumber)
        let isAlive = try await core.pulse.session { (db) throws(PostgresError) in
            try db.run(
                "UPDATE chapar.nodes SET lease_until = clock_timestamp() + make_interval(secs => $2::float8) WHERE number = $1",
                [.integer(number), .text("\(options.nodeLease.inSeconds)")]
            ).changed == 1
        }
        guard !isAlive else { return }
        core.logger.warning("this node was taken for dead and goes on under a new number")
        try await register()
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

    /// Reads the database's clock; when somebody has set it, what was asked to go out at a time of day follows.
    ///
    /// The node that judges is the one with the lowest number of those whose leases the clock can have written as it is now.
    private mutating func readClock() async throws(PostgresError) {
        guard let time = core.databaseTime else {
            core.ahead = try await core.keeper.session { (db) throws(PostgresError) in
                try db.run("SELECT ahead FROM chapar.clock").integer(0, 0) ?? 0
            }
            return
        }
        let (number, lease) = (core.nodeNumber, core.options.nodeLease)
        let (wall, ahead, isFirst, isMoving, before, after) = try await core.pulse.session {
            (db) throws(PostgresError) in
            let before = ContinuousClock.now
            let rows = try db.run(
                """
                SELECT (extract(epoch FROM clock_timestamp()) * 1000)::bigint, (SELECT ahead FROM chapar.clock),
                    (SELECT coalesce(min(number) >= $1, true) FROM chapar.nodes WHERE lease_until > clock_timestamp()
                        AND \(ClockShift.canHaveWrittenSQL(lease))),
                    \(ClockShift.underWaySQL)
                """,
                [.integer(number)]
            )
            return (
                rows.integer(0, 0) ?? 0, rows.integer(0, 1) ?? 0, rows.bool(0, 2), rows.bool(0, 3), before,
                ContinuousClock.now
            )
        }
        guard before.duration(to: after) < Self.longestReading || readAs != number else { return }
        let instant = before + before.duration(to: after) / 2
        let passed = instant.duration(to: .now).inMilliseconds
        // Leases were written by the clock as it was before: nobody's is to be judged until each was renewed by the new one.
        if abs(wall - (time.now.millisecondsSince1970 - passed)) >= StoreCore.smallestJump { healthySince = .now }
        let jump = wall - ahead - (core.now - passed)
        // Who comes anew knows no better: its own clock may have stood still while it was taken for dead.
        let isNew = readAs != number
        readAs = number
        let verdict =
            isNew
            ? .follow
            : clock.judge(
                jump: jump,
                ahead: ahead,
                isFirst: isFirst,
                isNoted: ahead != core.ahead,
                isMoving: isMoving,
                patience: lease * Self.leasesOfPatience
            )
        switch verdict {
        case .wait: break
        case .follow:
            core.ahead = ahead
            time.set(wall: Date(millisecondsSince1970: wall), ahead: Double(ahead) / 1_000, at: instant)
        case .shift(let ahead):
            guard try await ClockShift(core).begin(to: ahead) else { return }
            time.set(wall: Date(millisecondsSince1970: wall), ahead: Double(ahead) / 1_000, at: instant)
        }
    }

    private func makePartitions() async throws(PostgresError) {
        let today = Partitions.day(core.now)
        let missing = core.partitions.missing(Set(today...today + Self.daysAhead))
        if !missing.isEmpty { try await core.partitions.make(missing, on: core.keeper) }
    }
}
