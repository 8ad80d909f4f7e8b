internal import ChaparQueue

/// The SQL that reads and writes the records of one kind.
struct PostgresCopyForm {
    /// The table, with the alias `d`.
    let source: String
    /// The condition for the rows to copy.
    var filter = "true"
    /// The expression for each field, in order; the keys are plain columns.
    var columns: [String]
    /// The statement that inserts records, which it has as the table `n` with the fields as columns.
    var insertion: String

    init(_ kind: CopyKind) {
        let names = kind.fields.map(\.name)
        columns = names
        var table = kind.rawValue
        var added = names
        var values = names.map { "n.\($0)" }
        switch kind {
        case .flows:
            columns[2] = "urgent::int"
            values[2] = "n.urgent <> 0"
            // Of several flows with the same name one gets new deliveries; the others are merged into it.
            added.append("merged")
            values.append(
                """
                row_number() OVER (PARTITION BY n.backend, n.urgent, n.caller ORDER BY n.number) > 1 OR EXISTS (
                    SELECT FROM chapar.flows f
                    WHERE f.backend = n.backend AND f.urgent = (n.urgent <> 0) AND f.caller = n.caller)
                """
            )
        case .waiting:
            columns[7] = "flags | CASE WHEN owner > 0 THEN 4 ELSE 0 END"
            added.append("lease")
            values.append("0")
        case .parts:
            table = "campaign_parts"
            columns[4] = "open::int"
            values[4] = "n.open <> 0"
        case .receipts: table = "awaited"
        case .events: columns[2] = "texts"
        case .searchKeys: table = "search_keys"
        case .handled:
            for place in [1, 2] {
                columns[place] = "\(names[place])::int"
                values[place] = "n.\(names[place]) <> 0"
            }
        case .keys: table = "idempotency"
        case .state: filter = "name <> ALL (ARRAY[\(CopyKind.ownNames.map { "'\($0)'" }.joined(separator: ", "))])"
        case .tokens:
            table = "device_tokens"
            columns[11] = "held::int"
            values[11] = "n.held <> 0"
        case .tags: table = "device_tags"
        case .userLabels: table = "user_labels"
        case .deviceLabels: table = "device_labels"
        case .labelCounts: table = "label_counts"
        case .changes: table = "outbox_changes"
        case .entries:
            table = "outbox_entries"
            // Leases are not copied: they end with the gateways.
            columns[9] = "CASE WHEN owner IS NOT NULL THEN at ELSE due END"
            // A negative lease marks a pause that the platform asked for: the pause is copied.
            columns[10] = "(coalesce(lease, 0) < 0)::int"
            added[10] = "lease"
            values[10] = "CASE WHEN n.asked <> 0 THEN -1 END"
        case .webhookMessages: table = "webhook_messages"
        case .moves, .notifications, .results, .devices, .campaigns, .webhooks, .series: break
        }
        source =
            kind == .labelCounts
            ? "(SELECT app, label, sum(devices)::bigint AS devices FROM chapar.label_counts GROUP BY app, label) d"
            : "chapar.\(table) d"
        insertion = """
            INSERT INTO chapar.\(table) (\(added.joined(separator: ", "))) OVERRIDING SYSTEM VALUE
            SELECT \(values.joined(separator: ", "))
            FROM unnest(\(Self.arrays(kind))) AS n(\(names.joined(separator: ", ")))
            """
        if kind == .entries {
            insertion = """
                WITH new AS (\(insertion) RETURNING backend)
                INSERT INTO chapar.outbox_depths (backend, waiting) SELECT backend, count(*) FROM new GROUP BY backend
                """
        }
    }

    private static func arrays(_ kind: CopyKind) -> String {
        kind.fields.enumerated().map { place, field in
            switch field.type {
            case .integer: "$\(place + 1)::bigint[]"
            case .text: "$\(place + 1)::text[]"
            case .bytes, .list: "$\(place + 1)::bytea[]"
            }
        }.joined(separator: ", ")
    }

    /// Returns records as the parameters of ``insertion``, one array for each field.
    static func parameters(_ kind: CopyKind, _ records: [CopyRecord]) -> [PostgresValue] {
        kind.fields.enumerated().map { place, field in
            switch field.type {
            case .integer: .integers(records.map { $0[place].integer })
            case .text: .texts(records.map { $0[place].text })
            case .bytes, .list: .byteArrays(records.map { $0[place].bytes })
            }
        }
    }
}
