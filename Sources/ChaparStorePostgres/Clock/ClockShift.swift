internal import Logging
internal import ChaparCore
internal import ChaparQueue

/// Shifts deliveries that are scheduled for a time of day, after the wall clock was set.
///
/// It works in steps, so that nothing waits for it, however many deliveries there are.
///
/// The progress is kept in `marks`, by the transaction of each step: any node continues what another has begun.
struct ClockShift {
    /// The most deliveries that one transaction reads, besides the rest of the last one's notification.
    private static let rowsPerStep = 5_000

    /// The names in `marks`: by how much due times are reduced, in milliseconds, after which delivery to continue, and
    /// the last one.
    private enum Mark {
        static let (by, after, upTo) = ("clock_shift_by", "clock_shift_after", "clock_shift_up_to")
        static let all = [by, after, upTo]
    }

    /// The SQL condition for a shift under way.
    static let underWaySQL = "EXISTS (SELECT FROM chapar.marks WHERE name = '\(Mark.by)')"

    /// Returns the SQL condition that the present clock can have written the lease in a row of `chapar.nodes`: no lease
    /// is longer than `lease`.
    static func canHaveWrittenSQL(_ lease: Duration) -> String {
        "lease_until <= clock_timestamp() + make_interval(secs => \(lease.inSeconds))"
    }

    private let core: StoreCore
    private let rows: Int

    /// Makes a shift that reads up to `rows` deliveries at a time.
    init(_ core: StoreCore, rows: Int = Self.rowsPerStep) { (self.core, self.rows) = (core, rows) }

    /// Records how far the wall clock is ahead from now on, and that waiting deliveries are shifted by the difference,
    /// unless another node has.
    ///
    /// - Returns: False while an earlier shift is under way, which must end first.
    @discardableResult
    func begin(to ahead: Int64, on connection: PostgresConnection) async throws(PostgresError) -> Bool {
        let lease = core.options.nodeLease
        let jump = try await connection.transaction { (db) throws(PostgresError) -> Int64? in
            let before = try db.run("SELECT ahead FROM chapar.clock FOR UPDATE").integer(0, 0) ?? 0
            guard ahead.distance(clamping: before) >= StoreCore.smallestJump else { return 0 }
            let jump = ahead.subtracting(clamping: before)
            guard try !Self.isUnderWay(db) else { return nil }
            try db.run("UPDATE chapar.clock SET ahead = $1", [.integer(ahead)])
            // Shortens the leases of nodes that died before the clock was set back: otherwise they would count as dead
            // only once the clock reaches the end of their leases.
            try db.run(
                """
                UPDATE chapar.nodes SET lease_until = lease_until + make_interval(secs => $1::float8)
                WHERE NOT \(Self.canHaveWrittenSQL(lease))
                """,
                [.text("\(min(0, Double(jump) / 1_000))")]
            )
            let last = try db.run("SELECT max(id) FROM chapar.waiting").integer(0, 0)
            if let last {
                try db.run(
                    "INSERT INTO chapar.marks (name, value) SELECT * FROM unnest($1::text[], $2::bigint[])",
                    [.texts(Mark.all), .integers([jump, -1, last])]
                )
            }
            return jump
        }
        guard let jump else { return false }
        core.ahead = ahead
        if jump != 0 {
            core.logger.notice(
                "the wall clock was set",
                metadata: ["clock.jump_seconds": .stringConvertible(Double(jump) / 1_000)]
            )
        }
        return true
    }

    /// Shifts rows until nothing is left, or the span is over.
    ///
    /// - Returns: Whether something is left.
    @discardableResult
    func run(within span: Duration? = nil) async throws(PostgresError) -> Bool {
        guard try await core.keeper.session({ (db) throws(PostgresError) in try Self.isUnderWay(db) }) else {
            return false
        }
        let begin = ContinuousClock.now
        let rows = rows
        var (isMoved, isLeft) = (false, true)
        defer { if isMoved { core.stirAll() } }
        repeat {
            let now = core.now
            let moved = try await core.keeper.transaction { (db) throws(PostgresError) in
                try Self.moveRows(of: rows, now: now, db)
            }
            isLeft = moved != nil
            if moved ?? 0 > 0 { isMoved = true }
        } while isLeft && begin.duration(to: .now) < span ?? .seconds(86_400)
        return isLeft
    }

    /// Whether a shift is under way.
    static func isUnderWay(_ db: isolated PostgresConnection) throws(PostgresError) -> Bool {
        try db.run("SELECT \(underWaySQL)").bool(0, 0)
    }

    /// Shifts the next rows; returns how many deliveries were shifted, nil when there is none left.
    private static func moveRows(
        of rows: Int,
        now: Int64,
        _ db: isolated PostgresConnection
    ) throws(PostgresError) -> Int? {
        // One node at a time.
        try db.run("SELECT FROM chapar.clock FOR UPDATE")
        let marks = try db.run("SELECT name, value FROM chapar.marks WHERE name = ANY ($1)", [.texts(Mark.all)])
        var values: [String: Int64] = [:]
        for row in 0..<marks.count { values[marks.text(row, 0) ?? ""] = marks.integer(row, 1) }
        guard let jump = values[Mark.by], let after = values[Mark.after], let upTo = values[Mark.upTo] else {
            return nil
        }
        // A step ends with a notification: the row of a notification changes with its first delivery, and then no
        // longer has the due time of the others.
        let end = try db.run(
            """
            SELECT greatest(n.id + n.count - 1, w.id) FROM (
                SELECT id, notification FROM (
                    SELECT id, notification FROM chapar.waiting WHERE id > $1 AND id <= $2 ORDER BY id LIMIT $3
                ) AS looked ORDER BY id DESC LIMIT 1
            ) AS w LEFT JOIN chapar.notifications n ON n.id = w.notification
            """,
            [.integer(after), .integer(upTo), .integer(rows)]
        ).integer(0, 0)
        guard let end else {
            try db.run("DELETE FROM chapar.marks WHERE name = ANY ($1)", [.texts(Mark.all)])
            return nil
        }
        try db.run("UPDATE chapar.marks SET value = $2 WHERE name = $1", [.text(Mark.after), .integer(end)])
        let moved = try db.run(
            """
            WITH found AS MATERIALIZED (
                SELECT w.id, w.notification FROM chapar.waiting w JOIN chapar.notifications n ON n.id = w.notification
                WHERE w.id > $1 AND w.id <= $2 AND n.id > $1 AND n.id <= $2
                AND w.due > $4 AND w.attempts = 0 AND w.due = n.scheduled ORDER BY w.id FOR UPDATE OF w
            ), moved AS (
                UPDATE chapar.waiting w SET due = w.due - $3, expires = w.expires - $3 FROM found
                WHERE w.id = found.id AND w.id > $1 AND w.id <= $2
            ), told AS (
                UPDATE chapar.notifications n SET scheduled = n.scheduled - $3, expires = n.expires - $3
                WHERE n.id IN (SELECT notification FROM found) AND n.id > $1 AND n.id <= $2
            )
            SELECT count(*) FROM found
            """,
            [.integer(after), .integer(end), .integer(jump), .integer(now)]
        )
        return Int(count: moved.integer(0, 0) ?? 0)
    }
}
