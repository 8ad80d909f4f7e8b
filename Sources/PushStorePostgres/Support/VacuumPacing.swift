internal import PushCore

/// Keeps the server from reading the whole table of the queue each minute while it can remove nothing from it.
///
/// While some session holds an old snapshot, a vacuum must leave what has died since. Autovacuum goes by the number of
/// dead rows alone and begins another in the next minute; each reads the table, which grows all the while. So after a
/// vacuum that left many, the table's threshold is raised to a quarter more than it left, and put back after one that
/// left few, or when it has been raised for long enough for another try.
///
/// The threshold is the table's own setting, so all nodes see the one that is in force, and any of them can put it
/// back.
enum VacuumPacing {
    /// The threshold when vacuums do remove what is dead, as the schema has it.
    static let usual: Int64 = 5_000
    /// The number of dead rows, right after a vacuum, from which they count as left by it: fewer may have died since.
    static let many: Int64 = 1_000_000

    /// After so long another vacuum is due, however few rows have died: nothing else says that the snapshot is gone.
    static let patience = Duration.seconds(600)

    /// What the server says about the table.
    struct Reading: Hashable {
        var dead: Int64
        /// The threshold in force.
        var threshold: Int64
        /// Whether a vacuum ended a moment ago.
        var isAfterVacuum: Bool
        /// Whether there was none for ``patience``: the snapshot may be gone.
        var isOverdue = false

        /// The threshold that the table should have.
        var wanted: Int64 {
            if isAfterVacuum { return dead < many ? usual : dead.adding(clamping: dead / 4) }
            if isOverdue { return usual }
            // The dead were counted anew: after a crash of the server, or for a table that was emptied.
            return dead < threshold / 2 ? usual : threshold
        }

        /// Whether the threshold is so far off that it should be changed, which makes sessions plan their statements
        /// anew.
        var isWrong: Bool {
            wanted == usual ? threshold != usual : wanted.distance(clamping: threshold) > threshold / 10
        }
    }

    /// Looks at the table and sets its threshold where it is wrong; the next look tries again where that would have to
    /// wait.
    ///
    /// A vacuum counts as one of a moment ago for `span`: a little longer than looks are apart.
    ///
    /// - Returns: How many rows are dead.
    @discardableResult
    static func look(span: Duration, on connection: PostgresConnection) async throws(PostgresError) -> Int64 {
        let reading = try await connection.session { (db) throws(PostgresError) in try read(span, db) }
        guard reading.isWrong else { return reading.dead }
        do throws(PostgresError) {
            try await connection.transaction { (db) throws(PostgresError) in
                // A vacuum that is under way has the lock: whoever waits for that for a second ends the vacuum.
                try db.perform(
                    """
                    SET LOCAL lock_timeout = '100ms';
                    ALTER TABLE chapar.waiting SET (
                        autovacuum_vacuum_threshold = \(reading.wanted), autovacuum_vacuum_insert_threshold = \(reading.wanted)
                    )
                    """
                )
            }
        } catch {
            guard error.isConflict else { throw error }
        }
        return reading.dead
    }

    static func read(_ span: Duration, _ db: isolated PostgresConnection) throws(PostgresError) -> Reading {
        let rows = try db.run(
            """
            SELECT pg_stat_get_dead_tuples(oid),
                (SELECT option_value::bigint FROM pg_options_to_table(reloptions) WHERE option_name = 'autovacuum_vacuum_threshold'),
                coalesce(ended > clock_timestamp() - make_interval(secs => $1::float8), false),
                coalesce(ended < clock_timestamp() - make_interval(secs => $2::float8), true)
            FROM pg_class, LATERAL (
                SELECT greatest(pg_stat_get_last_autovacuum_time(oid), pg_stat_get_last_vacuum_time(oid)) AS ended
            ) AS last
            WHERE oid = 'chapar.waiting'::regclass
            """,
            [.text("\(span.inSeconds)"), .text("\(patience.inSeconds)")]
        )
        return Reading(
            dead: rows.integer(0, 0) ?? 0,
            threshold: rows.integer(0, 1) ?? usual,
            isAfterVacuum: rows.bool(0, 2),
            isOverdue: rows.bool(0, 3)
        )
    }
}
