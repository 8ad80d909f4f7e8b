// What goes wrong, made to happen: a token that says what comes back, a platform that stumbles, one that is down.
import ChaparAPNs
import ChaparCore
import ChaparComposition
import ChaparFCM
import ChaparHTTP
import ChaparSandbox

enum SimulatorExample {
    static func run(_ client: PushClient, _ sandbox: Sandbox) async throws {
        let ios = try client.add(as: "lossy") {
            try APNsBackend(options: FallbackExample.appleOptions(sandbox), context: $0)
        }
        let hello = PushNotification(body: "Hello")
        let phone = Recipient.token("ab" + String(repeating: "0", count: 62), service: .iOSAPNs)

        // Tokens that begin with a magic word say themselves what comes back.
        let gone = APNsMagicToken.unregistered.rawValue + String(repeating: "0", count: 60)
        print("magic:", words(await ios.send(hello, to: .token(gone, service: .iOSAPNs))))

        // A fault is for the requests that it matches: here the next one, whoever it is for.
        let busy = FaultAnswer(503, "ServiceUnavailable", retryAfter: 7)
        sandbox.apns.add(FaultRule(name: "busy", match: FaultMatch(count: 1), .answer(busy)))
        print("fault:", words(await ios.send(hello, to: phone)))

        // The answer is lost after the push was taken: it is in the inbox, and the sender cannot know.
        sandbox.apns.add(FaultRule.trouble(.lostAnswer))
        print("lost:", words(await ios.send(hello, to: phone)))
        sandbox.apns.removeRules()
        let last = sandbox.apns.inbox.last
        print("inbox:", last.map { String(decoding: $0.payload, as: UTF8.self) } ?? "empty")

        try await platformDown(client, sandbox)
    }

    private static func words(_ outcome: DeliveryOutcome) -> String { PlatformExample.words(outcome) }

    /// Nothing answers at Apple's address, and the message goes on to Google when the request's time is up.
    private static func platformDown(_ client: PushClient, _ sandbox: Sandbox) async throws {
        sandbox.apns.add(FaultRule.refuseConnections())
        var options = try FallbackExample.appleOptions(sandbox)
        options.common.timeout = .seconds(2)  // Default: 20. No connection in this time: the next backend's turn.
        let apple = try client.add(as: "unreachable") { [options] in try APNsBackend(options: options, context: $0) }
        let google = try client.add(as: "spare") {
            try FCMBackend(options: FallbackExample.googleOptions(sandbox), context: $0)
        }
        let tokens = [
            DeviceToken("ab" + String(repeating: "0", count: 62), service: .iOSAPNs),
            DeviceToken("firebase-42", service: .iOSFirebase),
        ]
        let chain = try client.add(as: "both") { _ in
            try PlanBackend(
                .firstOf("apple", "google"),
                [NamedBackend("apple", apple.breaking()), NamedBackend("google", google)],
                resolver: RecipientResolver { _ in ["iphone": ResolvedDevice(tokens)] },
                observe: { entry in print("down: \(entry.backend):", FallbackExample.words(entry.event)) }
            )
        }
        print("down:", words(await chain.send(PushNotification(body: "Hello"), to: .device("iphone"))))
        sandbox.apns.removeRules()
    }
}
