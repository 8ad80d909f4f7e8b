import PushCore
import PushQueue
import PushTesting
import Synchronization
import Testing

@testable import PushStorePostgres

@Suite("PostgreSQL counts of what waits", .serialized, .timeLimit(.minutes(2)))
struct DepthTests {
    @Test("A count that took too long is ended, and not tried again at once")
    func slow() async throws {
        try await Nodes.use { nodes in
            let store = nodes[0]
            try await store.accept(to: [.user("ada")])
            // The statement is prepared now, which a lock would hold up before the limit holds.
            #expect(try await store.depths()["apns"]?.waiting == 1)
            store.core.countedDepths.withLock { $0 = nil }
            let other = PostgresConnection(store.options, name: "other")
            try await other.session { (db) throws(PostgresError) in
                try db.perform("BEGIN; LOCK TABLE chapar.waiting IN ACCESS EXCLUSIVE MODE")
            }
            await #expect(throws: StoreError.self) { try await store.depths(within: .milliseconds(300)) }
            try await other.session { (db) throws(PostgresError) in try db.perform("ROLLBACK") }
            await other.close()
            let known = try #require(store.core.countedDepths.withLock { $0 })
            #expect(.now + .milliseconds(300) < known.until)
            await #expect(throws: StoreError.self) { try await store.depths() }
            store.core.countedDepths.withLock { $0 = nil }
            #expect(try await store.depths()["apns"]?.waiting == 1)
        }
    }
}
