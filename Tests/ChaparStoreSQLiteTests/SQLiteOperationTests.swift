import Foundation
import GRDB
import ChaparCore
import ChaparQueue
import ChaparStoreContract
import Testing

@testable import ChaparStoreSQLite

@Suite("Operations on devices", .timeLimit(.minutes(1)))
struct SQLiteOperationTests {
    @Test("The embedded store keeps the contract", arguments: OutboxStoreConformance.cases)
    func contract(_ check: OutboxStoreConformanceCase) async throws {
        try await TemporaryFolder.use { folder in
            try await check.run { time in
                try SQLiteStore(SQLiteStoreOptions(path: folder + "/store.db"), time: time)
            } close: { store in
                await (store as? SQLiteStore)?.close()
            }
        }
    }

    @Test("The registry in memory keeps it too", arguments: OutboxStoreConformance.cases.filter { !$0.needsDisk })
    func contractInMemory(_ check: OutboxStoreConformanceCase) async throws {
        try await check.run { MemoryDeviceStore(time: $0) }
    }

    @Test("A store that closes ends those who wait for work")
    func closing() async throws {
        try await TemporaryFolder.use { folder in
            let store = try SQLiteStore(SQLiteStoreOptions(path: folder + "/store.db"))
            let claim = Task {
                try await store.claimEntries(of: "crm", limit: 1, lease: .seconds(9), wait: .seconds(3_600))
            }
            await store.close()
            await #expect(throws: StoreError.closed) { try await claim.value }
        }
    }

    @Test("Removing many goes in steps, and a line that grows meanwhile is claimable at its end")
    func removal() async throws {
        try await TemporaryFolder.use { folder in
            let store = try SQLiteStore(SQLiteStoreOptions(path: folder + "/store.db"))
            let count = OutboxEntryTable.largestRemoval + 500
            func make(_ kind: OutboxEntry.Kind) -> OutboxEntry {
                OutboxEntry(backend: "crm", device: "a", kind: kind, at: .now)
            }
            try await store.enqueue((0..<count).map { _ in make(.tags) })
            async let removed = store.cancelEntries(of: "crm", device: nil)
            try await store.enqueue([make(.event)])
            let total = try await removed
            #expect(total == count || total == count + 1)
            let left = try await store.claimEntries(of: "crm", limit: 5, lease: .seconds(9), wait: .zero)
            #expect(left.count == count + 1 - total)
            await store.close()
        }
    }

    @Test(
        "Statements of each operation use an index and sort nothing",
        arguments: [
            "SELECT kind FROM outbox_entries INDEXED BY outbox_entries_of_line WHERE backend = 'a' AND device = 'b' ORDER BY number DESC LIMIT 1",
            """
            SELECT number FROM outbox_entries INDEXED BY outbox_entries_due
            WHERE backend = 'a' AND due IS NOT NULL AND due <= 5 ORDER BY due, number LIMIT 9
            """,
            "SELECT due FROM outbox_entries INDEXED BY outbox_entries_due WHERE backend = 'a' AND due IS NOT NULL ORDER BY due LIMIT 1",
            """
            UPDATE outbox_entries SET due = 1 WHERE due IS NULL AND number = (SELECT min(number) FROM outbox_entries
            INDEXED BY outbox_entries_of_line WHERE backend = 'a' AND device = 'b')
            """,
            """
            SELECT number, device FROM outbox_entries INDEXED BY outbox_entries_of_line
            WHERE backend = 'a' AND number <= 5 ORDER BY device, number LIMIT 9
            """,
            "SELECT number FROM outbox_entries INDEXED BY outbox_entries_of_device WHERE device = 'a' ORDER BY number LIMIT 9",
            "SELECT at FROM outbox_entries INDEXED BY outbox_entries_oldest WHERE backend = 'a' ORDER BY number LIMIT 1",
            "SELECT 1 FROM outbox_changes WHERE device = 'a' LIMIT 1",
        ]
    )
    func plans(sql: String) throws {
        let queue = try DatabaseQueue()
        try Schema.migrator.migrate(queue)
        let plan = try queue.write { db in
            try Row.fetchAll(db, sql: "EXPLAIN QUERY PLAN " + sql).map { $0["detail"] as String }
        }
        #expect(plan.allSatisfy { $0.hasPrefix("SEARCH") || $0.hasPrefix("SCALAR SUBQUERY") }, "\(plan)")
    }
}
