import Foundation
import GRDB
import SimulationDisk
import Testing

@Suite("SQLite on a simulated disk", .serialized, .timeLimit(.minutes(1)))
struct PoolTests {
    private static let folder = "/simulated/pool"

    /// Ordinary work on a pool, and all that is found on the way.
    private func work(in folder: String) async throws -> [String] {
        let path = folder + "/pool.db"
        var found: [String] = []
        let pool = try DatabasePool(path: path)
        try await pool.write { db in
            try db.execute(sql: "CREATE TABLE things (id INTEGER PRIMARY KEY, name TEXT NOT NULL, data BLOB)")
            try db.execute(sql: "CREATE INDEX things_name ON things (name)")
            for id in 0..<500 {
                let data = Data(repeating: UInt8(id % 251), count: id * 11 % 4_000)
                try db.execute(
                    sql: "INSERT INTO things VALUES (?, ?, ?)",
                    arguments: [id, "thing \(id * 7_919 % 500)", data]
                )
            }
        }
        let count = "SELECT count(*), sum(length(data)) FROM things"
        // Readers see what was committed, also during a write.
        found.append(
            try await pool.write { db in
                try db.execute(sql: "DELETE FROM things WHERE id % 3 = 0")
                return try pool.unsafeReentrantRead { try Row.fetchAll($0, sql: count).description }
            }
        )
        found.append(try await pool.read { try Row.fetchAll($0, sql: count).description })
        let readers = try await withThrowingTaskGroup(of: String.self) { group in
            for part in 0..<8 {
                group.addTask {
                    try await pool.read { db in
                        try String.fetchAll(db, sql: "SELECT name FROM things WHERE id % 8 = \(part) ORDER BY id")
                            .joined()
                    }
                }
            }
            return try await group.reduce(into: []) { $0.append($1) }
        }
        found += readers.sorted()
        try await pool.writeWithoutTransaction { _ = try $0.checkpoint(.truncate) }
        try? await pool.write { db in
            try db.execute(sql: "DELETE FROM things")
            throw CancellationError()
        }
        try await pool.vacuum()
        try pool.close()
        let again = try DatabaseQueue(path: path)
        found += try again.inDatabase { db in
            try String.fetchAll(db, sql: "PRAGMA integrity_check")
                + Row.fetchAll(db, sql: "SELECT id, name, hex(data) FROM things ORDER BY id").map(\.description)
        }
        try again.close()
        return found
    }

    @Test("A pool does the same work as on the file system")
    func sameAsOutside() async throws {
        let disk = SimulatedDisk(folder: Self.folder, decider: SeededDecider(seed: 1))
        disk.register()
        defer { disk.unregister() }
        let outside = FileManager.default.temporaryDirectory.appendingPathComponent("chapar-pool-\(UUID().uuidString)")
        try FileManager.default.createDirectory(at: outside, withIntermediateDirectories: true)
        defer { try? FileManager.default.removeItem(at: outside) }
        let found = try await work(in: Self.folder)
        #expect(found.count > 300)
        #expect(try await work(in: outside.path) == found, "paths outside go to the file system")
        #expect(disk.contents.keys.sorted() == ["pool.db"], "the log goes when the last connection does")
        #expect(FileManager.default.fileExists(atPath: outside.path + "/pool.db"))
        #expect(!FileManager.default.fileExists(atPath: Self.folder))
        let copy = SimulatedDisk(folder: "/simulated/copy", decider: SeededDecider(seed: 1), contents: disk.contents)
        #expect(copy.contentsHash == disk.contentsHash)
    }

    @Test("Two writers exclude each other, and a reader does not see what is not committed")
    func locking() throws {
        let disk = SimulatedDisk(folder: Self.folder, decider: SeededDecider(seed: 1))
        disk.register()
        defer { disk.unregister() }
        for journal in ["WAL", "DELETE"] {
            let path = "\(Self.folder)/\(journal).db"
            let one = try DatabaseQueue(path: path)
            try one.inDatabase { try $0.execute(sql: "PRAGMA journal_mode = \(journal); CREATE TABLE t (id INTEGER)") }
            let other = try DatabaseQueue(path: path)
            try one.inDatabase { db in
                try db.execute(sql: "BEGIN IMMEDIATE; INSERT INTO t VALUES (1)")
                #expect(try other.read { try Int.fetchOne($0, sql: "SELECT count(*) FROM t") } == 0)
                let error = #expect(throws: DatabaseError.self) {
                    try other.inDatabase { try $0.execute(sql: "INSERT INTO t VALUES (2)") }
                }
                #expect(error?.resultCode == .SQLITE_BUSY)
                try db.execute(sql: "COMMIT")
            }
            #expect(try other.read { try Int.fetchOne($0, sql: "SELECT count(*) FROM t") } == 1)
            try other.inDatabase { try $0.execute(sql: "INSERT INTO t VALUES (2)") }
            try other.close()
            try one.close()
        }
    }

    @Test("The time and randomness of SQL are the decider's")
    func determinism() throws {
        func look() throws -> [String] {
            let disk = SimulatedDisk(folder: Self.folder, decider: SeededDecider(seed: 5))
            disk.register()
            defer { disk.unregister() }
            let queue = try DatabaseQueue(path: Self.folder + "/time.db")
            defer { try? queue.close() }
            return try queue.read {
                try String.fetchAll($0, sql: "SELECT datetime('now') UNION ALL SELECT hex(randomblob(16))")
            }
        }
        let once = try look()
        #expect(once.first == "2026-01-01 00:00:00")
        #expect(try look() == once)
    }
}
