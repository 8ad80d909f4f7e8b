internal import PushCore

/// Frees what dead nodes had, in portions, so that no statement is long however much waits; then their places are free.
///
/// Up to which page it has come is kept in `marks`, for each node and the end of its lease: any node goes on with what another has begun,
/// and a node that comes back and dies once more is begun anew.
struct TakeOver {
    /// What was freed.
    struct Freed: Sendable {
        var deliveries = 0
        /// Those whose entries of the outbox were freed.
        var backends: Set<String> = []
        /// Whether something is left that can be freed at once.
        var isLeft = false
    }

    /// Dead nodes, by number, and the names of their marks.
    private let nodes: [Int64]
    private let marks: [String]
    private let page: Int64

    /// Reads what is to be done; nil when no node is dead.
    ///
    /// - Parameters:
    ///   - atMost: Only so many of those that have been dead for longest.
    ///   - db: Within a transaction, in which other nodes wait.
    private init?(atMost limit: Int64, _ db: isolated PostgresConnection) throws(PostgresError) {
        let rows = try db.run(
            """
            SELECT number, 'dead ' || number || ' ' || (extract(epoch FROM lease_until) * 1000000)::bigint FROM chapar.nodes
            WHERE lease_until < clock_timestamp() ORDER BY lease_until, number LIMIT $1 FOR UPDATE
            """,
            [.integer(limit)]
        )
        guard rows.count > 0 else { return nil }
        nodes = (0..<rows.count).compactMap { rows.integer($0, 0) }
        marks = (0..<rows.count).compactMap { rows.text($0, 1) }
        page =
            try db.run(
                """
                SELECT min(coalesce(m.value, 0)) FROM unnest($1::text[]) AS d(name) LEFT JOIN chapar.marks m USING (name)
                """,
                [.texts(marks)]
            ).integer(0, 0) ?? 0
    }

    /// Frees portions of what dead nodes have, and gives up their places behind the last, until the span is over.
    static func run(
        within span: Duration,
        pages: Int64 = ClaimedPortion.pages,
        _ core: StoreCore
    ) async throws(PostgresError) -> Freed {
        let begin = ContinuousClock.now
        var total = Freed()
        repeat {
            let now = core.now
            let freed = try await core.keeper.transaction { (db) throws(PostgresError) in
                try TakeOver(atMost: NodeNumbers.slots, db)?.freePortion(of: pages, now: now, db) ?? Freed()
            }
            total.deliveries += freed.deliveries
            total.backends.formUnion(freed.backends)
            total.isLeft = freed.isLeft
        } while total.isLeft && begin.duration(to: .now) < span
        return total
    }

    /// Frees all that the node has that has been dead for longest, within a transaction.
    static func runForOldest(now: Int64, _ db: isolated PostgresConnection) throws(PostgresError) {
        while try TakeOver(atMost: 1, db)?.freePortion(of: ClaimedPortion.pages, now: now, db).isLeft == true {}
    }

    /// Frees all that nodes have that end now, within a transaction.
    static func end(_ nodes: [Int64], now: Int64, _ db: isolated PostgresConnection) throws(PostgresError) {
        try ClaimedPortion.giveAll(of: nodes, noting: .recovered, db)
        _ = try OutboxEntryTable.release(of: nodes, now: now, db)
        try db.run("DELETE FROM chapar.nodes WHERE number = ANY ($1)", [.integers(nodes)])
    }

    private func freePortion(
        of pages: Int64,
        now: Int64,
        _ db: isolated PostgresConnection
    ) throws(PostgresError) -> Freed {
        let portion = try ClaimedPortion(at: page, pages: pages, of: .dead(nodes), db)
        var freed = Freed()
        freed.deliveries = try ClaimedPortion.give(portion.leases, of: .dead(nodes), noting: .recovered, db)
        // What somebody else changes at this moment, such as a late answer, is looked at again next time.
        guard freed.deliveries == portion.leases.count else { return freed }
        if let next = portion.next {
            try db.run(
                """
                INSERT INTO chapar.marks (name, value) SELECT name, $2 FROM unnest($1::text[]) AS d(name)
                ON CONFLICT (name) DO UPDATE SET value = excluded.value
                """,
                [.texts(marks), .integer(next)]
            )
            freed.isLeft = true
            return freed
        }
        freed.backends = try OutboxEntryTable.release(of: nodes, now: now, db)
        try db.run("DELETE FROM chapar.nodes WHERE number = ANY ($1)", [.integers(nodes)])
        // Those of former deaths of theirs too.
        try db.run(
            "DELETE FROM chapar.marks WHERE starts_with(name, 'dead ') AND split_part(name, ' ', 2) = ANY ($1)",
            [.texts(nodes.map { "\($0)" })]
        )
        return freed
    }
}
