internal import ChaparCore

/// Keeps autovacuum from reading the whole table of the queue each minute while it can remove nothing from it.
///
/// While any session holds an old snapshot, a vacuum must leave the rows that have died since. Autovacuum goes by the
/// number of dead rows alone and begins another a minute later; each reads the table, which keeps growing. So after a
/// vacuum that left many, the table's threshold is raised to a quarter more than it left. It is put back after a vacuum
/// that left few, or when it has been raised for long enough for another attempt.
///
/// The threshold is a setting of the table, so all nodes see the one in force, and any of them can put it back.
enum VacuumPacing {
    /// The threshold for when vacuums do remove dead rows, as the schema has it.
    static let usual: Int64 = 5_000
    /// The number of dead rows, right after a vacuum, from which they count as left by it: fewer may have died since.
    static let many: Int64 = 1_000_000

    /// The time after which another vacuum is due, however few rows have died: only a vacuum shows that the snapshot is
    /// gone.
    static let patience = Duration.seconds(600)

    /// The server's figures for the table.
    struct Reading: Hashable {
        var dead: Int64
        /// The threshold in force.
        var threshold: Int64
        /// Whether a vacuum has just ended.
        var isAfterVacuum: Bool
        /// Whether there was none for ``patience``: the snapshot may be gone.
        var isOverdue = false

        /// The threshold that the table should have.
        var wanted: Int64 {
            if isAfterVacuum { return dead < many ? usual : dead.adding(clamping: dead / 4) }
            if isOverdue { return usual }
            // Dead rows were counted anew: after a crash of the server, or for a table that was emptied.
            return dead < threshold / 2 ? usual : threshold
        }

        /// Whether the threshold is far enough off to change it, which makes sessions plan their statements again.
        var isWrong: Bool {
            wanted == usual ? threshold != usual : wanted.distance(clamping: threshold) > threshold / 10
        }
    }

    /// Reads the table's figures and sets its threshold where it is wrong; the next call tries again where that would
    /// have to wait.
    ///
    /// A vacuum counts as just ended for `span`: a little longer than the time between two calls.
    ///
    /// - Returns: The number of dead rows.
    @discardableResult
    static func adjust(span: Duration, on connection: PostgresConnection) async throws(PostgresError) -> Int64 {
        let reading = try await connection.session { (db) throws(PostgresError) in try read(span, db) }
        guard reading.isWrong else { return reading.dead }
        do throws(PostgresError) {
            try await connection.transaction { (db) throws(PostgresError) in
                // A vacuum that is under way has the lock: a session that waited for it for a second would end the
                // vacuum.
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
