import Foundation
import GRDB
import ChaparCore
import ChaparQueue
import ChaparTesting
import Testing

@testable import ChaparStoreSQLite

@Suite("The outbox", .timeLimit(.minutes(1)))
struct SQLiteOutboxTests {
    private func device(_ id: String) -> Device {
        let token = RegisteredToken(DeviceToken("t-\(id)", service: .iOSAPNs), registeredAt: .distantPast)
        return Device(id: id, tokens: [token], createdAt: .distantPast)
    }

    @Test("A full outbox refuses changes of devices, and nothing else, until some of it is planned")
    func bounded() async throws {
        try await TemporaryFolder.use { folder in
            let time = ManualTime()
            var options = SQLiteStoreOptions(path: folder + "/store.db")
            options.maximumUnplannedChanges = 3
            let store = try SQLiteStore(options, time: time)
            _ = try await store.put([device("a"), device("b")], outbox: time.now)
            _ = try await store.backfill(["a"], to: "crm", at: time.now)
            func refused(_ body: () async throws -> Void) async {
                do {
                    try await body()
                    Issue.record("the outbox is full")
                } catch StoreError.full(_, let retryAfter) {
                    #expect(retryAfter > .zero)
                } catch {
                    Issue.record("\(error)")
                }
            }
            await refused { _ = try await store.put([self.device("c")], outbox: time.now) }
            await refused { _ = try await store.patch("a", outbox: time.now) { $0.user = "u" } }
            await refused { _ = try await store.delete("a", outbox: time.now) }
            await refused { _ = try await store.backfill(["b"], to: "crm", at: time.now) }
            let behind = OutboxEntry(backend: "crm", device: "a", kind: .tags, at: time.now)
            await refused { try await store.enqueue([behind]) }
            #expect(try await store.device("c") == nil)
            #expect(try await store.device("a")?.user == nil, "nothing of it was done")
            #expect(await store.health().acceptsWork, "the store is well")

            try await store.accept(time)
            try await store.enqueue([OutboxEntry(backend: "crm", device: "x", kind: .tags, at: time.now)])
            _ = try await store.put([device("quiet")])
            let token = DeviceToken("t-b", service: .iOSAPNs)
            let refusal = TokenRefusal(token, asOf: time.now, at: time.now, backend: "ios", reason: "Gone")
            #expect(try await store.invalidate([refusal], outbox: time.now).count == 1)
            #expect(try await store.unplannedCount(ofDevice: nil) == 4)

            let changes = try await store.unplannedChanges(limit: 2, wait: .zero)
            try await store.record(changes.map { OutboxPlan(change: $0.number, []) })
            _ = try await store.put([device("c")], outbox: time.now)
            await store.close()
        }
    }

    @Test("How much waits is counted along with the operations, also of those from before")
    func depths() async throws {
        try await TemporaryFolder.use { folder in
            let options = SQLiteStoreOptions(path: folder + "/store.db")
            let store = try SQLiteStore(options)
            func make(_ backend: String, _ device: Int) -> OutboxEntry {
                OutboxEntry(backend: backend, device: "d\(device)", kind: .tags, at: .now)
            }
            try await store.enqueue((0..<30).map { make($0 < 20 ? "crm" : "other", $0) })
            let claims = try await store.claimEntries(of: "crm", limit: 5, lease: .seconds(9), wait: .zero)
            try await store.record(claims.map { OutboxResult($0, .end) })
            _ = try await store.cancelEntries(of: "other", device: nil)
            #expect(try await store.outboxDepths().mapValues(\.waiting) == ["crm": 15])
            await store.close()
            let again = try SQLiteStore(options)
            #expect(try await again.outboxDepths().mapValues(\.waiting) == ["crm": 15])
            await again.close()
        }
    }

    @Test("Entries from before the table had its name are claimed, counted and numbered on")
    func formerName() async throws {
        try await TemporaryFolder.use { folder in
            let options = SQLiteStoreOptions(path: folder + "/store.db")
            let queue = try DatabaseQueue(path: options.path)
            try Schema.migrator.migrate(queue, upTo: "12 column names")
            try await queue.write { db in
                for (number, device) in [(7, "a"), (8, "b"), (9, "c")] {
                    try db.execute(
                        sql: """
                            INSERT INTO operations (number, id, backend, device, kind, at, attempts, due, leased)
                            VALUES (?, ?, 'crm', ?, 'tags', 1000, 0, 0, ?)
                            """,
                        arguments: [number, UUID().uuidString, device, device == "b"]
                    )
                }
                try db.execute(sql: "DELETE FROM operations WHERE number = 9")
            }
            try queue.close()
            let store = try SQLiteStore(options)
            #expect(try await store.outboxDepths().mapValues(\.waiting) == ["crm": 2])
            try await store.enqueue([OutboxEntry(backend: "crm", device: "d", kind: .tags, at: .now)])
            #expect(try await store.outboxDepths().mapValues(\.waiting) == ["crm": 3])
            let claims = try await store.claimEntries(of: "crm", limit: 9, lease: .seconds(9), wait: .zero)
            #expect(claims.map(\.operation.device).sorted() == ["a", "b", "d"])
            #expect(claims.map(\.number).sorted() == [7, 8, 10], "no number is given twice")
            try await store.record(claims.map { OutboxResult($0, .end) })
            #expect(try await store.outboxDepths().isEmpty)
            await store.close()
        }
    }

    @Test("Changes acknowledged before a kill are in the outbox, with their device")
    func kill() async throws {
        try await TemporaryFolder.use { folder in
            var options = SQLiteStoreOptions(path: folder + "/store.db")
            options.checkpointPages = 0  // Never, so that the copies below are faithful.
            let store = try SQLiteStore(options)
            for round in 0..<6 {
                _ = try await store.put([device("a\(round)")], outbox: .now)
                if round == 3 {
                    let first = try await store.unplannedChanges(limit: 2, wait: .zero)
                    try await store.record(
                        first.map { change in
                            let device = change.content.device
                            let operation = OutboxEntry(backend: "crm", device: device, kind: .register, at: .now)
                            return OutboxPlan(change: change.number, [operation])
                        }
                    )
                }
                // The files as they are now are what the next process would find if this one were killed now.
                let copy = "\(folder)/copy\(round).db"
                for suffix in ["", "-wal"] {
                    try FileManager.default.copyItem(atPath: options.path + suffix, toPath: copy + suffix)
                }
                let next = try SQLiteStore(SQLiteStoreOptions(path: copy))
                let unplanned = try await next.unplannedChanges(limit: 100, wait: .zero).map(\.content.device)
                let claims = try await next.claimEntries(of: "crm", limit: 9, lease: .seconds(9), wait: .zero)
                #expect(claims.map(\.operation.device) + unplanned == (0...round).map { "a\($0)" })
                #expect(try await next.devices(unplanned).count == unplanned.count)
                await next.close()
            }
            await store.close()
        }
    }
}
