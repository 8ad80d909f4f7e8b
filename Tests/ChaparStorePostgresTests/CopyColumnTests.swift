import Foundation
import GRDB
import ChaparComposition
import ChaparCore
import ChaparQueue
import ChaparStoreSQLite
import Testing

@testable import ChaparStorePostgres

/// Every column of both stores: named, filled, copied there and back, and covered by the checksum.
@Suite("The columns that a copy carries", .timeLimit(.minutes(3)))
struct CopyColumnTests {
    /// The columns of a table, each in a field of the copied records or left out for a reason.
    private struct CopiedTable: Sendable {
        let kinds: [CopyKind]
        let carried: Set<String>
        let left: [String: String]

        /// Makes the columns from the fields of kinds; `columns` has those of fields with another name, `left` the
        /// reasons for columns that no field has.
        init(_ kinds: CopyKind..., columns: [String: [String]] = [:], left: [String: String] = [:]) {
            self.kinds = kinds
            carried = Set(kinds.flatMap(\.fields).flatMap { columns[$0.name] ?? [$0.name] })
            self.left = left
        }
    }

    private static let sqlite: [String: CopiedTable] = [
        "deliveries": CopiedTable(
            .notifications,
            .waiting,
            .results,
            columns: ["notification": ["head"], "flags": ["replay", "mark"]],
            left: ["padding": "room for the first attempt"]
        ),
        "flows": CopiedTable(.flows), "moves": CopiedTable(.moves), "awaited": CopiedTable(.receipts),
        "search_keys": CopiedTable(.searchKeys, columns: ["delivery": ["bucket", "place"]]),
        "handled": CopiedTable(.handled),
        "events": CopiedTable(.events, columns: ["texts": ["packed"]], left: ["count": "the number of texts"]),
        "campaigns": CopiedTable(.campaigns), "campaign_parts": CopiedTable(.parts),
        "idempotency": CopiedTable(.keys), "state": CopiedTable(.state),
        "devices": CopiedTable(.devices, columns: ["user_key": ["user"]]),
        "device_tokens": CopiedTable(.tokens, columns: ["slot": ["service"]]), "device_tags": CopiedTable(.tags),
        "user_labels": CopiedTable(.userLabels, columns: ["user_key": ["user"]]),
        "device_labels": CopiedTable(.deviceLabels), "label_counts": CopiedTable(.labelCounts),
        "outbox_changes": CopiedTable(.changes),
        "outbox_entries": CopiedTable(.entries, columns: ["user_key": ["user"], "asked": ["leased"]]),
        "webhooks": CopiedTable(.webhooks, left: heldWebhooks), "webhook_messages": CopiedTable(.webhookMessages),
        "series": CopiedTable(.series),
    ]
    private static let heldWebhooks = ["holder": "nothing is held", "held_until": "nothing is held"]
    /// Tables of a file that are not copied, with the reason.
    private static let sqliteLeft = [
        "archive": "its deliveries are notifications and results: StoreCopyTests has its fields",
        "arrivals": "its deliveries get rows when the file is opened: StoreCopyTests has its fields",
        "search_ends": "archived results, which get rows: an index has their states",
        "leases": "nothing is claimed", "marks": "the clock is in the header, the rest belongs to the process",
        "outbox_depths": "triggers count", "grdb_migrations": "the target has its own",
    ]

    private static let postgres: [String: CopiedTable] = [
        "notifications": CopiedTable(.notifications),
        "waiting": CopiedTable(
            .waiting,
            left: ["owner": "flags say that it was claimed", "lease": "nothing is claimed"]
        ),
        "results": CopiedTable(.results), "awaited": CopiedTable(.receipts),
        "flows": CopiedTable(.flows, left: ["merged": "follows from flows of the same name"]),
        "moves": CopiedTable(.moves), "search_keys": CopiedTable(.searchKeys), "handled": CopiedTable(.handled),
        "events": CopiedTable(.events, left: ["batch": "the order of first", "count": "the number of texts"]),
        "campaigns": CopiedTable(.campaigns), "campaign_parts": CopiedTable(.parts),
        "idempotency": CopiedTable(.keys), "state": CopiedTable(.state), "devices": CopiedTable(.devices),
        "device_tokens": CopiedTable(.tokens), "device_tags": CopiedTable(.tags),
        "user_labels": CopiedTable(.userLabels), "device_labels": CopiedTable(.deviceLabels),
        "label_counts": CopiedTable(.labelCounts, left: ["stripe": "a count is the sum of its rows"]),
        "outbox_changes": CopiedTable(.changes),
        "outbox_entries": CopiedTable(.entries, columns: ["asked": ["lease"]], left: ["owner": "nothing is claimed"]),
        "webhooks": CopiedTable(.webhooks, left: heldWebhooks), "webhook_messages": CopiedTable(.webhookMessages),
        "series": CopiedTable(.series),
    ]
    /// Tables of a schema that are not copied, with the reason.
    private static let postgresLeft = [
        "nodes": "the gateways that run now", "notes": "messages between gateways",
        "locks": "the work of gateways that run now", "marks": "made by the target",
        "clock": "in the header", "event_head": "in the header", "outbox_depths": "counted at the insertion",
        "quotas": "the sends of the current minute", "schema_steps": "the target has its own",
    ]

    /// The rows of `deliveries` for which a column is copied; of the other rows no statement reads it.
    private static let conditions = [
        "due": "state = 0", "step": "state = 0", "attempts": "state = 0", "replay": "state = 0", "mark": "state = 0",
        "collapse": "state = 0", "changed": "state > 0", "expires": "(state = 0 OR head IS NULL)",
        "plan": "state = 0",
    ]

    // MARK: Names

    @Test("Every column of a file is in a field of a copied record, or has a reason why not")
    func columnsOfFile() async throws {
        try await CopyTests.Folder.use { folder in
            try await Self.fill(folder.file("a"))
            let file = try DatabaseQueue(path: folder.file("a"))
            let found = try await file.read { db in
                let sql = "SELECT name FROM sqlite_master WHERE type = 'table' AND name NOT LIKE 'sqlite_%'"
                var found: [String: Set<String>] = [:]
                for table in try String.fetchAll(db, sql: sql) {
                    let names = "SELECT name FROM pragma_table_info(?)"
                    found[table] = Set(try String.fetchAll(db, sql: names, arguments: [table]))
                }
                return found
            }
            try file.close()
            Self.check(found, Self.sqlite, left: Self.sqliteLeft)
        }
    }

    @Test("Every column of a schema is in a field of a copied record, or has a reason why not")
    func columnsOfSchema() async throws {
        let options = try await TestServer.shared.options()
        await (try await PostgresStore.open(options)).close()
        Self.check(try await Self.types(options).mapValues { Set($0.keys) }, Self.postgres, left: Self.postgresLeft)
    }

    private static func check(
        _ found: [String: Set<String>],
        _ tables: [String: CopiedTable],
        left: [String: String]
    ) {
        #expect(Set(found.keys) == Set(tables.keys).union(left.keys), "the tables")
        #expect(Set(tables.values.flatMap(\.kinds)) == Set(CopyKind.allCases), "every kind is read from a table")
        for (table, copied) in tables {
            #expect(
                found[table] == copied.carried.union(copied.left.keys),
                "a column of \(table) has no field of CopyKind and no reason: chapar store copy would lose it unsaid"
            )
            #expect(copied.carried.isDisjoint(with: copied.left.keys))
        }
    }

    // MARK: Values

    @Test("Every value of every copied column is the same after a copy to PostgreSQL and back")
    func values() async throws {
        try await CopyTests.Folder.use { folder in
            try await Self.fill(folder.file("a"))
            let wanted = try await Self.values(ofFile: folder.file("a"))
            Self.requireDistinct(wanted)
            let options = try await TestServer.shared.options()
            let there = StoreCopy(
                from: try SQLiteCopyStore(folder.options("a"), isTarget: false),
                to: try await PostgresCopyStore.open(options, isTarget: true)
            )
            _ = try await there.run()
            let header = try await there.source.header()
            await there.close()
            #expect(header == CopyHeader(lastEvent: 2, ahead: 4_500))
            Self.requireDistinct(try await Self.values(ofSchema: options))
            let back = StoreCopy(
                from: try await PostgresCopyStore.open(options, isTarget: false),
                to: try SQLiteCopyStore(folder.options("b"), isTarget: true)
            )
            _ = try await back.run()
            #expect(try await back.target.header() == header)
            await back.close()
            let found = try await Self.values(ofFile: folder.file("b"))
            for (table, columns) in wanted {
                for (column, values) in columns {
                    #expect(found[table]?[column] == values, "\(table).\(column)")
                }
            }
        }
    }

    @Test("A value that differs in any copied column of a schema is found")
    func differencesInSchema() async throws {
        try await CopyTests.Folder.use { folder in
            try await Self.fill(folder.file("a"))
            let options = try await TestServer.shared.options()
            let copy = StoreCopy(
                from: try SQLiteCopyStore(folder.options("a"), isTarget: false),
                to: try await PostgresCopyStore.open(options, isTarget: true)
            )
            _ = try await copy.run()
            let types = try await Self.types(options)
            let connection = PostgresConnection(options, name: "change")
            for (table, copied) in Self.postgres {
                for column in copied.carried {
                    let type = try #require(types[table]?[column])
                    let changed = try #require(Self.change(of: column, type), "\(table).\(column): \(type)")
                    // Through copies of the table, since an identity cannot be updated.
                    try await connection.session { (db) throws(PostgresError) in
                        try db.perform(
                            """
                            CREATE TEMP TABLE kept AS SELECT * FROM chapar.\(table);
                            CREATE TEMP TABLE other AS SELECT * FROM chapar.\(table);
                            UPDATE other SET "\(column)" = \(changed); DELETE FROM chapar.\(table);
                            INSERT INTO chapar.\(table) OVERRIDING SYSTEM VALUE SELECT * FROM other; DROP TABLE other
                            """
                        )
                    }
                    await #expect(throws: CopyRefusal.self, "\(table).\(column)") { _ = try await copy.verify() }
                    try await connection.session { (db) throws(PostgresError) in
                        try db.perform(
                            """
                            DELETE FROM chapar.\(table);
                            INSERT INTO chapar.\(table) OVERRIDING SYSTEM VALUE SELECT * FROM kept; DROP TABLE kept
                            """
                        )
                    }
                }
            }
            _ = try await copy.verify()
            await connection.close()
            await copy.close()
        }
    }

    @Test("A value that differs in any copied column of a file is found")
    func differencesInFile() async throws {
        try await CopyTests.Folder.use { folder in
            try await Self.fill(folder.file("a"))
            let copy = StoreCopy(
                from: try SQLiteCopyStore(folder.options("a"), isTarget: false),
                to: try SQLiteCopyStore(folder.options("b"), isTarget: true)
            )
            _ = try await copy.run()
            let file = try DatabaseQueue(path: folder.file("b"))
            for (table, copied) in Self.sqlite {
                for column in copied.carried {
                    // Events in their packed form: bytes after the last one are not read.
                    let changed =
                        column == "packed"
                        ? "X'FFFFFFFF010005'"
                        : """
                        CASE typeof("\(column)") WHEN 'integer' THEN "\(column)" + 1 WHEN 'text' THEN "\(column)" || 'x'
                        WHEN 'blob' THEN CAST("\(column)" || 'x' AS BLOB) END
                        """
                    try await file.write { db in
                        try db.execute(
                            sql: """
                                CREATE TEMP TABLE kept AS SELECT * FROM main.\(table);
                                CREATE TEMP TABLE other AS SELECT * FROM main.\(table);
                                UPDATE other SET "\(column)" = \(changed); DELETE FROM main.\(table);
                                INSERT INTO main.\(table) SELECT * FROM other; DROP TABLE other
                                """
                        )
                    }
                    await #expect(throws: CopyRefusal.self, "\(table).\(column)") { _ = try await copy.verify() }
                    try await file.write { db in
                        try db.execute(
                            sql: """
                                DELETE FROM main.\(table); INSERT INTO main.\(table) SELECT * FROM kept; DROP TABLE kept
                                """
                        )
                    }
                }
            }
            _ = try await copy.verify()
            try file.close()
            await copy.close()
        }
    }

    // MARK: Fields of records

    /// A field of an encoded record.
    private struct RecordField {
        var tag: UInt64
        var bytes: [UInt8]

        static func all(_ record: [UInt8]) -> [RecordField] {
            var fields: [RecordField] = []
            let isWhole = RecordCoding.read(record) { fields.append(RecordField(tag: $0, bytes: Array($1))) }
            return isWhole ? fields : []
        }

        static func encode(_ fields: [RecordField]) -> [UInt8] {
            fields.reduce(into: [RecordCoding.version]) { RecordCoding.append($1.tag, $1.bytes, to: &$0) }
        }
    }

    /// A record that has a value for each property, three plans, and a field that no program has yet.
    private static let record: [UInt8] = {
        var record = NotificationRecord(
            content: [1, 2],
            plans: [
                DeliveryPlan(["apns", "fcm"]), DeliveryPlan(["fcm"], onUnknown: .stop),
                DeliveryPlan(["hms"], onUnknown: .wait, unknownWait: .seconds(7), fallbackAfter: .seconds(8)),
            ],
            acceptedAt: Date(millisecondsSince1970: 1_764_000_000_004)
        )
        record.metadata = Array(#"{"order":42}"#.utf8)
        record.reference = "order-42"
        record.resendOf = DeliveryPlace(notification: NotificationID(rawValue: 7), index: 3)
        record.partOf = CampaignPart(campaign: 8_001, first: 8_021, keepsAll: true)
        record.trace = TraceContext(traceparent: "00-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-01")
        return record.encoded + RecordField.encode([RecordField(tag: 1_000, bytes: [7, 0, 8])]).dropFirst()
    }()

    /// A campaign as a store keeps it.
    private static let campaign = Campaign(
        id: NotificationID(rawValue: 8_001),
        caller: "shop",
        app: .default,
        record: NotificationRecord(
            content: [3],
            plans: [DeliveryPlan(["apns"])],
            acceptedAt: Date(millisecondsSince1970: 1_764_000_000_080)
        ),
        audience: [4],
        name: "sale",
        expiresAt: Date(millisecondsSince1970: 1_764_000_000_082)
    ).encoded

    /// Returns the names of the fields that few records have.
    private static func rareFields(of record: NotificationRecord) -> [String?] {
        var value: Any = record
        for name in ["rare", "some", "values"] {
            value = Mirror(reflecting: value).children.first { $0.label == name }?.value ?? ""
        }
        return Mirror(reflecting: value).children.map(\.label)
    }

    @Test("Every field of a record is the same after a copy to PostgreSQL and back, and a difference in any is found")
    func fieldsOfRecord() async throws {
        let record = try #require(NotificationRecord(encoded: Self.record))
        #expect(
            Mirror(reflecting: record).children.map(\.label) == ["content", "plans", "acceptedAt", "rare"]
                && Self.rareFields(of: record)
                    == ["metadata", "reference", "resendOf", "partOf", "trace", "unknown"],
            "a new property needs a value in the record of this test, and its tag in the next line"
        )
        let fields = RecordField.all(Self.record)
        #expect(fields.map(\.tag) == [1, 2, 2, 2, 3, 4, 5, 6, 7, 8, 1_000])
        try await CopyTests.Folder.use { folder in
            try await Self.fill(folder.file("a"))
            let options = try await TestServer.shared.options()
            let there = StoreCopy(
                from: try SQLiteCopyStore(folder.options("a"), isTarget: false),
                to: try await PostgresCopyStore.open(options, isTarget: true)
            )
            _ = try await there.run()
            let connection = PostgresConnection(options, name: "change")
            let stored = try await connection.session { (db) throws(PostgresError) in
                try db.run("SELECT record FROM chapar.notifications ORDER BY id").bytes(0, 0)
            }
            #expect(stored == Self.record)
            for place in fields.indices {
                var (changed, dropped) = (fields, fields)
                changed[place].bytes[0] ^= 1
                dropped.remove(at: place)
                for other in [changed, dropped] {
                    try await Self.setFirstRecord(RecordField.encode(other), connection)
                    await #expect(throws: CopyRefusal.self, "the field \(place), with the tag \(fields[place].tag)") {
                        _ = try await there.verify()
                    }
                }
            }
            try await Self.setFirstRecord(Self.record, connection)
            _ = try await there.verify()
            await connection.close()
            await there.close()
            let back = StoreCopy(
                from: try await PostgresCopyStore.open(options, isTarget: false),
                to: try SQLiteCopyStore(folder.options("b"), isTarget: true)
            )
            _ = try await back.run()
            await back.close()
            let file = try DatabaseQueue(path: folder.file("b"))
            let found = try await file.read { db in
                try Data.fetchOne(db, sql: "SELECT record FROM deliveries WHERE head IS NULL ORDER BY id")
            }
            try file.close()
            #expect(found.map { Array($0) } == Self.record)
        }
    }

    private static func setFirstRecord(_ record: [UInt8], _ connection: PostgresConnection) async throws {
        try await connection.session { (db) throws(PostgresError) in
            _ = try db.run(
                "UPDATE chapar.notifications SET record = $1 WHERE id = (SELECT min(id) FROM chapar.notifications)",
                [.bytes(record)]
            )
        }
    }

    // MARK: Parts

    /// The values of columns as text, row by row, by table and column.
    private typealias Values = [String: [String: [String]]]

    /// Texts of values that a column may have without having been copied.
    private static let defaults: Set = ["", "NULL", "0", "''", "X''", "false", "\\x", "{}"]

    /// Requires of each column a value that is neither a default nor in another column of its row.
    private static func requireDistinct(_ values: Values) {
        for (table, columns) in values {
            for (column, own) in columns {
                let isTold = own.indices.contains { row in
                    !defaults.contains(own[row])
                        && columns.allSatisfy { $0.key == column || $0.value[row] != own[row] }
                }
                #expect(isTold, "\(table).\(column) needs a value of its own in fill(_:)")
            }
        }
    }

    private static func values(ofFile path: String) async throws -> Values {
        let file = try DatabaseQueue(path: path)
        let values = try await file.read { db in
            var values: Values = [:]
            for (table, copied) in Self.sqlite {
                let key = try String.fetchAll(
                    db,
                    sql: "SELECT name FROM pragma_table_info(?) WHERE pk > 0 ORDER BY pk",
                    arguments: [table]
                ).joined(separator: ", ")
                for column in copied.carried {
                    let condition = table == "deliveries" ? Self.conditions[column] ?? "true" : "true"
                    let value = "CASE WHEN \(condition) THEN quote(\"\(column)\") ELSE '' END"
                    values[table, default: [:]][column] = try String.fetchAll(
                        db,
                        sql: "SELECT \(value) FROM \(table) ORDER BY \(key)"
                    )
                }
            }
            return values
        }
        try file.close()
        return values
    }

    private static func values(ofSchema options: PostgresOptions) async throws -> Values {
        let connection = PostgresConnection(options, name: "look")
        let values = try await connection.session { (db) throws(PostgresError) -> Values in
            var values: Values = [:]
            for (table, copied) in Self.postgres {
                for column in copied.carried {
                    let rows = try db.run(
                        "SELECT coalesce(\"\(column)\"::text, 'NULL') FROM chapar.\(table) ORDER BY tableoid, ctid"
                    )
                    values[table, default: [:]][column] = (0..<rows.count).map { rows.text($0, 0) ?? "" }
                }
            }
            return values
        }
        await connection.close()
        return values
    }

    /// Returns the types of a schema's columns, by table and column.
    private static func types(_ options: PostgresOptions) async throws -> [String: [String: String]] {
        let connection = PostgresConnection(options, name: "look")
        let types = try await connection.session { (db) throws(PostgresError) -> [String: [String: String]] in
            let rows = try db.run(
                """
                SELECT c.relname::text, a.attname::text, format_type(a.atttypid, NULL) FROM pg_class c
                JOIN pg_attribute a ON a.attrelid = c.oid
                WHERE c.relnamespace = '\(options.schema)'::regnamespace AND c.relkind IN ('r', 'p') AND NOT c.relispartition
                AND a.attnum > 0 AND NOT a.attisdropped
                """
            )
            var types: [String: [String: String]] = [:]
            for row in 0..<rows.count {
                types[rows.text(row, 0) ?? "", default: [:]][rows.text(row, 1) ?? ""] = rows.text(row, 2) ?? ""
            }
            return types
        }
        await connection.close()
        return types
    }

    /// Returns an expression for another value of a column; nil for a type that no copied column has.
    private static func change(of column: String, _ type: String) -> String? {
        switch type {
        case "bigint", "integer", "smallint": "\"\(column)\" + 1"
        case "text": "\"\(column)\" || 'x'"
        case "bytea": "\"\(column)\" || '\\x78'::bytea"
        case "boolean": "NOT \"\(column)\""
        case "bytea[]": "array_append(\"\(column)\", '\\x78'::bytea)"
        default: nil
        }
    }

    /// Makes a file in which each copied column has a value of its own.
    private static func fill(_ path: String) async throws {
        let store = try SQLiteStore(SQLiteStoreOptions(path: path))
        try await store.publish([Array("one".utf8), Array("two".utf8)])
        await store.close()
        let file = try DatabaseQueue(path: path)
        try await file.write { db in
            try Self.fillDeliveries(db)
            try Self.fillDevices(db)
            try Self.insert(
                "webhooks",
                [
                    "name": "'shop'", "app": "'main'", "revision": "81", "settings": "X'7B7D'", "cursor": "82",
                    "memory": "X'0901'", "holder": "'me'", "held_until": "1764000000083",
                ],
                db
            )
            try Self.insert(
                "webhook_messages",
                [
                    "webhook": "'shop'", "id": "'msg_1'", "number": "84", "state": "1", "due": "1764000000085",
                    "record": "X'7B7D'",
                ],
                db
            )
            try Self.insert(
                "series",
                ["scale": "1", "start": "20425", "backend": "'shop'", "run": "86", "counts": "X'020157'"],
                db
            )
            try db.execute(
                sql: """
                    INSERT OR REPLACE INTO marks (name, value) VALUES ('wall', 1764000004500), ('steady', 1764000000000)
                    """
            )
        }
        try file.close()
    }

    /// Inserts a row; the values are SQL.
    private static func insert(_ table: String, _ values: KeyValuePairs<String, String>, _ db: Database) throws {
        let names = values.map { "\"\($0.key)\"" }.joined(separator: ", ")
        try db.execute(
            sql: "INSERT INTO \(table) (\(names)) VALUES (\(values.map(\.value).joined(separator: ", ")))"
        )
    }

    /// Returns bytes as SQL.
    private static func blob(_ bytes: [UInt8]) -> String {
        "X'\(bytes.map { String(format: "%02X", $0) }.joined())'"
    }

    private static func fillDeliveries(_ db: Database) throws {
        let other = NotificationRecord(
            content: [3, 4],
            plans: [DeliveryPlan(["idpush"])],
            acceptedAt: Date(millisecondsSince1970: 1_764_000_000_034)
        ).encoded
        let first = NotificationID(firstAt: Date(timeIntervalSince1970: 1_764_000_000)).rawValue
        try insert("flows", ["number": "11", "backend": "'apns'", "urgent": "1", "caller": "'shop'"], db)
        try insert("flows", ["number": "12", "backend": "'fcm'", "urgent": "0", "caller": "'web'"], db)
        try insert("moves", ["backend": "'gone'", "target": "'hms'"], db)
        // The notification's own delivery waits, its second one with a plan of its own, and the third has ended.
        try insert(
            "deliveries",
            [
                "id": "\(first)", "state": "0", "flow": "11", "due": "1764000000001", "expires": "1764000000002",
                "step": "4", "attempts": "9", "replay": "2", "mark": "1", "changed": "1764000000003",
                "collapse": "1013", "recipient": "'user:one'", "attempt_log": "'{\"n\":1}'", "count": "3",
                "plan": "0", "scheduled": "1764000000005", "caller": "'shop'", "collapse_id": "'news'",
                "record": blob(record),
            ],
            db
        )
        try insert(
            "deliveries",
            [
                "id": "\(first + 1)", "state": "0", "flow": "12", "due": "1764000000011", "expires": "1764000000012",
                "step": "5", "attempts": "8", "replay": "3", "mark": "0", "changed": "1764000000013",
                "head": "\(first)", "collapse": "1014", "recipient": "'user:two'", "attempt_log": "'{\"n\":2}'",
                "plan": "2",
            ],
            db
        )
        try insert(
            "deliveries",
            [
                "id": "\(first + 2)", "state": "6", "flow": "11", "due": "1764000000021", "expires": "1764000000002",
                "step": "0", "attempts": "1", "replay": "0", "mark": "0", "changed": "1764000000022",
                "head": "\(first)", "recipient": "'user:three'", "attempt_log": "'{\"n\":3}'", "plan": "0",
            ],
            db
        )
        try insert(
            "deliveries",
            [
                "id": "\(first + 10)", "state": "3", "flow": "12", "due": "1764000000031", "expires": "1764000000032",
                "step": "0", "attempts": "1", "replay": "0", "mark": "0", "changed": "1764000000033",
                "recipient": "'user:four'", "attempt_log": "'{\"n\":4}'", "count": "1", "plan": "0",
                "scheduled": "1764000000035", "caller": "'web'", "collapse_id": "'sale'", "record": blob(other),
            ],
            db
        )
        try insert("awaited", ["delivery": "\(first + 2)", "message": "-5001", "token": "6001"], db)
        try insert("search_keys", ["bucket": "\(first >> 45)", "hash": "-7001", "place": "\(first % (1 << 45))"], db)
        try insert("handled", ["id": "\(first + 1)", "acknowledged": "0", "resent": "1"], db)
        try insert("handled", ["id": "\(first + 2)", "acknowledged": "1", "resent": "0"], db)
        try insert(
            "idempotency",
            [
                "caller": "'shop'", "key": "'key-1'", "fingerprint": "X'0701'", "answer": "X'0802'",
                "keep": "1764000000041",
            ],
            db
        )
        try insert("state", ["name": "'credential.apns'", "value": "X'000102FF'"], db)
        try insert(
            "campaigns",
            ["id": "8001", "version": "8002", "ended": "1764000000081", "packed": blob(campaign)],
            db
        )
        try insert(
            "campaign_parts",
            ["campaign": "8011", "first": "8012", "place": "8013", "count": "8014", "open": "1"],
            db
        )
    }

    private static func fillDevices(_ db: Database) throws {
        try insert(
            "devices",
            [
                "number": "21", "id": "'device-1'", "user": "'user-1'", "platform": "'ios'", "tags": "'red'",
                "locale": "'fa-IR'", "version": "'1.2'", "zone": "'Asia/Tehran'", "created": "1764000000051",
                "updated": "1764000000052", "seen": "1764000000053", "attributes": "'{\"name\":\"n\"}'",
            ],
            db
        )
        try insert(
            "device_tokens",
            [
                "device": "21", "service": "'ios-apns/voip'", "token": "'token-1'", "hash": "7001",
                "registered": "1764000000061", "as_of": "1764000000062", "invalidated": "1764000000063",
                "backend": "'apns'", "reason": "'Unregistered'", "held": "1", "environment": "'development'",
                "refusals": "'fcm'",
            ],
            db
        )
        try insert("device_tags", ["tag": "'red'", "device": "21"], db)
        try insert("user_labels", ["user": "'user-1'", "label": "'u:gold'"], db)
        try insert("device_labels", ["label": "'u:gold'", "device": "21"], db)
        try insert("label_counts", ["app": "'default'", "label": "'u:gold'", "devices": "1"], db)
        try insert(
            "outbox_changes",
            [
                "number": "71", "device": "'device-2'", "at": "1764000000071", "backend": "'altcraft'",
                "old": "'{\"a\":1}'", "new": "'{\"a\":2}'", "entry": "'{\"a\":3}'", "skipped": "'chabok'",
            ],
            db
        )
        // Unclaimed: it waits because the platform asked for it.
        try insert(
            "outbox_entries",
            [
                "number": "81", "id": "'6F9619FF-8B86-4D01-B42D-00CF4FC964FF'", "backend": "'chabok'",
                "device": "'device-3'", "user": "'user-3'", "kind": "'register'", "body": "'{\"b\":1}'",
                "at": "1764000000081", "attempts": "6", "due": "1764000000082", "leased": "2",
            ],
            db
        )
    }
}
