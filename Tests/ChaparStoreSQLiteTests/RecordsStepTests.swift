import Foundation
import GRDB
import ChaparComposition
import ChaparCore
import ChaparQueue
import ChaparStoreContract
import ChaparTesting
import Testing

@testable import ChaparStoreSQLite

/// The step that gives notifications a record, on a file that a killed gateway of 0.1 left: with every state, an
/// archive, staged rows, held leases, plans, devices and outbox entries.
@Suite("The step to records", .timeLimit(.minutes(2)))
struct RecordsStepTests {
    /// The steady time of the file, a second after its last commit.
    private static let now = Date(timeIntervalSince1970: 1_795_908_715)

    /// Notifications of the file, with their state after the upgrade.
    private static let notifications: [(id: String, counts: [DeliveryState: Int])] = [
        ("05B25D5KE0000", [.acceptedByPlatform: 1]), ("05B25D5XE0000", [.acceptedByPlatform: 10]),
        ("05B25D5Y80000", [.failed: 1]), ("05B25D9WM0000", [.scheduled: 1]), ("05B25D9YW0000", [.cancelled: 1]),
        ("05B25DAPG0000", [.expired: 1]), ("05B25DB9M0000", [.retrying: 1]), ("05B25DC2R0000", [.opened: 1]),
        ("05B25DC3G0000", [.delivered: 1]), ("05B25DC480000", [.unknown: 1]), ("05B25DZS80000", [.queued: 1]),
        ("05B25DZSJ0000", [.queued: 3]), ("05B25E1RM0000", [.scheduled: 1]), ("05B25E1TA0000", [.queued: 1]),
    ]

    /// Writes the file.
    private static func make(_ path: String) throws {
        let folder = URL(filePath: #filePath).deletingLastPathComponent()
        let sql = try String(contentsOf: folder.appending(path: "../Fixtures/store-0.1.sql"), encoding: .utf8)
        let file = try DatabaseQueue(path: path)
        try file.writeWithoutTransaction { try $0.execute(sql: sql) }
        try file.close()
    }

    /// Returns the rows of a table as SQL writes them, in the order of their text.
    private static func rows(_ db: Database, _ table: String, _ columns: [String]) throws -> [String] {
        let list = columns.map { "quote(\"\($0)\")" }.joined(separator: " || ' ' || ")
        return try String.fetchAll(db, sql: "SELECT \(list) FROM \(table) ORDER BY 1")
    }

    @Test("keeps every value of every table")
    func values() throws {
        let queue = try DatabaseQueue()
        let folder = URL(filePath: #filePath).deletingLastPathComponent()
        let sql = try String(contentsOf: folder.appending(path: "../Fixtures/store-0.1.sql"), encoding: .utf8)
        try queue.writeWithoutTransaction { try $0.execute(sql: sql) }
        // What later steps add is not in the file.
        let there = try queue.read { db in try StoreAudit.tables.filter { try db.tableExists($0.name) } }
        let kept = there.map { table -> (name: String, columns: [String]) in
            let rewritten = ["plan", "record", "packed"]
            let isPacked = ["arrivals", "archive"].contains(table.name) || table.name == "deliveries"
            return (table.name, table.columns.map(\.name).filter { !isPacked || !rewritten.contains($0) })
        }
        let before = try queue.read { db in try kept.map { try Self.rows(db, $0.name, $0.columns) } }
        let sequences = try queue.read { try Self.rows($0, "sqlite_sequence", ["name", "seq"]) }
        try Schema.migrator.migrate(queue, upTo: Schema.recordsStep)
        let after = try queue.read { db in try kept.map { try Self.rows(db, $0.name, $0.columns) } }
        for (table, (old, new)) in zip(kept, zip(before, after)) { #expect(old == new, "\(table.name)") }
        #expect(try queue.read { try Self.rows($0, "sqlite_sequence", ["name", "seq"]) } == sequences)
        try Schema.migrator.migrate(queue)
        try queue.read { db in
            let lax = try String.fetchAll(
                db,
                sql: """
                    SELECT name FROM pragma_table_list WHERE type = 'table' AND schema = 'main' AND NOT strict
                    AND name NOT LIKE 'sqlite_%' AND name NOT LIKE 'grdb_%'
                    """
            )
            #expect(lax.isEmpty, "\(lax)")
            try StoreAudit.run(db)
            // Ten recipients, of which the second five go to another backend.
            let plans = try Int.fetchAll(
                db,
                sql: "SELECT plan FROM deliveries WHERE coalesce(head, id) = 192605203405471744 ORDER BY id"
            )
            #expect(plans == [0, 0, 0, 0, 0, 1, 1, 1, 1, 1])
        }
    }

    @Test("keeps the state of each notification, and what is sent after it")
    func upgraded() async throws {
        try await TemporaryFolder.use { folder in
            let path = folder + "/store.db"
            try Self.make(path)
            let store = try SQLiteStore(SQLiteStoreOptions(path: path), time: ManualTime(Self.now))
            for (text, counts) in Self.notifications {
                let id = try #require(NotificationID(text))
                let stored = try #require(try await store.notification(id), "\(text)")
                #expect(stored.counts == counts, "\(text)")
                #expect(String(decoding: stored.content, as: UTF8.self).contains(#""content":{"title":"#), "\(text)")
                #expect(abs(stored.acceptedAt.timeIntervalSince(id.time)) < 1, "\(text)")
                #expect(try await store.deliveries(of: id, after: nil, limit: 20).count == counts.values.reduce(0, +))
            }
            let id = try #require(NotificationID("05B25D5XE0000"))
            let many = try #require(try await store.notification(id))
            #expect(many.record.plans == [DeliveryPlan(["ios"]), DeliveryPlan(["android"])])
            // What was claimed by the process that died may have been sent; what was only staged was not.
            let claims = try await store.claim(backend: "ios", limit: 100, wait: .zero)
            let ids = claims.map(\.notificationID.description)
            #expect(Set(ids).isSubset(of: ["05B25DZS80000", "05B25DZSJ0000", "05B25E1TA0000", "05B25DB9M0000"]))
            #expect(ids.count { $0 == "05B25DZSJ0000" } == 3 && ids.contains("05B25E1TA0000"))
            let sending = claims.filter { $0.notificationID.description == "05B25DZSJ0000" }
            #expect(sending.allSatisfy { $0.isRecovered })
            #expect(claims.allSatisfy { $0.plan == DeliveryPlan(["ios"]) })
            try await store.record(claims.map { Resolution(of: $0, .end(.acceptedByPlatform)) })
            #expect(try await store.unplannedCount(ofDevice: nil) == 1)
            #expect(try await store.outboxDepths().values.reduce(0) { $0 + $1.waiting } == 18)
            #expect(try await store.list(DeviceQuery(), after: nil, limit: 20).devices.count == 10)
            await store.close()
        }
    }

    @Test("A backup from before it is verified as such, restored and brought over; it is the way back")
    func backup() async throws {
        try await TemporaryFolder.use { folder in
            try Self.make(folder + "/old.db")
            let summary = try StoreSummary.verify(folder + "/old.db")
            #expect(summary.schema == "13 outbox entries" && summary.waiting == 10 && summary.devices == 10)
            try Self.make(folder + "/store.db")
            let opened = try SQLiteStore(SQLiteStoreOptions(path: folder + "/store.db"), time: ManualTime(Self.now))
            await opened.close()
            _ = try await StoreRestore(of: folder + "/old.db", to: folder + "/store.db").run(now: Self.now)
            #expect(try StoreSummary.verify(folder + "/store.db").schema == "13 outbox entries")
            let store = try SQLiteStore(SQLiteStoreOptions(path: folder + "/store.db"), time: ManualTime(Self.now))
            #expect(try await store.claim(backend: "ios", limit: 100, wait: .zero).count >= 5)
            await store.close()
        }
    }

    @Test("A value of another type in the old file is a sentence, and leaves the file as it was")
    func damaged() async throws {
        for (change, what) in [
            ("UPDATE deliveries SET content = 7 WHERE id = 192605207673176064", "deliveries.content"),
            ("UPDATE deliveries SET attempts = 'x' WHERE id = 192605207673176064", "attempts"),
            ("UPDATE archive SET packed = x'00'", "archive.packed"),
            ("UPDATE arrivals SET packed = x'00'", "arrivals.packed"),
            ("UPDATE outbox_entries SET body = x'FF'", "outbox_entries.body"),
            ("UPDATE devices SET tags = x'FF00'", "devices.tags"),
            ("UPDATE idempotency SET fingerprint = 'text'", "idempotency.fingerprint"),
        ] {
            try await TemporaryFolder.use { folder in
                let path = folder + "/store.db"
                try Self.make(path)
                let file = try DatabaseQueue(path: path)
                try await file.write { try $0.execute(sql: change) }
                try file.close()
                do throws(StoreError) {
                    let opened = try SQLiteStore(SQLiteStoreOptions(path: path), time: ManualTime(Self.now))
                    await opened.close()
                    Issue.record("\(change): it opens")
                } catch {
                    #expect("\(error)".contains(what) && "\(error)".contains("is damaged"), "\(error)")
                }
                let after = try DatabaseQueue(path: path)
                let steps = try await after.read { try Schema.migrator.appliedIdentifiers($0) }
                try after.close()
                #expect(!steps.contains(Schema.recordsStep))
            }
        }
    }
}
