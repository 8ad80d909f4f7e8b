import Foundation
import ChaparComposition
import ChaparCore
import ChaparQueue
import ChaparStoreContract
import ChaparTesting
import Synchronization
import Testing

@testable import ChaparAPI
@testable import ChaparDelivery
@testable import ChaparGateway
@testable import ChaparServer

@Suite("The writer of outcomes", .timeLimit(.minutes(1)))
struct OutcomeWriterTests {
    private static func accept(
        _ count: Int,
        _ store: any NotificationStore,
        _ time: ManualTime
    ) async throws -> [NotificationID] {
        var ids: [NotificationID] = []
        for number in 0..<count {
            let id = store.makeID(recipients: 1)
            let new = NewNotification(
                id: id,
                notification: PushNotification(title: "t"),
                record: NotificationRecord(
                    content: Array("{}".utf8),
                    plans: [DeliveryPlan(["a"])],
                    acceptedAt: time.steady
                ),
                recipients: [.topic("t\(number)")],
                caller: "",
                expiresAt: time.steady + 3_600,
                event: [1]
            )
            _ = try await store.enqueue(EnqueueBatch([new]))
            ids.append(id)
        }
        return ids
    }

    @Test(
        "leaves a delivery whose row is damaged as it is, tries it once, and writes the others",
        arguments: [0, 3, 6]
    )
    func damaged(place: Int) async throws {
        let time = ManualTime()
        let store = HeldStore(time: time)
        let ids = try await Self.accept(7, store, time)
        let claims = try await store.claim(backend: "a", limit: 10, wait: .zero)
        store.damage([claims[place].id])
        let log = RecordedLog()
        let writer = OutcomeWriter(store: store, time: time, logger: log.logger)
        writer.append(claims.map { Resolution(of: $0, .end(.acceptedByPlatform)) })
        writer.finish()
        await writer.run()  // The clock stands still: a write that is tried again after a pause would never end.
        for (number, id) in ids.enumerated() {
            let state: DeliveryState = number == place ? .sending : .acceptedByPlatform
            #expect(try await store.notification(id)?.counts == [state: 1], "delivery \(number)")
        }
        #expect(store.records <= 7, "halves, down to the one")
        #expect(writer.backlog == 0)
        #expect(log.lines.count == 1, "\(log.lines)")
        await store.close()
    }

    @Test(
        "A write that fails the same way each time is tried once",
        arguments: [
            StoreError.closed, .refused("r"), .damaged("d"), .sealed("s"), .newer("n"), .failed("f"),
            .full(reason: "f", retryAfter: .seconds(1)),
        ]
    )
    func retry(error: StoreError) async throws {
        let time = ManualTime()
        let log = RecordedLog()
        let calls = Mutex(0)
        let passes = error == .failed("f") || error == .full(reason: "f", retryAfter: .seconds(1))
        async let done: Int? = StoreRetry(time: time, logger: log.logger).run("t") { () throws(StoreError) -> Int in
            let number = calls.withLock { calls in
                calls += 1
                return calls
            }
            if number == 1 { throw error }
            return number
        }
        if passes {
            while time.sleeping == 0 { await Task.yield() }
            time.advance(by: .seconds(1))
        }
        #expect(await done == (passes ? 2 : nil))
        #expect(log.lines.count == 1)
    }

    @Test("ends a delivery whose outcome the store refuses, and writes the others", arguments: [0, 3, 6])
    func refused(place: Int) async throws {
        let time = ManualTime()
        let store = MemoryStore(MemoryDatabase(time: time))
        let ids = try await Self.accept(7, store, time)
        let claims = try await store.claim(backend: "a", limit: 10, wait: .zero)
        let log = RecordedLog()
        let writer = OutcomeWriter(store: store, time: time, logger: log.logger)
        writer.append(
            claims.enumerated().map { number, claim in
                // A plan of one step has no fifth.
                Resolution(of: claim, number == place ? .retry(at: time.steady, step: 5) : .end(.acceptedByPlatform))
            }
        )
        writer.finish()
        await writer.run()
        for (number, id) in ids.enumerated() {
            let state: DeliveryState = number == place ? .unknown : .acceptedByPlatform
            #expect(try await store.notification(id)?.counts == [state: 1], "delivery \(number)")
        }
        #expect(writer.backlog == 0)
        #expect(log.lines.count == 1, "\(log.lines)")
        await store.close()
    }
}
