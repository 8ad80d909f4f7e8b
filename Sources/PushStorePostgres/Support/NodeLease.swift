internal import Foundation
internal import Logging
internal import PushCore
internal import PushQueue

/// Keeps a node's lease and its clock, with a connection and a task of their own, so that nothing holds them up.
///
/// A lease belongs to the node, one row, renewed three times before it ends; all times of it are the database's.
struct NodeLease {
    /// So soon a renewal is tried again that failed.
    private static let retryPause = Duration.seconds(1)
    /// A reading of the clock that took longer says too little to judge by.
    private static let longestReading = Duration.milliseconds(500)
    /// The number of lease periods that a node waits for another node to handle a step of the database's clock.
    private static let leasesOfPatience = 4

    let core: StoreCore
    private var clock = ClockWatch()
    /// Under which number the clock was read last, if quickly: what is read next under the same is judged by it.
    private var readAs: Int64?

    init(_ core: StoreCore) { self.core = core }

    /// Takes up the node's place, before anything else is done.
    mutating func begin() async throws(PostgresError) {
        try await awaitNodes()
        try await readClock()
        try await register()
        try await readClock()
    }

    /// Renews the lease and reads the clock until the task is cancelled.
    mutating func run() async {
        var pause = Duration.zero
        core.leaseHealth.noteGap()
        while true {
            do { try await Task.sleep(for: pause) } catch { return }
            do throws(PostgresError) {
                try await renew()
                core.leaseHealth.noteRenewal()
                try await readClock()
                pause = core.leaseHealth.pause
            } catch {
                core.noteFailure(error)
                core.leaseHealth.noteGap()
                pause = min(core.leaseHealth.pause, Self.retryPause)
            }
        }
    }

    /// Gives up the node's place: what it has claimed can be claimed again, as what may have been sent.
    ///
    /// In portions under a lease that is renewed before each, and the place behind the last: where it stops between
    /// two, other nodes free the rest when the lease is over.
    func end() async throws(PostgresError) {
        let (options, number, numbers, now) = (core.options, core.nodeNumber, core.ownNumbers, core.now)
        var page: Int64? = 0
        while let start = page {
            // Where the place is lost already another node frees the same.
            _ = try await core.pulse.session { (db) throws(PostgresError) in
                try Self.prolong(number, options.nodeLease, db)
            }
            page = try await core.keeper.transaction { (db) throws(PostgresError) -> Int64? in
                try ClaimedPortion.give(at: start, options, of: numbers, noting: .recovered, db)
            }
        }
        _ = try await core.keeper.transaction { (db) throws(PostgresError) in
            try TakeOver.giveUpPlaces(of: numbers, now: now, db)
        }
    }

    /// Takes a place, that of a dead node where no other is free.
    ///
    /// What this node has under a former number is given to the new one by ``HandOver``.
    private func register() async throws(PostgresError) {
        while try await !takePlace() {
            guard try await TakeOver.makeRoom(core) else {
                throw .declined(.failed("\(NodeNumbers.slots) gateways share \(core.options) already: no more can"))
            }
        }
    }

    /// Takes a number that was never used and the lowest free slot; false when none is free.
    private func takePlace() async throws(PostgresError) -> Bool {
        let (options, core) = (core.options, core)
        return try await core.pulse.transaction { (db) throws(PostgresError) -> Bool in
            try core.refuseNewer(db)
            try db.run("SELECT pg_advisory_xact_lock(hashtextextended('chapar.nodes', 0))")
            let rows = try db.run(
                """
                INSERT INTO chapar.nodes (slot, name, lease_until)
                SELECT s, $2, clock_timestamp() + make_interval(secs => $3::float8) FROM generate_series(0, $1 - 1) AS s
                WHERE s NOT IN (SELECT slot FROM chapar.nodes) ORDER BY s LIMIT 1 RETURNING number, slot
                """,
                [.integer(NodeNumbers.slots), .text(options.nodeName), .text("\(options.nodeLease.inSeconds)")]
            )
            guard let number = rows.integer(0, 0), let slot = rows.integer(0, 1) else { return false }
            let highest = try NodeNumbers.highest(db)
            if options.preparesStatements { try core.sessions.note(of: number, db) }
            core.become(node: number, slot: slot, above: highest)
            try core.noteBackends(db)
            // Whether there is somebody to hear it is not known yet, and it is told once.
            try db.run("SELECT pg_notify('\(options.channel)', $1)", [.text(Announcer.Word.nodes.text)])
            return true
        }
    }

    /// Renews the lease of a node; false when it has no place any more.
    private static func prolong(
        _ number: Int64,
        _ lease: Duration,
        _ db: isolated PostgresConnection
    ) throws(PostgresError) -> Bool {
        try db.run(
            "UPDATE chapar.nodes SET lease_until = clock_timestamp() + make_interval(secs => $2::float8) WHERE number = $1",
            [.integer(number), .text("\(lease.inSeconds)")]
        ).changed == 1
    }

    private func renew() async throws(PostgresError) {
        let (options, number) = (core.options, core.nodeNumber)
        let isAlive = try await core.pulse.session { [core] (db) throws(PostgresError) in
            // At each renewal: while this node stood still a newer program may have begun a change that ends later.
            try core.refuseNewer(db)
            guard try Self.prolong(number, options.nodeLease, db) else { return false }
            if options.preparesStatements { try core.sessions.note(of: number, db) }
            try core.noteBackends(db)
            return true
        }
        guard !isAlive else { return }
        core.logger.warning("this node was taken for dead and goes on under a new number")
        try await awaitNodes()
        try await register()
        core.nodeJoined.signal()
    }

    /// Waits, where no node has a lease that the clock can have written as it is now, until each that lives has renewed
    /// its own.
    ///
    /// Either they are dead, or the clock was set a moment ago, and they know by how much. A wrong time would end what
    /// waits as too old, and a lease of before would look like that of a dead node.
    private func awaitNodes() async throws(PostgresError) {
        guard core.databaseTime != nil else { return }
        let (lease, pause) = (core.options.nodeLease, core.leaseHealth.pause)
        // So much of its lease who lives has left.
        let least = max(.zero, lease - pause * 2)
        let isDoubtful = try await core.pulse.session { (db) throws(PostgresError) in
            try db.run(
                """
                SELECT count(*) > 0 AND count(*) FILTER (
                    WHERE lease_until > clock_timestamp() + make_interval(secs => \(least.inSeconds))
                    AND \(ClockShift.canHaveWrittenSQL(lease))
                ) = 0 FROM chapar.nodes
                """
            ).bool(0, 0)
        }
        guard isDoubtful else { return }
        do { try await Task.sleep(for: pause + Self.retryPause) } catch { throw .closed }
    }

    /// Reads the database's clock; when somebody has set it, what was asked to go out at a time of day follows.
    ///
    /// The node that judges is the one with the lowest number of those whose leases the clock can have written as it is
    /// now.
    private mutating func readClock() async throws(PostgresError) {
        guard let time = core.databaseTime else {
            core.ahead = try await core.pulse.session { (db) throws(PostgresError) in
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
        let isQuick = before.duration(to: after) < Self.longestReading
        // Who has a new number knows no better: it has just started, or its own clock may have stood still while it was
        // taken for dead.
        let isNew = readAs != number
        guard isQuick || isNew else { return }
        readAs = isQuick ? number : nil
        let instant = before + before.duration(to: after) / 2
        let known = time.steady(at: instant).millisecondsSince1970
        // Leases were written by the clock as it was before: nobody's is to be judged until each was renewed by the new
        // one.
        let apart = wall.subtracting(clamping: known)
        if apart.distance(clamping: core.ahead) >= StoreCore.smallestJump { core.leaseHealth.noteGap() }
        let jump = apart.subtracting(clamping: ahead)
        let verdict =
            isNew
            ? .follow
            : clock.judge(
                jump: jump,
                ahead: ahead,
                isFirst: isFirst,
                noted: ahead.subtracting(clamping: core.ahead),
                isMoving: isMoving,
                patience: lease * Self.leasesOfPatience
            )
        switch verdict {
        case .wait: break
        case .follow:
            core.ahead = ahead
            time.set(wall: Date(millisecondsSince1970: wall), ahead: Double(ahead) / 1_000, at: instant)
        case .shift(let ahead):
            guard try await ClockShift(core).begin(to: ahead, on: core.pulse) else { return }
            time.set(wall: Date(millisecondsSince1970: wall), ahead: Double(ahead) / 1_000, at: instant)
        }
    }
}
