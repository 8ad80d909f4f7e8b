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
        let ios = NamedBackend("ios", try client.add(apple, as: "ios").breaking())
        let android = NamedBackend("android", try client.add(google, as: "android").breaking())
        let text = NamedBackend("sms", try client.add(sms, as: "sms"))
        let retry = RetryPolicy(maximumAttempts: 4)
        let anywhere = FallbackBackend([ios, android, text], onUnknown: .wait, retry: retry, resolver: devices)
        print("ada:", await anywhere.send(PushNotification(body: "Your code is 1234"), to: .device("ada")).isAccepted)
    }
}
