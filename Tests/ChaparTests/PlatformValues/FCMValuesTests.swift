import ChaparCore
import ChaparFCM
import ChaparSandbox
import Testing

@Suite("Google's own values go through a gateway as their JSON", .timeLimit(.minutes(2)))
struct FCMValuesTests {
    @Test("An Android channel arrives as it was said")
    func arrives() async throws {
        let android = FCMAndroid(notification: FCMAndroidNotification(channelID: "orders"))
        let order = try PushNotification(title: "Order 42").with(android)
        try await PlatformValues.run { rig, client in
            try await PlatformValues.send(order, to: "phone-1", "android-firebase", client)
            let message = try #require(rig.sandbox.fcm.inbox.first?.message["android"])
            #expect(message["notification"]?["channel_id"] == "orders")
        }
    }
}
