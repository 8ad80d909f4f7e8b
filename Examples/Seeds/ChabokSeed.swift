// Chabok's page on notifications on iOS, sample by sample: what an app does with what arrives, as the app's server does it. What
// Apple alone draws is named where it is left out.
import Foundation
import ChaparChabok
import ChaparChabokSDK
import ChaparCore
import ChaparHTTP
import ChaparSandbox

enum ChabokSeed {
    static func run(_ client: PushClient, _ sandbox: Sandbox) async throws {
        userNotificationCenter(
            didReceive: ["message": ["id": "m1", "content": "Left Tabriz", "data": ["order": 41]]],
            actionIdentifier: "com.apple.UNNotificationDefaultActionIdentifier"
        )
        userNotificationCenter(didReceive: ["aps": ["alert": "Hi"], "data": ["order": 42]], actionIdentifier: "map")
        olderSystems()
        override()
        try await notificationCenter(client, sandbox)
    }

    /// `userNotificationCenter(_:didReceive:withCompletionHandler:)`: no completion handler, since nothing waits for one.
    private static func userNotificationCenter(didReceive userInfo: JSONObject, actionIdentifier: String) {
        // let actionId = response.actionIdentifier; let payload = response.notification.request.content.userInfo
        let click = ChabokPayloadParser.parse(userInfo, actionIdentifier: actionIdentifier)
        // The page's `as!` ends the app when there is no data; here it is nil then.
        let messageData = click.messageData
        print("chabok:", click.source, click.action, messageData?.text ?? "no data")
    }

    /// `application(_:didReceive: UILocalNotification)` and `application(_:didReceiveRemoteNotification:)`: what an arrival means.
    ///
    /// Left out: handing them on to `manager`, which is the client library.
    private static func olderSystems() {
        let local = ChabokClickClassifier.classify(.local, osMajor: 9, appState: .foreground)
        let launched = ChabokClickClassifier.classify(.remote, osMajor: 9, appState: .terminated)
        print("chabok: a local one in the foreground is a click:", local.isClick)
        print("chabok: after a launch navigate in the remote callback:", launched.navigateHere)
    }

    /// `pushClientManagerUILocalNotificationDidReceivedMessage(_:)`: an override of everything that is shown.
    private static func override() {
        let policy = ChabokDisplayPolicy { message in
            ChabokDisplayPlan(
                body: message["content"]?.stringValue,  // alertBody = message.messageBody
                badge: 0,  // applicationIconBadgeNumber = 0
                timeZone: TimeZone.current.identifier,  // timeZone = NSTimeZone.local
                action: "OK",  // alertAction = "OK"
                userInfo: ["data": .object(message)],  // userInfo = ["data": message.toDict]
                rest: ["sound": "default"]  // soundName = UILocalNotificationDefaultSoundName
            )
            // Left out: UIApplication.shared.scheduleLocalNotification(localNotification), which draws.
        }
        let message: JSONObject = ["id": "m1", "content": "Left Tabriz", "channel": "default", "data": ["order": 41]]
        let plan = policy.plan(message, for: .init(now: Date()))
        // What comes back when it is tapped: the whole message under `data`, which the page's own sample would take for the data.
        let tapped = ChabokPayloadParser.parse(plan?.userInfo ?? [:], actionIdentifier: nil)
        print(
            "chabok: override:",
            plan?.body ?? "nothing",
            tapped.isLocalOverride,
            tapped.customData?.text ?? "no data"
        )
    }

    /// `NotificationCenter.default.addObserver(self, selector: …, name: kPushClient…, object: nil)`, with a closure in the place of
    /// a selector, which Swift has on Apple's systems only.
    private static func notificationCenter(_ client: PushClient, _ sandbox: Sandbox) async throws {
        let names = [
            kPushClientDidFailRegisterUserNotification, kPushClientDidReceivedMessageNotification,
            kPushClientDidRegisterUserNotification, kPushClientDidChangeServerConnectionStateNotification,
            kPushClientDidChangeServerReachabilityNotification,
        ]
        let observers = names.map { name in
            NotificationCenter.default.addObserver(forName: name, object: nil, queue: nil) { notification in
                print("chabok:", notification.name.rawValue)
            }
        }
        defer { for observer in observers { NotificationCenter.default.removeObserver(observer) } }

        let accessToken = Secret(sandbox.chabok.rules.accessTokens[ChabokSimulator.sandbox] ?? "")
        var options = ChabokOptions(appID: "shop", environment: .sandbox, accessToken: accessToken)
        // For Chabok itself leave these two lines out.
        options.base = try HTTPBaseURL(sandbox.chabok.url(ChabokSimulator.sandbox))
        options.common.trustPEM = sandbox.chabok.certificatePEM
        let chabok = try client.add(as: "chabok-seed") { try ChabokBackend(options: options, context: $0) }

        // New: somebody has to carry the backend's events to the center; the client library does so by itself.
        async let posting: Void = chabok.stream.post()
        _ = try await chabok.installations.register(
            DeviceRecord(id: "d-1", user: "989120001122", token: DeviceToken("9f3c", service: .iOSAPNs))
        )
        await chabok.shutdown(grace: .seconds(1))
        await posting

        // cancelLocalNotification, cancelAllLocalNotifications: a server cannot take back what a phone shows.
        // `ChabokMessages.requestCancellation` asks the app to.
    }
}
