package import Foundation
package import ChaparCore
package import ChaparQueue

/// Reads of the tables of webhooks.
private enum WebhookRows {
    static let columns = "id, number, state, due, record"

    /// Returns the messages of rows with ``columns``.
    static func messages(_ rows: borrowing PostgresRows) -> [WebhookMessage] {
        var found: [WebhookMessage] = []
        for row in 0..<rows.count {
            guard let id = rows.text(row, 0), let number = rows.integer(row, 1),
                let state = rows.integer(row, 2).flatMap(WebhookMessage.State.init), let due = rows.integer(row, 3)
            else { continue }
            found.append(
                WebhookMessage(
                    id: id,
                    number: number,
                    state: state,
                    due: Date(millisecondsSince1970: due),
                    record: rows.bytes(row, 4) ?? []
                )
            )
        }
        return found
    }
}

/// The endpoints of webhooks, of which each gateway sends to those whose lease it holds.
///
/// A lock of the endpoint's row orders a change after a change of its holder.
extension PostgresStore: WebhookStore {
    /// Returns all endpoints.
    package func webhooks() async throws(StoreError) -> [StoredWebhook] {
        try await session(on: registryReader) { (db) throws(PostgresError) in
            let rows = try db.run("SELECT name, app, revision, settings FROM chapar.webhooks ORDER BY name")
            return (0..<rows.count).map { row in
                StoredWebhook(
                    name: rows.text(row, 0) ?? "",
                    app: rows.text(row, 1) ?? "",
                    revision: rows.integer(row, 2) ?? 0,
                    settings: rows.bytes(row, 3) ?? []
                )
            }
        }
    }

    /// Adds or replaces an endpoint.
    package func saveWebhook(_ webhook: StoredWebhook, replacing revision: Int64?) async throws(StoreError) -> Int64? {
        // Events that are numbered later are above it.
        let last = try await lastEvent()
        let now = core.now
        return try await session(on: registry) { (db) throws(PostgresError) in
            let rows =
                if let revision {
                    try db.run(
                        """
                        UPDATE chapar.webhooks SET app = $2, revision = greatest($3, revision + 1), settings = $4
                        WHERE name = $1 AND revision = $5 RETURNING revision
                        """,
                        [
                            .text(webhook.name), .text(webhook.app), .integer(now), .bytes(webhook.settings),
                            .integer(revision),
                        ]
                    )
                } else {
                    try db.run(
                        """
                        INSERT INTO chapar.webhooks (name, app, revision, settings, cursor, memory)
                        VALUES ($1, $2, $3, $4, $5, ''::bytea) ON CONFLICT (name) DO NOTHING RETURNING revision
                        """,
                        [
                            .text(webhook.name), .text(webhook.app), .integer(now), .bytes(webhook.settings),
                            .integer(last),
                        ]
                    )
                }
            return rows.integer(0, 0)
        }
    }

    /// Removes an endpoint.
    package func removeWebhook(_ name: String) async throws(StoreError) -> Bool {
        try await transaction(on: registry) { (db) throws(PostgresError) in
            let isGone = try db.run("DELETE FROM chapar.webhooks WHERE name = $1", [.text(name)]).changed == 1
            try db.run("DELETE FROM chapar.webhook_messages WHERE webhook = $1", [.text(name)])
            return isGone
        }
    }

    /// Takes or extends a lease.
    package func holdWebhook(
        _ name: String,
        holder: String,
        for span: Duration
    ) async throws(StoreError) -> WebhookProgress? {
        let now = core.now
        let end = now.adding(clamping: span.boundedMilliseconds)
        return try await session(on: outbox) { (db) throws(PostgresError) in
            let rows = try db.run(
                """
                UPDATE chapar.webhooks SET holder = $2, held_until = $3
                WHERE name = $1 AND (holder IS NULL OR holder = $2 OR held_until < $4)
                RETURNING cursor, memory
                """,
                [.text(name), .text(holder), .integer(end), .integer(now)]
            )
            return rows.integer(0, 0).map { WebhookProgress(cursor: $0, memory: rows.bytes(0, 1) ?? []) }
        }
    }

    /// Ends a lease.
    package func releaseWebhook(_ name: String, holder: String) async throws(StoreError) {
        try await session(on: outbox) { (db) throws(PostgresError) in
            _ = try db.run(
                "UPDATE chapar.webhooks SET holder = NULL, held_until = NULL WHERE name = $1 AND holder = $2",
                [.text(name), .text(holder)]
            )
        }
    }

    /// Writes a change.
    package func changeWebhook(_ change: WebhookChange) async throws(StoreError) -> Bool {
        try await transaction(on: outbox) { (db) throws(PostgresError) in
            let rows = try db.run(
                "SELECT 1 FROM chapar.webhooks WHERE name = $1 AND ($2::text IS NULL OR holder = $2) FOR UPDATE",
                [.text(change.name), .text(change.holder)]
            )
            guard rows.count == 1 else { return false }
            if let progress = change.progress {
                try db.run(
                    "UPDATE chapar.webhooks SET cursor = $2, memory = $3 WHERE name = $1",
                    [.text(change.name), .integer(progress.cursor), .bytes(progress.memory)]
                )
            }
            if !change.removed.isEmpty {
                try db.run(
                    "DELETE FROM chapar.webhook_messages WHERE webhook = $1 AND id = ANY ($2)",
                    [.text(change.name), .texts(change.removed)]
                )
            }
            if !change.kept.isEmpty {
                try db.run(
                    """
                    INSERT INTO chapar.webhook_messages (webhook, id, number, state, due, record)
                    SELECT $1, n.* FROM unnest($2::text[], $3::bigint[], $4::bigint[], $5::bigint[], $6::bytea[]) AS n
                    ON CONFLICT (webhook, id) DO UPDATE SET number = excluded.number, state = excluded.state,
                    due = excluded.due, record = excluded.record
                    """,
                    [
                        .text(change.name), .texts(change.kept.map(\.id)), .integers(change.kept.map(\.number)),
                        .integers(change.kept.map(\.state.rawValue)),
                        .integers(change.kept.map(\.due.millisecondsSince1970)),
                        .byteArrays(change.kept.map(\.record)),
                    ]
                )
            }
            return true
        }
    }

    /// Returns the progress of an endpoint.
    package func webhookProgress(_ name: String) async throws(StoreError) -> WebhookProgress? {
        try await session(on: registryReader) { (db) throws(PostgresError) in
            let rows = try db.run("SELECT cursor, memory FROM chapar.webhooks WHERE name = $1", [.text(name)])
            return rows.integer(0, 0).map { WebhookProgress(cursor: $0, memory: rows.bytes(0, 1) ?? []) }
        }
    }

    /// Returns messages of a state.
    package func webhookMessages(
        of name: String,
        _ state: WebhookMessage.State,
        at moment: Date,
        limit: Int
    ) async throws(StoreError) -> [WebhookMessage] {
        try await session(on: registryReader) { (db) throws(PostgresError) in
            WebhookRows.messages(
                try db.run(
                    """
                    SELECT \(WebhookRows.columns) FROM chapar.webhook_messages
                    WHERE webhook = $1 AND state = $2 AND due \(state == .open ? "<=" : ">=") $3
                    ORDER BY due, number LIMIT $4
                    """,
                    [
                        .text(name), .integer(state.rawValue), .integer(moment.millisecondsSince1970),
                        .integer(max(0, limit)),
                    ]
                )
            )
        }
    }

    /// Returns the oldest open message.
    package func firstOpenWebhookMessage(of name: String) async throws(StoreError) -> WebhookMessage? {
        try await session(on: registryReader) { (db) throws(PostgresError) in
            WebhookRows.messages(
                try db.run(
                    """
                    SELECT \(WebhookRows.columns) FROM chapar.webhook_messages
                    WHERE webhook = $1 AND state = 0 ORDER BY number LIMIT 1
                    """,
                    [.text(name)]
                )
            ).first
        }
    }

    /// Returns a message.
    package func webhookMessage(_ id: String, of name: String) async throws(StoreError) -> WebhookMessage? {
        try await session(on: registryReader) { (db) throws(PostgresError) in
            WebhookRows.messages(
                try db.run(
                    "SELECT \(WebhookRows.columns) FROM chapar.webhook_messages WHERE webhook = $1 AND id = $2",
                    [.text(name), .text(id)]
                )
            ).first
        }
    }

    /// Returns the time at which the next open message is due.
    package func nextWebhookMessage(of name: String) async throws(StoreError) -> Date? {
        try await session(on: registryReader) { (db) throws(PostgresError) in
            try db.run(
                "SELECT min(due) FROM chapar.webhook_messages WHERE webhook = $1 AND state = 0",
                [.text(name)]
            ).integer(0, 0).map { Date(millisecondsSince1970: $0) }
        }
    }

    /// Returns the number of messages.
    package func webhookCounts(of name: String) async throws(StoreError) -> WebhookCounts {
        try await session(on: registryReader) { (db) throws(PostgresError) in
            let rows = try db.run(
                """
                SELECT count(*) FILTER (WHERE state = 0), count(*) FILTER (WHERE state = 1)
                FROM chapar.webhook_messages WHERE webhook = $1
                """,
                [.text(name)]
            )
            return WebhookCounts(
                open: Int(clamping: rows.integer(0, 0) ?? 0),
                failed: Int(clamping: rows.integer(0, 1) ?? 0)
            )
        }
    }

    /// Removes failed messages that are old.
    package func purgeWebhookMessages(before moment: Date, limit: Int) async throws(StoreError) -> Int {
        try await session(on: outbox) { (db) throws(PostgresError) in
            try db.run(
                """
                DELETE FROM chapar.webhook_messages WHERE (webhook, id) IN (
                    SELECT m.webhook, m.id FROM chapar.webhooks w
                    JOIN chapar.webhook_messages m ON m.webhook = w.name AND m.state = 1 AND m.due < $1 LIMIT $2
                )
                """,
                [.integer(moment.millisecondsSince1970), .integer(max(0, limit))]
            ).changed
        }
    }
}
