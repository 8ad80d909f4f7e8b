internal import Foundation
internal import ChaparCore
internal import ChaparQueue
internal import Synchronization

/// The days that have partitions: created before they are written to, dropped whole when nothing in them is needed.
///
/// Notifications, results and awaited receipts are partitioned by their numbers, which begin with the time
/// (``ChaparQueue/NotificationID``), events by their time.
final class Partitions: Sendable {
    /// A partitioned table, and the form of a day's bounds in its column.
    enum Table: String, CaseIterable {
        case notifications, results, awaited, events
        case searchKeys = "search_keys"
        case handled

        /// Returns the first value of a day.
        func start(of day: Int64) -> Int64 {
            let moment = Date(millisecondsSince1970: day.multiplied(clamping: Partitions.milliseconds))
            return self == .events ? moment.millisecondsSince1970 : NotificationID(firstAt: moment).rawValue
        }

        func name(of day: Int64) -> String { "\(rawValue)_d\(day)" }
    }

    static let milliseconds: Int64 = 86_400_000

    private let known = Mutex<Set<Int64>>([])

    /// Returns the day of a time, counted from 1970.
    static func day(_ milliseconds: Int64) -> Int64 {
        let days = milliseconds / Self.milliseconds
        return milliseconds % Self.milliseconds < 0 ? days.subtracting(clamping: 1) : days
    }

    /// Returns the first millisecond after a day.
    static func end(of day: Int64) -> Int64 { day.adding(clamping: 1).multiplied(clamping: milliseconds) }

    /// Returns the day of a number.
    static func day(ofNumber number: Int64) -> Int64 {
        day(NotificationID(rawValue: number).time.millisecondsSince1970)
    }

    /// Returns those of these days that may have no partitions.
    func missing(_ days: Set<Int64>) -> [Int64] { known.withLock { days.subtracting($0).sorted() } }

    /// Forgets which days have partitions: a standby that took over may lack those that were made last.
    func forget() { known.withLock { $0.removeAll() } }

    /// Creates the partitions of days, for tests of older schemas only of `tables`.
    ///
    /// Attaching takes a lock that blocks neither readers nor writers.
    func make(
        _ days: [Int64],
        of tables: [Table] = Table.allCases,
        on connection: PostgresConnection
    ) async throws(PostgresError) {
        for day in days {
            try await connection.transaction { (db) throws(PostgresError) in
                try Self.lock(db)
                for table in tables where try !Self.isAttached(table, day, db) {
                    let name = table.name(of: day)
                    try db.perform(
                        """
                        CREATE TABLE IF NOT EXISTS chapar.\(name) (LIKE chapar.\(table.rawValue) INCLUDING DEFAULTS INCLUDING CONSTRAINTS);
                        ALTER TABLE chapar.\(table.rawValue) ATTACH PARTITION chapar.\(name)
                            FOR VALUES FROM (\(table.start(of: day))) TO (\(table.start(of: day.adding(clamping: 1))))
                        """
                    )
                }
            }
            known.withLock { _ = $0.insert(day) }
        }
    }

    /// Returns the days that a table has partitions for, the oldest first.
    static func days(of table: Table, _ db: isolated PostgresConnection) throws(PostgresError) -> [Int64] {
        let rows = try db.run(
            """
            SELECT substr(c.relname, length($1) + 1)::bigint FROM pg_inherits i JOIN pg_class c ON c.oid = i.inhrelid
            WHERE i.inhparent = 'chapar.\(table.rawValue)'::regclass AND starts_with(c.relname, $1) ORDER BY 1
            """,
            [.text("\(table.rawValue)_d")]
        )
        return (0..<rows.count).compactMap { rows.integer($0, 0) }
    }

    /// Detaches a day's partition, unless another node has; ``dropDetached(before:on:)`` drops it then.
    ///
    /// It locks the table for a moment, and gives up rather than hold others up. While a long transaction, such as a
    /// backup, reads the partition, it does not even try.
    ///
    /// - Returns: False when a transaction is reading it; the caller tries again later.
    func detach(_ table: Table, _ day: Int64, on connection: PostgresConnection) async throws(PostgresError) -> Bool {
        let isOut = try await Self.briefly(on: connection) { (db) throws(PostgresError) in
            guard try Self.isAttached(table, day, db) else { return true }
            guard try !Self.isInUse(table, day, db) else { return false }
            try db.perform("ALTER TABLE chapar.\(table.rawValue) DETACH PARTITION chapar.\(table.name(of: day))")
            return true
        }
        if isOut { known.withLock { _ = $0.remove(day) } }
        return isOut
    }

    /// Drops detached partitions that end before a time, including those of a node that died before it dropped them.
    func dropDetached(
        before mark: (Table) -> Int64,
        on connection: PostgresConnection
    ) async throws(PostgresError) {
        for table in Table.allCases {
            let days = try await connection.session { (db) throws(PostgresError) in
                try Self.detachedDays(of: table, db)
            }
            for day in days where Self.end(of: day) <= mark(table) {
                // A session that reads such a table by its own name delays it.
                _ = try await Self.briefly(on: connection) { (db) throws(PostgresError) in
                    guard try !Self.isAttached(table, day, db) else { return false }
                    try db.perform("DROP TABLE IF EXISTS chapar.\(table.name(of: day))")
                    return true
                }
            }
        }
    }

    /// Runs a transaction that one node runs at a time; returns false when it would wait too long for a lock.
    private static func briefly(
        on connection: PostgresConnection,
        _ body: @Sendable (isolated PostgresConnection) throws(PostgresError) -> Bool
    ) async throws(PostgresError) -> Bool {
        do throws(PostgresError) {
            return try await connection.transaction { (db) throws(PostgresError) in
                try db.perform("SET LOCAL lock_timeout = '100ms'")
                try lock(db)
                return try body(db)
            }
        } catch {
            if error.isConflict { return false }
            throw error
        }
    }

    /// Takes the lock by which nodes that create or drop partitions take turns.
    private static func lock(_ db: isolated PostgresConnection) throws(PostgresError) {
        try db.run("SELECT pg_advisory_xact_lock(hashtextextended('chapar.partitions', 0))")
    }

    private static func isAttached(
        _ table: Table,
        _ day: Int64,
        _ db: isolated PostgresConnection
    ) throws(PostgresError) -> Bool {
        try db.run(
            "SELECT EXISTS (SELECT FROM pg_class WHERE oid = to_regclass('chapar.' || $1) AND relispartition)",
            [.text(table.name(of: day))]
        ).bool(0, 0)
    }

    /// Whether a transaction that is older than a second, as a gateway's seldom is, has read a partition.
    private static func isInUse(
        _ table: Table,
        _ day: Int64,
        _ db: isolated PostgresConnection
    ) throws(PostgresError) -> Bool {
        // The age of another role's session, or of a prepared transaction, is not visible: both count as older.
        try db.run(
            """
            SELECT EXISTS (
                SELECT FROM pg_locks l LEFT JOIN pg_stat_activity a ON a.pid = l.pid
                WHERE l.locktype = 'relation' AND l.relation = to_regclass('chapar.' || $1) AND l.granted
                AND l.database = (SELECT oid FROM pg_database WHERE datname = current_database())
                AND coalesce(a.xact_start < clock_timestamp() - interval '1 second', true)
            )
            """,
            [.text(table.name(of: day))]
        ).bool(0, 0)
    }

    private static func detachedDays(
        of table: Table,
        _ db: isolated PostgresConnection
    ) throws(PostgresError) -> [Int64] {
        let rows = try db.run(
            """
            SELECT substr(relname, length($1) + 1)::bigint FROM pg_class
            WHERE relnamespace = to_regnamespace(rtrim('chapar.', '.')) AND relkind = 'r' AND NOT relispartition
            AND starts_with(relname, $1) AND substr(relname, length($1) + 1) ~ '^[0-9]{1,9}$' ORDER BY 1
            """,
            [.text("\(table.rawValue)_d")]
        )
        return (0..<rows.count).compactMap { rows.integer($0, 0) }
    }
}
