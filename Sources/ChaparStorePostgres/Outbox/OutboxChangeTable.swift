internal import Foundation
internal import ChaparCore
internal import ChaparQueue

/// The unplanned changes of devices, as rows of `outbox_changes`.
///
/// A change gets its number while its device is locked, so the changes of one device are numbered in the order of their
/// commits.
enum OutboxChangeTable {
    /// The most bytes that one read returns, beyond the first change.
    private static let largestRead = 4 << 20

    /// The distance from the first change to the last, by the two ends of an index: changes are planned in order, so it
    /// is about their number, and never less.
    static let span = """
        SELECT coalesce((SELECT max(number) FROM chapar.outbox_changes) - (SELECT min(number) FROM chapar.outbox_changes) + 1, 0)
        """

    /// Returns about how many changes wait.
    static func backlog(_ db: isolated PostgresConnection) throws(PostgresError) -> Int {
        Int(count: try db.run(span).integer(0, 0) ?? 0)
    }

    /// The error for a caller that would add to a full outbox.
    static let refusal = StoreError.full(
        reason: "devices change faster than platforms can be told of it",
        retryAfter: .seconds(5)
    )

    /// Adds changes behind those that wait.
    static func add(
        _ contents: [OutboxChange.Content],
        at moment: Date,
        _ db: isolated PostgresConnection
    ) throws(PostgresError) {
        try add(contents.map { ($0, moment) }, db)
    }

    /// Adds changes of several times behind those that wait.
    static func add(
        _ changes: [(content: OutboxChange.Content, at: Date)],
        _ db: isolated PostgresConnection
    ) throws(PostgresError) {
        guard !changes.isEmpty else { return }
        var (backends, old, new, entries): ([String?], [String?], [String?], [String?]) = ([], [], [], [])
        for (content, _) in changes {
            var row: (backend: String?, old: Device?, new: Device?, entry: OutboxEntry?)
            switch content {
            case .device(let before, let after): (row.old, row.new) = (before, after)
            case .introduction(let device, let backend): (row.backend, row.new) = (backend, device)
            case .operation(let entry): row.entry = entry
            }
            backends.append(row.backend)
            old.append(row.old?.outboxForm.text)
            new.append(row.new?.outboxForm.text)
            entries.append(row.entry?.outboxForm.text)
        }
        try db.run(
            """
            INSERT INTO chapar.outbox_changes (device, at, backend, old, new, entry)
            SELECT device, at, backend, old, new, entry
            FROM unnest($1::text[], $2::bigint[], $3::text[], $4::text[], $5::text[], $6::text[]) WITH ORDINALITY
            AS n(device, at, backend, old, new, entry, place) ORDER BY place
            """,
            [
                .texts(changes.map(\.content.device)), .integers(changes.map(\.at.millisecondsSince1970)),
                .texts(backends), .texts(old), .texts(new), .texts(entries),
            ]
        )
    }

    /// Returns the oldest changes, in order; fewer than `limit` when they are large.
    static func oldest(
        _ limit: Int,
        on connection: PostgresConnection
    ) async throws(PostgresError) -> [OutboxChange] {
        try await connection.single(
            """
            SELECT number, at, backend, old, new, entry FROM (
                SELECT *, sum(coalesce(octet_length(old), 0) + coalesce(octet_length(new), 0) + coalesce(octet_length(entry), 0))
                OVER (ORDER BY number) AS bytes, row_number() OVER (ORDER BY number) AS place
                FROM (SELECT * FROM chapar.outbox_changes ORDER BY number LIMIT $1) c
            ) c WHERE place = 1 OR bytes <= $2 ORDER BY number
            """,
            [.integer(limit), .integer(largestRead)]
        ) { (rows) throws(PostgresError) in
            var found: [OutboxChange] = []
            for row in 0..<rows.count {
                found.append(
                    OutboxChange(
                        number: rows.integer(row, 0) ?? 0,
                        at: Date(millisecondsSince1970: rows.integer(row, 1) ?? 0),
                        // An unreadable change, as in a table edited by hand, changes nothing: it must not stop the
                        // others.
                        content: content(rows, row) ?? .device(old: nil, new: nil)
                    )
                )
            }
            return found
        }
    }

    private static func content(_ rows: borrowing PostgresRows, _ row: Int) -> OutboxChange.Content? {
        func object(_ column: Int, _ rows: borrowing PostgresRows) -> JSONObject? {
            rows.bytes(row, column).flatMap { try? JSONValue(parsing: $0) }?.objectValue
        }
        if let entry = object(5, rows) { return OutboxEntry(outboxForm: entry).map { .operation($0) } }
        let new = object(4, rows).flatMap { Device(outboxForm: $0) }
        guard let backend = rows.text(row, 2) else {
            return .device(old: object(3, rows).flatMap { Device(outboxForm: $0) }, new: new)
        }
        return new.map { .introduction($0, backend: backend) }
    }

    /// Returns the devices of changes, by the changes' numbers; changes that were planned meanwhile are left out.
    static func devices(
        of numbers: [Int64],
        _ db: isolated PostgresConnection
    ) throws(PostgresError) -> [String] {
        let rows = try db.run(
            "SELECT DISTINCT device FROM chapar.outbox_changes WHERE number = ANY ($1)",
            [.integers(numbers)]
        )
        var found: [String] = []
        for row in 0..<rows.count { if let device = rows.text(row, 0) { found.append(device) } }
        return found
    }

    /// Returns which of these devices have unplanned changes.
    static func holding(
        _ devices: [String],
        _ db: isolated PostgresConnection
    ) throws(PostgresError) -> Set<String> {
        let rows = try db.run(
            """
            SELECT device FROM unnest($1::text[]) AS n(device)
            WHERE EXISTS (SELECT FROM chapar.outbox_changes c WHERE c.device BETWEEN n.device AND n.device)
            """,
            [.texts(devices)]
        )
        var found: Set<String> = []
        for row in 0..<rows.count { if let device = rows.text(row, 0) { found.insert(device) } }
        return found
    }

    /// Removes planned changes.
    ///
    /// Returns, by number, the backends that must not get the change; changes that are gone are left out.
    static func take(
        _ numbers: [Int64],
        _ db: isolated PostgresConnection
    ) throws(PostgresError) -> [Int64: Set<String>] {
        let rows = try db.run(
            "SELECT number, skipped FROM chapar.outbox_changes WHERE number = ANY ($1) ORDER BY number FOR UPDATE",
            [.integers(numbers)]
        )
        var found: [Int64: Set<String>] = [:]
        for row in 0..<rows.count {
            guard let number = rows.integer(row, 0) else { continue }
            found[number] = Set((rows.text(row, 1) ?? "").split(separator: "\n").map(String.init))
        }
        guard !found.isEmpty else { return found }
        try db.run("DELETE FROM chapar.outbox_changes WHERE number = ANY ($1)", [.integers(found.keys.sorted())])
        return found
    }

    /// Excludes a backend from the changes that wait now, of one device or of all.
    static func skip(
        _ backend: String,
        device: String?,
        _ db: isolated PostgresConnection
    ) throws(PostgresError) {
        let (condition, values): (String, [PostgresValue]) =
            device == nil ? ("", []) : ("WHERE device = $1", [.text(device)])
        let rows = try db.run(
            "SELECT number FROM chapar.outbox_changes \(condition) ORDER BY number FOR UPDATE",
            values
        )
        guard rows.count > 0 else { return }
        try db.run(
            """
            UPDATE chapar.outbox_changes SET skipped = coalesce(skipped || E'\\n', '') || $1 WHERE number = ANY ($2)
            """,
            [.text(backend), .integers(rows.integers())]
        )
    }
}
