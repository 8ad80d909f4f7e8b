import ChaparCore
import ChaparHMS
import ChaparSandbox
import Testing

@Suite("Huawei's own values go through a gateway as their JSON", .timeLimit(.minutes(2)))
struct HMSValuesTests {
    @Test("A category arrives as it was said")
    func arrives() async throws {
        let order = try PushNotification(title: "Order 42").with(HMSAndroid(category: "EXPRESS"))
        try await PlatformValues.run { rig, client in
            try await PlatformValues.send(order, to: "IQAAAACy0sample1", "android-huawei", client)
            let message = try #require(rig.sandbox.hms.inbox().first).message
            #expect(try JSONValue(parsing: Array(message.utf8))["android"]?["category"] == "EXPRESS")
        }
    }
}
