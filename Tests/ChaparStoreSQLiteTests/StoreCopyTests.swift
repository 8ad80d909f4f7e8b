import Foundation
import GRDB
import ChaparComposition
import ChaparCore
import ChaparQueue
import ChaparTesting
import Testing

@testable import ChaparStoreSQLite

@Suite("An embedded store as source and target of a copy", .timeLimit(.minutes(1)))
struct StoreCopyTests {
    @Test("Deliveries in the archive and those without a row are copied", arguments: [1, 300])
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
            let missing = Array(Schema.migrator.migrations.dropFirst(11))
            #expect(try StoreMigration.plan(path).map(\.name) == missing)
            #expect(try StoreMigration.plan(path).map(\.name) == missing, "nothing was changed")
            try StoreMigration.apply(SQLiteStoreOptions(path: path))
            #expect(try StoreMigration.plan(path).isEmpty)
            let newer = try DatabaseQueue(path: path)
            try await newer.write { try $0.execute(sql: "INSERT INTO grdb_migrations VALUES ('99 later')") }
            try newer.close()
            let error = #expect(throws: StoreError.self) { try StoreMigration.plan(path) }
            #expect(error.map { "\($0)" }?.contains("whose tables this version does not know (99 later)") == true)
        }
    }

    // MARK: Data that is never lost

    /// Where a field of a packed delivery is after the copy, and its value as SQL writes it.
    private typealias Fields = [String: (column: String, value: String)]

    private static let first = NotificationID(firstAt: Date(timeIntervalSince1970: 1_764_000_000)).rawValue

    private static let archived: Fields = [
        "id": ("id", "\(first)"), "flow": ("flow", "11"), "state": ("state", "3"),
        "expires": ("expires", "1764000000001"),
        "scheduled": ("scheduled", "1764000000003"), "recipient": ("recipient", "'user:ended'"),
        "caller": ("caller", "'shop'"), "record": ("record", quoted(record(["apns"], [1, 2], 1_764_000_000_002))),
        "attemptLog": ("attempt_log", "'{\"n\":1}'"),
    ]
    private static let staged: Fields = [
        "id": ("id", "\(first + 1)"), "flow": ("flow", "12"), "due": ("due", "1764000000011"),
        "expires": ("expires", "1764000000012"),
        "scheduled": ("scheduled", "1764000000014"), "recipient": ("recipient", "'user:staged'"),
        "caller": ("caller", "'web'"), "record": ("record", quoted(record(["fcm"], [3, 4], 1_764_000_000_013))),
    ]

    private static func record(_ backends: [String], _ content: [UInt8], _ accepted: Int64) -> [UInt8] {
        let acceptedAt = Date(millisecondsSince1970: accepted)
        return NotificationRecord(content: content, plans: [DeliveryPlan(backends)], acceptedAt: acceptedAt).encoded
    }

    /// Returns bytes as SQL writes them.
    private static func quoted(_ bytes: [UInt8]) -> String {
        let digits = bytes.map { byte in
            let text = String(byte, radix: 16, uppercase: true)
            return text.count == 1 ? "0" + text : text
        }
        return "X'" + digits.joined() + "'"
    }

    /// An ended delivery as the archive packs it.
    private static var archivedBytes: [UInt8] {
        let row = StagedRow.Row(expires: 1_764_000_000_001, scheduled: 1_764_000_000_003)
        return ArchivedDelivery.pack(
            id: first,
            flow: 11,
            state: .opened,
            row,
            recipient: Array("user:ended".utf8),
            caller: "shop",
            record: record(["apns"], [1, 2], 1_764_000_000_002),
            attemptLog: Array(#"{"n":1}"#.utf8)
        )
    }

    /// A delivery without a row, in the form of `StagedRowPacking`.
    private static var stagedBytes: [UInt8] {
        var bytes: [UInt8] = []
        for number in [first + 1, 12, 1_764_000_000_011, 1_764_000_000_012, 1_764_000_000_014] { bytes.pack(number) }
        for text in [Array("user:staged".utf8), Array("web".utf8), record(["fcm"], [3, 4], 1_764_000_000_013)] {
            bytes.pack(Int64(text.count))
            bytes += text
        }
        return bytes
    }

    @Test("Every field of a packed delivery, ended or without a row, has its value after a copy")
    func packed() async throws {
        func names(_ value: Any) -> Set<String> { Set(Mirror(reflecting: value).children.compactMap(\.label)) }
        let ended = try #require(ArchivedDelivery(Self.archivedBytes))
        #expect(names(ended) == Set(Self.archived.keys), "a field that this test does not fill")
        let staged = try #require(StagedRowPacking.unpack(Self.stagedBytes)?.first)
        #expect(names(staged) == Set(Self.staged.keys), "a field that this test does not fill")
        try await TemporaryFolder.use { folder in
            let source = try DatabaseQueue(path: folder + "/a.db")
            try Schema.migrator.migrate(source)
            try await source.write { db in
                try db.execute(
                    sql: """
                        INSERT INTO flows (number, backend, urgent, caller)
                        VALUES (11, 'apns', 0, 'shop'), (12, 'fcm', 0, 'web')
                        """
                )
                try db.execute(
                    sql: "INSERT INTO archive (first, last, at, packed) VALUES (?, ?, ?, ?)",
                    arguments: [
                        Self.first, Self.first, 1_764_000_000_004, Data(EventPacking.pack([Self.archivedBytes])),
                    ]
                )
                try db.execute(sql: "INSERT INTO arrivals (packed) VALUES (?)", arguments: [Data(Self.stagedBytes)])
            }
            try source.close()
            let copy = StoreCopy(
                from: try SQLiteCopyStore(SQLiteStoreOptions(path: folder + "/a.db"), isTarget: false),
                to: try SQLiteCopyStore(SQLiteStoreOptions(path: folder + "/b.db"), isTarget: true)
            )
            _ = try await copy.run()
            await copy.source.close()
            await copy.target.close()
            let target = try DatabaseQueue(path: folder + "/b.db")
            func value(_ column: String, of id: Int64) async throws -> String? {
                let sql = "SELECT quote(\(column)) FROM deliveries WHERE id = ?"
                return try await target.read { try String.fetchOne($0, sql: sql, arguments: [id]) }
            }
            for (id, fields) in [(Self.first, Self.archived), (Self.first + 1, Self.staged)] {
                for (field, place) in fields {
                    #expect(try await value(place.column, of: id) == place.value, "\(field)")
                }
            }
            #expect(try await value("changed", of: Self.first) == "1764000000004", "the end that the block has")
            try target.close()
        }
    }

    /// A target that loses a value of the header.
    private struct LosingStore: CopyStore {
        let store: any CopyStore
        let loss: @Sendable (inout CopyHeader) -> Void

        var name: String { store.name }
        func requireUnused() async throws(StoreError) { try await store.requireUnused() }
        func header() async throws(StoreError) -> CopyHeader { try await store.header() }
        func count(_ kind: CopyKind) async throws(StoreError) -> Int { try await store.count(kind) }
        func page(_ kind: CopyKind, after: [CopyValue]?, limit: Int) async throws(StoreError) -> CopyPage {
            try await store.page(kind, after: after, limit: limit)
        }
        func mark() async throws(StoreError) -> CopyMark? { try await store.mark() }
        func write(_ kind: CopyKind, _ records: [CopyRecord], _ mark: CopyMark) async throws(StoreError) {
            try await store.write(kind, records, mark)
        }
        func finish(_ header: CopyHeader, _ mark: CopyMark) async throws(StoreError) {
            var header = header
            loss(&header)
            try await store.finish(header, mark)
        }
        func release() async throws(StoreError) { try await store.release() }
        func close() async { await store.close() }
    }

    @Test("A value of the header that differs in the target is found and named")
    func header() async throws {
        try await TemporaryFolder.use { folder in
            let store = try SQLiteStore(SQLiteStoreOptions(path: folder + "/a.db"))
            try await store.publish([[1], [2]])
            await store.close()
            let losses: [(name: String, sentence: String, loss: @Sendable (inout CopyHeader) -> Void)] = [
                ("b", "the number of the last event", { $0.lastEvent += 1 }),
                ("c", "the lead of the wall clock", { $0.ahead += 1 }),
            ]
            for (name, sentence, loss) in losses {
                let target = try SQLiteCopyStore(SQLiteStoreOptions(path: folder + "/\(name).db"), isTarget: true)
                let copy = StoreCopy(
                    from: try SQLiteCopyStore(SQLiteStoreOptions(path: folder + "/a.db"), isTarget: false),
                    to: LosingStore(store: target, loss: loss)
                )
                let error = await #expect(throws: CopyRefusal.self) { _ = try await copy.run() }
                #expect(error.map { "\($0)" }?.contains("do not use it: \(sentence)") == true)
                await copy.source.close()
                await copy.target.close()
            }
        }
    }
}
