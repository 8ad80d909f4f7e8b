internal import Foundation
internal import ChaparCore

/// Frees the claims of dead nodes, page by page of the table, and then their places.
///
/// A transaction reads and frees only so many pages and claims as ``PostgresOptions`` allow: a long one would hold up a
/// node that comes back.
///
/// The progress is kept in `marks`, for each node and the end of its lease: any node continues what another has begun,
/// and a node that comes back and dies again is begun anew. Nodes that have been dead for longest come first, so a
/// recovery ends even while others die. A row that another transaction is changing is skipped, and then the whole table
/// is read once more before the place is given up. Rows that move in the table meanwhile may be left:
/// ``OrphanedClaims`` frees them.
struct NodeRecovery {
    /// The result of a transaction, or of several.
    struct Freed: Sendable {
        var deliveries = 0
        /// The backends whose outbox entries were freed.
        var backends: Set<String> = []
        /// Whether something is left that can be freed at once.
        var isLeft = false
        /// Whether places were given up.
        var hasPlaces = false
    }

    /// The progress of a recovery, as the value of a mark.
    private struct Progress {
        var page: Int64 = 0
        /// Whether rows before that page were skipped.
        var hasSkipped = false

        init() {}
        init(mark: Int64) { (page, hasSkipped) = (mark / 2, mark % 2 == 1) }
        var mark: Int64 { page.multiplied(clamping: 2).adding(clamping: hasSkipped ? 1 : 0) }
    }

    /// Dead nodes with the same progress, by number, and the names of their marks.
    private let nodes: [Int64]
    private let marks: [String]
    private let progress: Progress

    /// Reads the dead nodes to free next, within a transaction; nil when no node is dead, or another one is freeing
    /// them.
    ///
    /// A lease must be over by the database's clock, and at `time`, by this node's copy of that clock: so no node
    /// counts as dead because the clock was just set. Of nodes with the same progress at most `most` are taken.
    private init?(
        at time: Date?,
        by node: Int64,
        most: Int = .max,
        _ db: isolated PostgresConnection
    ) throws(PostgresError) {
        // Locked rows are skipped: the lease of a node that waits for them would end meanwhile.
        let rows = try db.run(
            """
            SELECT d.number, d.mark, coalesce(m.value, 0) FROM (
                SELECT number, 'dead ' || number || ' ' || (extract(epoch FROM lease_until) * 1000000)::bigint AS mark, lease_until
                FROM chapar.nodes WHERE lease_until < least(clock_timestamp(), to_timestamp($1::float8)) AND number <> $2
                FOR UPDATE SKIP LOCKED
            ) AS d LEFT JOIN chapar.marks m ON m.name = d.mark ORDER BY d.lease_until, d.number
            """,
            [.text(time.map { "\($0.timeIntervalSince1970)" }), .integer(node)]
        )
        guard rows.count > 0 else { return nil }
        let first = rows.integer(0, 2) ?? 0
        let same = (0..<rows.count).filter { rows.integer($0, 2) == first }
        nodes = same.prefix(most).compactMap { rows.integer($0, 0) }
        marks = same.prefix(most).compactMap { rows.text($0, 1) }
        progress = Progress(mark: first)
    }

    /// Frees dead nodes' claims, and gives up their places after the last page, until the span is over or this
    /// node may not judge.
    static func run(within span: Duration, _ core: StoreCore) async throws(PostgresError) -> Freed {
        let begin = ContinuousClock.now
        let options = core.options
        var total = Freed()
        repeat {
            // Reads the time first: after the clock was set, this node may not judge before it goes by the new time.
            let (now, time) = (core.now, core.databaseTime?.now)
            guard core.leaseHealth.mayJudge else { return total }
            let freed = try await core.keeper.transaction { (db) throws(PostgresError) in
                try NodeRecovery(at: time, by: core.nodeNumber, db)?.freePages(options, now: now, db) ?? Freed()
            }
            total.deliveries += freed.deliveries
            total.backends.formUnion(freed.backends)
            total.isLeft = freed.isLeft
        } while total.isLeft && begin.duration(to: .now) < span
        return total
    }

    /// Gives up the place of the node that has been dead for longest, for a node that finds no free place.
    ///
    /// When gateways are killed soon after each start, none lives long enough to judge another one.
    ///
    /// - Returns: False when no node is dead, or it takes too long; the next call goes on from there.
    static func makeRoom(_ core: StoreCore) async throws(PostgresError) -> Bool {
        let begin = ContinuousClock.now
        let options = core.options
        repeat {
            let now = core.now
            let freed = try await core.keeper.transaction { (db) throws(PostgresError) -> Freed? in
                try NodeRecovery(at: nil, by: core.nodeNumber, most: 1, db)?.freePages(options, now: now, db)
            }
            if let freed {
                if freed.hasPlaces { return true }
                if freed.isLeft { continue }  // Without a pause.
            } else {
                let (hasRoom, hasDead) = try await places(core)
                if hasRoom { return true }
                guard hasDead else { return false }
            }
            // Another node is freeing the place, or rows are locked.
            do { try await Task.sleep(for: .milliseconds(100)) } catch { throw .closed }
        } while begin.duration(to: .now) < options.statementTimeout
        return false
    }

    /// Returns whether a place is free, and whether a node is dead whose place could be.
    private static func places(_ core: StoreCore) async throws(PostgresError) -> (hasRoom: Bool, hasDead: Bool) {
        try await core.keeper.session { (db) throws(PostgresError) in
            let rows = try db.run(
                "SELECT (count(*) < $1)::int, (count(*) FILTER (WHERE lease_until < clock_timestamp()) > 0)::int FROM chapar.nodes",
                [.integer(NodeNumbers.slots)]
            )
            return (rows.integer(0, 0) == 1, rows.integer(0, 1) == 1)
        }
    }

    private func freePages(
        _ options: PostgresOptions,
        now: Int64,
        _ db: isolated PostgresConnection
    ) throws(PostgresError) -> Freed {
        let most = options.claimsPerTransaction
        // Their sessions end first: rows that they have locked are skipped below.
        _ = try NodeSessions.end(of: nodes, db)
        let claimed = try ClaimedPages(
            at: progress.page,
            pages: options.pagesPerScan,
            of: .nodes(nodes),
            most: most,
            db
        )
        var freed = Freed()
        freed.deliveries = try claimed.free(claimed.leases, noting: .recovered, db)
        var progress = progress
        if freed.deliveries < claimed.leases.count { progress.hasSkipped = true }
        if claimed.leases.count >= most, freed.deliveries > 0 {
            // There may be more in these pages; freed claims are not found again.
            freed.isLeft = true
        } else if let next = claimed.next {
            progress.page = next
            freed.isLeft = true
        } else if progress.hasSkipped {
            progress = Progress()
        } else {
            freed.backends = try Self.giveUpPlaces(of: nodes, now: now, db)
            // There may be other nodes with less progress.
            (freed.isLeft, freed.hasPlaces) = (true, true)
            return freed
        }
        try db.run(
            """
            INSERT INTO chapar.marks (name, value) SELECT name, $2 FROM unnest($1::text[]) AS d(name)
            ON CONFLICT (name) DO UPDATE SET value = excluded.value
            """,
            [.texts(marks), .integer(progress.mark)]
        )
        return freed
    }

    /// Frees the outbox entries of nodes, and removes the nodes from the table; returns the backends of the entries.
    static func giveUpPlaces(
        of nodes: [Int64],
        now: Int64,
        _ db: isolated PostgresConnection
    ) throws(PostgresError) -> Set<String> {
        let backends = try OutboxEntryTable.release(of: nodes, now: now, db)
        try db.run("DELETE FROM chapar.nodes WHERE number = ANY ($1)", [.integers(nodes)])
        // The marks of their former deaths too.
        try db.run(
            "DELETE FROM chapar.marks WHERE starts_with(name, 'dead ') AND split_part(name, ' ', 2) = ANY ($1)",
            [.texts(nodes.map { "\($0)" })]
        )
        return backends
    }
}
