import Foundation
import GRDB
import ChaparCore
import ChaparQueue

/// The data that a store reads from disk when it opens: enough to fill a ``QueueIndex``, small however much waits.
///
/// ``SQLiteStore`` makes it once, before the commit loop begins. It brings the schema up to date, gives rows to staged
/// deliveries, and marks deliveries that were claimed when the last process ended as possibly sent.
struct OpenedStore: Sendable {
    /// A flow, and how much waits in it.
    struct FoundFlow: Sendable {
        var number: Int64
        var backend: String
        var isUrgent: Bool
        var caller: String
        var waiting: Int
        var firstDue: Int64?
    }

    /// The largest file, in bytes, that is rewritten when the store opens, if that lets it return free pages later.
    private static let largestRewrite = 256 << 20

    var flows: [FoundFlow] = []
    var moves: [String: String] = [:]
    /// Whether free pages can be returned to the file system.
    var givesPagesBack = true
    /// The bytes of a page.
    var pageBytes: Int64 = 0
    /// How far the store's steady time is ahead of the process's, in milliseconds.
    var shift: Int64 = 0
    /// How far the wall clock was ahead of the store's steady time when they were last saved, in milliseconds.
    var wallOffset: Int64 = 0
    var lastEvent: Int64 = 0
    var highestID: Int64 = 0
    var lastLease: Int64 = 0

    /// The number of connections that read at once.
    static let readers = 4

    /// Opens the database, brings its tables up to date and reports that, and marks deliveries that a dead owner had
    /// claimed.
    static func open(
        _ options: SQLiteStoreOptions,
        time: any TimeSource = SystemTime(),
        report: (String) -> Void = { _ in },
        acceptsUnfinishedCopy: Bool = false
    ) throws(StoreError) -> (DatabasePool, OpenedStore) {
        do {
            try LogRewrite.run(options.path)
            try Schema.refuseNewer(options.path)
            var configuration = Configuration()
            configuration.label = "chapar.store"
            configuration.maximumReaderCount = readers
            configuration.busyMode = .timeout(5)
            // Set before anything else touches a new file, since its first write fixes the size of the pages.
            configuration.prepareDatabase { [pageBytes = options.pageBytes] in
                guard !$0.configuration.readonly else { return }
                try $0.execute(sql: "PRAGMA page_size = \(pageBytes); PRAGMA auto_vacuum = INCREMENTAL")
            }
            let pool = try DatabasePool(path: options.path, configuration: configuration)
            try Schema.migrate(pool, options.path, report)
            let opened = try pool.writeWithoutTransaction { db in
                if !acceptsUnfinishedCopy { try Self.refuseUnfinishedCopy(db, options.path) }
                try Self.makeDurable(db, options)
                try db.execute(
                    sql: """
                        PRAGMA wal_autocheckpoint = \(options.checkpointPages);
                        PRAGMA journal_size_limit = \(options.logBytes);
                        PRAGMA cache_size = -\(max(1, options.cacheBytes >> 10));
                        """
                )
                if let pages = options.maximumPages { try db.execute(sql: "PRAGMA max_page_count = \(pages)") }
                var opened = OpenedStore()
                opened.pageBytes = try Int64.fetchOne(db, sql: "PRAGMA page_size") ?? 0
                opened.givesPagesBack = try Self.letGivePagesBack(db)
                // Removed data is overwritten in pages that are written anyway. Free pages keep it until an erasure
                // returns them; where they cannot be returned, they are overwritten as well.
                try db.execute(sql: "PRAGMA secure_delete = \(opened.givesPagesBack ? "FAST" : "ON")")
                try db.inTransaction(.immediate) {
                    try Self.writeOutStagedRows(db)
                    try Schema.note(version: options.version, db)
                    try Self.checkState(db)
                    try opened.count(db)
                    try opened.setClock(db, time)
                    try opened.recover(db, now: time.steady.millisecondsSince1970.adding(clamping: opened.shift))
                    try opened.countWaiting(db)
                    return .commit
                }
                return opened
            }
            return (pool, opened)
        } catch {
            throw StoreError(opening: options.path, error)
        }
    }

    /// Refuses a file with an unfinished copy: a gateway would send and remove the part that has arrived.
    private static func refuseUnfinishedCopy(_ db: Database, _ path: String) throws {
        if try db.value(named: CopyMark.name) != nil { throw CopyMark.refusal(path) }
    }

    /// Throws for a small value that cannot be read: every part of the gateway keeps some, and writes them at its end.
    ///
    /// The types are in the rows, so that SQLite reads no long value.
    private static func checkState(_ db: Database) throws(StoreError) {
        let damaged = try db.statement(
            """
            SELECT name, value FROM state
            WHERE typeof(name) <> 'text' OR typeof(value) NOT IN ('text', 'blob') LIMIT 1
            """
        )
        guard try damaged.next() else { return }
        try damaged.requireText(0)
        try damaged.requireBytes(1)
    }

    /// Makes sure that commits survive what they are to survive; otherwise the store does not open.
    private static func makeDurable(_ db: Database, _ options: SQLiteStoreOptions) throws {
        // GRDB reads the answer to `PRAGMA journal_mode = WAL` before SQLite commits the change, and does not see it
        // fail. With a rollback journal a power failure could undo the last commit, since the folder is not synced
        // after each.
        guard try String.fetchOne(db, sql: "PRAGMA journal_mode") == "wal" else {
            throw StoreError.failed("cannot open the store \(options.path): the disk let it make no write-ahead log")
        }
        // Set only now: GRDB sets NORMAL itself while it opens the writer.
        try db.execute(sql: "PRAGMA synchronous = \(options.durability == .full ? "FULL" : "NORMAL")")
    }

    /// Marks the deliveries of listed leases, unless they came back before the crash; takes a new range of lease
    /// numbers.
    private mutating func recover(_ db: Database, now: Int64) throws {
        let leases = try db.statement("SELECT number, deliveries FROM leases")
        while try leases.next() {
            let number = try leases.integer(0)
            for delivery in LeaseList.unpack(try leases.bytes(1)) {
                // A higher number: it came back under this lease or a later one.
                try db.execute(
                    sql: "UPDATE deliveries SET mark = 1 WHERE id = ? AND state = 0 AND mark < ?",
                    arguments: [delivery, number]
                )
            }
        }
        try db.execute(sql: "DELETE FROM leases")
        // The owners of these entries are gone: this process has the file alone.
        try db.execute(
            sql: """
                UPDATE outbox_entries INDEXED BY outbox_entries_leased SET due = min(due, ?), leased = 0
                WHERE leased = 1
                """,
            arguments: [now]
        )
        let saved = try db.statement("SELECT value FROM marks WHERE name = 'epoch'")
        // Lease numbers are above those of every earlier process.
        let epoch = try saved.next() ? Int64(try saved.count(0)).adding(clamping: 1) : 1
        try db.execute(sql: "INSERT OR REPLACE INTO marks (name, value) VALUES ('epoch', ?)", arguments: [epoch])
        lastLease = try Self.plausible(epoch, "epoch", in: 0...Int64(Int32.max)) << 32
    }

    /// Writes the rows of staged deliveries, unless they were written before the crash.
    static func writeOutStagedRows(_ db: Database) throws {
        let insert = try db.makeStatement(
            sql: """
                INSERT OR IGNORE INTO deliveries (id, state, flow, due, expires, step, attempts, replay, mark, changed,
                recipient, count, plan, scheduled, caller, record)
                VALUES (?, 0, ?, ?, ?, 0, 0, 0, 0, ?, ?, 1, 0, ?, ?, ?)
                """
        )
        let arrivals = try db.statement("SELECT number, packed FROM arrivals ORDER BY number")
        while try arrivals.next() {
            guard let deliveries = StagedRowPacking.unpack(try arrivals.bytes(1)) else {
                throw StagedRowPacking.damage
            }
            let archived = try Self.archived(deliveries.map(\.id), db)
            for delivery in deliveries where !archived.contains(delivery.id) {
                try insert.execute(arguments: [
                    delivery.id, delivery.flow, delivery.due, delivery.expires, delivery.due,
                    String(decoding: delivery.recipient, as: UTF8.self), delivery.scheduled,
                    String(decoding: delivery.caller, as: UTF8.self), Data(delivery.record),
                ])
            }
        }
        try db.execute(sql: "DELETE FROM arrivals")
    }

    /// Returns which of these deliveries ended and are in the archive.
    static func archived(_ ids: [Int64], _ db: Database) throws -> Set<Int64> {
        guard let first = ids.min(), let last = ids.max() else { return [] }
        let blocks = try db.statement(Archive.search)
        blocks.bind(1, first)
        blocks.bind(2, last)
        blocks.bind(3, last.adding(clamping: Archive.widestBlock))
        var found: Set<Int64> = []
        while try blocks.next() { found.formUnion(try ArchivedDelivery.numbers(in: try blocks.bytes(0))) }
        return found
    }

    /// Makes an older file return free pages; returns false when it is too large to be rewritten at a start.
    private static func letGivePagesBack(_ db: Database) throws -> Bool {
        if try Int.fetchOne(db, sql: "PRAGMA auto_vacuum") == 2 { return true }
        let pages = try Int.fetchOne(db, sql: "PRAGMA page_count") ?? 0
        let bytes = try Int.fetchOne(db, sql: "PRAGMA page_size") ?? 0
        guard pages <= largestRewrite / max(1, bytes) else { return false }
        try db.execute(sql: "PRAGMA auto_vacuum = INCREMENTAL; VACUUM")
        return true
    }

    /// Returns the value of a mark from which later ones are counted; throws for one that no gateway can have written.
    ///
    /// A store that starts near the highest number could give out no new ones.
    private static func plausible(_ number: Int64, _ mark: String, in range: ClosedRange<Int64>) throws(StoreError)
        -> Int64
    {
        guard range.contains(number) else {
            throw .damaged("the mark \(mark) holds the number \(number), which no gateway writes")
        }
        return number
    }

    /// The longest absence that counts, in milliseconds: every waiting delivery has expired by then.
    ///
    /// So a clock that is decades ahead when the machine starts moves numbers and times by no more than this.
    private static let longestAbsence: Int64 = 400 * 86_400_000

    /// Continues the steady time by the time that has passed since it was last saved; it never goes back.
    ///
    /// While the machine has not been restarted its uptime says how much time has passed, also when the clock was set
    /// meanwhile. Otherwise only the time of day can say it, up to ``longestAbsence``; a clock that is behind counts as
    /// no time passed. So a wrong clock delays nothing and, when it is set on the same machine, expires nothing.
    private mutating func setClock(_ db: Database, _ time: any TimeSource) throws {
        let (now, base) = time.reading
        let wall = now.millisecondsSince1970
        // How far it is ahead of this process's steady time: rounded once, where two rounded times may be a millisecond
        // further apart.
        let ahead = Date(timeIntervalSince1970: now.timeIntervalSince(base)).millisecondsSince1970
        let marks = try db.statement("SELECT name, value FROM marks")
        var saved: [String: Int64] = [:]
        while try marks.next() { saved[try marks.text(0)] = try marks.integer(1) }
        var steady = wall
        if let savedSteady = saved["steady"], let savedWall = saved["wall"] {
            let time = time as? any BootTimeSource
            var absence = max(0, wall.subtracting(clamping: savedWall))
            if let boot = time?.bootTime, boot.boot == saved["boot"], let uptime = saved["uptime"],
                boot.uptime >= uptime,
                saved["counted"] == savedSteady
            {
                absence = boot.uptime.subtracting(clamping: uptime)
            }
            steady = try Self.plausible(savedSteady, "steady", in: Self.times)
                .adding(clamping: min(absence, Self.longestAbsence))
            wallOffset = try Self.plausible(savedWall, "wall", in: Self.times).subtracting(
                clamping: savedSteady
            )
            // Times of day are kept as steady times: an error between the readings would move each one that is shown.
            let kept = wall.subtracting(clamping: wallOffset)
            if kept >= savedSteady, kept.distance(clamping: steady) <= Self.readingError { steady = kept }
        }
        steady = max(steady, NotificationID(rawValue: highestID).time.millisecondsSince1970)
        guard steady < Self.times.upperBound else {
            throw StoreError.failed(
                "the machine's clock says \(RFC3339.string(time.now)), beyond the last time that a number can be made of: set it"
            )
        }
        shift = steady.subtracting(clamping: wall.subtracting(clamping: ahead))
    }

    /// The largest difference, in milliseconds, between clocks that are read one after the other.
    ///
    /// No clock is set by less than this.
    private static let readingError: Int64 = 50

    /// The times that numbers can be made of, in milliseconds since 1970.
    static let times = 0...NotificationID(rawValue: .max).time.millisecondsSince1970

    /// Reads the flows, with how much waits in each.
    ///
    /// The first due time is only a bound from which a flow reads its rows on disk. So a damaged one, which SQLite
    /// turns into a number, prevents no start: the row is skipped, and logged, when the flow reads it.
    private mutating func countWaiting(_ db: Database) throws {
        let rows = try db.statement(
            """
            SELECT f.number, f.backend, f.urgent, f.caller, coalesce(w.waiting, 0) AS waiting, CAST(w.due AS INTEGER) AS due
            FROM flows f LEFT JOIN
            (SELECT flow, count(*) AS waiting, min(due) AS due FROM deliveries INDEXED BY waiting
            WHERE state = 0 AND mark <> 2 GROUP BY flow) w ON w.flow = f.number ORDER BY f.number
            """
        )
        while try rows.next() {
            flows.append(
                FoundFlow(
                    number: Int64(try rows.count(0)),
                    backend: try rows.text(1),
                    isUrgent: try rows.integer(2) != 0,
                    caller: try rows.text(3),
                    waiting: try rows.count(4),
                    firstDue: try rows.optional(5).map { min($0, StoredRange.moments.upperBound) }
                )
            )
        }
        let moved = try db.statement("SELECT backend, target FROM moves")
        while try moved.next() { moves[try moved.text(0)] = try moved.text(1) }
    }

    private mutating func count(_ db: Database) throws {
        let events = try db.statement("SELECT first, count FROM events ORDER BY first DESC LIMIT 1")
        if try events.next() {
            lastEvent = try events.id(0).adding(clamping: Int64(try events.count(1))).subtracting(clamping: 1)
        }
        for sql in [
            "SELECT max(id) FROM deliveries", "SELECT max(last) FROM archive", "SELECT max(id) FROM campaigns",
            "SELECT value FROM marks WHERE name = 'highest'",
        ] {
            let rows = try db.statement(sql)
            if try rows.next(), !rows.isNull(0) { highestID = max(highestID, try rows.id(0)) }
        }
    }

    /// Makes the index to start with.
    func makeQueueIndex(_ options: SQLiteStoreOptions) -> QueueIndex {
        let budget = Flow.Budget(deliveries: options.windowCapacity, bytes: options.windowBytes)
        let queueIndex = QueueIndex(budget: budget, lastLease: lastLease, moves: moves)
        for flow in flows {
            queueIndex.load(
                number: flow.number,
                backend: flow.backend,
                isUrgent: flow.isUrgent,
                caller: flow.caller,
                waiting: flow.waiting,
                frontier: flow.firstDue.map { DueKey(due: $0, id: .min) }
            )
        }
        return queueIndex
    }
}
