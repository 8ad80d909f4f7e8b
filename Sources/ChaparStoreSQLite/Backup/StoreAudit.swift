import GRDB
import ChaparCore
import ChaparQueue

/// Reads every row of a file with the getters of the store itself, to verify copies.
///
/// SQLite's own checks find damaged pages, but not values of another type in an intact page, nor damage in bytes that
/// this store has packed. Files of older versions are read too: a renamed column is read under either name.
enum StoreAudit {
    /// The type and the bounds of a column's values.
    enum Kind {
        /// Any whole number.
        case number
        /// The number of a delivery or an event.
        case id
        case count
        /// Milliseconds since 1970.
        case moment
        /// 0, or the number of a final state.
        case state
        case text
        case bytes
        case recipient
        /// A ``NotificationRecord``.
        case record
        /// A ``Campaign``.
        case campaign
        case uuid, entryKind
        case json
        /// ``StagedRows``, ``Archive``, ``LeaseList``.
        case staged, archived, leased
        /// Staged and archived deliveries in files from before the step ``Schema/recordsStep``.
        case formerStaged, formerArchived
        /// The events of a commit, as many as the column before it says.
        case events
    }

    /// A column of a table.
    struct Column {
        let name: String
        let kind: Kind
        var isNullable = false
        /// Its name in files of older versions.
        var formerName: String?
    }

    /// Every table with its columns; a test compares them with the tables themselves.
    static let tables: [(name: String, formerName: String?, columns: [Column])] = [
        ("deliveries", nil, deliveries),
        (
            "flows", nil,
            [.init("number", .count), .init("backend", .text), .init("urgent", .number), .init("caller", .text)]
        ),
        ("moves", nil, [.init("backend", .text), .init("target", .text)]),
        ("leases", nil, [.init("number", .number), .init("deliveries", .leased)]),
        ("arrivals", nil, [.init("number", .number), .init("packed", .staged)]),
        (
            "archive", nil,
            [
                .init("number", .number), .init("first", .id), .init("last", .id), .init("at", .moment),
                .init("packed", .archived),
            ]
        ),
        ("events", nil, [.init("first", .id), .init("at", .moment), .init("count", .count), .init("packed", .events)]),
        (
            "idempotency", nil,
            [
                .init("caller", .text), .init("key", .text), .init("fingerprint", .bytes), .init("answer", .bytes),
                .init("keep", .moment),
            ]
        ),
        ("state", nil, [.init("name", .text), .init("value", .bytes)]),
        ("marks", nil, [.init("name", .text), .init("value", .number)]),
        (
            "search_keys", nil,
            [.init("bucket", .count), .init("hash", .number), .init("place", .id)]
        ),
        ("search_ends", nil, [.init("id", .id)]),
        ("handled", nil, [.init("id", .id), .init("acknowledged", .count), .init("resent", .count)]),
        ("awaited", nil, [.init("delivery", .id), .init("message", .number), .init("token", .number)]),
        ("devices", nil, devices), ("device_tokens", nil, tokens),
        ("device_tags", nil, [.init("tag", .text), .init("device", .number)]),
        (
            "campaigns", nil,
            [
                .init("id", .id), .init("version", .count), .init("ended", .moment, isNullable: true),
                .init("packed", .campaign),
            ]
        ),
        (
            "campaign_parts", nil,
            [
                .init("campaign", .id), .init("first", .id), .init("place", .id), .init("count", .count),
                .init("open", .number),
            ]
        ),
        ("user_labels", nil, [.init("user", .text), .init("label", .text)]),
        ("device_labels", nil, [.init("label", .text), .init("device", .number)]),
        ("label_counts", nil, [.init("app", .text), .init("label", .text), .init("devices", .number)]),
        ("outbox_changes", nil, changes), ("outbox_entries", "operations", entries),
        ("outbox_depths", "operation_depths", [.init("backend", .text), .init("waiting", .count)]),
        ("webhooks", nil, webhooks), ("webhook_messages", nil, webhookMessages),
        (
            "series", nil,
            [
                .init("scale", .number), .init("start", .number), .init("backend", .text), .init("run", .number),
                .init("counts", .bytes),
            ]
        ),
    ]

    private static let deliveries: [Column] = [
        .init("id", .id), .init("state", .state), .init("flow", .number, formerName: "lane"), .init("due", .moment),
        .init("expires", .moment), .init("step", .count), .init("attempts", .count), .init("replay", .number),
        .init("mark", .number), .init("changed", .moment), .init("head", .id, isNullable: true),
        .init("collapse", .number, isNullable: true), .init("recipient", .recipient),
        .init("attempt_log", .text, isNullable: true, formerName: "story"), .init("count", .count, isNullable: true),
        .init("plan", .count), .init("scheduled", .moment, isNullable: true),
        .init("caller", .text, isNullable: true), .init("collapse_id", .text, isNullable: true),
        .init("record", .record, isNullable: true),
        .init("padding", .bytes, isNullable: true, formerName: "room"),
    ]

    /// The columns that ``Schema/recordsStep`` replaced.
    private static let formerDeliveries: [Column] =
        deliveries.filter { $0.name != "plan" && $0.name != "record" } + [
            .init("accepted", .moment, isNullable: true), .init("plan", .text, isNullable: true),
            .init("content", .bytes, isNullable: true),
        ]

    /// Returns a table's columns in a file from before the step ``Schema/recordsStep``.
    private static func former(_ table: String, _ columns: [Column]) -> [Column] {
        switch table {
        case "deliveries": formerDeliveries
        case "arrivals": [.init("number", .number), .init("packed", .formerStaged)]
        case "archive": columns.dropLast() + [.init("packed", .formerArchived)]
        default: columns
        }
    }

    private static let devices: [Column] = [
        .init("number", .number), .init("id", .text), .init("user", .text, isNullable: true),
        .init("platform", .text, isNullable: true), .init("tags", .text, isNullable: true),
        .init("locale", .text, isNullable: true), .init("version", .text, isNullable: true),
        .init("zone", .text, isNullable: true), .init("created", .moment), .init("updated", .moment),
        .init("seen", .moment, isNullable: true), .init("attributes", .json, isNullable: true),
    ]

    private static let tokens: [Column] = [
        .init("device", .number), .init("service", .text), .init("token", .text), .init("hash", .number),
        .init("registered", .moment), .init("as_of", .moment, isNullable: true),
        .init("invalidated", .moment, isNullable: true, formerName: "buried"),
        .init("backend", .text, isNullable: true),
        .init("reason", .text, isNullable: true), .init("held", .number, isNullable: true),
        .init("environment", .text, isNullable: true), .init("refusals", .text, isNullable: true),
    ]

    private static let changes: [Column] = [
        .init("number", .id), .init("device", .text), .init("at", .moment), .init("backend", .text, isNullable: true),
        .init("old", .json, isNullable: true), .init("new", .json, isNullable: true),
        .init("entry", .json, isNullable: true, formerName: "operation"), .init("skipped", .text, isNullable: true),
    ]

    private static let entries: [Column] = [
        .init("number", .id), .init("id", .uuid), .init("backend", .text), .init("device", .text),
        .init("user", .text, isNullable: true), .init("kind", .entryKind), .init("body", .json, isNullable: true),
        .init("at", .moment), .init("attempts", .count), .init("due", .moment, isNullable: true),
        .init("leased", .number),
    ]

    private static let webhooks: [Column] = [
        .init("name", .text), .init("app", .text), .init("revision", .number), .init("settings", .json),
        .init("cursor", .number), .init("memory", .bytes), .init("holder", .text, isNullable: true),
        .init("held_until", .moment, isNullable: true),
    ]

    private static let webhookMessages: [Column] = [
        .init("webhook", .text), .init("id", .text), .init("number", .id), .init("state", .number),
        .init("due", .moment), .init("record", .json),
    ]

    /// Conditions over several columns of up-to-date files, as statements that find a row which violates one.
    private static let rules = [
        (
            "a delivery belongs to no flow",
            "SELECT 1 FROM deliveries WHERE state >= 0 AND flow NOT IN (SELECT number FROM flows) LIMIT 1"
        ),
        (
            "a delivery has lost its notification",
            "SELECT 1 FROM deliveries WHERE head IS NOT NULL AND head NOT IN (SELECT id FROM deliveries) LIMIT 1"
        ),
        (
            "a notification has lost what its deliveries share",
            """
            SELECT 1 FROM deliveries WHERE head IS NULL
            AND (count IS NULL OR record IS NULL OR caller IS NULL) LIMIT 1
            """
        ),
        (
            "a tombstone is not whole",
            """
            SELECT 1 FROM device_tokens WHERE as_of IS NOT NULL
            AND (invalidated IS NULL OR backend IS NULL OR reason IS NULL OR held IS NULL) LIMIT 1
            """
        ),
        (
            "a mark holds a number that no gateway writes",
            """
            SELECT 1 FROM marks
            WHERE name IN ('steady', 'wall') AND value NOT BETWEEN 0 AND \(OpenedStore.times.upperBound)
            OR name = 'highest' AND value NOT BETWEEN 0 AND \(NotificationID.highest)
            OR name = 'epoch' AND value NOT BETWEEN 0 AND \(Int32.max - 1) LIMIT 1
            """
        ),
    ]

    /// Checks every page and the schema, then reads every row.
    ///
    /// - Throws: `StoreError.damaged`, which names the first value that cannot be read, or what is missing.
    static func run(_ db: Database) throws {
        let pages = try db.statement("PRAGMA integrity_check(3)")
        var findings: [String] = []
        while try pages.next() { findings.append(try pages.text(0)) }
        // Values of another type are reported by the rows, below, which say more.
        let types = findings.filter { $0.wholeMatch(of: #/non-\w+ value in .*/#) != nil }
        guard types == findings || findings == ["ok"] else {
            throw StoreError.damaged(findings.joined(separator: "; "))
        }
        try SchemaCheck.run(db)
        let steps = try Schema.migrator.appliedIdentifiers(db)
        let isFormer = !steps.contains(Schema.recordsStep)
        for table in tables {
            let columns = isFormer ? former(table.name, table.columns) : table.columns
            for name in [table.name, table.formerName].compactMap({ $0 }) where try db.tableExists(name) {
                try read(db, name, columns)
            }
        }
        guard types.isEmpty else { throw StoreError.damaged(types.joined(separator: "; ")) }
        guard Schema.migrator.migrations.allSatisfy(steps.contains) else { return }
        for (sentence, sql) in rules where try db.number(sql) != nil { throw StoreError.damaged(sentence) }
    }

    private static func read(_ db: Database, _ table: String, _ columns: [Column]) throws {
        let present = Set(try db.columns(in: table).map(\.name))
        var found: [(name: String, column: Column)] = []
        for column in columns {
            for name in [column.name, column.formerName].compactMap({ $0 }) where present.contains(name) {
                found.append((name, column))
            }
        }
        guard !found.isEmpty else { return }
        let names = found.map { "\"\($0.name)\"" }.joined(separator: ", ")
        let rows = try db.statement("SELECT \(names) FROM \(table)")
        while try rows.next() {
            for (place, (_, column)) in found.enumerated() { try column.read(rows, Int32(clamping: place)) }
        }
    }
}

extension StoreAudit.Column {
    init(_ name: String, _ kind: StoreAudit.Kind, isNullable: Bool = false, formerName: String? = nil) {
        (self.name, self.kind, self.isNullable, self.formerName) = (name, kind, isNullable, formerName)
    }

    /// Reads the value of a row as the store does.
    fileprivate func read(_ row: SQLStatement, _ place: Int32) throws(StoreError) {
        guard !row.isNull(place) else {
            guard isNullable else { throw row.damage(place, "a value") }
            return
        }
        switch kind {
        case .number: _ = try row.integer(place)
        case .id: _ = try row.id(place)
        case .count: _ = try row.count(place)
        case .moment: _ = try row.moment(place)
        case .state:
            let code = try row.integer(place)
            guard code == 0 || DeliveryState(code: code) != nil else {
                throw row.damage(place, "the number of a state")
            }
        case .text: try row.requireText(place)
        case .bytes: try row.requireBytes(place)
        case .recipient:
            guard Recipient(storedForm: try row.text(place)) != nil else { throw row.damage(place, "a recipient") }
        case .record:
            guard NotificationRecord(encoded: try row.bytes(place)) != nil else {
                throw row.damage(place, "a notification's record")
            }
        case .campaign:
            guard Campaign(encoded: try row.bytes(place), version: 0) != nil else {
                throw row.damage(place, "a campaign")
            }
        case .uuid: guard try OutboxEntryRow.id(row.text(place)) != nil else { throw row.damage(place, "a UUID") }
        case .entryKind:
            guard OutboxEntry.Kind(rawValue: try row.text(place)) != nil else {
                throw row.damage(place, "a kind of entry")
            }
        case .json:
            guard case .object? = try? JSONValue(parsing: try row.bytes(place)) else {
                throw row.damage(place, "a JSON object")
            }
        case .staged:
            guard StagedRowPacking.unpack(try row.bytes(place)) != nil else { throw StagedRowPacking.damage }
        case .archived:
            for record in try ArchivedDelivery.records(of: try row.bytes(place)) where ArchivedDelivery(record) == nil {
                throw ArchivedDelivery.damage
            }
        case .formerStaged:
            guard FormerStagedRows.unpack(try row.bytes(place)) != nil else { throw StagedRowPacking.damage }
        case .formerArchived:
            for record in try ArchivedDelivery.records(of: try row.bytes(place))
            where FormerArchivedDelivery(record) == nil {
                throw ArchivedDelivery.damage
            }
        case .leased:
            guard try row.bytes(place).count.isMultiple(of: 8) else { throw row.damage(place, "a list of numbers") }
        case .events:
            let (events, isWhole) = EventPacking.unpackAll(try row.bytes(place))
            guard isWhole, events.count == (try row.count(place - 1)) else {
                throw row.damage(place, "the events of a commit")
            }
        }
    }
}
