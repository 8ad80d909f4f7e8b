package import Foundation
import GRDB
package import ChaparCore
package import ChaparQueue

/// The endpoints of webhooks. One process has the file, so its own leases are the only ones.
extension SQLiteStore: WebhookStore {
    /// Returns all endpoints.
    package func webhooks() async throws(StoreError) -> [StoredWebhook] {
        try await readConnection { (connection) throws(StoreError) in
            let rows = try SQLStatement(
                connection,
                "SELECT name, app, revision, settings FROM webhooks ORDER BY name"
            )
            var found: [StoredWebhook] = []
            while try rows.next() {
                found.append(
                    StoredWebhook(
                        name: try rows.text(0),
                        app: try rows.text(1),
                        revision: try rows.integer(2),
                        settings: try rows.bytes(3)
                    )
                )
            }
            return found
        }
    }

    /// Adds or replaces an endpoint.
    package func saveWebhook(_ webhook: StoredWebhook, replacing revision: Int64?) async throws(StoreError) -> Int64? {
        // Events of commits after this one are above it.
        let last = try await lastEvent()
        return try await work(rows: 1, isNew: revision == nil) { (writer) throws(StoreError) in
            try writer.webhooks().save(webhook, replacing: revision, cursor: last, now: writer.transaction.now)
        }
    }

    /// Removes an endpoint.
    package func removeWebhook(_ name: String) async throws(StoreError) -> Bool {
        try await work(rows: 1, isNew: false) { (writer) throws(StoreError) in try writer.webhooks().remove(name) }
    }

    /// Takes or extends a lease.
    package func holdWebhook(
        _ name: String,
        holder: String,
        for span: Duration
    ) async throws(StoreError) -> WebhookProgress? {
        let isHeld = try await work(rows: 1, isNew: false) { (writer) throws(StoreError) in
            let now = writer.transaction.now
            let end = now.adding(clamping: span.boundedMilliseconds)
            return try writer.webhooks().hold(name, holder, until: end, now: now)
        }
        return isHeld ? try await webhookProgress(name) : nil
    }

    /// Ends a lease.
    package func releaseWebhook(_ name: String, holder: String) async throws(StoreError) {
        try await work(rows: 1, isNew: false) { (writer) throws(StoreError) in
            try writer.webhooks().release(name, holder)
        }
    }

    /// Writes a change.
    package func changeWebhook(_ change: WebhookChange) async throws(StoreError) -> Bool {
        let rows = 1 + change.kept.count + change.removed.count
        return try await work(rows: rows, isNew: false) { (writer) throws(StoreError) in
            try writer.webhooks().apply(change)
        }
    }

    /// Returns the progress of an endpoint.
    package func webhookProgress(_ name: String) async throws(StoreError) -> WebhookProgress? {
        try await readConnection { (connection) throws(StoreError) in
            let rows = try SQLStatement(connection, "SELECT cursor, memory FROM webhooks WHERE name = ?1")
            rows.bind(1, name)
            guard try rows.next() else { return nil }
            defer { rows.reset() }
            return WebhookProgress(cursor: try rows.integer(0), memory: try rows.bytes(1))
        }
    }

    /// Returns messages of a state.
    package func webhookMessages(
        of name: String,
        _ state: WebhookMessage.State,
        at moment: Date,
        limit: Int
    ) async throws(StoreError) -> [WebhookMessage] {
        try await readConnection { (connection) throws(StoreError) in
            let rows = try SQLStatement(
                connection,
                """
                SELECT \(WebhookRows.columns) FROM webhook_messages INDEXED BY webhook_messages_due
                WHERE webhook = ?1 AND state = ?2 AND due \(state == .open ? "<=" : ">=") ?3
                ORDER BY due, number LIMIT ?4
                """
            )
            rows.bind(1, name)
            rows.bind(2, state.rawValue)
            rows.bind(3, moment.millisecondsSince1970)
            rows.bind(4, max(0, limit))
            return try WebhookRows.messages(rows)
        }
    }

    /// Returns the oldest open message.
    package func firstOpenWebhookMessage(of name: String) async throws(StoreError) -> WebhookMessage? {
        try await readConnection { (connection) throws(StoreError) in
            let rows = try SQLStatement(
                connection,
                """
                SELECT \(WebhookRows.columns) FROM webhook_messages INDEXED BY webhook_messages_open
                WHERE webhook = ?1 AND state = 0 ORDER BY number LIMIT 1
                """
            )
            rows.bind(1, name)
            return try WebhookRows.messages(rows).first
        }
    }

    /// Returns a message.
    package func webhookMessage(_ id: String, of name: String) async throws(StoreError) -> WebhookMessage? {
        try await readConnection { (connection) throws(StoreError) in
            let rows = try SQLStatement(
                connection,
                "SELECT \(WebhookRows.columns) FROM webhook_messages WHERE webhook = ?1 AND id = ?2"
            )
            rows.bind(1, name)
            rows.bind(2, id)
            return try WebhookRows.messages(rows).first
        }
    }

    /// Returns the time at which the next open message is due.
    package func nextWebhookMessage(of name: String) async throws(StoreError) -> Date? {
        try await readConnection { (connection) throws(StoreError) in
            let rows = try SQLStatement(
                connection,
                "SELECT min(due) FROM webhook_messages WHERE webhook = ?1 AND state = 0"
            )
            rows.bind(1, name)
            guard try rows.next() else { return nil }
            defer { rows.reset() }
            return try rows.optionalDate(0)
        }
    }

    /// Returns the number of messages.
    package func webhookCounts(of name: String) async throws(StoreError) -> WebhookCounts {
        try await readConnection { (connection) throws(StoreError) in
            let rows = try SQLStatement(
                connection,
                "SELECT state, count(*) FROM webhook_messages WHERE webhook = ?1 GROUP BY state"
            )
            rows.bind(1, name)
            var counts = WebhookCounts()
            while try rows.next() {
                let count = try rows.count(1)
                if try rows.integer(0) == 0 { counts.open = count } else { counts.failed = count }
            }
            return counts
        }
    }

    /// Removes failed messages that are old.
    package func purgeWebhookMessages(before moment: Date, limit: Int) async throws(StoreError) -> Int {
        try await work(rows: limit, isNew: false) { (writer) throws(StoreError) in
            try writer.webhooks().purge(before: moment.millisecondsSince1970, limit: limit)
        }
    }
}
