import ChaparQueue

/// The SQL that reads and writes the records of one kind.
struct SQLiteCopyForm {
    /// The table.
    let source: String
    /// The condition for the rows to copy.
    var filter = "true"
    /// The expression for each field, in order; the keys are plain columns.
    var columns: [String]
    /// The statement that inserts a record; its parameters are the fields in order, and for ``CopyKind/events`` the
    /// number of texts.
    let insertion: String

    init(_ kind: CopyKind) {
        columns = kind.fields.map(\.name)
        switch kind {
        case .notifications:
            source = "deliveries d"
            filter = "head IS NULL AND state >= 0"
            // The notification's own delivery comes later and takes over this row (``takeOver``): until then it has no
            // state.
            insertion = """
                INSERT INTO deliveries (id, state, flow, due, expires, step, attempts, replay, mark, changed, recipient,
                count, plan, scheduled, caller, collapse_id, record)
                VALUES (?1, -1, 0, 0, ?5, 0, 0, 0, 0, 0, '', ?2, 0, ?4, ?3, ?6, ?7)
                """
        case .waiting:
            source = "deliveries d"
            filter = "state = 0"
            columns[1] = "coalesce(head, id)"
            columns[7] = "(replay & 3) | CASE WHEN mark IN (1, \(Schema.handedOut)) THEN 4 ELSE 0 END"
            insertion = """
                INSERT INTO deliveries (id, head, flow, due, expires, attempts, step, replay, mark, plan, collapse, recipient,
                attempt_log, state, changed) VALUES (?1, nullif(?2, ?1), ?3, ?4, ?5, ?6, ?7, ?8 & 3, (?8 & 4) / 4,
                ?9, ?10, ?11, CAST(?12 AS TEXT), 0, ?4)
                \(Self.takeOver), due = excluded.due, expires = excluded.expires, attempts = excluded.attempts,
                step = excluded.step, replay = excluded.replay, mark = excluded.mark, plan = excluded.plan,
                collapse = excluded.collapse
                """
        case .results:
            source = "deliveries d"
            filter = "state > 0"
            columns[1] = "coalesce(head, id)"
            insertion = """
                INSERT INTO deliveries (id, head, flow, changed, state, recipient, attempt_log, due, expires, attempts, step,
                replay, mark, plan) VALUES (?1, nullif(?2, ?1), ?3, ?4, ?5, ?6, CAST(?7 AS TEXT), ?4,
                coalesce((SELECT h.expires FROM deliveries h WHERE h.id = ?2), ?4), 1, 0, 0, 0, 0)
                \(Self.takeOver)
                """
        case .receipts:
            source = "awaited"
            insertion = "INSERT INTO awaited (message, token, delivery) VALUES (?1, ?2, ?3)"
        case .searchKeys:
            source = "search_keys"
            columns = ["hash", "(bucket << \(SearchBucket.bits)) | place"]
            insertion = """
                INSERT INTO search_keys (bucket, hash, place)
                VALUES (?2 >> \(SearchBucket.bits), ?1, ?2 & \(SearchBucket.highestPlace))
                """
        case .events:
            source = "events"
            filter = "count > 0"
            columns[2] = "packed"
            insertion = "INSERT INTO events (first, at, packed, count) VALUES (?1, ?2, ?3, ?4)"
        case .keys:
            source = "idempotency"
            insertion = Self.insertion("idempotency", columns)
        case .state:
            source = "state"
            filter = "name NOT IN (\(CopyKind.ownNames.map { "'\($0)'" }.joined(separator: ", ")))"
            insertion = Self.insertion(source, columns)
        case .devices:
            source = "devices"
            columns[2] = "user"
            insertion = Self.insertion(source, columns)
        case .tokens:
            source = "device_tokens"
            columns[1] = "service"
            insertion = Self.insertion(source, columns)
        case .tags:
            source = "device_tags"
            insertion = Self.insertion(source, columns)
        case .userLabels:
            source = "user_labels"
            columns[0] = "user"
            insertion = Self.insertion(source, columns)
        case .deviceLabels:
            source = "device_labels"
            insertion = Self.insertion(source, columns)
        case .labelCounts:
            source = "label_counts"
            insertion = Self.insertion(source, columns)
        case .changes:
            source = "outbox_changes"
            insertion = Self.insertion(source, columns)
        case .entries:
            source = "outbox_entries"
            columns[4] = "user"
            // Claims end with the gateway; the pause that a platform asked for does not.
            columns[10] = "leased = \(OutboxEntryTable.waitsAsAsked)"
            insertion = """
                INSERT INTO outbox_entries (\(columns.dropLast().joined(separator: ", ")), leased)
                VALUES (?1, ?2, ?3, ?4, ?5, ?6, ?7, ?8, ?9, ?10, \(OutboxEntryTable.waitsAsAsked) * (?11 <> 0))
                """
        case .webhookMessages:
            source = "webhook_messages"
            insertion = Self.insertion(source, columns)
        case .parts:
            source = "campaign_parts"
            insertion = Self.insertion(source, columns)
        case .flows, .moves, .handled, .campaigns, .webhooks:
            source = kind.rawValue
            insertion = Self.insertion(source, columns)
        }
    }

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
