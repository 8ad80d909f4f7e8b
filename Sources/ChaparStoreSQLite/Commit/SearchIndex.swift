import ChaparCore
import ChaparQueue

/// Writes the indexes of the search: the keys of new deliveries, and the bad ends that have no row.
///
/// For a notification without a user, a device and a reference nothing is written, and for a good end neither. Used by
/// the writer's thread only.
final class SearchIndex {
    private let transaction: Transaction
    private var sql: SearchStatements?

    init(_ transaction: Transaction) { self.transaction = transaction }

    private func statements() throws(StoreError) -> SearchStatements {
        try sql.keep(try SearchStatements(transaction.connection))
    }

    /// Adds the keys of a new notification.
    func add(_ new: UnsafePointer<NewNotification>) throws(StoreError) {
        guard NewNotification.hasSearchKeys(new.pointee.record.reference, new.pointee.recipients) else { return }
        let insert = try statements().insert
        try new.pointee.forEachSearchKey { (key, delivery) throws(StoreError) in
            insert.bind(1, SearchBucket.of(delivery))
            insert.bind(2, key.hash)
            insert.bind(3, SearchBucket.place(of: delivery))
            try insert.run()
        }
    }

    /// Adds an archived delivery that ended as failed, expired or unknown.
    func addEnd(_ delivery: Int64) throws(StoreError) {
        let insert = try statements().insertEnd
        insert.bind(1, delivery)
        try insert.run()
    }

    /// Changes the marks of bad ends; leaves out deliveries that did not end badly.
    func mark(_ marks: [DeadMark]) throws(StoreError) {
        try transaction.begin()
        let upsert = try statements().mark
        for mark in marks {
            upsert.bind(1, mark.delivery)
            upsert.bind(2, mark.isAcknowledged.map { $0 ? 1 : 0 })
            upsert.bind(3, mark.isResent.map { $0 ? 1 : 0 })
            try upsert.run()
        }
    }

    // MARK: Removal

    /// Removes keys of deliveries up to a number.
    func remove(_ keys: [SearchKey], upTo end: Int64) throws(StoreError) {
        try transaction.begin()
        let sql = try statements()
        var bucket: Int64 = -1
        while let next = try sql.bucket(after: bucket) {
            guard SearchBucket.start(of: next) <= end else { return }
            bucket = next
            for key in keys {
                sql.removeKey.bind(1, bucket)
                sql.removeKey.bind(2, key.hash)
                sql.removeKey.bind(
                    3,
                    end >= SearchBucket.end(of: bucket) ? .max : SearchBucket.place(of: end)
                )
                try sql.removeKey.run()
            }
        }
    }

    /// Removes the reference of a notification that is removed, and the marks of its deliveries.
    func forget(_ record: [UInt8], from first: Int64, to end: Int64) throws(StoreError) {
        let sql = try statements()
        if let reference = NotificationRecord(encoded: record)?.reference {
            sql.removeOne.bind(1, SearchBucket.of(first))
            sql.removeOne.bind(2, SearchKey.reference(reference).hash)
            sql.removeOne.bind(3, SearchBucket.place(of: first))
            try sql.removeOne.run()
        }
        for remove in [sql.removeEnds, sql.removeMarks] {
            remove.bind(1, first)
            remove.bind(2, end)
            try remove.run()
        }
    }

    /// The most rows of a table that one step of a purge removes.
    private static let stepSize = 1_000
    /// The most buckets that one step of a purge looks at.
    private static let bucketsOfStep = 64
    /// The last bucket that a purge looked at; -1 begins anew.
    private var purged: Int64 = -1

    /// Removes rows of buckets below a number in which no delivery is left; returns whether there may be more.
    func purge(before number: Int64) throws(StoreError) -> Bool {
        let sql = try statements()
        for _ in 0..<Self.bucketsOfStep {
            guard let bucket = try sql.anyBucket(after: purged), SearchBucket.end(of: bucket) <= number else {
                purged = -1
                return false
            }
            let span = (first: SearchBucket.start(of: bucket), end: SearchBucket.end(of: bucket))
            if try !sql.isInUse(span.first, span.end) {
                sql.purgeKeys.bind(1, bucket)
                sql.purgeKeys.bind(2, Self.stepSize)
                var removed = try sql.purgeKeys.run()
                for purge in [sql.purgeEnds, sql.purgeMarks] {
                    purge.bind(1, span.first)
                    purge.bind(2, span.end)
                    purge.bind(3, Self.stepSize)
                    removed = max(removed, try purge.run())
                }
                // A transaction that fails leaves the rows, and the bucket is found again in the next round.
                if removed == Self.stepSize { return true }
            }
            purged = bucket
        }
        return true
    }
}

/// The statements of the indexes.
private struct SearchStatements {
    let insert, insertEnd, mark: SQLStatement
    let removeKey, removeOne, removeEnds, removeMarks: SQLStatement
    let purgeKeys, purgeEnds, purgeMarks: SQLStatement
    private let nextBucket, nextOfAll, rowsInUse, blocksInUse: SQLStatement

    init(_ connection: OpaquePointer) throws(StoreError) {
        func statement(_ sql: String) throws(StoreError) -> SQLStatement { try SQLStatement(connection, sql) }
        insert = try statement("INSERT OR IGNORE INTO search_keys (bucket, hash, place) VALUES (?1, ?2, ?3)")
        insertEnd = try statement("INSERT OR IGNORE INTO search_ends (id) VALUES (?1)")
        mark = try statement(
            """
            INSERT INTO handled (id, acknowledged, resent) SELECT ?1, coalesce(?2, 0), coalesce(?3, 0)
            WHERE EXISTS (SELECT 1 FROM deliveries WHERE id = ?1 AND state IN (\(DeliveryState.deadCodes)))
            OR EXISTS (SELECT 1 FROM search_ends WHERE id = ?1)
            ON CONFLICT (id) DO UPDATE SET acknowledged = coalesce(?2, acknowledged), resent = coalesce(?3, resent)
            """
        )
        removeKey = try statement("DELETE FROM search_keys WHERE bucket = ?1 AND hash = ?2 AND place <= ?3")
        removeOne = try statement("DELETE FROM search_keys WHERE bucket = ?1 AND hash = ?2 AND place = ?3")
        removeEnds = try statement("DELETE FROM search_ends WHERE id >= ?1 AND id < ?2")
        removeMarks = try statement("DELETE FROM handled WHERE id >= ?1 AND id < ?2")
        purgeKeys = try statement(
            """
            DELETE FROM search_keys WHERE (bucket, hash, place) IN (
            SELECT bucket, hash, place FROM search_keys WHERE bucket = ?1 LIMIT ?2)
            """
        )
        purgeEnds = try statement(
            "DELETE FROM search_ends WHERE id IN (SELECT id FROM search_ends WHERE id >= ?1 AND id < ?2 LIMIT ?3)"
        )
        purgeMarks = try statement(
            "DELETE FROM handled WHERE id IN (SELECT id FROM handled WHERE id >= ?1 AND id < ?2 LIMIT ?3)"
        )
        nextBucket = try statement("SELECT min(bucket) FROM search_keys WHERE bucket > ?1")
        nextOfAll = try statement(
            """
            SELECT (SELECT min(bucket) FROM search_keys WHERE bucket > ?1),
            (SELECT min(id) FROM search_ends WHERE id >= ?2), (SELECT min(id) FROM handled WHERE id >= ?2)
            """
        )
        rowsInUse = try statement("SELECT 1 FROM deliveries WHERE id >= ?1 AND id < ?2 LIMIT 1")
        blocksInUse = try statement(
            "SELECT 1 FROM archive INDEXED BY archived WHERE last >= ?1 AND last < ?3 AND first < ?2 LIMIT 1"
        )
    }

    func bucket(after bucket: Int64) throws(StoreError) -> Int64? {
        nextBucket.bind(1, bucket)
        defer { nextBucket.reset() }
        return try nextBucket.next() ? try nextBucket.optional(0) : nil
    }

    /// Returns the first bucket behind another one for which any of the tables has a row.
    func anyBucket(after bucket: Int64) throws(StoreError) -> Int64? {
        nextOfAll.bind(1, bucket)
        nextOfAll.bind(2, SearchBucket.start(of: bucket.adding(clamping: 1)))
        defer { nextOfAll.reset() }
        guard try nextOfAll.next() else { return nil }
        return [
            try nextOfAll.optional(0), try nextOfAll.optional(1).map(SearchBucket.of),
            try nextOfAll.optional(2).map(SearchBucket.of),
        ].compactMap { $0 }.min()
    }

    /// Whether any delivery from one number up to another is left.
    func isInUse(_ first: Int64, _ end: Int64) throws(StoreError) -> Bool {
        rowsInUse.bind(1, first)
        rowsInUse.bind(2, end)
        defer { rowsInUse.reset() }
        if try rowsInUse.next() { return true }
        blocksInUse.bind(1, first)
        blocksInUse.bind(2, end)
        blocksInUse.bind(3, end.adding(clamping: SearchBucket.widestBlock))
        defer { blocksInUse.reset() }
        return try blocksInUse.next()
    }
}
