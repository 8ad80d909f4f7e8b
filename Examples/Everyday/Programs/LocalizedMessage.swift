import ChaparClient
import ChaparFCM

/// A message in the language of the person who gets it, with the key file of your project at Google.
func localizedMessage(_ my: GoogleSettings, phone: String, language: String) async throws {
    try await PushClient.run(logger: Logger(label: "shop")) { client in
        let android = try client.add(.fcm(serviceAccount: my.serviceAccount, common: my.common), as: "android")
        let message = PushNotification(
            title: .localized("Order 42", ["fa": "سفارش ۴۲"]),
            body: .localized("is on its way", ["fa": "در راه است"])
        )
        let outcome = await android.send(message, to: .token(phone, service: .androidFirebase), language: language)
        print(outcome.isAccepted ? "taken by Google" : "not taken: \(outcome)")
    }
}
