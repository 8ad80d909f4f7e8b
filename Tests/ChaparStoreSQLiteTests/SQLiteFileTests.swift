import Foundation
import GRDB
import ChaparCore
import ChaparQueue
import ChaparTesting
import Testing

@testable import ChaparStoreSQLite

@Suite("The store's file", .timeLimit(.minutes(1)))
struct SQLiteFileTests {
    @Test(
        "The writer waits for the disk as the durability says",
        arguments: [(SQLiteStoreOptions.Durability.full, 2), (.normal, 1)]
    )
    func synchronous(durability: SQLiteStoreOptions.Durability, wanted: Int) async throws {
        try await TemporaryFolder.use { folder in
            var options = SQLiteStoreOptions(path: folder + "/store.db")
            options.durability = durability
            let (pool, _) = try OpenedStore.open(options)
            let found = try await pool.writeWithoutTransaction { db in
                (
                    try Int.fetchOne(db, sql: "PRAGMA synchronous"),
                    try String.fetchOne(db, sql: "PRAGMA journal_mode"),
                    try Int.fetchOne(db, sql: "PRAGMA wal_autocheckpoint")
                )
            }
            #expect(found.0 == wanted)
            #expect(found.1 == "wal")
            #expect(found.2 == options.checkpointPages)
            try pool.close()
        }
    }

    @Test("Full durability is the default")
    func defaults() { #expect(SQLiteStoreOptions(path: "x").durability == .full) }

    @Test("Only the owner can read the files")
    func permissions() async throws {
        try await TemporaryFolder.use { folder in
            let path = folder + "/store.db"
            let isMade = FileManager.default.createFile(
                atPath: path,
                contents: nil,
                attributes: [.posixPermissions: 0o644]
            )
            #expect(isMade)
            let store = try SQLiteStore(SQLiteStoreOptions(path: path), time: ManualTime())
            try await store.publish([[1]])
            for suffix in ["", "-wal", "-shm", ".lock"] {
                let mode = try FileManager.default.attributesOfItem(atPath: path + suffix)[.posixPermissions] as? Int
                #expect(mode == 0o600, "store.db\(suffix)")
            }
            await store.close()
        }
    }

    @Test("A symbolic link and its file are one store: a second owner is refused", arguments: [true, false])
    func links(isLinkFirst: Bool) async throws {
        try await TemporaryFolder.use { folder in
            try FileManager.default.createDirectory(atPath: folder + "/real", withIntermediateDirectories: true)
            let (real, link, second) = (folder + "/real/store.db", folder + "/link.db", folder + "/second.db")
            try FileManager.default.createSymbolicLink(atPath: link, withDestinationPath: "real/store.db")
            try FileManager.default.createSymbolicLink(atPath: second, withDestinationPath: link)
            let paths = isLinkFirst ? [second, real] : [real, link]
            let store = try SQLiteStore(SQLiteStoreOptions(path: paths[0]), time: ManualTime())
            let error = #expect(throws: StoreError.self) {
                try SQLiteStore(SQLiteStoreOptions(path: paths[1]), time: ManualTime())
            }
            #expect(error?.description.contains("in use by process \(getpid())") == true)
            await store.close()
            _ = try StoreBackup(of: real, to: folder + "/copy.db").write()
            _ = try StoreRestore(of: folder + "/copy.db", to: link).run(now: .now)
            #expect(try FileManager.default.destinationOfSymbolicLink(atPath: link) == "real/store.db")
        }
    }

    @Test(
        "New work is refused once the file is gone, empty or another one, and nothing is said to be stored",
        arguments: ["removed", "emptied", "replaced"]
    )
    func lost(_ how: String) async throws {
        try await TemporaryFolder.use { folder in
            let (time, path) = (ManualTime(), folder + "/store.db")
            let store = try SQLiteStore(SQLiteStoreOptions(path: path), time: time)
            try await store.accept(time, recipients: 1)
            switch how {
            case "removed": for suffix in ["", "-wal", "-shm"] { unlink(path + suffix) }
            case "emptied": #expect(truncate(path, 0) == 0)
            default:
                #expect(rename(path, path + ".old") == 0)
                try FileManager.default.copyItem(atPath: path + ".old", toPath: path)
            }
            time.advance(by: .seconds(2))
            let error = await #expect(throws: StoreError.self) { try await store.accept(time, recipients: 1) }
            #expect(error?.description.contains("removed, emptied or replaced") == true, "\(String(describing: error))")
            #expect(await !store.health().acceptsWork)
            await store.close()
            let health = await store.health()
            #expect(health.isLost)
            let next = try FileOwnership(of: path)
            #expect(next.brokenRun?.process == getpid(), "the end was none in order")
            next.release()
        }
    }

    @Test("A store in a folder that is not there is refused with the folder's name")
    func missingFolder() {
        let folder = FileManager.default.temporaryDirectory.appending(path: "chapar-\(UUID().uuidString)").path
        let error = #expect(throws: StoreError.self) { try FileOwnership(of: folder + "/chapar.db") }
        #expect(error?.description.contains("the folder \(folder) of the store is not there: make it") == true)
    }

    @Test(
        "New work is refused once the write-ahead log is gone, cut or written over; a log without its name is saved at the end",
        arguments: ["removed", "replaced", "emptied", "cut", "written over"]
    )
    func lostLog(_ how: String) async throws {
        try await TemporaryFolder.use { folder in
            let (time, path) = (ManualTime(), folder + "/store.db")
            let log = path + "-wal"
            let store = try SQLiteStore(SQLiteStoreOptions(path: path), time: time)
            for number in 0..<20 { try await store.accept(time, name: "r\(number)-", content: 4_000) }
            time.advance(by: .seconds(2))
            #expect(await store.health().acceptsWork)
            let bytes = try Data(contentsOf: URL(filePath: log))
            switch how {
            case "removed": unlink(log)
            case "replaced":
                unlink(log)
                try bytes.write(to: URL(filePath: log))
            case "emptied": #expect(truncate(log, 0) == 0)
            case "cut": #expect(truncate(log, off_t(bytes.count / 2)) == 0)
            default:
                let file = try FileHandle(forWritingTo: URL(filePath: log))
                try file.write(contentsOf: Data(count: bytes.count))
                try file.close()
            }
            time.advance(by: .seconds(2))
            await #expect(throws: StoreError.self) { try await store.accept(time, name: "later") }
            time.advance(by: .seconds(2))
            let health = await store.health()
            #expect(!health.acceptsWork)
            #expect(health.detail?.contains("the store's write-ahead log \(log) was") == true, "\(health.detail ?? "")")
            await store.close()
            #expect(await store.health().isLost)
            guard ["removed", "replaced"].contains(how) else { return }
            let again = try SQLiteStore(SQLiteStoreOptions(path: path), time: time)
            #expect(await again.health().brokenRun != nil)
            #expect(try await again.depths()["apns"]?.waiting == 20)
            await again.close()
        }
    }

    @Test("A checkpoint of another program, which empties the log, is no loss")
    func foreignCheckpoint() async throws {
        try await TemporaryFolder.use { folder in
            let (time, path) = (ManualTime(), folder + "/store.db")
            let store = try SQLiteStore(SQLiteStoreOptions(path: path), time: time)
            for number in 0..<20 { try await store.accept(time, name: "r\(number)-", content: 4_000) }
            for round in 0..<2 {
                time.advance(by: .seconds(2))
                #expect(await store.health().acceptsWork)
                let other = try DatabaseQueue(path: path)
                try await other.writeWithoutTransaction { _ = try $0.checkpoint(.truncate) }
                try other.close()
                #expect(try Data(contentsOf: URL(filePath: path + "-wal")).isEmpty)
                time.advance(by: .seconds(2))
                if round == 0 { #expect(await store.health().acceptsWork) }
                try await store.accept(time, name: "later\(round)-")
                time.advance(by: .seconds(2))
                #expect(await store.health().acceptsWork)
            }
            await store.close()
            #expect(await !store.health().isLost)
        }
    }

    @Test("A loss that no request met before the end shows at the end; an end with its file is in order")
    func lostAtTheEnd() async throws {
        try await TemporaryFolder.use { folder in
            let (time, path) = (ManualTime(), folder + "/store.db")
            let good = try SQLiteStore(SQLiteStoreOptions(path: path), time: time)
            try await good.accept(time, recipients: 1)
            await good.close()
            let before = await good.health()
            #expect(!before.isLost)
            let store = try SQLiteStore(SQLiteStoreOptions(path: path), time: time)
            for suffix in ["", "-wal", "-shm"] { unlink(path + suffix) }
            await store.close()
            let after = await store.health()
            #expect(after.isLost)
            let next = try FileOwnership(of: path)
            #expect(next.brokenRun != nil)
            next.release()
        }
    }

    @Test("A second owner is refused, told who the first one is, and let in when that one is gone")
    func ownership() async throws {
        try await TemporaryFolder.use { folder in
            let options = SQLiteStoreOptions(path: folder + "/store.db")
            let first = try SQLiteStore(options, time: ManualTime())
            let error = #expect(throws: StoreError.self) { try SQLiteStore(options, time: ManualTime()) }
            #expect(error?.description.contains("in use by process \(getpid())") == true)
            try await first.publish([[1]])
            await first.close()
            let second = try SQLiteStore(options, time: ManualTime())
            #expect(try await second.lastEvent() == 1)
            await second.close()
        }
    }

    @Test("A path that cannot be opened is named")
    func badPath() {
        let error = #expect(throws: StoreError.self) {
            try SQLiteStore(SQLiteStoreOptions(path: "/nonexistent/folder/store.db"), time: ManualTime())
        }
        #expect(error?.description.contains("the folder /nonexistent/folder of the store is not there") == true)
    }

    @Test("A folder in the place of the store is named, and gets no lock beside it")
    func folder() async throws {
        try await TemporaryFolder.use { folder in
            let path = folder + "/store"
            try FileManager.default.createDirectory(atPath: path, withIntermediateDirectories: false)
            let error = #expect(throws: StoreError.self) {
                try SQLiteStore(SQLiteStoreOptions(path: path), time: ManualTime())
            }
            #expect(error?.description.contains("\(path) is a folder") == true)
            #expect(!FileManager.default.fileExists(atPath: path + ".lock"))
        }
    }

    @Test("A row that cannot be read is passed over and logged once; what is beside it goes on")
    func unreadableRow() async throws {
        try await TemporaryFolder.use { folder in
            let options = SQLiteStoreOptions(path: folder + "/store.db")
            let time = ManualTime()
            let store = try SQLiteStore(options, time: time)
            let damaged = try await store.accept(time)
            let orphan = try await store.accept(time, recipients: 2)
            _ = try await store.accept(time, name: "whole")
            await store.close()
            await (try SQLiteStore(options, time: time)).close()  // What was packed has rows now.
            let file = try DatabaseQueue(path: options.path)
            try await file.write { db in
                try db.execute(
                    sql: "UPDATE deliveries SET recipient = 'neither' WHERE id = ?1",
                    arguments: [damaged.rawValue]
                )
                try db.execute(sql: "DELETE FROM deliveries WHERE id = ?1", arguments: [orphan.rawValue])
            }
            try file.close()
            let log = RecordedLog()
            let reopened = try SQLiteStore(options, time: time, logger: log.logger)
            let claimed = try await reopened.claimNow()
            #expect(claimed.map { $0.recipient.storedForm } == ["ios-apns:whole0"])
            time.advance(by: .seconds(100_000))  // The expired ones are looked for as well.
            #expect(try await reopened.claimExpired(limit: 100).isEmpty)
            #expect(log.lines.filter { $0.contains("passed over") }.count == 2, "\(log.lines)")
            await reopened.close()
        }
    }

    @Test("A file that is no database is an error and stays as it is")
    func notADatabase() async throws {
        try await TemporaryFolder.use { folder in
            let path = folder + "/store.db"
            let text = Data(String(repeating: "this is no database. ", count: 100).utf8)
            try text.write(to: URL(fileURLWithPath: path))
            #expect(throws: StoreError.self) { try SQLiteStore(SQLiteStoreOptions(path: path), time: ManualTime()) }
            #expect(try Data(contentsOf: URL(fileURLWithPath: path)) == text)
        }
    }
}
