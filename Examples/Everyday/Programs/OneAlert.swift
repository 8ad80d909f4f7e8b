import ChaparAPNs
import ChaparClient

/// One alert to an iPhone, with the key of your team at Apple.
func oneAlert(_ my: AppleSettings, phone: String) async throws {
    try await PushClient.run(logger: Logger(label: "shop")) { client in
        let account = try PushAccount.apns(
            key: my.key,
            keyID: my.keyID,
            teamID: my.teamID,
            topic: my.topic,
            environment: .production,
            common: my.common
        )
        let ios = try client.add(account, as: "ios")
        print(try await ios.send(PushNotification(title: "Order 42"), to: .token(phone, service: .iOSAPNs)).get())
    }
}
