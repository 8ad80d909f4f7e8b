// Code of an application that sends, and does not know through what: a client, a gateway, or a double in its test.
import ChaparCore

struct Shop {
    let push: any PushSender

    func ship(order: Int, to phone: Recipient) async throws {
        let message = PushNotification(title: .plain("Order \(order)"), body: "is on its way")
        try await push.post(message, to: phone, options: SendOptions(timeToLive: .seconds(3600)))
    }
}
