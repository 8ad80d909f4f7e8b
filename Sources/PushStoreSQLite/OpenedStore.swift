import Foundation
import GRDB
import PushCore

/// What a store finds on disk when it opens: enough to fill a ``Book``, small however much waits.
struct OpenedStore: Sendable {
    /// A lane with what waits in it.
    struct FoundLane: Sendable {
        var number: Int64
        var name: String
        var waiting: Int
        var firstDue: Int64?
    }

    var lanes: [FoundLane] = []
    var lastEvent: Int64 = 0
    var highestID: Int64 = 0
    var lastLease: Int64 = 0

    /// So many connections read at a time.
    static let readers = 4

    /// Opens the database, brings its tables up to date and marks what a dead owner had claimed.
    static func open(
        _ options: SQLiteStoreOptions,
        now: Int64 = Date.now.millisecondsSince1970
    ) throws(StoreError) -> (DatabasePool, OpenedStore) {
        do {
            try Schema.refuseNewer(options.path)
            var configuration = Configuration()
            configuration.label = "chapar.store"
            configuration.maximumReaderCount = readers
            configuration.busyMode = .timeout(5)
            // Before anything else touches a new file: the size of its pages is fixed by the first write.
            configuration.prepareDatabase { [pageBytes = options.pageBytes] in
                try $0.execute(sql: "PRAGMA page_size = \(pageBytes)")
            }
            let pool = try DatabasePool(path: options.path, configuration: configuration)
            try Schema.migrator.migrate(pool)
            let opened = try pool.writeWithoutTransaction { db in
                // Only now: GRDB sets NORMAL itself while it opens the writer.
                try db.execute(
                    sql: """
                        PRAGMA synchronous = \(options.durability == .full ? "FULL" : "NORMAL");
                        PRAGMA wal_autocheckpoint = \(options.checkpointPages);
                        PRAGMA cache_size = -\(max(1, options.cacheBytes >> 10));
                        """
                )
                if let pages = options.maximumPages { try db.execute(sql: "PRAGMA max_page_count = \(pages)") }
                var opened = OpenedStore()
                try db.inTransaction(.immediate) {
                    try Schema.note(version: options.version, db)
                    try opened.recover(db, now: now)
                    try opened.count(db)
                    return .commit
                }
                return opened
            }
            return (pool, opened)
        } catch let error as StoreError {
            throw error
        } catch {
            throw .failed("cannot open the store \(options.path): \(error)")
        }
    }

    /// Marks the deliveries of listed leases, unless they came back before the crash; takes a new range of lease
    /// numbers.
    private mutating func recover(_ db: Database, now: Int64) throws {
        try writeOutArrivals(db)
        let leases = try Row.fetchAll(db, sql: "SELECT number, deliveries FROM leases")
        for lease in leases {
            let number: Int64 = lease["number"]
            let deliveries: Data = lease["deliveries"]
            for delivery in LeaseList.unpack(Array(deliveries)) {
                try db.execute(
                    sql: "UPDATE deliveries SET mark = 1 WHERE id = ? AND state = 0 AND mark <> ?",
                    arguments: [delivery, number]
                )
            }
        }
        try db.execute(sql: "DELETE FROM leases")
        // Whoever had these operations is dead: this process has the file alone.
        try db.execute(
            sql: "UPDATE operations INDEXED BY operations_leased SET due = min(due, ?), leased = 0 WHERE leased = 1",
            arguments: [now]
        )
        try db.execute(
            sql: """
                INSERT INTO marks (name, value) VALUES ('epoch', 1)
                ON CONFLICT (name) DO UPDATE SET value = value + 1
                """
        )
        let epoch = try Int64.fetchOne(db, sql: "SELECT value FROM marks WHERE name = 'epoch'") ?? 1
        lastLease = epoch << 32
    }

    /// Gives rows to the deliveries that had none yet, unless they got them before the crash.
    private func writeOutArrivals(_ db: Database) throws {
        let insert = try db.makeStatement(
            sql: """
                INSERT OR IGNORE INTO deliveries (id, state, lane, due, expires, step, attempts, replay, mark, changed,
                recipient, count, accepted, scheduled, plan, caller, content)
                VALUES (?, 0, ?, ?, ?, 0, 0, 0, 0, ?, ?, 1, ?, ?, ?, ?, ?)
                """
        )
        for row in try Row.fetchAll(db, sql: "SELECT number, packed FROM arrivals ORDER BY number") {
            let packed: Data = row["packed"]
            guard let deliveries = ArrivalPacking.unpack(Array(packed)) else {
                throw StoreError.failed("the deliveries that arrived last cannot be read: the file is damaged")
            }
            for delivery in deliveries {
                try insert.execute(arguments: [
                    delivery.id, delivery.lane, delivery.due, delivery.expires, delivery.accepted,
                    String(decoding: delivery.recipient, as: UTF8.self), delivery.accepted, delivery.scheduled,
                    String(decoding: delivery.plan, as: UTF8.self), String(decoding: delivery.caller, as: UTF8.self),
                    Data(delivery.content),
                ])
            }
        }
        try db.execute(sql: "DELETE FROM arrivals")
    }

    private mutating func count(_ db: Database) throws {
        lanes = try Row.fetchAll(
            db,
            sql: """
                SELECT lanes.number, lanes.name, coalesce(w.waiting, 0) AS waiting, w.due FROM lanes LEFT JOIN
                (SELECT lane, count(*) AS waiting, min(due) AS due FROM deliveries INDEXED BY waiting
                WHERE state = 0 AND mark <> 2 GROUP BY lane) w ON w.lane = lanes.number
                """
        ).map { FoundLane(number: $0["number"], name: $0["name"], waiting: $0["waiting"], firstDue: $0["due"]) }
        lastEvent =
            try Int64.fetchOne(
                db,
                sql: "SELECT first + count - 1 FROM events ORDER BY first DESC LIMIT 1"
            ) ?? 0
        highestID = max(
            try Int64.fetchOne(db, sql: "SELECT max(id) FROM deliveries") ?? 0,
            try Int64.fetchOne(db, sql: "SELECT value FROM marks WHERE name = 'highest'") ?? 0
        )
    }

    /// The book to start with.
    func makeBook(_ options: SQLiteStoreOptions) -> Book {
        let book = Book(windowCapacity: options.windowCapacity, lastLease: lastLease)
        for lane in lanes {
            book.load(
                number: lane.number,
                name: lane.name,
                waiting: lane.waiting,
                frontier: lane.firstDue.map { DueKey(due: $0, id: .min) }
            )
        }
        return book
    }
}
