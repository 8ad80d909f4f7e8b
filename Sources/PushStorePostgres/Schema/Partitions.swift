internal import Foundation
internal import PushCore
internal import PushQueue
internal import Synchronization

/// The days that have partitions: made before they are written to, dropped whole when nothing in them is wanted any more.
///
/// Notifications, results and awaited receipts are divided by their numbers, which begin with the time
/// (``PushQueue/NotificationID``), events by their time.
final class Partitions: Sendable {
    /// A table that is divided, and how the bounds of a day are written in its column.
    enum Table: String, CaseIterable {
        case notifications, results, awaited, events

        /// The first value of a day.
        func start(of day: Int64) -> Int64 {
            let moment = Date(millisecondsSince1970: day * Partitions.milliseconds)
            return self == .events ? moment.millisecondsSince1970 : NotificationID(firstAt: moment).rawValue
        }

        func name(of day: Int64) -> String { "\(rawValue)_d\(day)" }
    }

    static let milliseconds: Int64 = 86_400_000

    private let known = Mutex<Set<Int64>>([])

    /// The day that a time lies in, since 1970.
    static func day(_ milliseconds: Int64) -> Int64 {
        milliseconds >= 0 ? milliseconds / Self.milliseconds : (milliseconds + 1) / Self.milliseconds - 1
    }

    /// The day of a number.
    static func day(ofNumber number: Int64) -> Int64 {
        day(NotificationID(rawValue: number).time.millisecondsSince1970)
    }

    /// Those of these days that may have no partitions.
    func missing(_ days: Set<Int64>) -> [Int64] { known.withLock { days.subtracting($0).sorted() } }

    /// Makes the partitions of days.
    ///
    /// Attaching takes a lock that hinders neither readers nor writers.
    func make(_ days: [Int64], on connection: PostgresConnection) async throws(PostgresError) {
        for day in days {
            try await connection.transaction { (db) throws(PostgresError) in
                try db.run("SELECT pg_advisory_xact_lock(hashtextextended('chapar.partitions', 0))")
                for table in Table.allCases {
                    let name = table.name(of: day)
                    guard try db.run("SELECT to_regclass('chapar.\(name)') IS NULL").bool(0, 0) else { continue }
                    try db.perform(
                        """
                        CREATE TABLE chapar.\(name) (LIKE chapar.\(table.rawValue) INCLUDING DEFAULTS INCLUDING CONSTRAINTS);
                        ALTER TABLE chapar.\(table.rawValue) ATTACH PARTITION chapar.\(name)
                            FOR VALUES FROM (\(table.start(of: day))) TO (\(table.start(of: day + 1)))
                        """
                    )
                }
            }
            known.withLock { _ = $0.insert(day) }
        }
    }

    /// The days that a table has partitions for, the oldest first.
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

    /// Drops a day's partition: first out of its table, which takes a lock for a moment and gives up rather than hold others up, then
    /// the files.
    ///
    /// - Returns: False when somebody is reading; it is tried again later.
    func drop(_ table: Table, _ day: Int64, on connection: PostgresConnection) async throws(PostgresError) -> Bool {
        let name = table.name(of: day)
        do throws(PostgresError) {
            try await connection.transaction { (db) throws(PostgresError) in
                try db.perform(
                    """
                    SET LOCAL lock_timeout = '100ms';
                    ALTER TABLE chapar.\(table.rawValue) DETACH PARTITION chapar.\(name)
                    """
                )
            }
        } catch {
            if error.isConflict { return false }
            throw error
        }
        known.withLock { _ = $0.remove(day) }
        try await connection.session { (db) throws(PostgresError) in try db.perform("DROP TABLE chapar.\(name)") }
        return true
    }
}
