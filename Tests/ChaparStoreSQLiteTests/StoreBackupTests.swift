import Foundation
import GRDB
import ChaparCore
import ChaparQueue
import ChaparStoreContract
import ChaparTesting
import Testing

@testable import ChaparStoreSQLite

@Suite("A copy of the store", .timeLimit(.minutes(1)))
struct StoreBackupTests {
    private static func names(in folder: String) throws -> [String] {
        try FileManager.default.contentsOfDirectory(atPath: folder).sorted()
    }

    private static func mode(_ path: String) throws -> Int? {
        try FileManager.default.attributesOfItem(atPath: path)[.posixPermissions] as? Int
    }

    @Test("It is one moment of a store that is being written to, and blocks no commit")
    func whileWriting() async throws {
        try await TemporaryFolder.use { folder in
            let time = ManualTime()
            let store = try SQLiteStore(SQLiteStoreOptions(path: folder + "/store.db"), time: time)
            for number in 0..<50 { try await store.accept(time, recipients: 20, name: "r\(number)-", content: 4_000) }
            var backup = StoreBackup(of: folder + "/store.db", to: folder + "/copy.db")
            backup.pagesPerStep = 8
            let parts = Recorder<Double>()
            let commits = Recorder<Bool>()
            let summary = try backup.write(progress: { part in
                parts.add(part)
                // Each step waits for a commit, so that a copy that blocks commits, or begins again at each, never
                // ends.
                let done = DispatchSemaphore(value: 0)
                Task {
                    _ = try? await store.accept(time, name: "late")
                    commits.add(true)
                    done.signal()
                }
                done.wait()
            })
            #expect(summary.waiting == 1_000, "what came after the first step is not in it")
            #expect(summary.schema == Schema.migrator.migrations.last)
            #expect(commits.all.count > 3 && parts.all == parts.all.sorted())
            #expect(try Self.mode(folder + "/copy.db") == 0o600)
            #expect(try !Self.names(in: folder).contains { $0.hasPrefix("copy.db") && $0 != "copy.db" })
            await store.close()

            let copy = try SQLiteStore(SQLiteStoreOptions(path: folder + "/copy.db"), time: time)
            #expect(try await copy.claimNow(2_000).count == 1_000)
            await copy.close()
        }
    }

    @Test("No file is overwritten unless that is asked for, no link is followed, and never the store itself")
    func targets() async throws {
        try await TemporaryFolder.use { folder in
            let time = ManualTime()
            let store = try SQLiteStore(SQLiteStoreOptions(path: folder + "/store.db"), time: time)
            try await store.accept(time)
            let other = folder + "/other"
            try Data("mine".utf8).write(to: URL(filePath: other))
            for link in ["link", "nowhere"] {
                try FileManager.default.createSymbolicLink(
                    atPath: folder + "/" + link,
                    withDestinationPath: link == "link" ? other : folder + "/not-there"
                )
            }
            var backup = StoreBackup(of: folder + "/store.db", to: other)
            #expect(throws: StoreFileError.exists(other)) { try backup.write() }
            for isForced in [false, true] {
                backup.replaces = isForced
                for name in [
                    "link", "nowhere", "store.db", "store.db-wal", "store.db-shm", "store.db.lock", "./store.db",
                ] {
                    backup.target = folder + "/" + name
                    #expect(throws: StoreFileError.self, "\(name)") { try backup.write() }
                }
            }
            #expect(try Data(contentsOf: URL(filePath: other)) == Data("mine".utf8))
            #expect(!FileManager.default.fileExists(atPath: folder + "/not-there"))
            backup.target = other
            #expect(try backup.write().waiting == 1)
            #expect(try Self.mode(other) == 0o600)
            await store.close()
        }
    }

    @Test("A damaged store, an end before its time, a log that grows or a full disk leave no file")
    func failures() async throws {
        try await TemporaryFolder.use { folder in
            let time = ManualTime()
            let path = folder + "/store.db"
            let store = try SQLiteStore(SQLiteStoreOptions(path: path), time: time)
            for number in 0..<50 { try await store.accept(time, recipients: 20, name: "r\(number)-", content: 4_000) }
            var backup = StoreBackup(of: path, to: folder + "/copy.db")
            backup.pagesPerStep = 4
            #expect(throws: StoreFileError.cancelled) { try backup.write(isCancelled: { true }) }
            backup.largestLogBytes = 0
            #expect(throws: StoreFileError.self) { try backup.write() }
            backup.largestLogBytes = 1 << 40
            backup.minimumFreeBytes = .max / 2
            let full = #expect(throws: StoreFileError.self) { try backup.write() }
            #expect("\(String(describing: full))".contains(" 0 MiB") == false)
            backup.minimumFreeBytes = 0
            await store.close()

            let file = try FileHandle(forUpdating: URL(filePath: path))
            let size = try file.seekToEnd()
            for place in stride(from: size / 3, to: size, by: 8_192) {
                try file.seek(toOffset: place)
                try file.write(contentsOf: Data(repeating: 0xA5, count: 64))
            }
            try file.close()
            #expect(throws: StoreFileError.self) { try backup.write() }
            #expect(try Self.names(in: folder).allSatisfy { $0.hasPrefix("store.db") })
        }
    }

    @Test(
        "Sizes in sentences never hide a difference as 0 MiB",
        arguments: [
            (0, "0 KiB"), (1, "1 KiB"), (900_000, "879 KiB"), (16 << 20, "16 MiB"),
            (.max, "8796093022207 MiB"), (-1, "0 KiB"),
        ] as [(Int64, String)]
    )
    func sizes(bytes: Int64, words: String) {
        #expect(StoreFiles.size(bytes) == words)
    }

    @Test("A backup takes the store's place, and the old database stays under another name, each whole in one file")
    func restored() async throws {
        try await TemporaryFolder.use { folder in
            let time = ManualTime()
            let path = folder + "/store.db"
            let store = try SQLiteStore(SQLiteStoreOptions(path: path), time: time)
            try await store.accept(time, recipients: 3)
            _ = try StoreBackup(of: path, to: folder + "/copy.db").write()
            try await store.accept(time, recipients: 4, name: "later")
            let restoration = StoreRestore(of: folder + "/copy.db", to: path)
            let refusal = #expect(throws: StoreError.self) { try restoration.run(now: time.now) }
            #expect(refusal?.description.contains("in use by process \(getpid())") == true)
            // As a killed gateway leaves it: with what it committed last in the log only.
            let crashed = folder + "/crashed"
            try FileManager.default.createDirectory(atPath: crashed, withIntermediateDirectories: true)
            for suffix in ["", "-wal"] {
                try FileManager.default.copyItem(atPath: path + suffix, toPath: crashed + "/store.db" + suffix)
            }
            await store.close()

            let result = try StoreRestore(of: folder + "/copy.db", to: crashed + "/store.db").run(now: time.now)
            let previous = try #require(result.previous)
            #expect(result.summary.waiting == 3)
            #expect(result.summary.takenAt != nil)
            let old = (previous as NSString).lastPathComponent
            #expect(try Self.names(in: crashed) == ["store.db", old, "store.db.lock"].sorted())
            for file in [crashed + "/store.db", previous] { #expect(try Self.mode(file) == 0o600, "\(file)") }
            #expect(try StoreSummary.verify(previous).waiting == 7, "what was in the log only is kept")
            #expect(try StoreSummary.verify(crashed + "/store.db").takenAt == nil, "it is no backup any more")
            let back = try SQLiteStore(SQLiteStoreOptions(path: crashed + "/store.db"), time: time)
            #expect(try await back.claimNow().count == 3)
            await back.close()
        }
    }

    @Test("The store stays with the user that has it", .enabled(if: geteuid() == 0))
    func owner() async throws {
        try await TemporaryFolder.use { folder in
            let time = ManualTime()
            let path = folder + "/store.db"
            let store = try SQLiteStore(SQLiteStoreOptions(path: path), time: time)
            _ = try StoreBackup(of: path, to: folder + "/copy.db").write()
            await store.close()
            #expect(chown(path, 4_321, 4_321) == 0)
            _ = try StoreRestore(of: folder + "/copy.db", to: path).run(now: time.now)
            let attributes = try FileManager.default.attributesOfItem(atPath: path)
            #expect(attributes[.ownerAccountID] as? Int == 4_321)
            #expect(try Self.mode(path) == 0o600)
        }
    }

    @Test("A log that cannot be folded into the old database goes with it")
    func damagedBefore() async throws {
        try await TemporaryFolder.use { folder in
            let time = ManualTime()
            let path = folder + "/store.db"
            let store = try SQLiteStore(SQLiteStoreOptions(path: path), time: time)
            try await store.accept(time, recipients: 3)
            _ = try StoreBackup(of: path, to: folder + "/copy.db").write()
            await store.close()
            try Data("this is no database".utf8).write(to: URL(filePath: path))
            // SQLite removes a log in which it finds nothing; this one it cannot open.
            try FileManager.default.createDirectory(atPath: path + "-wal", withIntermediateDirectories: false)
            let result = try StoreRestore(of: folder + "/copy.db", to: path).run(now: time.now)
            #expect(!FileManager.default.fileExists(atPath: path + "-wal"))
            let previous = try #require(result.previous)
            #expect(try Data(contentsOf: URL(filePath: previous)) == Data("this is no database".utf8))
            #expect(FileManager.default.fileExists(atPath: previous + "-wal"))
            #expect(try StoreSummary.verify(path).waiting == 3)
        }
    }

    @Test("A damaged backup changes nothing")
    func badBackups() async throws {
        try await TemporaryFolder.use { folder in
            let time = ManualTime()
            let path = folder + "/store.db"
            let store = try SQLiteStore(SQLiteStoreOptions(path: path), time: time)
            for number in 0..<20 { try await store.accept(time, recipients: 20, name: "r\(number)-", content: 4_000) }
            let good = folder + "/good"
            _ = try StoreBackup(of: path, to: good).write()
            await store.close()
            let before = try Data(contentsOf: URL(filePath: path))
            let whole = try Data(contentsOf: URL(filePath: good))

            try Data().write(to: URL(filePath: folder + "/empty"))
            try Data("no database".utf8).write(to: URL(filePath: folder + "/text"))
            try whole.prefix(whole.count / 2).write(to: URL(filePath: folder + "/cut"))
            try whole.write(to: URL(filePath: folder + "/in-use"))
            try Data([1]).write(to: URL(filePath: folder + "/in-use-wal"))
            let foreign = try DatabaseQueue(path: folder + "/foreign")
            try await foreign.write { try $0.execute(sql: "CREATE TABLE notes (text)") }
            try foreign.close()
            try whole.write(to: URL(filePath: folder + "/newer"))
            let newer = try DatabaseQueue(path: folder + "/newer")
            try await newer.write { try $0.execute(sql: "INSERT INTO grdb_migrations VALUES ('999 later')") }
            try newer.close()

            for name in ["empty", "text", "cut", "in-use", "foreign", "newer", "store.db", "missing", "."] {
                #expect(throws: (any Error).self, "\(name)") {
                    try StoreRestore(of: folder + "/" + name, to: path).run(now: time.now)
                }
                #expect(try Data(contentsOf: URL(filePath: path)) == before, "\(name)")
                #expect(
                    try Self.names(in: folder).filter { $0.hasPrefix("store.db") } == ["store.db", "store.db.lock"]
                )
            }
        }
    }

    @Test("Deliveries that waited in a backup can be ended instead of being sent again")
    func expired() async throws {
        try await TemporaryFolder.use { folder in
            let time = ManualTime()
            let path = folder + "/store.db"
            let store = try SQLiteStore(SQLiteStoreOptions(path: path), time: time)
            try await store.accept(time)
            try await store.accept(time, recipients: 5, name: "many")
            // The row that the others of its notification refer to is final already.
            let claims = try await store.claim(backend: "apns", limit: 2, wait: .zero)
            try await store.record(claims.map { Resolution(of: $0, .end(.acceptedByPlatform), event: [1]) })
            _ = try StoreBackup(of: path, to: folder + "/copy.db").write()
            await store.close()
            var restoration = StoreRestore(of: folder + "/copy.db", to: path)
            restoration.expiresWaiting = true
            #expect(try restoration.run(now: time.now).summary.waiting == 4)
            let back = try SQLiteStore(SQLiteStoreOptions(path: path), time: time)
            let over = try await back.claimExpired(limit: 100)
            #expect(over.count == 4)
            #expect(over.allSatisfy { $0.expiresAt <= time.steady })
            #expect(try await back.claimNow().isEmpty)
            await back.close()
        }
    }
}
