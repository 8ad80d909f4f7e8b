import Foundation
import GRDB
package import ChaparCore
package import ChaparQueue

/// An embedded store as the source or the target of a copy, with its file's lock.
///
/// It opens as the store itself does: staged deliveries get rows, claimed ones count as possibly sent, and the tables
/// are brought up to date.
package final class SQLiteCopyStore: CopyStore {
    package let name: String
    private let pool: DatabasePool
    private let ownership: FileOwnership

    /// The number of blocks of the archive that make a page.
    private static let blocksOfPage = 4
    /// The number of commits whose events make a page.
    private static let eventBlocksOfPage = 100
    /// The key before the number of a block of the archive.
    private static let archive = CopyValue.text("archive")

    /// Opens a store; a missing file is created for a target, and is a `CopyRefusal` for a source.
    package init(_ options: SQLiteStoreOptions, isTarget: Bool) throws {
        name = StoreFiles.canonical(options.path)
        guard isTarget || FileManager.default.fileExists(atPath: options.path) else {
            throw CopyRefusal("there is no store \(options.path)")
        }
        ownership = try FileOwnership(of: options.path)
        try FileOwnership.makePrivate(options.path)
        pool = try OpenedStore.open(options, acceptsUnfinishedCopy: true).0
        guard !isTarget else { return }
        do {
            try pool.read { try StoreAudit.run($0) }
        } catch {
            throw StoreError(opening: options.path, error)
        }
    }

    package func requireUnused() async throws(StoreError) {}

    package func close() async {
        try? pool.foldLog()
        try? pool.close()
        ownership.release()
    }

    // MARK: Reading

    package func header() async throws(StoreError) -> CopyHeader {
        try await use { (db) throws(StoreError) in
            let marks = try SQLStatement(db, "SELECT name, value FROM marks WHERE name IN ('steady', 'wall')")
            var values: [String: Int64] = [:]
            while try marks.next() { values[try marks.text(0)] = try marks.moment(1) }
            let ahead = values["wall"].flatMap { wall in values["steady"].map { wall.subtracting(clamping: $0) } } ?? 0
            let last = try SQLStatement(db, "SELECT first, count FROM events ORDER BY first DESC LIMIT 1")
            let lastEvent =
                try last.next()
                ? try last.id(0).adding(clamping: Int64(try last.count(1))).subtracting(clamping: 1) : 0
            last.reset()
            return CopyHeader(lastEvent: lastEvent, ahead: ahead)
        }
    }

    package func count(_ kind: CopyKind) async throws(StoreError) -> Int {
        try await use { (db) throws(StoreError) in
            let form = SQLiteCopyForm(kind)
            var sql = "SELECT count(*) FROM \(form.source) WHERE \(form.filter)"
            // About 100 for each block of the archive, which has up to 256 deliveries.
            if kind.hasArchive { sql = "SELECT (\(sql)) + 100 * (SELECT count(*) FROM archive)" }
            let rows = try SQLStatement(db, sql)
            defer { rows.reset() }
            return try rows.next() ? try rows.count(0) : 0
        }
    }

    package func page(_ kind: CopyKind, after: [CopyValue]?, limit: Int) async throws(StoreError) -> CopyPage {
        try await use { (db) throws(StoreError) in
            if let after, after.first == Self.archive {
                return try Self.archivePage(kind, after: after.last?.integer ?? 0, db)
            }
            if kind == .searchKeys { return try Self.searchKeyPage(after: after, limit: limit, db) }
            let limit = kind == .events ? min(limit, Self.eventBlocksOfPage) : limit
            let form = SQLiteCopyForm(kind)
            let keys = form.columns.prefix(kind.keyCount).joined(separator: ", ")
            let places = (1...kind.keyCount).map { "?\($0)" }.joined(separator: ", ")
            let rows = try SQLStatement(
                db,
                """
                SELECT \(form.columns.joined(separator: ", ")) FROM \(form.source)
                WHERE \(form.filter)\(after == nil ? "" : " AND (\(keys)) > (\(places))") ORDER BY \(keys) LIMIT \(limit)
                """
            )
            for (place, value) in (after ?? []).enumerated() { rows.bind(Int32(clamping: place + 1), value) }
            var records: [CopyRecord] = []
            while try rows.next() {
                var record: CopyRecord = []
                for (place, field) in kind.fields.enumerated() {
                    record.append(try rows.value(Int32(clamping: place), field.type))
                }
                records.append(record)
            }
            if records.count == limit, let last = records.last {
                return CopyPage(records, next: Array(last.prefix(kind.keyCount)))
            }
            return CopyPage(records, next: kind.hasArchive ? [Self.archive, .integer(.min)] : nil)
        }
    }

    /// Returns deliveries that ended without ever having a row, unless they got one since.
    private static func archivePage(_ kind: CopyKind, after: Int64, _ db: OpaquePointer) throws(StoreError) -> CopyPage
    {
        let blocks = try SQLStatement(
            db,
            "SELECT number, at, packed FROM archive WHERE number > ?1 ORDER BY number LIMIT \(blocksOfPage)"
        )
        blocks.bind(1, after)
        let row = try SQLStatement(db, "SELECT 1 FROM deliveries WHERE id = ?1")
        var (records, next): ([CopyRecord], Int64?) = ([], nil)
        var count = 0
        while try blocks.next() {
            count += 1
            next = try blocks.integer(0)
            let ended = try blocks.moment(1)
            for packed in try ArchivedDelivery.records(of: try blocks.bytes(2)) {
                guard let delivery = ArchivedDelivery(packed) else { throw ArchivedDelivery.damage }
                row.bind(1, delivery.id)
                if try row.next() {
                    row.reset()
                    continue
                }
                records.append(
                    kind == .notifications ? delivery.notificationRecord : delivery.resultRecord(ended)
                )
            }
        }
        return CopyPage(records, next: count == blocksOfPage ? next.map { [archive, .integer($0)] } : nil)
    }

    /// Returns keys of deliveries in the order of their table, by which the next page continues.
    private static func searchKeyPage(
        after: [CopyValue]?,
        limit: Int,
        _ db: OpaquePointer
    ) throws(StoreError) -> CopyPage {
        let rows = try SQLStatement(
            db,
            """
            SELECT bucket, hash, place FROM search_keys WHERE (bucket, hash, place) > (?1, ?2, ?3)
            ORDER BY bucket, hash, place LIMIT \(limit)
            """
        )
        let start = after?.compactMap(\.integer) ?? []
        for place in 0..<3 { rows.bind(Int32(clamping: place + 1), start.count == 3 ? start[place] : .min) }
        var records: [CopyRecord] = []
        var last: [CopyValue]?
        while try rows.next() {
            let (bucket, hash, place) = (try rows.id(0), try rows.integer(1), try rows.id(2))
            last = [.integer(bucket), .integer(hash), .integer(place)]
            records.append([.integer(hash), .integer(SearchBucket.delivery(bucket, place))])
        }
        return CopyPage(records, next: records.count == limit ? last : nil)
    }

    package func mark() async throws(StoreError) -> CopyMark? {
        try await use { (db) throws(StoreError) in
            let rows = try SQLStatement(db, "SELECT value FROM state WHERE name = ?1")
            rows.bind(1, CopyMark.name)
            guard try rows.next() else { return nil }
            defer { rows.reset() }
            guard let mark = CopyMark(stored: try rows.bytes(0)) else { throw CopyMark.refusal(self.name) }
            return mark
        }
    }

    // MARK: Writing

    package func write(_ kind: CopyKind, _ records: [CopyRecord], _ mark: CopyMark) async throws(StoreError) {
        try await transaction { (db) throws(StoreError) in
            let insert = try SQLStatement(db, SQLiteCopyForm(kind).insertion)
            for record in records {
                for (place, value) in record.enumerated() {
                    if case .list(let texts) = value {
                        insert.bind(Int32(clamping: place + 1), blob: EventPacking.pack(texts))
                        insert.bind(Int32(clamping: place + 2), texts.count)
                    } else {
                        insert.bind(Int32(clamping: place + 1), value)
                    }
                }
                try insert.run()
            }
            try Self.save(mark, db)
        }
    }

    package func finish(_ header: CopyHeader, _ mark: CopyMark) async throws(StoreError) {
        let wall = Date().millisecondsSince1970
        try await transaction { (db) throws(StoreError) in
            // A notification's row whose own delivery is missing would be read as a delivery.
            let lost = try SQLStatement(db, "SELECT id FROM deliveries WHERE state < 0 LIMIT 1")
            if try lost.next() {
                let number = try lost.integer(0)
                lost.reset()
                throw .failed(
                    "the notification \(number) has lost a delivery in \(mark.source), which cannot be copied"
                )
            }
            // Event numbers continue after the last one, even if it is no longer kept.
            let events = try SQLStatement(
                db,
                """
                INSERT INTO events (first, count, at, packed)
                SELECT ?1 + 1, 0, ?2, ?3 WHERE ?1 > (SELECT coalesce(max(first + count - 1), 0) FROM events)
                """
            )
            events.bind(1, header.lastEvent)
            events.bind(2, wall)
            events.bind(3, blob: EventPacking.pack([]))
            try events.run()
            let clock = try SQLStatement(
                db,
                "INSERT OR REPLACE INTO marks (name, value) VALUES ('wall', ?1), ('steady', ?2)"
            )
            clock.bind(1, wall)
            clock.bind(2, wall.subtracting(clamping: header.ahead))
            try clock.run()
            try Self.save(mark, db)
        }
        ownership.forgetCommitted()
    }

    package func release() async throws(StoreError) {
        try await transaction { (db) throws(StoreError) in
            let delete = try SQLStatement(db, "DELETE FROM state WHERE name = ?1")
            delete.bind(1, CopyMark.name)
            try delete.run()
        }
    }

    private static func save(_ mark: CopyMark, _ db: OpaquePointer) throws(StoreError) {
        let save = try SQLStatement(db, "INSERT OR REPLACE INTO state (name, value) VALUES (?1, ?2)")
        save.bind(1, CopyMark.name)
        save.bind(2, blob: mark.stored)
        try save.run()
    }

    // MARK: The connection

    /// Runs `body` on the connection to its end, even when the task is cancelled.
    private func use<Value: Sendable>(
        _ body: @escaping @Sendable (OpaquePointer) throws(StoreError) -> Value
    ) async throws(StoreError) -> Value {
        let result: Result<Value, StoreError> = await withCheckedContinuation { continuation in
            pool.asyncWriteWithoutTransaction { db in
                do throws(StoreError) {
                    guard let connection = db.sqliteConnection else { throw .closed }
                    continuation.resume(returning: .success(try body(connection)))
                } catch {
                    continuation.resume(returning: .failure(error))
                }
            }
        }
        return try result.get()
    }

    private func transaction(_ body: @escaping @Sendable (OpaquePointer) throws(StoreError) -> Void)
        async throws(StoreError)
    {
        try await use { (db) throws(StoreError) in
            try SQLStatement(db, "BEGIN IMMEDIATE").run()
            do throws(StoreError) {
                try body(db)
                try SQLStatement(db, "COMMIT").run()
            } catch {
                _ = try? SQLStatement(db, "ROLLBACK").run()
                throw error
            }
        }
    }
}

extension CopyKind {
    /// Whether some of its records are in the archive.
    fileprivate var hasArchive: Bool { self == .notifications || self == .results }
}

extension ArchivedDelivery {
    /// The record in the form of ``CopyKind/notifications``.
    fileprivate var notificationRecord: CopyRecord {
        [
            .integer(id), .integer(1), .init(text: String(decoding: caller, as: UTF8.self)), .init(scheduled),
            .integer(expires), .null, .bytes(record),
        ]
    }

    /// Returns the record in the form of ``CopyKind/results``.
    fileprivate func resultRecord(_ changed: Int64) -> CopyRecord {
        [
            .integer(id), .integer(id), .integer(flow), .integer(changed), .integer(state.code),
            .init(text: String(decoding: recipient, as: UTF8.self)), .init(bytes: attemptLog),
        ]
    }
}

extension SQLStatement {
    fileprivate func value(_ column: Int32, _ type: CopyKind.FieldType) throws(StoreError) -> CopyValue {
        if isNull(column) { return .null }
        return switch type {
        case .integer: .integer(try integer(column))
        case .text: CopyValue(text: try text(column))
        case .bytes: .bytes(try bytes(column))
        case .list: .list(EventPacking.unpack(try bytes(column)))
        }
    }

    fileprivate func bind(_ index: Int32, _ value: CopyValue) {
        switch value {
        case .null, .list: bindNull(index)
        case .integer(let number): bind(index, number)
        case .text(let text): bind(index, text)
        case .bytes(let bytes): bind(index, blob: bytes)
        }
    }
}
