import Foundation
import ChaparCore
import ChaparQueue
import ChaparStoreSQLite
import ChaparStoreContract
import ChaparTesting
import Testing

@testable import ChaparStorePostgres

@Suite("Copies from one store to another", .timeLimit(.minutes(3)))
struct CopyTests {
    @Test("A result that came days after its message keeps its day in the copy as well")
    func lateEnds() async throws {
        let options = try await TestServer.shared.options()
        let target = try await PostgresCopyStore.open(options, isTarget: true)
        let accepted = Date(timeIntervalSince1970: 1_764_000_000)
        let ends = [accepted + 60, accepted + 3 * 86_400, accepted + 2 * 86_400].map(\.millisecondsSince1970)
        let first = NotificationID(firstAt: accepted).rawValue
        let results = ends.enumerated().map { place, changed -> CopyRecord in
            [
                .integer(first + Int64(place)), .integer(first), .integer(1), .integer(changed), .integer(2),
                .text("user:a"), .null,
            ]
        }
        let mark = CopyMark(source: "test", kind: .results)
        try await target.write(.results, [results[0]], mark)
        try await target.write(.results, [results[1]], mark)
        try await target.write(.results, [results[2]], mark)
        await target.close()
        let connection = PostgresConnection(options, name: "look")
        let marks = try await connection.session { (db) throws(PostgresError) -> [String] in
            let rows = try db.run("SELECT name || ' ' || value FROM chapar.marks")
            return (0..<rows.count).compactMap { rows.text($0, 0) }
        }
        await connection.close()
        #expect(marks == ["ended_d\(Partitions.day(ends[0])) \(ends[1] + 1)"])
    }

    @Test("A copy to PostgreSQL and back, stopped again and again, answers like the first store")
    func both() async throws {
        try await Folder.use { folder in
            let filling = try await Self.filled(folder.file("a"))
            let options = try await TestServer.shared.options()
            var stops = 0
            // Each run has a connection of its own, as after a kill.
            func copy(_ make: () async throws -> StoreCopy) async throws -> [(kind: CopyKind, count: Int)] {
                while true {
                    var copy = try await make()
                    (copy.pageSize, copy.maximumPages) = (2, 5)
                    do {
                        let counts = try await copy.run()
                        await copy.close()
                        return counts
                    } catch is CancellationError {
                        stops += 1
                        await copy.close()
                    }
                }
            }
            let there = try await copy {
                StoreCopy(
                    from: try SQLiteCopyStore(folder.options("a"), isTarget: false),
                    to: try await PostgresCopyStore.open(options, isTarget: true)
                )
            }
            for (kind, count) in there where !Self.ofOneRow.contains(kind) {
                #expect(count > 0, "\(kind.rawValue) are there to be copied")
            }
            #expect(stops > 5)
            let back = try await copy {
                StoreCopy(
                    from: try await PostgresCopyStore.open(options, isTarget: false),
                    to: try SQLiteCopyStore(folder.options("b"), isTarget: true)
                )
            }
            #expect(there.map(\.count) == back.map(\.count))
            let wanted = try await Self.answers(folder.file("a"), filling)
            let found = try await Self.answers(folder.file("b"), filling)
            Self.compare(found, wanted)
            #expect(wanted.contains { $0.contains("replayed") })
            #expect(wanted.contains { $0.hasPrefix("claimed slow") && $0.contains("true true false") })
            // What the nodes get is the same, too; numbers go on.
            let store = try await PostgresStore.open(options)
            let answers = try await filling.answers(store)
            let put = try await store.put([Device(id: "next", createdAt: .now)], outbox: nil)
            #expect(put.first?.isNew == true)
            try await store.publish([[1]])
            await store.close()
            Self.compare(answers, wanted)
        }
    }

    @Test("From one file to another, and from one schema to another")
    func alike() async throws {
        try await Folder.use { folder in
            let filling = try await Self.filled(folder.file("a"))
            try await Self.copy(
                SQLiteCopyStore(folder.options("a"), isTarget: false),
                SQLiteCopyStore(folder.options("b"), isTarget: true)
            )
            let (first, second) = (try await TestServer.shared.options(), try await TestServer.shared.options())
            try await Self.copy(
                SQLiteCopyStore(folder.options("b"), isTarget: false),
                await PostgresCopyStore.open(first, isTarget: true)
            )
            try await Self.copy(
                await PostgresCopyStore.open(first, isTarget: false),
                await PostgresCopyStore.open(second, isTarget: true)
            )
            try await Self.copy(
                await PostgresCopyStore.open(second, isTarget: false),
                SQLiteCopyStore(folder.options("c"), isTarget: true)
            )
            let wanted = try await Self.answers(folder.file("a"), filling)
            Self.compare(try await Self.answers(folder.file("c"), filling), wanted)
        }
    }

    @Test("A store of PostgreSQL with what nodes left behind is copied: what they had claimed may have been sent")
    func ofNodes() async throws {
        try await Folder.use { folder in
            let options = try await TestServer.shared.options()
            var filling = StoreFilling()
            let store = try await PostgresStore.open(options)
            try await filling.fill(store)
            let used = try await PostgresCopyStore.open(options, isTarget: false)
            let error = await #expect(throws: StoreError.self) { try await used.requireUnused() }
            #expect(error.map { "\($0)" }?.contains("is in use by") == true)
            // The node dies with its claims and leases.
            await store.pauseKeeper()
            try await store.session(on: store.registry) { (db) throws(PostgresError) in
                try db.perform("UPDATE \(options.schema).nodes SET lease_until = now() - interval '1 second'")
            }
            let ahead = store.core.ahead
            #expect(try await ClockShift(store.core).begin(to: ahead + 5_000, on: store.core.keeper))
            let moving = await #expect(throws: StoreError.self) { try await used.requireUnused() }
            #expect(moving.map { "\($0)" }?.contains("since its clock was set") == true)
            #expect(try await !ClockShift(store.core).run())
            try await used.requireUnused()
            // The clock of both stores was not set.
            #expect(try await ClockShift(store.core).begin(to: ahead, on: store.core.keeper))
            #expect(try await !ClockShift(store.core).run())
            await used.close()
            #expect(try await store.number("SELECT count(*) FROM chapar.waiting WHERE owner > 0") == 1)
            #expect(try await store.number("SELECT count(*) FROM chapar.outbox_entries WHERE owner > 0") == 1)
            try await Self.copy(
                await PostgresCopyStore.open(options, isTarget: false),
                SQLiteCopyStore(folder.options("b"), isTarget: true)
            )
            await store.close()
            let found = try await Self.answers(folder.file("b"), filling)
            let again = try await PostgresStore.open(options)
            Self.compare(found, try await filling.answers(again))
            await again.close()
        }
    }

    @Test("A target that is not empty, another source, a missing source and a store in use are refused")
    func refusals() async throws {
        try await Folder.use { folder in
            _ = try await Self.filled(folder.file("a"))
            _ = try await Self.filled(folder.file("b"))
            let options = try await TestServer.shared.options()
            func sentence(_ body: () async throws -> Void) async -> String {
                do {
                    try await body()
                    return "it worked"
                } catch {
                    return "\(error)"
                }
            }
            let full = await sentence {
                try await Self.copy(
                    SQLiteCopyStore(folder.options("a"), isTarget: false),
                    SQLiteCopyStore(folder.options("b"), isTarget: true)
                )
            }
            #expect(full.contains("is not empty, it has flows"), "\(full)")
            let missing = await sentence { _ = try SQLiteCopyStore(folder.options("no"), isTarget: false) }
            #expect(missing.contains("there is no store"))
            let none = await sentence { _ = try await PostgresCopyStore.open(options, isTarget: false) }
            #expect(none.contains("there is no store"))
            let store = try SQLiteStore(folder.options("a"))
            let used = await sentence { _ = try SQLiteCopyStore(folder.options("a"), isTarget: false) }
            #expect(used.contains("in use by process"))
            await store.close()
            // Half of a copy: no gateway uses it, and no other source goes on with it.
            let half = await sentence {
                var copy = StoreCopy(
                    from: try SQLiteCopyStore(folder.options("a"), isTarget: false),
                    to: try await PostgresCopyStore.open(options, isTarget: true)
                )
                copy.maximumPages = 3
                do { _ = try await copy.run() } catch { await copy.close() }
                _ = try await PostgresStore.open(options)
            }
            #expect(half.contains("holds an unfinished copy"))
            let other = await sentence {
                try await Self.copy(
                    SQLiteCopyStore(folder.options("b"), isTarget: false),
                    await PostgresCopyStore.open(options, isTarget: true)
                )
            }
            #expect(other.contains("an unfinished copy of"))
        }
    }

    @Test(
        "A record that differs in the target is found and its kind named",
        arguments: [
            ("UPDATE waiting SET attempts = attempts + 1 WHERE id = (SELECT max(id) FROM waiting)", "waiting"),
            ("UPDATE results SET attempt_log = NULL WHERE id = (SELECT min(id) FROM results)", "results"),
            ("DELETE FROM awaited", "receipts"), ("UPDATE device_tokens SET environment = 'production'", "tokens"),
            ("UPDATE events SET texts[1] = 'x' WHERE first = 1", "events"),
            ("UPDATE notifications SET record = 'x' WHERE id = (SELECT min(id) FROM notifications)", "notifications"),
        ]
    )
    func differences(_ change: String, _ kind: String) async throws {
        try await Folder.use { folder in
            _ = try await Self.filled(folder.file("a"))
            let options = try await TestServer.shared.options()
            let copy = StoreCopy(
                from: try SQLiteCopyStore(folder.options("a"), isTarget: false),
                to: try await PostgresCopyStore.open(options, isTarget: true)
            )
            _ = try await copy.run()
            _ = try await copy.verify()
            let connection = PostgresConnection(options, name: "change")
            let schema = options.schema
            let tables = ["waiting", "results", "awaited", "device_tokens", "events", "notifications"]
            let statement = tables.reduce(change) { text, table in
                text.replacing(" \(table) SET", with: " \(schema).\(table) SET")
                    .replacing("FROM \(table)", with: "FROM \(schema).\(table)")
            }
            try await connection.session { (db) throws(PostgresError) in try db.perform(statement) }
            await connection.close()
            let error = await #expect(throws: CopyRefusal.self) { _ = try await copy.verify() }
            #expect(error.map { "\($0)" }?.contains("differs from its source, do not use it: \(kind):") == true)
            await copy.close()
        }
    }

    // MARK: Parts

    /// The kinds that the filling has none of: CopyColumnTests copies a row of each, there and back.
    private static let ofOneRow: Set<CopyKind> = [
        .searchKeys, .handled, .campaigns, .parts, .userLabels, .deviceLabels, .webhooks,
        .webhookMessages, .series,
    ]

    private static func filled(_ path: String) async throws -> StoreFilling {
        var filling = StoreFilling()
        let store = try SQLiteStore(SQLiteStoreOptions(path: path))
        try await filling.fill(store)
        await store.close()
        return filling
    }

    private static func answers(_ path: String, _ filling: StoreFilling) async throws -> [String] {
        let store = try SQLiteStore(SQLiteStoreOptions(path: path))
        let answers = try await filling.answers(store)
        await store.close()
        return answers
    }

    private static func copy(_ source: any CopyStore, _ target: any CopyStore) async throws {
        let copy = StoreCopy(from: source, to: target)
        do {
            _ = try await copy.run()
        } catch {
            await copy.close()
            throw error
        }
        await copy.close()
    }

    private static func compare(_ found: [String], _ wanted: [String]) {
        #expect(found.count == wanted.count)
        for (found, wanted) in zip(found, wanted) { #expect(found == wanted) }
    }

    struct Folder {
        let path: String

        func file(_ name: String) -> String { path + "/\(name).db" }
        func options(_ name: String) -> SQLiteStoreOptions { SQLiteStoreOptions(path: file(name)) }

        static func use(_ body: (Folder) async throws -> Void) async throws {
            let folder = FileManager.default.temporaryDirectory.appending(path: "chapar-copy-\(UUID().uuidString)")
            try FileManager.default.createDirectory(at: folder, withIntermediateDirectories: true)
            defer { try? FileManager.default.removeItem(at: folder) }
            try await body(Folder(path: folder.path))
        }
    }
}

extension StoreCopy {
    func close() async {
        await source.close()
        await target.close()
    }
}
