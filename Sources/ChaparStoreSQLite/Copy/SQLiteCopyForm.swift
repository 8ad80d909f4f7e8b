import ChaparQueue

/// The SQL that reads and writes the records of one kind.
struct SQLiteCopyForm {
    /// The table.
    let source: String
    /// The condition for the rows to copy.
    let filter: String
    /// The expression for each field, in order; the keys are plain columns.
    var columns: [String]
    /// The statement that inserts a record; its parameters are the fields in order, and for ``CopyKind/events`` the
    /// number of texts.
    let insertion: String

    init(_ kind: CopyKind) {
        let known = Self.sources[kind] ?? Source(kind.rawValue)
        source = known.table
        filter = known.filter
        columns = kind.fields.map(\.name)
        for (place, column) in known.columns { columns[place] = column }
        insertion = known.insertion ?? Self.insertion(source, columns)
    }

    /// The place of a kind's records, and how they are written where fields and columns differ.
    private struct Source {
        let table: String
        let filter: String
        /// The expressions of the fields that are no column of their name, by the place of the field.
        let columns: [Int: String]
        /// The statement; nil for one that writes each field to its column.
        let insertion: String?

        init(_ table: String, filter: String = "true", columns: [Int: String] = [:], insertion: String? = nil) {
            (self.table, self.filter, self.columns, self.insertion) = (table, filter, columns, insertion)
        }
    }

    /// The sources of all kinds but those that have a table of their name, with a column for each field.
    private static let sources: [CopyKind: Source] = [
        // The notification's own delivery comes later and takes over this row (``takeOver``): until then it has no
        // state.
        .notifications: Source(
            "deliveries d",
            filter: "head IS NULL AND state >= 0",
            insertion: """
                INSERT INTO deliveries (id, state, flow, due, expires, step, attempts, replay, mark, changed, recipient,
                count, plan, scheduled, caller, collapse_id, record)
                VALUES (?1, -1, 0, 0, ?5, 0, 0, 0, 0, 0, '', ?2, 0, ?4, ?3, ?6, ?7)
                """
        ),
        .waiting: Source(
            "deliveries d",
            filter: "state = 0",
            columns: [
                1: "coalesce(head, id)",
                7: "(replay & 3) | CASE WHEN mark IN (1, \(Schema.handedOut)) THEN 4 ELSE 0 END",
            ],
            insertion: """
                INSERT INTO deliveries (id, head, flow, due, expires, attempts, step, replay, mark, plan, collapse, recipient,
                attempt_log, state, changed) VALUES (?1, nullif(?2, ?1), ?3, ?4, ?5, ?6, ?7, ?8 & 3, (?8 & 4) / 4,
                ?9, ?10, ?11, CAST(?12 AS TEXT), 0, ?4)
                \(takeOver), due = excluded.due, expires = excluded.expires, attempts = excluded.attempts,
                step = excluded.step, replay = excluded.replay, mark = excluded.mark, plan = excluded.plan,
                collapse = excluded.collapse
                """
        ),
        .results: Source(
            "deliveries d",
            filter: "state > 0",
            columns: [1: "coalesce(head, id)"],
            insertion: """
                INSERT INTO deliveries (id, head, flow, changed, state, recipient, attempt_log, due, expires, attempts, step,
                replay, mark, plan) VALUES (?1, nullif(?2, ?1), ?3, ?4, ?5, ?6, CAST(?7 AS TEXT), ?4,
                coalesce((SELECT h.expires FROM deliveries h WHERE h.id = ?2), ?4), 1, 0, 0, 0, 0)
                \(takeOver)
                """
        ),
        .receipts: Source(
            "awaited",
            insertion: "INSERT INTO awaited (message, token, delivery) VALUES (?1, ?2, ?3)"
        ),
        .searchKeys: Source(
            "search_keys",
            columns: [0: "hash", 1: "(bucket << \(SearchBucket.bits)) | place"],
            insertion: """
                INSERT INTO search_keys (bucket, hash, place)
                VALUES (?2 >> \(SearchBucket.bits), ?1, ?2 & \(SearchBucket.highestPlace))
                """
        ),
        .events: Source(
            "events",
            filter: "count > 0",
            columns: [2: "packed"],
            insertion: "INSERT INTO events (first, at, packed, count) VALUES (?1, ?2, ?3, ?4)"
        ),
        .keys: Source("idempotency"),
        .state: Source("state", filter: "name NOT IN (\(ownNames))"),
        .devices: Source("devices", columns: [2: "user"]),
        .tokens: Source("device_tokens", columns: [1: "service"]),
        .tags: Source("device_tags"),
        .userLabels: Source("user_labels", columns: [0: "user"]),
        .deviceLabels: Source("device_labels"),
        .labelCounts: Source("label_counts"),
        .changes: Source("outbox_changes"),
        .entries: Source(
            "outbox_entries",
            columns: [
                4: "user",
                // Claims end with the gateway; the pause that a platform asked for does not.
                10: "leased = \(OutboxEntryTable.waitsAsAsked)",
            ],
            insertion: """
                INSERT INTO outbox_entries (number, id, backend, device, user, kind, body, at, attempts, due, leased)
                VALUES (?1, ?2, ?3, ?4, ?5, ?6, ?7, ?8, ?9, ?10, \(OutboxEntryTable.waitsAsAsked) * (?11 <> 0))
                """
        ),
        .webhookMessages: Source("webhook_messages"),
        .parts: Source("campaign_parts"),
    ]

    /// The names of the values that belong to the store itself, as SQL.
    private static let ownNames = CopyKind.ownNames.map { "'\($0)'" }.joined(separator: ", ")

    /// The clause for a delivery whose row exists already with what the notification's deliveries share.
    private static let takeOver = """
        ON CONFLICT (id) DO UPDATE SET state = excluded.state, flow = excluded.flow, changed = excluded.changed,
        recipient = excluded.recipient, attempt_log = excluded.attempt_log
        """

    private static func insertion(_ table: String, _ columns: [String]) -> String {
        let places = (1...columns.count).map { "?\($0)" }.joined(separator: ", ")
        return "INSERT INTO \(table) (\(columns.joined(separator: ", "))) VALUES (\(places))"
    }
}
