import ChaparCore
import ChaparQueue

/// Removes data that is past its retention, a little at a time.
///
/// Used by the writer's thread only.
final class Purge {
    /// The most rows of each kind that one step reads.
    private static let stepSize = 1_000
    /// The most blocks of the archive that one step removes.
    private static let blocks = 100

    private let transaction: Transaction
    private let receipts: Receipts
    private let freePages: FreePages
    private let searchIndex: SearchIndex
    private let shared: NotificationStatements
    private let sql: PurgeStatements
    /// The last row that was read, in the order in which deliveries became final.
    private var last = (changed: Int64.min, id: Int64.min)

    init(
        _ transaction: Transaction,
        _ receipts: Receipts,
        _ freePages: FreePages,
        _ searchIndex: SearchIndex,
        _ shared: NotificationStatements
    ) throws(StoreError) {
        self.transaction = transaction
        self.receipts = receipts
        self.freePages = freePages
        self.searchIndex = searchIndex
        self.shared = shared
        sql = try PurgeStatements(transaction.connection)
    }

    /// Removes as much as one short commit can; returns whether there may be more.
    func purge(_ retention: Retention, _ reply: Reply<Bool>) throws(StoreError) {
        try transaction.begin()
        let hasMoreDeliveries = try purgeDeliveries(before: retention.notifications.millisecondsSince1970)
        let hasMoreBlocks = try purgeArchive(before: retention.notifications.millisecondsSince1970)
        let hasMoreEvents = try purgeEvents(before: retention.events.millisecondsSince1970)
        try purgeCampaigns(before: retention.notifications.millisecondsSince1970)
        let hasMoreKeys = try purgeKeys()
        let isIndexLeft = try searchIndex.purge(before: NotificationID(firstAt: retention.notifications).rawValue)
        let hasMorePages = try freePages.giveBack()
        let hasMore = hasMoreDeliveries || hasMoreBlocks || hasMoreEvents || hasMoreKeys || isIndexLeft || hasMorePages
        transaction.pending.answers.append { reply.succeed(hasMore) }
    }

    /// Removes old blocks of the archive, which are in the order in which their deliveries ended.
    ///
    /// An unreadable block is removed with the next old one.
    private func purgeArchive(before: Int64) throws(StoreError) -> Bool {
        sql.oldBlocks.bind(1, Self.blocks)
        var blocks: [(Int64, Int64, Int64)] = []
        var last: Int64?
        while try sql.oldBlocks.next() {
            guard try sql.oldBlocks.integer(1) < before else {
                sql.oldBlocks.reset()
                break
            }
            let number = try sql.oldBlocks.integer(0)
            last = number
            blocks.append((number, try sql.oldBlocks.integer(2), try sql.oldBlocks.integer(3)))
        }
        guard let last else { return false }
        for (number, first, last) in blocks { try receipts.tables().forget(block: number, from: first, to: last) }
        sql.deleteBlocks.bind(1, last)
        try sql.deleteBlocks.run()
        try saveHighest()
        return blocks.count == Self.blocks
    }

    /// Saves the highest number ever given out, whose row may be removed.
    private func saveHighest() throws(StoreError) {
        try transaction.saveMark("highest", transaction.core.highestID)
    }

    /// Removes notifications of which all deliveries ended long ago.
    ///
    /// Each ended row is read once, in the order in which they ended: the last one of a notification removes the others
    /// too, so rows of a notification that is still under way are not read again and again.
    private func purgeDeliveries(before: Int64) throws(StoreError) -> Bool {
        let rows = sql.ended
        rows.bind(1, self.last.changed)
        rows.bind(2, self.last.id)
        rows.bind(3, before)
        rows.bind(4, Self.stepSize)
        var last = self.last
        var looked = 0
        var heads: [Int64] = []
        while try rows.next() {
            last = (try rows.integer(0), try rows.integer(1))
            looked += 1
            guard let head = rows.readable({ (row) throws(StoreError) in try row.integer(2) }, transaction.core.status)
            else {
                continue
            }
            if heads.last != head { heads.append(head) }
        }
        for id in Set(heads) {
            shared.countOf.bind(1, id)
            guard try shared.countOf.next() else { continue }
            let count = shared.countOf.readable(
                { (row) throws(StoreError) in try row.count(0) },
                transaction.core.status
            )
            shared.countOf.reset()
            guard let count else { continue }
            let end = id.adding(clamping: Int64(count))
            guard try isFinished(id, end, before: before) else { continue }
            shared.deleteRange.bind(1, id)
            shared.deleteRange.bind(2, end)
            try shared.deleteRange.run()
            try receipts.tables().forget(from: id, to: end)
        }
        if !heads.isEmpty { try saveHighest() }
        transaction.pending.answers.append { [last] in self.last = last }
        return looked == Self.stepSize
    }

    private func isFinished(_ id: Int64, _ end: Int64, before: Int64) throws(StoreError) -> Bool {
        sql.lastChange.bind(1, id)
        sql.lastChange.bind(2, end)
        guard try sql.lastChange.next() else { return false }
        defer { sql.lastChange.reset() }
        let read = sql.lastChange.readable(
            { (row) throws(StoreError) in (state: try row.optional(0) ?? 0, changed: try row.optional(1) ?? 0) },
            transaction.core.status
        )
        guard let read else { return false }
        return read.state > 0 && read.changed < before
    }

    /// Removes old events except the newest, from which numbers continue.
    ///
    /// Events whose time is unreadable are removed with the next old ones. Returns true when there may be more.
    private func purgeEvents(before: Int64) throws(StoreError) -> Bool {
        sql.oldEvents.bind(1, Self.stepSize)
        var last: Int64?
        var count = 0
        while try sql.oldEvents.next() {
            guard try sql.oldEvents.integer(1) < before else {
                sql.oldEvents.reset()
                break
            }
            last = try sql.oldEvents.integer(0)
            count += 1
        }
        guard let last else { return false }
        sql.deleteEvents.bind(1, last)
        try sql.deleteEvents.run()
        return count == Self.stepSize
    }

    /// Removes campaigns that ended long ago, with their lists of parts; the parts' notifications are removed as
    /// deliveries.
    private func purgeCampaigns(before: Int64) throws(StoreError) {
        sql.oldCampaigns.bind(1, before)
        var old: [Int64] = []
        while try sql.oldCampaigns.next() { old.append(try sql.oldCampaigns.integer(0)) }
        for id in old {
            for statement in [sql.deleteParts, sql.deleteCampaign] {
                statement.bind(1, id)
                try statement.run()
            }
        }
    }

    private func purgeKeys() throws(StoreError) -> Bool {
        sql.deleteKeys.bind(1, transaction.now)
        sql.deleteKeys.bind(2, Self.stepSize)
        return try sql.deleteKeys.run() == Self.stepSize
    }
}

/// The statements of a purge.
private struct PurgeStatements {
    let ended: SQLStatement
    let lastChange: SQLStatement
    let oldEvents: SQLStatement
    let oldBlocks: SQLStatement
    let deleteBlocks: SQLStatement
    let deleteEvents: SQLStatement
    let deleteKeys: SQLStatement
    let oldCampaigns: SQLStatement
    let deleteParts: SQLStatement
    let deleteCampaign: SQLStatement

    init(_ connection: OpaquePointer) throws(StoreError) {
        ended = try SQLStatement(
            connection,
            """
            SELECT changed, id, coalesce(head, id) FROM deliveries INDEXED BY ended
            WHERE state > 0 AND (changed, id) > (?1, ?2) AND changed < ?3 AND typeof(changed) = 'integer'
            ORDER BY changed, id LIMIT ?4
            """
        )
        lastChange = try SQLStatement(
            connection,
            "SELECT min(state), max(changed) FROM deliveries WHERE id >= ?1 AND id < ?2"
        )
        oldEvents = try SQLStatement(
            connection,
            """
            SELECT first, at FROM events WHERE first < (SELECT max(first) FROM events) AND typeof(at) = 'integer'
            ORDER BY first LIMIT ?1
            """
        )
        oldBlocks = try SQLStatement(
            connection,
            """
            SELECT number, at, first, last FROM archive
            WHERE typeof(at) = 'integer' AND typeof(first) = 'integer' AND typeof(last) = 'integer' ORDER BY number LIMIT ?1
            """
        )
        deleteBlocks = try SQLStatement(connection, "DELETE FROM archive WHERE number <= ?1")
        deleteEvents = try SQLStatement(connection, "DELETE FROM events WHERE first <= ?1")
        oldCampaigns = try SQLStatement(
            connection,
            "SELECT id FROM campaigns WHERE ended < ?1 AND ended IS NOT NULL LIMIT 1"
        )
        deleteParts = try SQLStatement(connection, "DELETE FROM campaign_parts WHERE campaign = ?1")
        deleteCampaign = try SQLStatement(connection, "DELETE FROM campaigns WHERE id = ?1")
        deleteKeys = try SQLStatement(
            connection,
            """
            DELETE FROM idempotency WHERE (caller, key) IN (
            SELECT caller, key FROM idempotency INDEXED BY forgetting WHERE keep < ?1 LIMIT ?2)
            """
        )
    }
}
