import ChaparAPNs
import ChaparClient

/// One message to many phones, with the outcomes as they come; a slow `forget` slows the sending down.
func manyRecipients(
    _ apple: PushAccount<APNsBackend>,
    phones: [String],
    forget: (DeviceToken) async throws -> Void
) async throws {
    try await PushClient.run(logger: Logger(label: "shop")) { client in
        let ios = try client.add(apple, as: "ios")
        let recipients = phones.map { Recipient.token($0, service: .iOSAPNs) }
        for await delivery in ios.deliveries(of: PushNotification(body: "Sale until midnight"), to: recipients) {
            if let dead = delivery.deadToken { try await forget(dead) }
        }
    }
}
