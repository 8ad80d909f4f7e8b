internal import Foundation
internal import ChaparCore
internal import ChaparQueue

/// The entries of the outbox, as rows of `outbox_entries`.
///
/// A line is the entries that wait for one device at one backend. A transaction that changes a line holds the lock of
/// its device (``RegistryLocks``). A claim locks rows only, and skips those that another transaction has locked.
enum OutboxEntryTable {
    /// The most rows that one transaction removes or makes due.
    static let largestRemoval = 1_000

    private struct Line: Hashable {
        var device: String
        var backend: String

        init(_ entry: OutboxEntry) { (device, backend) = (entry.device, entry.backend) }
    }

    /// The last entry of a line.
    private struct Last {
        var kind: String
        var user: String?
        var isLeased: Bool
    }

    /// Adds entries at the end of their lines, in order; skips a registration when the last entry of its line says the
    /// same.
    ///
    /// Returns how many were added for each backend.
    @discardableResult
    static func add(
        _ entries: [OutboxEntry],
        now: Int64,
        _ db: isolated PostgresConnection
    ) throws(PostgresError) -> [String: Int] {
        guard !entries.isEmpty else { return [:] }
        var last = try lastOfLines(of: entries, db)
        var added: [(entry: OutboxEntry, due: Int64?)] = []
        for entry in entries {
            let line = Line(entry)
            let before = last[line]
            if entry.kind == .register, let before, before.kind == entry.kind.rawValue, before.user == entry.user,
                !before.isLeased
            {
                continue
            }
            added.append((entry, before == nil ? now : nil))
            last[line] = Last(kind: entry.kind.rawValue, user: entry.user, isLeased: false)
        }
        guard !added.isEmpty else { return [:] }
        let new = added.map(\.entry)
        try db.run(
            """
            INSERT INTO chapar.outbox_entries (id, backend, device, user_key, kind, body, at, due)
            SELECT id, backend, device, user_key, kind, body, at, due
            FROM unnest($1::text[], $2::text[], $3::text[], $4::text[], $5::text[], $6::text[], $7::bigint[], $8::bigint[])
            WITH ORDINALITY AS n(id, backend, device, user_key, kind, body, at, due, place) ORDER BY place
            """,
            [
                .texts(new.map(\.id.uuidString)), .texts(new.map(\.backend)), .texts(new.map(\.device)),
                .texts(new.map(\.user)), .texts(new.map(\.kind.rawValue)),
                .texts(new.map { $0.body.isEmpty ? nil : JSONValue.object($0.body).text }),
                .integers(new.map(\.at.millisecondsSince1970)), .integers(added.map(\.due)),
            ]
        )
        let counts = Dictionary(new.map { ($0.backend, 1) }, uniquingKeysWith: +)
        try count(counts, db)
        return counts
    }

    private static func lastOfLines(
        of entries: [OutboxEntry],
        _ db: isolated PostgresConnection
    ) throws(PostgresError) -> [Line: Last] {
        let lines = Array(Set(entries.map { Line($0) }))
        let rows = try db.run(
            """
            SELECT place, kind, user_key, owner IS NOT NULL FROM unnest($1::text[], $2::text[]) WITH ORDINALITY AS l(device, backend, place)
            CROSS JOIN LATERAL (
                SELECT kind, user_key, owner FROM chapar.outbox_entries e
                WHERE e.device = l.device AND e.backend = l.backend ORDER BY number DESC LIMIT 1
            ) e
            """,
            [.texts(lines.map(\.device)), .texts(lines.map(\.backend))]
        )
        var found: [Line: Last] = [:]
        for row in 0..<rows.count {
            guard let place = rows.integer(row, 0) else { continue }
            found[lines[Int(place) - 1]] = Last(
                kind: rows.text(row, 1) ?? "",
                user: rows.text(row, 2),
                isLeased: rows.bool(row, 3)
            )
        }
        return found
    }

    // MARK: Claims

    /// Leases due entries to a node, with one round trip; no two nodes get the same entry.
    static func claim(
        of backend: String,
        by node: Int64,
        limit: Int,
        until end: Int64,
        now: Int64,
        on connection: PostgresConnection
    ) async throws(PostgresError) -> [ClaimedEntry] {
        try await connection.single(
            """
            WITH ready AS MATERIALIZED (
                SELECT number, due FROM chapar.outbox_entries WHERE backend = $1 AND due <= $2
                ORDER BY due, number LIMIT $3 FOR UPDATE SKIP LOCKED
            )
            UPDATE chapar.outbox_entries e
            SET due = $4, attempts = attempts + 1, owner = $5, lease = (SELECT nextval('chapar.leases'))
            FROM ready WHERE e.number BETWEEN ready.number AND ready.number RETURNING \(columns), ready.due, e.lease
            """,
            [.text(backend), .integer(now), .integer(limit), .integer(end), .integer(node)]
        ) { (rows) throws(PostgresError) in
            var found: [(due: Int64, claim: ClaimedEntry)] = []
            for row in 0..<rows.count {
                let entry = waiting(rows, row)
                var claim = ClaimedEntry(number: entry.number, operation: entry.operation, attempt: entry.attempts)
                claim.lease = rows.integer(row, columnCount + 1) ?? 0
                found.append((rows.integer(row, columnCount) ?? 0, claim))
            }
            return found.sorted { ($0.due, $0.claim.number) < ($1.due, $1.claim.number) }.map(\.claim)
        }
    }

    /// Returns when the next entry of a backend is due, or the next lease ends.
    static func nextDue(
        of backend: String,
        on connection: PostgresConnection
    ) async throws(PostgresError) -> Int64? {
        try await connection.single(
            """
            SELECT due FROM chapar.outbox_entries WHERE backend = $1 AND due IS NOT NULL ORDER BY due LIMIT 1
            """,
            [.text(backend)]
        ) { (rows) throws(PostgresError) in rows.integer(0, 0) }
    }

    /// Records the results of claimed entries, within a transaction that has locked their devices.
    ///
    /// The conditions are those of `OutboxEntryState.transitions`: a retry or a release counts only under the lease in
    /// force, an end unless another claim's lease is in force. A failover may have lost the claim, and another node's
    /// claim may have got the same number. So the owner must be the node too, under one of its numbers.
    static func record(
        _ results: [OutboxResult],
        of nodes: [Int64],
        now: Int64,
        _ db: isolated PostgresConnection
    ) throws(PostgresError) {
        var ended: [ClaimedEntry] = []
        var returned: [(claim: ClaimedEntry, due: Int64, untried: Int64, sign: Int64)] = []
        for result in results {
            let claim = result.claim
            switch result.ending {
            case .end: ended.append(claim)
            case .retry(let moment):
                returned.append((claim, moment.millisecondsSince1970, 0, result.asksToWait ? -1 : 1))
            case .release: returned.append((claim, now, 1, 1))
            }
        }
        // Of two results of one claim the first counts, since it ends the lease.
        var seen: Set<[Int64]> = []
        returned = returned.filter { seen.insert([$0.claim.number, $0.claim.lease]).inserted }
        if !returned.isEmpty {
            try db.run(
                """
                UPDATE chapar.outbox_entries e
                SET due = r.due, owner = NULL, attempts = e.attempts - r.untried, lease = e.lease * r.sign
                FROM unnest($1::bigint[], $2::bigint[], $3::bigint[], $4::bigint[], $6::bigint[])
                AS r(number, lease, due, untried, sign)
                WHERE e.number BETWEEN r.number AND r.number AND e.lease = r.lease AND coalesce(e.owner, 0) = ANY ($5)
                """,
                [
                    .integers(returned.map(\.claim.number)), .integers(returned.map(\.claim.lease)),
                    .integers(returned.map(\.due)), .integers(returned.map(\.untried)), .integers(nodes),
                    .integers(returned.map(\.sign)),
                ]
            )
        }
        guard !ended.isEmpty else { return }
        let gone = try db.run(
            """
            DELETE FROM chapar.outbox_entries e USING unnest($1::bigint[], $2::bigint[]) AS r(number, lease)
            WHERE e.number BETWEEN r.number AND r.number AND (e.owner IS NULL OR e.lease = r.lease AND coalesce(e.owner, 0) = ANY ($3))
            RETURNING e.device, e.backend
            """,
            [.integers(ended.map(\.number)), .integers(ended.map(\.lease)), .integers(nodes)]
        )
        try promote(behind: gone, now: now, db)
    }

    /// Releases the claims of nodes that end or have died: the entries are due at once, and their attempts count.
    ///
    /// It never waits for a lock. Rows that another transaction is changing are skipped: their entries end, or their
    /// leases expire.
    ///
    /// Returns the backends of the released entries.
    static func release(
        of nodes: [Int64],
        now: Int64,
        _ db: isolated PostgresConnection
    ) throws(PostgresError) -> Set<String> {
        let rows = try db.run(
            """
            WITH theirs AS MATERIALIZED (
                SELECT number FROM chapar.outbox_entries WHERE owner = ANY ($1) ORDER BY number FOR UPDATE SKIP LOCKED
            ), freed AS (
                UPDATE chapar.outbox_entries e SET due = least(e.due, $2), owner = NULL
                FROM theirs WHERE e.number BETWEEN theirs.number AND theirs.number RETURNING e.backend
            )
            SELECT DISTINCT backend FROM freed
            """,
            [.integers(nodes), .integer(now)]
        )
        return Set((0..<rows.count).compactMap { rows.text($0, 0) })
    }

    /// Makes entries of a backend due that wait for a retry, at most ``largestRemoval`` in one call.
    ///
    /// Returns their number. When that is the limit there may be more, and the caller calls again.
    /// Entries whose platform asked for the wait are left. A negative number of the last lease marks those.
    static func makeRetriesDue(
        of backend: String,
        now: Int64,
        _ db: isolated PostgresConnection
    ) throws(PostgresError) -> Int {
        try db.run(
            """
            UPDATE chapar.outbox_entries SET due = $2 WHERE ctid = ANY (ARRAY(
                SELECT ctid FROM chapar.outbox_entries WHERE backend = $1 AND due > $2 AND owner IS NULL
                AND coalesce(lease, 0) >= 0 ORDER BY due LIMIT $3 FOR UPDATE SKIP LOCKED))
            """,
            [.text(backend), .integer(now), .integer(largestRemoval)]
        ).changed
    }

    // MARK: Removal

    /// Returns some of the oldest entries of a backend, up to a number: their numbers and devices.
    static func oldest(
        of backend: String,
        device: String?,
        upTo last: Int64,
        _ db: isolated PostgresConnection
    ) throws(PostgresError) -> [(number: Int64, device: String)] {
        let (condition, values): (String, [PostgresValue]) =
            device == nil ? ("", []) : ("AND device = $4", [.text(device)])
        let rows = try db.run(
            """
            SELECT number, device FROM chapar.outbox_entries WHERE backend = $1 AND number <= $2 \(condition)
            ORDER BY number LIMIT $3
            """,
            [.text(backend), .integer(last), .integer(largestRemoval)] + values
        )
        var found: [(Int64, String)] = []
        for row in 0..<rows.count {
            if let number = rows.integer(row, 0), let device = rows.text(row, 1) { found.append((number, device)) }
        }
        return found
    }

    /// Returns the number of the newest entry.
    static func newestNumber(_ db: isolated PostgresConnection) throws(PostgresError) -> Int64 {
        try db.run("SELECT coalesce(max(number), 0) FROM chapar.outbox_entries").integer(0, 0) ?? 0
    }

    /// Removes entries and makes the first of their lines claimable; returns how many there were.
    static func remove(
        _ numbers: [Int64],
        now: Int64,
        _ db: isolated PostgresConnection
    ) throws(PostgresError) -> Int {
        let rows = try db.run(
            "DELETE FROM chapar.outbox_entries WHERE number = ANY ($1) RETURNING device, backend",
            [.integers(numbers)]
        )
        try promote(behind: rows, now: now, db)
        return rows.count
    }

    /// Makes the first entry of each line claimable from which entries were removed; `rows` has their devices and
    /// backends.
    private static func promote(
        behind rows: borrowing PostgresRows,
        now: Int64,
        _ db: isolated PostgresConnection
    ) throws(PostgresError) {
        guard rows.count > 0 else { return }
        var devices: [String?] = []
        var backends: [String] = []
        for row in 0..<rows.count {
            devices.append(rows.text(row, 0))
            backends.append(rows.text(row, 1) ?? "")
        }
        try db.run(
            """
            UPDATE chapar.outbox_entries e SET due = $3 FROM (
                SELECT (SELECT number FROM chapar.outbox_entries f WHERE f.device = l.device AND f.backend = l.backend
                ORDER BY number LIMIT 1) AS number
                FROM (SELECT DISTINCT * FROM unnest($1::text[], $2::text[]) AS n(device, backend)) l
            ) first WHERE e.number BETWEEN first.number AND first.number AND e.due IS NULL
            """,
            [.texts(devices), .texts(backends), .integer(now)]
        )
        try count(Dictionary(backends.map { ($0, -1) }, uniquingKeysWith: +), db)
    }

    // MARK: Depths

    /// The number of rows of `outbox_depths` that are merged into one for each backend at once.
    private static let depthRows = 1_000

    /// Adds to the numbers of entries that wait at backends.
    private static func count(
        _ counts: [String: Int],
        _ db: isolated PostgresConnection
    ) throws(PostgresError) {
        let backends = counts.keys.sorted()
        let rows = try db.run(
            """
            INSERT INTO chapar.outbox_depths (backend, waiting) SELECT * FROM unnest($1::text[], $2::bigint[]) RETURNING number
            """,
            [.texts(backends), .integers(backends.map { Int64(counts[$0] ?? 0) })]
        )
        // Each 128th row triggers a merge: the rows that no other transaction has locked are replaced by their sums.
        guard rows.integers().contains(where: { $0 % 128 == 0 }) else { return }
        try db.run(
            """
            WITH old AS MATERIALIZED (
                SELECT number FROM chapar.outbox_depths ORDER BY number LIMIT $1 FOR UPDATE SKIP LOCKED
            ), gone AS (
                DELETE FROM chapar.outbox_depths d USING old WHERE d.number BETWEEN old.number AND old.number RETURNING backend, waiting
            )
            INSERT INTO chapar.outbox_depths (backend, waiting)
            SELECT backend, sum(waiting)::bigint FROM gone GROUP BY backend HAVING sum(waiting) <> 0
            """,
            [.integer(depthRows)]
        )
    }

    /// Returns how much waits at each backend.
    static func depths(_ db: isolated PostgresConnection) throws(PostgresError) -> [String: OutboxDepth] {
        let rows = try db.run(
            """
            SELECT backend, sum(waiting)::bigint,
                (SELECT at FROM chapar.outbox_entries e WHERE e.backend = d.backend ORDER BY number LIMIT 1)
            FROM chapar.outbox_depths d GROUP BY backend HAVING sum(waiting) > 0
            """
        )
        var found: [String: OutboxDepth] = [:]
        for row in 0..<rows.count {
            guard let backend = rows.text(row, 0) else { continue }
            let oldest = rows.integer(row, 2).map { Date(millisecondsSince1970: $0) }
            found[backend] = OutboxDepth(waiting: Int(count: rows.integer(row, 1) ?? 0), oldest: oldest)
        }
        return found
    }

    // MARK: Rows

    /// The columns that ``waiting(_:_:)`` reads, of a table `e`.
    private static let columns =
        "e.number, e.id, e.backend, e.device, e.user_key, e.kind, e.body, e.at, e.attempts, e.due"
    private static let columnCount = 10

    /// Returns the entries that wait for a device.
    static func waiting(
        for device: String,
        limit: Int,
        _ db: isolated PostgresConnection
    ) throws(PostgresError) -> [WaitingEntry] {
        let rows = try db.run(
            "SELECT \(columns) FROM chapar.outbox_entries e WHERE device = $1 ORDER BY number LIMIT $2",
            [.text(device), .integer(limit)]
        )
        var found: [WaitingEntry] = []
        for row in 0..<rows.count { found.append(waiting(rows, row)) }
        return found
    }

    private static func waiting(_ rows: borrowing PostgresRows, _ row: Int) -> WaitingEntry {
        let body = rows.bytes(row, 6).flatMap { try? JSONValue(parsing: $0) }
        return WaitingEntry(
            number: rows.integer(row, 0) ?? 0,
            // The table was written by this store: the fallbacks are for rows that were edited by hand.
            operation: OutboxEntry(
                id: rows.text(row, 1).flatMap { UUID(uuidString: $0) } ?? UUID(),
                backend: rows.text(row, 2) ?? "",
                device: rows.text(row, 3) ?? "",
                user: rows.text(row, 4),
                kind: rows.text(row, 5).flatMap { OutboxEntry.Kind(rawValue: $0) } ?? .register,
                body: body?.objectValue ?? JSONObject(),
                at: Date(millisecondsSince1970: rows.integer(row, 7) ?? 0)
            ),
            attempts: Int(count: rows.integer(row, 8) ?? 0),
            due: rows.integer(row, 9).map { Date(millisecondsSince1970: $0) }
        )
    }
}
