import ChaparClient

/// The code under test: it does not know through what it sends.
struct Shop {
    static let phone = "ab" + String(repeating: "0", count: 62)

    let push: any PushSender

    func ship(order: Int, to phone: Recipient) async throws {
        try await push.post(PushNotification(title: "Order \(order)", body: "is on its way"), to: phone)
    }
}
