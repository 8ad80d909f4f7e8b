import Foundation
import PushComposition
import PushCore
import PushQueue
import PushTesting
import Testing

@testable import PushGateway

@Suite("What writes outcomes", .timeLimit(.minutes(1)))
struct OutcomeWriterTests {
    @Test("ends a delivery whose outcome the store refuses, and writes the others", arguments: [0, 3, 6])
    func refused(place: Int) async throws {
        let time = ManualTime()
        let database = MemoryDatabase(time: time)
        let store = MemoryStore(database)
        var ids: [NotificationID] = []
        for number in 0..<7 {
            let id = store.makeID(recipients: 1)
            let new = NewNotification(
                id: id,
                notification: PushNotification(title: "t"),
                content: Array("{}".utf8),
                recipients: [.topic("t\(number)")],
                plan: DeliveryPlan(["a"]),
                caller: "",
                acceptedAt: time.steady,
                expiresAt: time.steady + 3_600,
                event: [1]
            )
            _ = try await store.enqueue(EnqueueBatch([new]))
            ids.append(id)
        }
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
