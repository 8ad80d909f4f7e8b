// What only one platform knows, as Swift values: a Live Activity on an iPhone, and how an Android phone shows an order.
import Foundation
import ChaparAPNs
import ChaparCore
import ChaparFCM
import ChaparHMS
import ChaparHTTP
import ChaparSandbox

enum PlatformExample {
    /// What the app's Live Activity shows: the same type as in the app.
    struct CourierState: Codable {
        var stopsLeft: Int
    }

    static func run(_ client: PushClient, _ sandbox: Sandbox) async throws {
        let apple = try client.add(as: "typed-apple") {
            try APNsBackend(options: FallbackExample.appleOptions(sandbox), context: $0)
        }
        let google = try client.add(as: "typed-google") {
            try FCMBackend(options: FallbackExample.googleOptions(sandbox), context: $0)
        }

        // The token is the one that the running activity has given the app.
        let update = try APNsLiveActivity.update(CourierState(stopsLeft: 3), at: Date())
        let change = try PushNotification().with(APNsPush(.liveActivity(update), priority: .considerate))
        let activity = "ac" + String(repeating: "0", count: 62)
        print("live activity:", words(await apple.send(change, to: .token(activity, service: .iOSAPNs))))

        let order = try PushNotification(title: "Order 42", body: "is on its way").with(
            APNsPush(.alert(APNsAlert(threadID: "orders", interruptionLevel: .timeSensitive))),
            FCMAndroid(
                notification: FCMAndroidNotification(title: .key("ORDER", arguments: ["42"]), channelID: "orders"),
                priority: .high
            ),
            HMSAndroid(notification: HMSAndroidNotification(click: .intent("app://orders/42")), category: "EXPRESS")
        )
        print("android:", words(await google.send(order, to: .token("firebase-43", service: .androidFirebase))))

        do {
            let timeless = APNsLiveActivity(.update, state: nil, at: Date())
            _ = try PushNotification().with(APNsPush(.liveActivity(timeless)))
        } catch {
            print("not sent:", error.faults[0].pointer, error.faults[0].detail)
        }
    }

    static func words(_ outcome: DeliveryOutcome) -> String {
        switch outcome {
        case .accepted: "taken"
        case .refused(let refusal): "refused, \(refusal.reason)"
        case .unknown(let unknown): "no answer, \(unknown.reason)"
        }
    }
}
