// What the API does over HTTP, asked of the gateway of one's own program.
import ChaparCore
import ChaparGateway
import ChaparQueue

enum Operating {
    /// Forgets devices whose messages fail, from the event after the one that was handled last.
    static func follow(_ gateway: Gateway, after lastHandled: Int64, forget: (Recipient) async throws -> Void)
        async throws
    {
        for try await event in gateway.events(after: lastHandled) {  // Each change once; keep `event.number`.
            if event.state == .failed, let phone = event.recipient { try await forget(phone) }
        }
    }

    /// Looks after one message and one backend.
    static func operate(_ gateway: Gateway, _ id: NotificationID, _ token: DeviceToken) async throws {
        try await gateway.register(DeviceRegistration("phone-1", user: "ada", tokens: [.init(token)]))
        for try await message in gateway.deliveries(of: id) { print(message.recipient, message.state) }
        let cancelled = try await gateway.cancel(id).cancelled  // What was not sent.
        let due = try await gateway.retry("ios").deliveries  // What waited for another attempt.
        print(cancelled, due)
    }
}
