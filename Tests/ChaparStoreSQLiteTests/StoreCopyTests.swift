import Foundation
import GRDB
import ChaparCore
import ChaparQueue
import ChaparTesting
import Testing

@testable import ChaparStoreSQLite

@Suite("An embedded store as source and target of a copy", .timeLimit(.minutes(1)))
struct StoreCopyTests {
    @Test("What is in the archive, and what has no row yet, is copied", arguments: [1, 300])
    func withoutRows(pageSize: Int) async throws {
        try await TemporaryFolder.use { folder in
            let time = ManualTime()
            var (ended, claimed, waiting): ([NotificationID], NotificationID?, NotificationID?) = ([], nil, nil)
            let store = try SQLiteStore(SQLiteStoreOptions(path: folder + "/a.db"), time: time)
            for number in 0..<40 { ended.append(try await store.accept(time, name: "e\(number)")) }
            try await store.record(
                try await store.claimNow().map { Resolution(of: $0, .end(.acceptedByPlatform), attempt: [123, 125]) }
            ) { _, _, _ in [] }
            // A receipt gives one of them a row, which counts before the archive.
            let receipt = ReceiptEntry(
                ReceiptAddress(delivery: ended[3].rawValue, backend: "apns"),
                state: .opened,
                logEntry: [123, 125]
            ) { _ in [4] }
            _ = try await store.record([receipt])
            claimed = try await store.accept(time, name: "claimed")
            #expect(try await store.claimNow().count == 1)
            waiting = try await store.accept(time, name: "waiting")
            let counts = try await store.read { db in
                try ["archive", "arrivals"].map { try Int.fetchOne(db, sql: "SELECT count(*) FROM \($0)") ?? 0 }
            }
            #expect(counts.allSatisfy { $0 > 0 }, "what the test is about")
            await store.close()

            let (from, to) = (
                try SQLiteCopyStore(SQLiteStoreOptions(path: folder + "/a.db"), isTarget: false),
                try SQLiteCopyStore(SQLiteStoreOptions(path: folder + "/b.db"), isTarget: true)
            )
            var copy = StoreCopy(from: from, to: to)
            copy.pageSize = pageSize
            let found = Dictionary(uniqueKeysWithValues: try await copy.run().map { ($0.kind, $0.count) })
            await from.close()
            await to.close()
            #expect(found[.notifications] == 42)
            #expect(found[.results] == 40)
            #expect(found[.waiting] == 2)

            let target = try SQLiteStore(SQLiteStoreOptions(path: folder + "/b.db"), time: time)
            for (place, id) in ended.enumerated() {
                let delivery = try #require(try await target.deliveries(of: id, after: nil, limit: 10).first)
                #expect(delivery.state == (place == 3 ? .opened : .acceptedByPlatform))
                #expect(delivery.recipient == .token(DeviceToken("e\(place)0", service: .iOSAPNs)))
                #expect(!delivery.attemptLog.isEmpty)
            }
            let claims = try await target.claimNow()
            #expect(claims.map(\.notificationID) == [try #require(claimed), try #require(waiting)])
            #expect(claims.map(\.isRecovered) == [true, false])
            await target.close()
        }
    }

    @Test("A copy whose task is cancelled stops after a page, and goes on when it is run again")
    func cancellation() async throws {
        try await TemporaryFolder.use { folder in
            let store = try SQLiteStore(SQLiteStoreOptions(path: folder + "/a.db"))
            for number in 0..<20 { try await store.saveState("name \(number)", [UInt8(number)]) }
            await store.close()
            var copy = StoreCopy(
                from: try SQLiteCopyStore(SQLiteStoreOptions(path: folder + "/a.db"), isTarget: false),
                to: try SQLiteCopyStore(SQLiteStoreOptions(path: folder + "/b.db"), isTarget: true)
            )
            copy.pageSize = 3
            let stopped = Task { [copy] in
                try await copy.run { if $0.records > 6 { withUnsafeCurrentTask { $0?.cancel() } } }
            }
            await #expect(throws: CancellationError.self) { try await stopped.value }
            #expect(try await copy.target.mark()?.kind == .state)
            let counts = try await copy.run()
            #expect(counts.first { $0.kind == .state }?.count == 20)
            await copy.source.close()
            await copy.target.close()
        }
    }

    @Test("A plan of an older file names the steps that it lacks and changes nothing; a newer file is refused")
    func plan() async throws {
        try await TemporaryFolder.use { folder in
            let path = folder + "/store.db"
            #expect(try StoreMigration.plan(path).map(\.name) == Schema.migrator.migrations)
            #expect(!FileManager.default.fileExists(atPath: path))
            let file = try DatabaseQueue(path: path)
            try Schema.migrator.migrate(file, upTo: "11 token kinds")
            try file.close()
            #expect(try StoreMigration.plan(path).map(\.name) == ["12 column names", "13 outbox entries"])
            #expect(try StoreMigration.plan(path).count == 2, "nothing was changed")
            try StoreMigration.apply(SQLiteStoreOptions(path: path))
            #expect(try StoreMigration.plan(path).isEmpty)
            let newer = try DatabaseQueue(path: path)
            try await newer.write { try $0.execute(sql: "INSERT INTO grdb_migrations VALUES ('99 later')") }
            try newer.close()
            let error = #expect(throws: StoreError.self) { try StoreMigration.plan(path) }
            #expect(error.map { "\($0)" }?.contains("whose tables this version does not know (99 later)") == true)
        }
    }

    /// Which kinds a table's rows become.
    private static let kinds: [String: [CopyKind]] = [
        "deliveries": [.notifications, .waiting, .results], "flows": [.flows], "moves": [.moves],
        "awaited": [.receipts],
        "events": [.events], "idempotency": [.keys], "state": [.state], "devices": [.devices],
        "device_tokens": [.tokens], "device_tags": [.tags], "outbox_changes": [.changes], "outbox_entries": [.entries],
    ]
    /// Columns that are in a field of another name.
    private static let renamed = [
        "deliveries.head": "notification", "deliveries.replay": "flags", "deliveries.mark": "flags",
        "events.packed": "texts",
        "devices.user": "user_key", "device_tokens.service": "slot", "outbox_entries.user": "user_key",
    ]
    /// Tables and columns that are not copied, with the reason.
    private static let left = [
        "deliveries.padding": "room for the first attempt", "events.count": "the number of texts",
        "outbox_entries.leased": "nothing is leased; what a platform asked for shows in due",
        "archive": "its deliveries are notifications and results",
        "arrivals": "its deliveries have rows when a file is opened", "leases": "nothing is claimed",
        "marks": "the clock is in the header, what else there is belongs to the process",
        "outbox_depths": "triggers count", "grdb_migrations": "the target has its own",
    ]

    @Test("Every column of every table is in a field of a copied record, or has a reason why not")
    func columns() async throws {
        try await TemporaryFolder.use { folder in
            let file = try DatabaseQueue(path: folder + "/store.db")
            try Schema.migrator.migrate(file)
            let sql = "SELECT name FROM sqlite_master WHERE type = 'table' AND name NOT LIKE 'sqlite_%'"
            let tables = try await file.read { db in
                try String.fetchAll(db, sql: sql).map { ($0, try db.columns(in: $0).map(\.name)) }
            }
            #expect(tables.count > 15)
            for (table, columns) in tables where Self.left[table] == nil {
                let kinds = try #require(Self.kinds[table], "\(table) is copied by no kind")
                let fields = Set(kinds.flatMap(\.fields).map(\.name))
                for column in columns where Self.left["\(table).\(column)"] == nil {
                    let field = Self.renamed["\(table).\(column)"] ?? column
                    #expect(
                        fields.contains(field) || table == "deliveries" && field == "plan" && fields.contains("plans"),
                        "CopyKind has no field for \(table).\(column): chapar store copy would lose it and say nothing"
                    )
                }
            }
        }
    }
}
