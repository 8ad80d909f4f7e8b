import Foundation
import ChaparCore
import ChaparQueue
import ChaparTesting
import Testing

@testable import ChaparStorePostgres

/// Requests that share a transaction.
@Suite("A refusal of PostgreSQL fails one request alone", .serialized, .timeLimit(.minutes(2)))
struct RefusalTests {
    private func answer(_ new: NewNotification, _ store: PostgresStore) async -> Result<EnqueueResult, StoreError> {
        do throws(StoreError) {
            return .success(try await store.enqueue(EnqueueBatch([new])))
        } catch {
            return .failure(error)
        }
    }

    @Test(
        "A number that is there already fails its request; its neighbours are stored, and the first one stays claimed"
    )
    func number() async throws {
        try await Nodes.use { nodes in
            let store = nodes[0]
            let first = store.sample(to: [.user("ada")])
            _ = try await answer(first, store).get()
            let claims = try await store.claim(backend: "apns", limit: 1, wait: .seconds(5))
            #expect(claims.map(\.notificationID) == [first.id])
            // A worker waits, so that what is accepted is handed to it.
            let waiting = Task { try await store.claim(backend: "apns", limit: 9, wait: .seconds(5)) }
            try await eventually("the worker waits") { store.parked() == 1 }
            // They wait for the same transaction.
            let isBusy = AsyncSignal()
            let busy = Task {
                try await store.core.writer.session { (db) throws(PostgresError) in
                    isBusy.signal()
                    try db.perform("SELECT pg_sleep(1)")
                }
            }
            await isBusy.wait(after: .start, atMost: .seconds(10), SystemTime())
            async let again = answer(first, store)
            async let other = answer(store.sample(to: [.user("bob")]), store)
            let (refused, stored) = await (again, other)
            try await busy.value
            #expect(throws: StoreError.self) { try refused.get() }
            #expect(try stored.get() == .accepted)
            #expect(try await waiting.value.map(\.recipient) == [.user("bob")])
            #expect(store.core.inHand.lacking([claims[0].id: claims[0].lease]).isEmpty)
            try await store.end(claims)
            #expect(try await store.notification(first.id)?.counts == [.acceptedByPlatform: 1])
        }
    }
}
