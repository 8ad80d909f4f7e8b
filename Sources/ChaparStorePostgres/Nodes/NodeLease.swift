internal import Foundation
internal import Logging
internal import ChaparCore
internal import ChaparQueue

/// Keeps a node's lease and its clock, on a connection and a task of their own, so that nothing holds them up.
///
/// A lease is one row for the node, renewed at least three times before it ends; all its times are the database's.
struct NodeLease {
    /// The pause before a failed renewal is tried again.
    private static let retryPause = Duration.seconds(1)
    /// The longest reading of the clock that is precise enough to judge by.
    private static let longestReading = Duration.milliseconds(500)
    /// The number of lease periods that a node waits for another node to handle a step of the database's clock.
    private static let leasesOfPatience = 4

    let core: StoreCore
    private var clock = ClockWatch()
    /// The node number of the last reading of the clock; nil when that reading took too long.
    ///
    /// Only a reading under the same number as the one before is judged.
    private var readAs: Int64?

    init(_ core: StoreCore) { self.core = core }

    /// Takes the node's place, before anything else is done.
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

    /// Gives up the node's place: its claims can be claimed again, as deliveries that may have been sent.
    ///
    /// Claims are freed in ranges of pages, each after a renewal of the lease, and the place after the last. If it
    /// stops in between, other nodes free the rest when the lease is over.
    func end() async throws(PostgresError) {
        let (options, number, numbers, now) = (core.options, core.nodeNumber, core.ownNumbers, core.now)
        var page: Int64? = 0
        while let start = page {
            // If the place is lost already, another node frees the same claims.
            _ = try await core.renewer.session { (db) throws(PostgresError) in
                try Self.prolong(number, options.nodeLease, db)
            }
            page = try await core.keeper.transaction { (db) throws(PostgresError) -> Int64? in
                try ClaimedPages.give(at: start, options, of: numbers, noting: .recovered, db)
            }
        }
        _ = try await core.keeper.transaction { (db) throws(PostgresError) in
            try NodeRecovery.giveUpPlaces(of: numbers, now: now, db)
        }
    }

    /// Takes a free place, or that of a dead node when there is none.
    ///
    /// ``HandOver`` moves the claims under a former number to the new one.
    private func register() async throws(PostgresError) {
        while try await !takePlace() {
            guard try await NodeRecovery.makeRoom(core) else {
                throw .declined(.failed("\(NodeNumbers.slots) gateways share \(core.options) already: no more can"))
            }
        }
    }

    /// Takes a new number and the lowest free slot; returns false when none is free.
    private func takePlace() async throws(PostgresError) -> Bool {
        let (options, core) = (core.options, core)
        return try await core.renewer.transaction { (db) throws(PostgresError) -> Bool in
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
            // Whether other nodes listen is not known yet, and this is sent once.
            try db.run("SELECT pg_notify('\(options.channel)', $1)", [.text(Announcer.Word.nodes.text)])
            return true
        }
    }

    /// Renews the lease of a node; returns false when its place is lost.
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
        let isAlive = try await core.renewer.session { [core] (db) throws(PostgresError) in
            // At each renewal: while this node stood still a newer program may have begun a change that ends later.
            try core.refuseNewer(db)
            guard try Self.prolong(number, options.nodeLease, db) else { return false }
            if options.preparesStatements { try core.sessions.note(of: number, db) }
            try core.noteBackends(db)
            return true
        }
        guard !isAlive else { return }
        core.logger.warning("other nodes declared this one dead; it continues under a new number")
        try await awaitNodes()
        try await register()
        core.nodeJoined.signal()
    }

    /// Waits until other nodes have renewed their leases, when the times of all leases are impossible by the present
    /// clock of the database.
    ///
    /// Either all nodes are dead, or the clock was just set. Living nodes renew their leases within the wait, and
    /// record by how much the clock was set. Without the wait this node would believe the wrong time: it would expire
    /// waiting deliveries, and take the leases of living nodes for those of dead ones.
    private func awaitNodes() async throws(PostgresError) {
        guard core.databaseTime != nil else { return }
        let (lease, pause) = (core.options.nodeLease, core.leaseHealth.pause)
        // The least time that is left of a living node's lease.
        let least = max(.zero, lease - pause * 2)
        let isDoubtful = try await core.renewer.session { (db) throws(PostgresError) in
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

    /// Reads the database's clock; when it was set, deliveries scheduled for a time of day are shifted.
    ///
    /// The node that decides has the lowest number of those whose leases the present clock can have written.
    private mutating func readClock() async throws(PostgresError) {
        guard let time = core.databaseTime else {
            core.ahead = try await core.renewer.session { (db) throws(PostgresError) in
                try db.run("SELECT ahead FROM chapar.clock").integer(0, 0) ?? 0
            }
            return
        }
        let (number, lease) = (core.nodeNumber, core.options.nodeLease)
        let (wall, ahead, isFirst, isMoving, before, after) = try await core.renewer.session {
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
        // A node with a new number has no reading to judge by: it has just started, or its own clock may have stood
        // still while it was declared dead.
        let isNew = readAs != number
        guard isQuick || isNew else { return }
        readAs = isQuick ? number : nil
        let instant = before + before.duration(to: after) / 2
        let known = time.steady(at: instant).millisecondsSince1970
        // The leases were written by the clock before its step: no node is declared dead until each lease was renewed.
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
            guard try await ClockShift(core).begin(to: ahead, on: core.renewer) else { return }
            time.set(wall: Date(millisecondsSince1970: wall), ahead: Double(ahead) / 1_000, at: instant)
        }
    }
}
