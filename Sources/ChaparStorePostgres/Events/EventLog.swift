internal import ChaparCore
internal import ChaparQueue

/// The event log: rows that each hold the events of one commit, a block.
///
/// A block gets the number of its first event only after its commit, from the next reader. So numbers have no gaps, and
/// a block whose transaction took long comes after those that were read before it. Its place in the sequence does not
/// count.
enum EventLog {
    /// The most blocks of events that one transaction numbers.
    private static let blocksAtOnce = 1_000

    /// Appends the events of a transaction.
    static func append(_ events: [[UInt8]?], now: Int64, _ db: isolated PostgresConnection) throws(PostgresError) {
        guard !events.isEmpty else { return }
        try db.run(
            "INSERT INTO chapar.events (at, count, texts) VALUES ($1, $2, $3)",
            [.integer(now), .integer(events.count), .byteArrays(events)]
        )
    }

    /// Numbers the blocks that were committed since, behind the mark, and returns the highest event number.
    static func number(
        on connection: PostgresConnection,
        _ mark: NumberingMark = NumberingMark()
    ) async throws(PostgresError) -> Int64 {
        let (after, begin) = mark.begin()
        let (last, isNew, highest) = try await connection.session { (db) throws(PostgresError) in
            let rows = try db.run(
                """
                SELECT last, EXISTS (SELECT FROM chapar.events WHERE first IS NULL AND batch > $1),
                    (SELECT last_value FROM chapar.event_batches)
                FROM chapar.event_head
                """,
                [.integer(after)]
            )
            return (rows.integer(0, 0) ?? 0, rows.bool(0, 1), rows.integer(0, 2) ?? 0)
        }
        guard isNew else {
            mark.end(begin, after, highest: highest)
            return last
        }
        while true {
            let (last, count) = try await connection.transaction { (db) throws(PostgresError) in
                // Takes the lock in a separate statement, so that the next one sees what the former holder has
                // numbered.
                let last = try db.run("SELECT last FROM chapar.event_head FOR UPDATE").integer(0, 0) ?? 0
                let rows = try db.run(
                    Self.numbering,
                    [.integer(last), .integer(Self.blocksAtOnce), .integer(after)]
                )
                let upto = last.adding(clamping: rows.integer(0, 1) ?? 0)
                if upto > last { try db.run("UPDATE chapar.event_head SET last = $1", [.integer(upto)]) }
                return (upto, rows.integer(0, 0) ?? 0)
            }
            if count < Self.blocksAtOnce {
                mark.end(begin, after, highest: highest)
                return last
            }
        }
    }

    /// The statement that numbers blocks in the order of their batches; it reads only a small index.
    static let numbering = """
        WITH new AS MATERIALIZED (
            SELECT batch, at, count, sum(count) OVER (ORDER BY batch) AS upto FROM (
                SELECT batch, at, count FROM chapar.events WHERE first IS NULL AND batch > $3 ORDER BY batch LIMIT $2
            ) AS b
        ), numbered AS (
            UPDATE chapar.events e SET first = $1 + new.upto - new.count + 1 FROM new
            WHERE e.batch = new.batch AND e.at = new.at AND e.first IS NULL RETURNING e.count
        )
        SELECT count(*), coalesce(sum(count), 0)::bigint FROM numbered
        """

    /// The statement that reads the kept blocks with $2 events from number $1 on, or as many as there are.
    ///
    /// A block may hold thousands of events: only blocks that begin within the first $2 are returned, and the texts of
    /// others are not fetched. The first block may hold events before the number.
    static let reading = """
        SELECT first, texts FROM (
            SELECT first, texts, sum(own) OVER (ORDER BY first ROWS UNBOUNDED PRECEDING) - own AS earlier
            FROM (
                SELECT first, texts, greatest(0, first + count - greatest(first, $1)) AS own FROM chapar.events
                WHERE first >= coalesce((SELECT max(first) FROM chapar.events WHERE first <= $1), 0)
                AND (at >= \(Marks.value(of: .events)) OR first = (SELECT max(first) FROM chapar.events))
                ORDER BY first LIMIT $2
            ) AS next
        ) AS sized WHERE earlier < $2 ORDER BY first
        """

    /// Returns kept events above a number, oldest first.
    static func read(
        after: Int64,
        limit: Int,
        on connection: PostgresConnection
    ) async throws(PostgresError) -> [StoredEvent] {
        try await connection.session { (db) throws(PostgresError) in
            let rows = try db.run(Self.reading, [.integer(after.adding(clamping: 1)), .integer(limit)])
            var events: [StoredEvent] = []
            for row in 0..<rows.count where events.count < limit {
                let first = rows.integer(row, 0) ?? 0
                for (index, text) in rows.byteArrays(row, 1).enumerated() where events.count < limit {
                    let number = first.adding(clamping: Int64(index))
                    if number > after { events.append(StoredEvent(number: number, json: text)) }
                }
            }
            return events
        }
    }
}

/// The times from which finished notifications and events are kept: older ones are not shown any more, and are removed
/// with the partition of their day.
enum Marks: String {
    case notifications = "kept_notifications"
    case events = "kept_events"

    /// Returns a mark as an SQL expression.
    static func value(of mark: Marks) -> String {
        "coalesce((SELECT value FROM chapar.marks WHERE name = '\(mark.rawValue)'), -1)"
    }

    /// Moves the marks forward.
    static func save(_ retention: Retention, _ db: isolated PostgresConnection) throws(PostgresError) {
        try db.run(
            """
            INSERT INTO chapar.marks AS m (name, value) SELECT * FROM unnest($1::text[], $2::bigint[])
            ON CONFLICT (name) DO UPDATE SET value = excluded.value WHERE m.value < excluded.value
            """,
            [
                .texts([Marks.notifications.rawValue, Marks.events.rawValue]),
                .integers([retention.notifications.millisecondsSince1970, retention.events.millisecondsSince1970]),
            ]
        )
    }
}
