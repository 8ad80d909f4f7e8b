import Foundation
import GRDB
import SimulationDisk

/// Random transactions on a database that crashes, and what must be there afterwards.
///
/// Each transaction changes several rows, and every byte of a row follows from its number and the transaction's, so
/// that a transaction that is there in part, twice or not at all is seen.
struct Workload {
    /// The choices about the database.
    struct Mode: Sendable, CustomStringConvertible {
        var journal: String
        var synchronous: String
        var description: String { "\(journal), \(synchronous)" }
    }

    struct Row: Equatable {
        var transaction: Int
        var length: Int
    }

    let mode: Mode
    let seed: Int
    private let disk: SimulatedDisk
    private let decider: SeededDecider
    /// The rows after the last transaction whose commit returned.
    private var committed: [Int: Row] = [:]
    /// The rows after each transaction since then whose commit did not return, or failed: such a one may be there after
    /// a crash, since the log may hold it whole, but the next that succeeds takes its place.
    private var attempted: [[Int: Row]] = []
    private var transactions = 0
    private var commits = 0
    private var problems: [String] = []
    private let pageBytes: Int

    init(seed: Int, mode: Mode, faults: Int = 0, lies: Bool = false) {
        self.mode = mode
        self.seed = seed
        decider = SeededDecider(seed: UInt64(seed))
        disk = SimulatedDisk(folder: "/simulated/workload", decider: decider)
        pageBytes = 512 << decider.draw(0..<5)
        decider.plan.faults = faults
        decider.plan.liesAboutSync = lies
    }

    /// The result of a run.
    struct Result {
        /// The problems, as sentences; empty when all is well.
        var problems: [String] = []
        var counts = DiskCounts()
        var commits = 0
        var hash: UInt64 = 0
    }

    /// Lives and dies some times; after each death all must be there.
    mutating func run(lives: Int = 3) -> Result {
        disk.register()
        defer { disk.unregister() }
        var result = Result()
        for life in 1...lives {
            let calls = disk.counts.calls.values.reduce(0, +)
            decider.plan.crashAt = calls + decider.draw(1..<[20, 120, 500][decider.draw(0..<3)])
            live()
            disk.crash(.power)
            disk.restart()
            let plan = decider.plan
            decider.plan = SeededDecider.Plan()
            if let problem = check() { problems.append(problem) }
            result.problems += problems.map { "seed \(seed), \(mode), life \(life): \($0)" }
            if !problems.isEmpty { break }
            decider.plan = plan
        }
        result.counts = disk.counts
        result.commits = commits
        result.hash = disk.contentsHash
        return result
    }

    private func open() throws -> any DatabaseWriter {
        var configuration = Configuration()
        configuration.prepareDatabase { [mode, pageBytes] db in
            guard !db.configuration.readonly else { return }
            try db.execute(sql: "PRAGMA page_size = \(pageBytes)")
            if mode.journal != "WAL" { try db.execute(sql: "PRAGMA journal_mode = \(mode.journal)") }
        }
        let path = disk.folder + "/workload.db"
        let writer: any DatabaseWriter =
            mode.journal == "WAL"
            ? try DatabasePool(path: path, configuration: configuration)
            : try DatabaseQueue(path: path, configuration: configuration)
        try writer.writeWithoutTransaction { [mode] db in
            try db.execute(
                sql: """
                    PRAGMA synchronous = \(mode.synchronous);
                    PRAGMA wal_autocheckpoint = 20; PRAGMA journal_size_limit = 20000; PRAGMA cache_size = 20;
                    CREATE TABLE IF NOT EXISTS entries (id INTEGER PRIMARY KEY, made INTEGER NOT NULL, data BLOB NOT NULL);
                    CREATE INDEX IF NOT EXISTS entries_made ON entries (made);
                    """
            )
            // What the log holds may not be on the disk, by NORMAL, which GRDB sets while it opens, or by a sync that
            // forgot.
            if mode.journal == "WAL" { try db.execute(sql: "PRAGMA wal_checkpoint(PASSIVE)") }
            // GRDB reads the answer of `PRAGMA journal_mode = WAL` before SQLite commits the change, and misses that it
            // fails.
            let journal = try String.fetchOne(db, sql: "PRAGMA journal_mode")
            guard journal == mode.journal.lowercased() else { throw DatabaseError(message: "another mode") }
        }
        return writer
    }

    /// Works until the disk is down.
    private mutating func live() {
        guard let writer = try? open() else { return }
        defer { try? writer.close() }
        for _ in 0..<60 where !disk.isDown {
            transactions += 1
            var rows = committed
            var changes: [(id: Int, row: Row?)] = []
            for _ in 0..<decider.draw(1..<6) {
                let id = decider.draw(1..<40)
                let row =
                    decider.draw(0..<4) == 0 ? nil : Row(transaction: transactions, length: decider.draw(0..<3_000))
                rows[id] = row
                changes.append((id, row))
            }
            attempted.append(rows)
            do {
                try writer.write { [changes] db in
                    for (id, row) in changes {
                        guard let row else {
                            try db.execute(sql: "DELETE FROM entries WHERE id = ?", arguments: [id])
                            continue
                        }
                        try db.execute(
                            sql: "INSERT OR REPLACE INTO entries VALUES (?, ?, ?)",
                            arguments: [id, row.transaction, Self.bytes(id, row)]
                        )
                    }
                }
                committed = rows
                attempted = []
                commits += 1
            } catch {
                // A fault or the crash. Nothing is known, and the next transaction starts with what is there.
                guard !disk.isDown, let found = try? Self.rows(writer), found != committed else { continue }
                problems.append("a transaction that failed is there")
            }
        }
    }

    /// Returns the problem of the disk's contents; nil when there is none.
    private mutating func check() -> String? {
        do {
            let writer = try open()
            defer { try? writer.close() }
            let integrity = try writer.read { try String.fetchAll($0, sql: "PRAGMA integrity_check") }
            guard integrity == ["ok"] else { return "the file is damaged: \(integrity.prefix(3))" }
            let found = try Self.rows(writer)
            guard found == committed || attempted.contains(found) else {
                let missing = committed.filter { found[$0.key] != $0.value }.count
                let extra = found.filter { committed[$0.key] != $0.value }.count
                return "\(missing) committed rows are missing and \(extra) are there that were not committed"
            }
            committed = found
            attempted = []
            return nil
        } catch {
            return "cannot be opened or read: \(error)"
        }
    }

    private static func bytes(_ id: Int, _ row: Row) -> Data {
        Data(repeating: UInt8(truncatingIfNeeded: id &* 31 &+ row.transaction), count: row.length)
    }

    /// All rows; one whose bytes are not its own has the length -1.
    private static func rows(_ reader: any DatabaseReader) throws -> [Int: Row] {
        try reader.read { db in
            var rows: [Int: Row] = [:]
            for row in try GRDB.Row.fetchAll(db, sql: "SELECT id, made, data FROM entries") {
                let id: Int = row["id"]
                let data: Data = row["data"]
                let found = Row(transaction: row["made"], length: data.count)
                rows[id] = data == bytes(id, found) ? found : Row(transaction: found.transaction, length: -1)
            }
            return rows
        }
    }
}
