import Foundation
import ChaparCore
import ChaparQueue

/// The endpoints of webhooks and their messages, as rows of `webhooks` and `webhook_messages`.
///
/// Used by the writer's thread only, within its transaction; reads of other threads use ``WebhookRows``.
final class WebhookTable {
    private let find: SQLStatement
    private let insert: SQLStatement
    private let update: SQLStatement
    private let remove: SQLStatement
    private let removeAll: SQLStatement
    private let hold: SQLStatement
    private let release: SQLStatement
    private let holds: SQLStatement
    private let advance: SQLStatement
    private let keep: SQLStatement
    private let drop: SQLStatement
    private let purge: SQLStatement
    private let holder: SQLStatement
    /// The holders of this process: the leases of a process that had the file before are over.
    private var holders: Set<String> = []

    init(_ connection: OpaquePointer) throws(StoreError) {
        func statement(_ sql: String) throws(StoreError) -> SQLStatement { try SQLStatement(connection, sql) }
        find = try statement("SELECT revision FROM webhooks WHERE name = ?1")
        insert = try statement(
            "INSERT INTO webhooks (name, app, revision, settings, cursor, memory) VALUES (?1, ?2, ?3, ?4, ?5, x'')"
        )
        update = try statement("UPDATE webhooks SET app = ?2, revision = ?3, settings = ?4 WHERE name = ?1")
        remove = try statement("DELETE FROM webhooks WHERE name = ?1")
        removeAll = try statement("DELETE FROM webhook_messages WHERE webhook = ?1")
        hold = try statement(
            """
            UPDATE webhooks SET holder = ?2, held_until = ?3
            WHERE name = ?1 AND (holder IS NULL OR holder = ?2 OR held_until < ?4)
            """
        )
        holder = try statement("SELECT holder FROM webhooks WHERE name = ?1")
        release = try statement(
            "UPDATE webhooks SET holder = NULL, held_until = NULL WHERE name = ?1 AND holder = ?2"
        )
        holds = try statement("SELECT 1 FROM webhooks WHERE name = ?1 AND (?2 IS NULL OR holder = ?2)")
        advance = try statement("UPDATE webhooks SET cursor = ?2, memory = ?3 WHERE name = ?1")
        keep = try statement(
            """
            INSERT OR REPLACE INTO webhook_messages (webhook, id, number, state, due, record)
            VALUES (?1, ?2, ?3, ?4, ?5, ?6)
            """
        )
        drop = try statement("DELETE FROM webhook_messages WHERE webhook = ?1 AND id = ?2")
        purge = try statement(
            """
            DELETE FROM webhook_messages WHERE (webhook, id) IN (
                SELECT m.webhook, m.id FROM webhooks w
                JOIN webhook_messages m ON m.webhook = w.name AND m.state = 1 AND m.due < ?1 LIMIT ?2
            )
            """
        )
    }

    /// Adds or replaces an endpoint; returns the new revision, nil when the expected one is not there.
    func save(
        _ webhook: StoredWebhook,
        replacing revision: Int64?,
        cursor: Int64,
        now: Int64
    ) throws(StoreError) -> Int64? {
        find.bind(1, webhook.name)
        var found: Int64?
        if try find.next() {
            found = try find.integer(0)
            find.reset()
        }
        guard found == revision else { return nil }
        // At least the time: an endpoint that is removed and added again gets a higher revision.
        let next = max(now, (found ?? 0).adding(clamping: 1))
        let statement = found == nil ? insert : update
        statement.bind(1, webhook.name)
        statement.bind(2, webhook.app)
        statement.bind(3, next)
        statement.bind(4, blob: webhook.settings)
        if found == nil { statement.bind(5, cursor) }
        try statement.run()
        return next
    }

    /// Removes an endpoint with its messages.
    func remove(_ name: String) throws(StoreError) -> Bool {
        removeAll.bind(1, name)
        try removeAll.run()
        remove.bind(1, name)
        return try remove.run() == 1
    }

    /// Takes or extends a lease; returns whether the holder has it now.
    func hold(_ name: String, _ holder: String, until end: Int64, now: Int64) throws(StoreError) -> Bool {
        self.holder.bind(1, name)
        if try self.holder.next() {
            let other = try self.holder.optionalText(0)
            self.holder.reset()
            if let other, !holders.contains(other) { try release(name, other) }
        }
        holders.insert(holder)
        hold.bind(1, name)
        hold.bind(2, holder)
        hold.bind(3, end)
        hold.bind(4, now)
        return try hold.run() == 1
    }

    /// Ends a lease.
    func release(_ name: String, _ holder: String) throws(StoreError) {
        release.bind(1, name)
        release.bind(2, holder)
        try release.run()
        holders.remove(holder)
    }

    /// Writes a change; returns false, without a change, when the holder does not have the lease.
    func apply(_ change: WebhookChange) throws(StoreError) -> Bool {
        holds.bind(1, change.name)
        if let holder = change.holder { holds.bind(2, holder) } else { holds.bindNull(2) }
        guard try holds.next() else { return false }
        holds.reset()
        if let progress = change.progress {
            advance.bind(1, change.name)
            advance.bind(2, progress.cursor)
            advance.bind(3, blob: progress.memory)
            try advance.run()
        }
        for id in change.removed {
            drop.bind(1, change.name)
            drop.bind(2, id)
            try drop.run()
        }
        for message in change.kept {
            keep.bind(1, change.name)
            keep.bind(2, message.id)
            keep.bind(3, message.number)
            keep.bind(4, message.state.rawValue)
            keep.bind(5, message.due.millisecondsSince1970)
            keep.bind(6, blob: message.record)
            try keep.run()
        }
        return true
    }

    /// Removes failed messages that were given up before a time.
    func purge(before moment: Int64, limit: Int) throws(StoreError) -> Int {
        purge.bind(1, moment)
        purge.bind(2, limit)
        return try purge.run()
    }
}

/// Reads of the tables of webhooks, on a reading connection.
enum WebhookRows {
    static let columns = "id, number, state, due, record"

    /// Returns the message of the current row, whose columns are ``columns``.
    static func message(_ row: SQLStatement) throws(StoreError) -> WebhookMessage {
        guard let state = WebhookMessage.State(rawValue: try row.integer(2)) else {
            throw row.damage(2, "the state of a message")
        }
        return WebhookMessage(
            id: try row.text(0),
            number: try row.id(1),
            state: state,
            due: try row.date(3),
            record: try row.bytes(4)
        )
    }

    /// Returns the messages of all rows.
    static func messages(_ rows: SQLStatement) throws(StoreError) -> [WebhookMessage] {
        var found: [WebhookMessage] = []
        while try rows.next() { found.append(try message(rows)) }
        return found
    }
}
