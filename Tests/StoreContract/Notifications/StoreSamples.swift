import Foundation
public import ChaparCore
import ChaparComposition
public import ChaparQueue
import ChaparTesting

extension Recipient {
    /// Makes a recipient whose device token is easy to read.
    static func sample(_ name: some CustomStringConvertible) -> Recipient {
        .token(DeviceToken("token-\(name)", service: .iOSAPNs))
    }
}

extension NewNotification {
    /// Makes a notification as the gateway would.
    static func sample(
        _ store: any NotificationStore,
        _ time: ManualTime,
        to recipients: [Recipient] = [.sample("a")],
        backends: [String] = ["apns"],
        title: String = "Hello",
        due: Date? = nil,
        timeToLive: Duration = .seconds(3_600),
        collapseID: String? = nil,
        priority: PushNotification.Priority = .high,
        caller: String = "shop"
    ) -> NewNotification {
        let id = store.makeID(recipients: recipients.count)
        return NewNotification(
            id: id,
            notification: PushNotification(title: .plain(title), priority: priority, collapseID: collapseID),
            record: NotificationRecord(
                content: Array(#"{"title":"\#(title)"}"#.utf8),
                plans: [DeliveryPlan(backends)],
                acceptedAt: store.time.steady
            ),
            recipients: recipients,
            caller: caller,
            dueAt: due,
            expiresAt: store.time.steady + timeToLive.inSeconds,
            collapseID: collapseID,
            event: Array("accepted \(id)".utf8),
            replacementEvent: { Array("replaced \($0.id) \($1.rawValue)".utf8) }
        )
    }
}

extension NotificationStore {
    /// Accepts one notification and returns its id.
    func accept(_ notification: NewNotification) async throws -> NotificationID {
        let result = try await enqueue(EnqueueBatch([notification]))
        try expect(result, is: .accepted, "enqueue without a key")
        return notification.id
    }

    /// Claims without waiting.
    func claimNow(_ backend: String = "apns", _ limit: Int = 100) async throws -> [ClaimedDelivery] {
        try await claim(backend: backend, limit: limit, wait: .zero)
    }

    /// Ends deliveries in a state.
    func end(_ deliveries: [ClaimedDelivery], _ state: DeliveryState = .acceptedByPlatform) async throws {
        try await record(
            deliveries.map {
                Resolution(
                    of: $0,
                    .end(state),
                    attempt: Array(#"{"outcome":"\#(state.rawValue)"}"#.utf8),
                    event: Array("ended \($0.id)".utf8)
                )
            }
        )
    }

    /// Cancels a caller's waiting deliveries, call by call; returns the sum of all calls.
    func cancelAll(of caller: String, after first: CallerCancellation? = nil) async throws -> CallerCancellation {
        var total = first ?? CallerCancellation(cancelled: 0)
        var parts = 0
        while first == nil && parts == 0 || total.next != nil {
            let part = try await cancel(caller: caller, from: total.next) { Array("\($1.rawValue) \($0.id)".utf8) }
            total.cancelled += part.cancelled
            total.inFlight += part.inFlight
            total.next = part.next
            parts += 1
            try expect(parts < 1_000, "a cancellation comes to an end")
        }
        return total
    }

    /// Returns the number of a notification's deliveries in each state.
    func counts(_ id: NotificationID) async throws -> [DeliveryState: Int] {
        guard let found = try await notification(id) else {
            throw ConformanceFailure("the notification \(id) is gone")
        }
        return found.counts
    }

    /// Returns the events as text.
    func eventTexts(after: Int64 = 0) async throws -> [String] {
        try await events(after: after, limit: 10_000, wait: .zero).map { String(decoding: $0.json, as: UTF8.self) }
    }
}

extension NotificationStore {
    /// Records resolutions in a test: the event of an end that the store decided reads `replaced 17 unknown`.
    public func record(_ resolutions: [Resolution]) async throws(StoreError) {
        try await record(resolutions) { Array("\($2.rawValue) \($0.id) \($1.rawValue)".utf8) }
    }
}
