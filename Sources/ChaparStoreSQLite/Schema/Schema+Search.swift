import Foundation
import GRDB
import ChaparCore
import ChaparQueue

extension Schema {
    /// The step that adds the indexes of the search.
    static let searchStep = "15 search"

    /// The tables and the index by which deliveries are found.
    ///
    /// * `search_keys`: for each key of a delivery a ``ChaparQueue/SearchKey/hash``. `bucket` and `place` are the
    ///   delivery's number (``SearchBucket``): new rows go to the last bucket only, whose pages stay in the cache.
    /// * `search_ends`: archived deliveries that ended as failed, expired or unknown; the index `dead`, later
    ///   `dead_ends`, has those with a row.
    /// * `handled`: bad ends that a person has handled, or that were sent again.
    private static let search = """
        CREATE TABLE search_keys (
            bucket INTEGER NOT NULL, hash INTEGER NOT NULL, place INTEGER NOT NULL, PRIMARY KEY (bucket, hash, place)
        ) WITHOUT ROWID, STRICT;
        CREATE TABLE search_ends (id INTEGER PRIMARY KEY) STRICT;
        CREATE TABLE handled (id INTEGER PRIMARY KEY, acknowledged INTEGER NOT NULL, resent INTEGER NOT NULL) STRICT;
        CREATE INDEX dead ON deliveries (id) WHERE state IN (4, 5, 7);
        """

    /// The index of deliveries that ended as failed, expired or unknown, with a condition that costs less.
    ///
    /// SQLite 3.40 makes a temporary table of `IN (4, 5, 7)` in each insert, and two in each update, of a delivery: a
    /// third of their time.
    static let deadEnds = """
        DROP INDEX dead;
        CREATE INDEX dead_ends ON deliveries (id) WHERE \(isDead);
        """

    /// The condition of `dead_ends`, which a search must have in this form to use the index.
    static let isDead = "(state = 4 OR state = 5 OR state = 7)"

    /// Adds the tables, and notes from which number on they are complete: nothing is added for older deliveries.
    static func addSearch(_ db: Database) throws {
        try db.execute(sql: search)
        let highest = try db.number(
            """
            SELECT max(id) FROM (
                SELECT max(id) AS id FROM deliveries UNION ALL SELECT max(last) FROM archive
                UNION ALL SELECT value FROM marks WHERE name = 'highest'
            )
            """
        )
        let isStaged = try db.number("SELECT 1 FROM arrivals LIMIT 1") != nil
        guard highest != nil || isStaged else { return }
        // Staged deliveries, whose numbers are packed, were accepted a moment before the last end.
        let now = isStaged ? NotificationID(firstAt: Date()).rawValue : 0
        try db.execute(
            sql: "INSERT OR REPLACE INTO state (name, value) VALUES (?, ?)",
            arguments: [
                SearchStart.name, Data(SearchStart.stored(max(highest ?? 0, now).adding(clamping: 1))),
            ]
        )
    }
}

/// The division of the numbers of deliveries by which the keys of a search are sorted: a bucket has those of 4.7 hours.
///
/// A search goes through the buckets, the newest first. A purge removes whole buckets.
enum SearchBucket {
    /// The bits of a number that are the place in its bucket: 24 of milliseconds, and those of the counter.
    static let bits: Int64 = 45
    static let highestPlace: Int64 = ~(-1 << bits)

    /// The largest distance between the lowest and the highest number in a block of the archive: the numbers of ten
    /// seconds.
    static let widestBlock: Int64 = 10_000 << 21

    static func of(_ delivery: Int64) -> Int64 { delivery >> bits }
    static func place(of delivery: Int64) -> Int64 { delivery & highestPlace }
    static func delivery(_ bucket: Int64, _ place: Int64) -> Int64 { start(of: bucket) | place }
    /// Returns the lowest number of a bucket.
    static func start(of bucket: Int64) -> Int64 { min(max(bucket, 0), NotificationID.highest >> bits) << bits }
    /// Returns the number above the highest one of a bucket.
    static func end(of bucket: Int64) -> Int64 { start(of: bucket).adding(clamping: 1 << bits) }
}
