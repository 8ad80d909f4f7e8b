import ChaparAPNs
import ChaparClient
import ChaparFCM

/// The iPhone first, then the Android phone, then a text message; a platform that fails is left out for a while.
func fallbackChain(
    _ apple: PushAccount<APNsBackend>,
    _ google: PushAccount<FCMBackend>,
    _ sms: PushAccount<some PushBackend>,
    devices: RecipientResolver
) async throws {
    try await PushClient.run(logger: Logger(label: "shop")) { client in
        try client.add(apple.breaking(), as: "ios")
        try client.add(google.breaking(), as: "android")
        try client.add(sms, as: "sms")
        let plan = DeliveryPlan.firstOf("ios", "android", "sms").movingOn(after: .seconds(10)).onUnknown(.wait)
        let all = try client.add(plan, as: "all", retry: RetryPolicy(maximumAttempts: 4), resolver: devices)
        print("ada:", await all.send(PushNotification(body: "Your code is 1234"), to: .device("ada")).isAccepted)
    }
}
