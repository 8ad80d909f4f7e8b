import Foundation
import ChaparCore
import ChaparComposition
import ChaparQueue
import ChaparTesting

@testable import ChaparStoreSQLite

extension SQLiteStore {
    /// Accepts a notification to so many recipients.
    @discardableResult
    func accept(_ time: ManualTime, recipients: Int = 1, name: String = "r", content: Int = 20) async throws
        -> NotificationID
    {
        let new = sample(time, recipients: recipients, name: name, content: content)
        _ = try await enqueue(EnqueueBatch([new]))
        return new.id
    }

    /// A notification to so many recipients.
    func sample(_ time: ManualTime, recipients: Int = 1, name: String = "r", content: Int = 20) -> NewNotification {
        NewNotification(
            id: makeID(recipients: recipients),
            notification: PushNotification(title: "Hello"),
            record: NotificationRecord(
                content: Array(repeating: UInt8(ascii: "c"), count: content),
                plans: [DeliveryPlan(["apns"])],
                acceptedAt: time.now
            ),
            recipients: (0..<recipients).map { .token(DeviceToken("\(name)\($0)", service: .iOSAPNs)) },
            caller: "shop",
            expiresAt: time.now + 3_600,
            event: [1]
        )
    }

    /// Claims what is due.
    func claimNow(_ limit: Int = 1_000) async throws -> [ClaimedDelivery] {
        try await claim(backend: "apns", limit: limit, wait: .zero)
    }
}

extension Flow {
    /// A flow of urgent deliveries; its maker keeps the queue.
    static func sample(_ number: Int64 = 1, in queue: BackendQueue, deliveries: Int) -> Flow {
        let budget = Budget(deliveries: deliveries, bytes: 1 << 20)
        let flow = Flow(number: number, in: queue, isUrgent: true, caller: "shop", budget: budget)
        queue.add(flow)
        return flow
    }
}
