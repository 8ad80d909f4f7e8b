import Foundation
import ChaparCore
import ChaparQueue

/// The entries of the outbox, as rows of the table `outbox_entries`.
///
/// ``SQLiteStore/claimEntries(of:limit:lease:wait:)`` and its siblings call it, on the writer's thread only, within its
/// transaction. It signals no waiting claim and calls no plugin. Every statement uses an index, so that no step costs
/// more when more entries wait.
final class OutboxEntryTable {
    /// The most rows that one step removes or makes due.
    static let largestRemoval = 1_000
    /// The value of `leased` while an entry is unclaimed and waits because the platform asked for it; 1 is a claimed
    /// entry.
    static let waitsAsAsked: Int64 = 2

    private let last: SQLStatement
    private let insert: SQLStatement
    private let due: SQLStatement
    private let nextDue: SQLStatement
    private let lease: SQLStatement
    private let again: SQLStatement
    private let untried: SQLStatement
    private let end: SQLStatement
    private let delete: SQLStatement
    private let promote: SQLStatement
    private let hasten: SQLStatement
    private let newest: SQLStatement
    private let ofBackend: SQLStatement
    private let ofLine: SQLStatement

    private let status: StoreStatus

    init(_ connection: OpaquePointer, _ status: StoreStatus) throws(StoreError) {
        self.status = status
        func statement(_ sql: String) throws(StoreError) -> SQLStatement { try SQLStatement(connection, sql) }
        last = try statement(
            """
            SELECT kind, user, leased FROM outbox_entries INDEXED BY outbox_entries_of_line
            WHERE backend = ?1 AND device = ?2 ORDER BY number DESC LIMIT 1
            """
        )
        insert = try statement(
            """
            INSERT INTO outbox_entries (id, backend, device, user, kind, body, at, attempts, due, leased)
            VALUES (?1, ?2, ?3, ?4, ?5, ?6, ?7, 0, ?8, 0)
            """
        )
        due = try statement(
            """
            SELECT \(OutboxEntryRow.columns) FROM outbox_entries INDEXED BY outbox_entries_due
            WHERE backend = ?1 AND due IS NOT NULL AND due <= ?2 ORDER BY due, number
            """
        )
        nextDue = try statement(
            """
            SELECT due FROM outbox_entries INDEXED BY outbox_entries_due
            WHERE backend = ?1 AND due IS NOT NULL AND due > ?2 ORDER BY due LIMIT 1
            """
        )
        lease = try statement(
            "UPDATE outbox_entries SET due = ?2, attempts = attempts + 1, leased = 1 WHERE number = ?1"
        )
        again = try statement(
            "UPDATE outbox_entries SET due = ?3, leased = ?4 WHERE number = ?1 AND attempts = ?2 AND leased = 1"
        )
        untried = try statement(
            """
            UPDATE outbox_entries SET due = ?3, leased = 0, attempts = attempts - 1
            WHERE number = ?1 AND attempts = ?2 AND leased = 1
            """
        )
        end = try statement("DELETE FROM outbox_entries WHERE number = ?1 AND (leased <> 1 OR attempts = ?2)")
        delete = try statement("DELETE FROM outbox_entries WHERE number = ?1")
        promote = try statement(
            """
            UPDATE outbox_entries SET due = ?3 WHERE due IS NULL AND number = (SELECT min(number) FROM outbox_entries
            INDEXED BY outbox_entries_of_line WHERE backend = ?1 AND device = ?2)
            """
        )
        hasten = try statement(
            """
            UPDATE outbox_entries SET due = ?2 WHERE number IN (SELECT number FROM outbox_entries
            INDEXED BY outbox_entries_due WHERE backend = ?1 AND due IS NOT NULL AND due > ?2 AND leased = 0 LIMIT ?3)
            """
        )
        newest = try statement("SELECT coalesce(max(number), 0) FROM outbox_entries")
        ofBackend = try statement(
            """
            SELECT number, device FROM outbox_entries INDEXED BY outbox_entries_of_line
            WHERE backend = ?1 AND number <= ?2 ORDER BY device, number LIMIT ?3
            """
        )
        ofLine = try statement(
            """
            SELECT number, device FROM outbox_entries INDEXED BY outbox_entries_of_line
            WHERE backend = ?1 AND number <= ?2 AND device = ?4 ORDER BY number LIMIT ?3
            """
        )
    }

    /// Adds an entry at the end of its line, unless it is a registration and the last of the line says the same.
    func add(_ operation: OutboxEntry, now: Int64) throws(StoreError) {
        last.bind(1, operation.backend)
        last.bind(2, operation.device)
        var isFirst = true
        if try last.next() {
            isFirst = false
            let (kind, user, leased) = (try last.text(0), try last.optionalText(1), try last.integer(2))
            last.reset()
            let isSame =
                operation.kind == .register && kind == OutboxEntry.Kind.register.rawValue && user == operation.user
                && leased != 1
            if isSame { return }
        }
        insert.bind(1, operation.id.uuidString)
        insert.bind(2, operation.backend)
        insert.bind(3, operation.device)
        insert.bind(4, operation.user)
        insert.bind(5, operation.kind.rawValue)
        insert.bind(6, operation.body.isEmpty ? nil : JSONValue.object(operation.body).text)
        insert.bind(7, operation.at.millisecondsSince1970)
        insert.bind(8, isFirst ? now : nil)
        try insert.run()
    }

    /// Leases due entries; returns when the next of the backend is due if there are none.
    ///
    /// An unreadable entry stays as it is and is skipped: it neither counts in `limit` nor is the next one.
    func claim(of backend: String, limit: Int, until end: Int64, now: Int64) throws(StoreError)
        -> (claims: [ClaimedEntry], next: Int64?)
    {
        var claims: [ClaimedEntry] = []
        due.bind(1, backend)
        due.bind(2, now)
        while claims.count < limit, try due.next() {
            guard let row = due.readable({ (row) throws(StoreError) in try OutboxEntryRow(row) }, status) else {
                continue
            }
            claims.append(ClaimedEntry(number: row.number, operation: row.operation, attempt: row.attempts + 1))
        }
        due.reset()
        for claim in claims {
            lease.bind(1, claim.number)
            lease.bind(2, end)
            try lease.run()
        }
        nextDue.bind(1, backend)
        nextDue.bind(2, now)
        guard claims.isEmpty, try nextDue.next() else { return (claims, nil) }
        defer { nextDue.reset() }
        return (claims, nextDue.readable({ (row) throws(StoreError) in try row.moment(0) }, status))
    }

    /// Records the result of a claimed entry; returns false when the entry is gone, or under another claim.
    ///
    /// The conditions of the statements are those of `OutboxEntryState.transitions`: a retry or a release changes
    /// nothing unless the claim's lease is in force (`attempts` and `leased`), an end unless another claim's is.
    @discardableResult
    func record(_ result: OutboxResult, now: Int64) throws(StoreError) -> Bool {
        let operation = result.claim.operation
        switch result.ending {
        case .end:
            end.bind(1, result.claim.number)
            end.bind(2, result.claim.attempt)
            guard try end.run() == 1 else { return false }
            try promote(operation.backend, operation.device, now: now)
            return true
        case .retry(let moment):
            again.bind(4, result.asksToWait ? Self.waitsAsAsked : 0)
            return try giveBack(again, result.claim, due: moment.millisecondsSince1970)
        case .release:
            return try giveBack(untried, result.claim, due: now)
        }
    }

    /// Makes entries of a backend due that wait for a retry; returns how many, ``largestRemoval`` when there may be
    /// more.
    ///
    /// Entries whose platform asked for the wait are left.
    func makeRetriesDue(of backend: String, now: Int64) throws(StoreError) -> Int {
        hasten.bind(1, backend)
        hasten.bind(2, now)
        hasten.bind(3, Self.largestRemoval)
        return try hasten.run()
    }

    /// Returns the number of the newest entry.
    func newestNumber() throws(StoreError) -> Int64 {
        guard try newest.next() else { return 0 }
        defer { newest.reset() }
        return try newest.integer(0)
    }

    /// Removes some of the entries that wait for a backend, up to a number; returns how many, ``largestRemoval`` when
    /// there may be more.
    func remove(of backend: String, device: String?, upTo number: Int64, now: Int64) throws(StoreError) -> Int {
        let statement = device == nil ? ofBackend : ofLine
        statement.bind(1, backend)
        statement.bind(2, number)
        statement.bind(3, Self.largestRemoval)
        if let device { statement.bind(4, device) }
        var found: [(number: Int64, device: String)] = []
        while try statement.next() { found.append((try statement.integer(0), try statement.text(1))) }
        for (number, _) in found {
            delete.bind(1, number)
            try delete.run()
        }
        for device in Set(found.map(\.device)) { try promote(backend, device, now: now) }
        return found.count
    }

    private func giveBack(_ statement: SQLStatement, _ claim: ClaimedEntry, due: Int64) throws(StoreError) -> Bool {
        statement.bind(1, claim.number)
        statement.bind(2, claim.attempt)
        statement.bind(3, due)
        return try statement.run() == 1
    }

    /// Makes the first entry of a line claimable.
    private func promote(_ backend: String, _ device: String, now: Int64) throws(StoreError) {
        promote.bind(1, backend)
        promote.bind(2, device)
        promote.bind(3, now)
        try promote.run()
    }
}

/// A row of the table of entries.
struct OutboxEntryRow {
    /// The columns that ``init(_:)`` reads, in order.
    static let columns = "number, id, backend, device, user, kind, body, at, attempts, due"

    var number: Int64
    var operation: OutboxEntry
    var attempts: Int
    var due: Date?

    /// Returns the id of an entry; nil for a text that is none.
    static func id(_ text: String) -> UUID? { UUID(uuidString: text) }

    /// Reads the current row of a statement that selects ``columns``.
    init(_ row: SQLStatement) throws(StoreError) {
        number = try row.integer(0)
        guard let id = Self.id(try row.text(1)) else { throw row.damage(1, "a UUID") }
        guard let kind = OutboxEntry.Kind(rawValue: try row.text(5)) else { throw row.damage(5, "a kind of entry") }
        var body = JSONObject()
        if !row.isNull(6) {
            guard case .object(let object)? = try? JSONValue(parsing: try row.bytes(6)) else {
                throw row.damage(6, "a JSON object")
            }
            body = object
        }
        operation = OutboxEntry(
            id: id,
            backend: try row.text(2),
            device: try row.text(3),
            user: try row.optionalText(4),
            kind: kind,
            body: body,
            at: try row.date(7)
        )
        attempts = try row.count(8)
        due = try row.optionalDate(9)
    }
}
