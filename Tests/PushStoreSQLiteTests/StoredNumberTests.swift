import Foundation
import GRDB
import PushCore
import PushComposition
import PushQueue
import PushTesting
import Synchronization
import Testing

@testable import PushStoreSQLite

/// Numbers that a damaged file or a wrong clock brings.
///
/// Each once ended the process, and with it these tests.
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
            try db.execute(sql: sql)
            #expect(db.changesCount > 0, "\(sql)")
        }
        try queue.close()
        return (options, id)
    }

    @Test(
        "that later ones would be counted from refuse the file at its opening",
        arguments: [
            ("INSERT OR REPLACE INTO marks (name, value) VALUES ('highest', $)", "the number of a delivery"),
            ("UPDATE deliveries SET id = $ WHERE id = (SELECT max(id) FROM deliveries)", "the number of a delivery"),
            ("INSERT INTO archive (first, last, at, packed) VALUES (1, $, 1, x'00')", "the number of a delivery"),
            ("UPDATE events SET first = $ WHERE first = (SELECT max(first) FROM events)", "the number of an event"),
            ("UPDATE events SET count = $", "the number of an event"),
            ("INSERT OR REPLACE INTO marks (name, value) VALUES ('epoch', $ - 1)", "the number of a start"),
            ("INSERT OR REPLACE INTO marks (name, value) VALUES ('steady', $)", "its time"),
            ("INSERT OR REPLACE INTO marks (name, value) VALUES ('wall', $)", "a time of day"),
            ("INSERT OR REPLACE INTO marks (name, value) VALUES ('wall', -$)", "a time of day"),
        ]
    )
    func refused(sql: String, what: String) async throws {
        try await TemporaryFolder.use { folder in
            let (options, _) = try await damaged(folder, sql.replacing("$", with: "9223372036854775807"))
            do {
                await (try SQLiteStore(options, time: ManualTime())).close()
                Issue.record("the store opens")
            } catch {
                #expect("\(error)".contains(what) && "\(error)".contains("restore a backup"), "\(error)")
            }
        }
    }

    @Test(
        "of a delivery are read as the nearest that there is",
        arguments: [
            "step = $", "step = -$", "attempts = $", "attempts = -$", "count = $", "count = -$", "expires = $",
            "accepted = $", "accepted = -$", "scheduled = $", "changed = $", "due = -$", "collapse = $", "replay = $",
            "plan = ''", "plan = '|stop'",
        ]
    )
    func read(change: String) async throws {
        try await TemporaryFolder.use { folder in
            let sql = "UPDATE deliveries SET " + change.replacing("$", with: "9223372036854775807")
            let (options, id) = try await damaged(folder, sql)
            let time = ManualTime()
            let store = try SQLiteStore(options, time: time)
            _ = try await store.notification(id)
            _ = try await store.deliveries(of: id, after: nil, limit: 10)
            let claims = try await store.claimNow()
            for claim in claims {
                #expect(claim.plan.backends.indices.contains(claim.step), "\(change): \(claim.step)")
                #expect(claim.plan.laterSteps(after: claim.step).isEmpty)
                #expect((0...(1 << 48)).contains(claim.attempts))
            }
            try await store.record(
                claims.map { Resolution(of: $0, .retry(at: time.now + 5, step: $0.step), attempt: [49], event: [1]) }
            )
            _ = try await store.cancel(id) { _, _ in [1] }
            _ = try await store.claimExpired(limit: 10)
            _ = try await store.purge(Retention(notifications: time.now, events: time.now))
            await store.close()
            await (try SQLiteStore(options, time: ManualTime(time.now + 100))).close()
        }
    }

    @Test("of leases and of events in the middle end nothing")
    func leases() async throws {
        try await TemporaryFolder.use { folder in
            let sql =
                "UPDATE events SET first = 0, count = 9223372036854775807 WHERE first = (SELECT min(first) FROM events)"
            let (options, _) = try await damaged(folder, sql)
            let queue = try DatabaseQueue(path: options.path)
            try await queue.write {
                try $0.execute(sql: "INSERT INTO leases (number, deliveries) VALUES (9223372036854775807, x'01')")
            }
            try queue.close()
            let store = try SQLiteStore(options, time: ManualTime())
            #expect(try await !store.events(after: 0, limit: 10, wait: .zero).isEmpty)
            await store.close()
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

    @Test("A disk without end takes work; what is refused for the disk, and its end, is one line of the log each")
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
