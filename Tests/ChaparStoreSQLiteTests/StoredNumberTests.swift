import Foundation
import GRDB
import ChaparCore
import ChaparComposition
import ChaparQueue
import ChaparStoreContract
import ChaparTesting
import Synchronization
import Testing

@testable import ChaparStoreSQLite

/// Numbers that a damaged file or a wrong clock brings.
///
/// Each of them once ended the process, and with it these tests.
@Suite("Numbers in the store's file", .timeLimit(.minutes(1)))
struct StoredNumberTests {
    /// Makes a file with a notification to three, changes it, and gives its options.
    private func damaged(_ folder: String, _ sql: String) async throws -> (SQLiteStoreOptions, NotificationID) {
        let options = SQLiteStoreOptions(path: folder + "/store.db")
        let time = ManualTime()
        let store = try SQLiteStore(options, time: time)
        let id = try await store.accept(time, recipients: 3)
        try await store.publish([[1]])
        await store.close()
        let queue = try DatabaseQueue(path: options.path)
        try await queue.write { db in
            let rows = try db.damage(sql)
            #expect(rows > 0, "\(sql)")
        }
        try queue.close()
        return (options, id)
    }

    @Test(
        "that later ones would be counted from refuse the file at its opening",
        arguments: [
            ("INSERT OR REPLACE INTO marks (name, value) VALUES ('highest', $)", "marks.value"),
            ("UPDATE deliveries SET id = $ WHERE id = (SELECT max(id) FROM deliveries)", "deliveries.max(id)"),
            ("INSERT INTO archive (first, last, at, packed) VALUES (1, $, 1, x'00')", "archive.max(last)"),
            ("UPDATE events SET first = $ WHERE first = (SELECT max(first) FROM events)", "events.first"),
            ("UPDATE events SET count = $", "events.count"),
            ("INSERT OR REPLACE INTO marks (name, value) VALUES ('epoch', $)", "marks.value"),
            ("INSERT OR REPLACE INTO marks (name, value) VALUES ('epoch', 2147483647)", "epoch"),
            ("INSERT OR REPLACE INTO marks (name, value) VALUES ('steady', $)", "steady"),
            ("INSERT OR REPLACE INTO marks (name, value) VALUES ('wall', $)", "wall"),
            ("INSERT OR REPLACE INTO marks (name, value) VALUES ('wall', -$)", "wall"),
        ]
    )
    func refused(sql: String, place: String) async throws {
        try await TemporaryFolder.use { folder in
            let (options, _) = try await damaged(folder, sql.replacing("$", with: "9223372036854775807"))
            do {
                await (try SQLiteStore(options, time: ManualTime())).close()
                Issue.record("the store opens")
            } catch {
                #expect("\(error)".contains("\(place) holds the number"), "\(error)")
                if case StoreError.damaged = error {} else { Issue.record("\(error)") }
            }
        }
    }

    @Test("of a step beyond the plan, or of a plan beyond the record, are the nearest that there is")
    func steps() async throws {
        for change in ["step = 7", "plan = 7", "plan = 2147483647"] {
            try await TemporaryFolder.use { folder in
                let (options, _) = try await damaged(folder, "UPDATE deliveries SET " + change)
                let store = try SQLiteStore(options, time: ManualTime())
                let claims = try await store.claimNow()
                #expect(claims.count == 3)
                for claim in claims {
                    #expect(claim.plan.backends.indices.contains(claim.step), "\(change): \(claim.step)")
                    #expect(claim.plan.laterSteps(after: claim.step).isEmpty)
                }
                try await store.record(
                    claims.map { Resolution(delivery: $0.id, transition: .end(.acceptedByPlatform), attempt: [0x31]) }
                )
                await store.close()
            }
        }
    }

    @Test("A clock that is decades ahead at a start lifts times and numbers by as long as anything waits, no more")
    func clockAhead() async throws {
        try await TemporaryFolder.use { folder in
            let options = SQLiteStoreOptions(path: folder + "/store.db")
            let time = ManualTime()
            var store = try SQLiteStore(options, time: time)
            let before = try await store.accept(time)
            await store.close()
            let ahead = ManualTime(time.now + 200 * 365 * 86_400)
            store = try SQLiteStore(options, time: ahead)
            let lifted = store.time.steady.timeIntervalSince(time.now)
            #expect((399 * 86_400...401 * 86_400).contains(lifted), "\(lifted / 86_400) days")
            let after = store.makeID(recipients: 1)
            #expect(after > before && after.time.timeIntervalSince(before.time) < 401 * 86_400)
            await store.close()
            // The clock is right again: numbers go on above, and no time passes twice.
            store = try SQLiteStore(options, time: time)
            #expect(store.makeID(recipients: 1) > before)
            await store.close()
        }
    }

    @Test("A new file under a clock beyond all numbers is refused, with the clock named")
    func clockBeyond() async throws {
        await #expect {
            try await TemporaryFolder.use { folder in
                let time = ManualTime(Date(timeIntervalSince1970: 1e11))
                _ = try SQLiteStore(SQLiteStoreOptions(path: folder + "/store.db"), time: time)
            }
        } throws: {
            "\($0)".contains("clock says 5138")
        }
    }

    @Test("A file system that has no blocks says nothing, and one with more bytes than a number holds has enough")
    func space() {
        var status = statvfs()
        #expect(FileSystemSpace.freeBytes(of: status) == nil)
        (status.f_blocks, status.f_bavail, status.f_frsize) = (1, .max, 4_096)
        #expect(FileSystemSpace.freeBytes(of: status) == .max)
        status.f_bavail = 1 << 62
        #expect(FileSystemSpace.freeBytes(of: status) == .max)
        (status.f_bavail, status.f_frsize) = (3, 4_096)
        #expect(FileSystemSpace.freeBytes(of: status) == 12_288)
        status.f_bavail = 0
        #expect(FileSystemSpace.freeBytes(of: status) == 0)
        #expect(FileSystemSpace.freeBytes(at: "/") ?? 0 > 0)
    }

    @Test("A disk without end takes work; each refusal for the disk, and its end, is one line of the log")
    func refusal() async throws {
        try await TemporaryFolder.use { folder in
            let (time, log, free) = (ManualTime(), RecordedLog(), FreeSpace())
            free.bytes.store(.max, ordering: .relaxed)
            var options = SQLiteStoreOptions(path: folder + "/store.db")
            options.freeBytes = { _ in free.bytes.load(ordering: .relaxed) }
            options.maximumBytes = .max
            let store = try SQLiteStore(options, time: time, logger: log.logger)
            try await store.accept(time)
            #expect(await store.health().freeBytes == .max)
            func lines(_ word: String) -> [String] { log.lines.filter { $0.contains(word) } }
            free.bytes.store(7, ordering: .relaxed)
            for _ in 0..<3 {
                time.advance(by: .seconds(1))
                await #expect(throws: StoreError.self) { try await store.accept(time) }
                #expect(await !store.health().acceptsWork)
            }
            #expect(lines("takes no new work").count == 1 && lines("min_free_bytes").count == 1, "\(log.lines)")
            free.bytes.store(.max, ordering: .relaxed)
            time.advance(by: .seconds(1))
            try await store.accept(time)
            #expect(lines("takes new work again").count == 1)
            free.bytes.store(7, ordering: .relaxed)
            time.advance(by: .seconds(1))
            await #expect(throws: StoreError.self) { try await store.accept(time) }
            #expect(lines("takes no new work").count == 1, "space about the limit fills no log")
            time.advance(by: .seconds(10))
            await #expect(throws: StoreError.self) { try await store.accept(time) }
            #expect(lines("takes no new work").count == 2)
            await store.close()
        }
    }
}
