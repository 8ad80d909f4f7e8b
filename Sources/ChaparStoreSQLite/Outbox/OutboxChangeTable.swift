import Foundation
import ChaparCore
import ChaparQueue

/// The unplanned changes of devices, as rows of the table `outbox_changes`.
///
/// ``DeviceTables`` adds to it in the transaction that changes the device; plans remove changes from it. It calls no
/// plugin. Used by the writer's thread only, within its transaction.
final class OutboxChangeTable {
    /// The name under which the planner waits for changes; no backend has it.
    static let signal = ""

    private let insert: SQLStatement
    private let span: SQLStatement
    private let ofDevice: SQLStatement
    private let find: SQLStatement
    private let delete: SQLStatement
    private let skip: SQLStatement

    init(_ connection: OpaquePointer) throws(StoreError) {
        func statement(_ sql: String) throws(StoreError) -> SQLStatement { try SQLStatement(connection, sql) }
        insert = try statement(
            """
            INSERT INTO outbox_changes (device, at, backend, old, new, entry) VALUES (?1, ?2, ?3, ?4, ?5, ?6)
            """
        )
        span = try statement(Self.span)
        ofDevice = try statement("SELECT 1 FROM outbox_changes WHERE device = ?1 LIMIT 1")
        find = try statement("SELECT skipped FROM outbox_changes WHERE number = ?1")
        delete = try statement("DELETE FROM outbox_changes WHERE number = ?1")
        skip = try statement(
            """
            UPDATE outbox_changes SET skipped = coalesce(skipped || char(10), '') || ?1
            WHERE ?2 IS NULL OR device = ?2
            """
        )
    }

    /// The distance from the first change to the last: changes are planned in order, so it is about their number, and
    /// never less.
    static let span = """
        SELECT coalesce((SELECT max(number) FROM outbox_changes) - (SELECT min(number) FROM outbox_changes) + 1, 0)
        """

    /// Adds a change behind those that wait.
    func add(_ content: OutboxChange.Content, at moment: Int64) throws(StoreError) {
        insert.bind(1, content.device)
        insert.bind(2, moment)
        for index in Int32(3)...6 { insert.bindNull(index) }
        switch content {
        case .device(let old, let new):
            insert.bind(4, old?.outboxForm.text)
            insert.bind(5, new?.outboxForm.text)
        case .introduction(let device, let backend):
            insert.bind(3, backend)
            insert.bind(5, device.outboxForm.text)
        case .operation(let operation): insert.bind(6, operation.outboxForm.text)
        }
        try insert.run()
    }

    /// Returns about how many changes wait, never less.
    func backlog() throws(StoreError) -> Int {
        guard try span.next() else { return 0 }
        defer { span.reset() }
        return try span.count(0)
    }

    /// Whether a change of a device waits.
    func holds(_ device: String) throws(StoreError) -> Bool {
        ofDevice.bind(1, device)
        guard try ofDevice.next() else { return false }
        ofDevice.reset()
        return true
    }

    /// Removes a planned change.
    ///
    /// Returns the backends that must not get it; nil when the change is gone.
    func take(_ number: Int64) throws(StoreError) -> Set<String>? {
        find.bind(1, number)
        guard try find.next() else { return nil }
        let skipped = try find.optionalText(0)?.split(separator: "\n").map(String.init) ?? []
        find.reset()
        delete.bind(1, number)
        try delete.run()
        return Set(skipped)
    }

    /// Excludes a backend from the changes that wait now, of one device or of all.
    func skip(_ backend: String, device: String?) throws(StoreError) {
        skip.bind(1, backend)
        skip.bind(2, device)
        try skip.run()
    }
}

/// Reads unplanned changes.
enum OutboxReader {
    /// The most bytes that one read returns, beyond the first change.
    private static let largestRead = 4 << 20

    /// Returns the oldest changes, in order; fewer than `limit` when they are large.
    static func changes(_ connection: OpaquePointer, limit: Int) throws(StoreError) -> [OutboxChange] {
        let rows = try SQLStatement(
            connection,
            "SELECT number, at, backend, old, new, entry FROM outbox_changes ORDER BY number LIMIT ?1"
        )
        rows.bind(1, limit)
        var found: [OutboxChange] = []
        var bytes = 0
        while try rows.next() {
            bytes += (3...5).reduce(0) { $0 + rows.byteCount($1) }
            if bytes > largestRead, !found.isEmpty { break }
            // An unreadable change, in a damaged file, changes nothing: it must not stop the others.
            let content = (try? content(of: rows)) ?? .device(old: nil, new: nil)
            let at = (try? rows.date(1)) ?? Date(millisecondsSince1970: 0)
            found.append(OutboxChange(number: try rows.integer(0), at: at, content: content))
        }
        rows.reset()
        return found
    }

    private static func content(of row: SQLStatement) throws(StoreError) -> OutboxChange.Content? {
        func object(_ column: Int32) throws(StoreError) -> JSONObject? {
            row.isNull(column) ? nil : (try? JSONValue(parsing: try row.bytes(column)))?.objectValue
        }
        if let operation = try object(5) { return OutboxEntry(outboxForm: operation).map { .operation($0) } }
        let new = try object(4).flatMap { Device(outboxForm: $0) }
        guard let backend = try row.optionalText(2) else {
            return .device(old: try object(3).flatMap { Device(outboxForm: $0) }, new: new)
        }
        return new.map { .introduction($0, backend: backend) }
    }
}
