internal import Foundation
package import ChaparCore
package import ChaparQueue

/// A PostgreSQL store as the source or the target of a copy; it is no node, and refuses while nodes use the store.
package final class PostgresCopyStore: CopyStore {
    package let name: String
    private let connection: PostgresConnection
    private let partitions = Partitions()

    /// The number of commits whose events make a page.
    private static let eventBlocksOfPage = 100

    /// Opens a store and migrates its tables; missing tables are created for a target, and are a `CopyRefusal` for a
    /// source.
    package static func open(_ options: PostgresOptions, isTarget: Bool) async throws -> PostgresCopyStore {
        let store = PostgresCopyStore(options)
        do {
            if !isTarget {
                let isMissing = try await store.connection.session { (db) throws(PostgresError) in
                    try db.run("SELECT to_regclass('chapar.schema_steps') IS NULL").bool(0, 0)
                }
                if isMissing { throw CopyRefusal("there is no store in \(store.name)") }
            }
            try await Schema.migrate(store.connection, options)
            // The events of the last commits have no numbers yet.
            _ = try await EventLog.number(on: store.connection)
            return store
        } catch {
            await store.close()
            throw (error as? PostgresError)?.openingError ?? error
        }
    }

    private init(_ options: PostgresOptions) {
        name = "\(options), schema \(options.schema)"
        var options = options
        // Counting scans whole tables.
        options.statementTimeout = max(options.statementTimeout, .seconds(3_600))
        connection = PostgresConnection(options, name: "copy", walksIndexes: true)
    }

    package func requireUnused() async throws(StoreError) {
        let name = name
        try await session { (db) throws(PostgresError) in
            let nodes = try db.run(
                "SELECT string_agg(name, ', ' ORDER BY name) FROM chapar.nodes WHERE lease_until > clock_timestamp()"
            )
            if let names = nodes.text(0, 0) {
                throw .declined(.failed("\(name) is in use by \(names): stop every gateway that uses it"))
            }
            guard try ClockShift.isUnderWay(db) else { return }
            throw .declined(
                .failed(
                    "\(name) moves what is scheduled, since its clock was set: start a gateway on it, and stop it a minute later"
                )
            )
        }
    }

    package func close() async { await connection.close() }

    // MARK: Reading

    package func header() async throws(StoreError) -> CopyHeader {
        try await session { (db) throws(PostgresError) in
            let rows = try db.run("SELECT (SELECT last FROM chapar.event_head), (SELECT ahead FROM chapar.clock)")
            return CopyHeader(lastEvent: rows.integer(0, 0) ?? 0, ahead: rows.integer(0, 1) ?? 0)
        }
    }

    package func count(_ kind: CopyKind) async throws(StoreError) -> Int {
        let form = PostgresCopyForm(kind)
        return try await session { (db) throws(PostgresError) in
            Int(count: try db.run("SELECT count(*) FROM \(form.source) WHERE \(form.filter)").integer(0, 0) ?? 0)
        }
    }

    package func page(_ kind: CopyKind, after: [CopyValue]?, limit: Int) async throws(StoreError) -> CopyPage {
        let form = PostgresCopyForm(kind)
        let limit = kind == .events ? min(limit, Self.eventBlocksOfPage) : limit
        let keys = form.columns.prefix(kind.keyCount).map { "d.\($0)" }.joined(separator: ", ")
        let places = (1...kind.keyCount).map { "$\($0)" }.joined(separator: ", ")
        let statement = """
            SELECT \(form.columns.joined(separator: ", ")) FROM \(form.source)
            WHERE \(form.filter)\(after == nil ? "" : " AND (\(keys)) > (\(places))") ORDER BY \(keys) LIMIT \(limit)
            """
        let parameters = (after ?? []).map { (value: CopyValue) -> PostgresValue in
            switch value {
            case .integer(let number): .integer(number)
            default: .text(value.text)
            }
        }
        // In a transaction, whose settings rule out a sequential scan for a page.
        let records = try await transaction { (db) throws(PostgresError) in
            let rows = try db.run(statement, parameters)
            var records: [CopyRecord] = []
            for row in 0..<rows.count {
                var record: CopyRecord = []
                for (place, field) in kind.fields.enumerated() {
                    record.append(Self.value(rows, row, place, field.type))
                }
                records.append(record)
            }
            return records
        }
        guard records.count == limit, let last = records.last else { return CopyPage(records, next: nil) }
        return CopyPage(records, next: Array(last.prefix(kind.keyCount)))
    }

    private static func value(
        _ rows: borrowing PostgresRows,
        _ row: Int,
        _ place: Int,
        _ type: CopyKind.FieldType
    ) -> CopyValue {
        switch type {
        case .integer: CopyValue(rows.integer(row, place))
        case .text: CopyValue(text: rows.text(row, place))
        case .bytes: CopyValue(bytes: rows.bytes(row, place))
        case .list: .list(rows.byteArrays(row, place))
        }
    }

    package func mark() async throws(StoreError) -> CopyMark? {
        let name = name
        return try await session { (db) throws(PostgresError) in
            guard
                let stored = try db.run("SELECT value FROM chapar.state WHERE name = $1", [.text(CopyMark.name)]).bytes(
                    0,
                    0
                )
            else { return nil }
            guard let mark = CopyMark(stored: stored) else { throw .declined(CopyMark.refusal(name)) }
            return mark
        }
    }

    // MARK: Writing

    package func write(_ kind: CopyKind, _ records: [CopyRecord], _ mark: CopyMark) async throws(StoreError) {
        do throws(PostgresError) {
            let missing = partitions.missing(Self.days(kind, records))
            if !missing.isEmpty { try await partitions.make(missing, on: connection) }
            try await connection.transaction { (db) throws(PostgresError) in
                if kind == .events {
                    for record in records {
                        try db.run(
                            "INSERT INTO chapar.events (first, at, count, texts) VALUES ($1, $2, $3, $4)",
                            [
                                .integer(record[0].integer), .integer(record[1].integer),
                                .integer(record[2].list.count),
                                .byteArrays(record[2].list),
                            ]
                        )
                    }
                } else if !records.isEmpty {
                    if kind == .results { try LateEnds.write(Self.lateEnds(records), db) }
                    try db.run(PostgresCopyForm(kind).insertion, PostgresCopyForm.parameters(kind, records))
                }
                try db.saveState(CopyMark.name, mark.stored)
            }
        } catch {
            throw error.storeError
        }
    }

    /// Returns the bounds for ``LateEnds``, by day, of results that ended on a later day than their own.
    private static func lateEnds(_ results: [CopyRecord]) -> [Int64: Int64] {
        var bounds: [Int64: Int64] = [:]
        for record in results {
            guard let id = record[0].integer, let changed = record[3].integer else { continue }
            let day = Partitions.day(ofNumber: id)
            if Partitions.day(changed) > day { bounds[day] = max(bounds[day] ?? 0, changed.adding(clamping: 1)) }
        }
        return bounds
    }

    /// Returns the days whose partitions the records go into.
    private static func days(_ kind: CopyKind, _ records: [CopyRecord]) -> Set<Int64> {
        switch kind {
        case .notifications, .results: Set(records.map { Partitions.day(ofNumber: $0[0].integer ?? 0) })
        case .handled: Set(records.map { Partitions.day(ofNumber: $0[0].integer ?? 0) })
        case .searchKeys: Set(records.map { Partitions.day(ofNumber: $0[1].integer ?? 0) })
        case .receipts: Set(records.map { Partitions.day(ofNumber: $0[2].integer ?? 0) })
        case .events: Set(records.map { Partitions.day($0[1].integer ?? 0) })
        default: []
        }
    }

    package func finish(_ header: CopyHeader, _ mark: CopyMark) async throws(StoreError) {
        try await transaction { (db) throws(PostgresError) in
            for table in ["flows", "devices", "outbox_changes", "outbox_entries"] {
                try db.run(
                    "SELECT setval(pg_get_serial_sequence('chapar.\(table)', 'number'), (SELECT max(number) FROM chapar.\(table)))"
                )
            }
            try db.run("UPDATE chapar.event_head SET last = $1", [.integer(header.lastEvent)])
            try db.run("UPDATE chapar.clock SET ahead = $1", [.integer(header.ahead)])
            // A delivery that was held back behind a claimed one of its collapse ID is held back again: the claimed one
            // is among those that wait now.
            try db.run(
                """
                UPDATE chapar.waiting w SET owner = 0 FROM chapar.flows f
                WHERE w.collapse IS NOT NULL AND f.number = w.flow AND EXISTS (
                    SELECT FROM chapar.waiting o JOIN chapar.flows g ON g.number = o.flow
                    WHERE o.collapse = w.collapse AND o.recipient = w.recipient AND g.backend = f.backend AND o.id < w.id
                )
                """
            )
            try db.saveState(CopyMark.name, mark.stored)
            // Statistics for the plans of the first gateway's statements.
            try db.perform(
                "ANALYZE chapar.notifications, chapar.waiting, chapar.results, chapar.awaited, chapar.search_keys, chapar.handled, chapar.devices, chapar.device_tokens"
            )
        }
    }

    package func release() async throws(StoreError) {
        try await transaction { (db) throws(PostgresError) in
            try db.run("DELETE FROM chapar.state WHERE name = $1", [.text(CopyMark.name)])
        }
    }

    // MARK: The connection

    private func session<Value: Sendable>(
        _ body: @Sendable (isolated PostgresConnection) throws(PostgresError) -> Value
    ) async throws(StoreError) -> Value {
        do throws(PostgresError) {
            return try await connection.session(body)
        } catch {
            throw error.storeError
        }
    }

    private func transaction<Value: Sendable>(
        _ body: @Sendable (isolated PostgresConnection) throws(PostgresError) -> Value
    ) async throws(StoreError) -> Value {
        do throws(PostgresError) {
            return try await connection.transaction(body)
        } catch {
            throw error.storeError
        }
    }
}
