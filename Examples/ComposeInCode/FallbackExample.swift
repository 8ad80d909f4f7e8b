// Three platforms as one: what Apple cannot reach any more goes through Firebase, what Google cannot reach through Huawei.
import ChaparAPNs
import ChaparCore
import ChaparComposition
import ChaparFCM
import ChaparHMS
import ChaparHTTP
import ChaparSandbox

enum FallbackExample {
    static func run(_ client: PushClient, _ sandbox: Sandbox) async throws {
        let apple = try client.add(as: "apple") { try APNsBackend(options: appleOptions(sandbox), context: $0) }
        let google = try client.add(as: "google") { try FCMBackend(options: googleOptions(sandbox), context: $0) }
        let huawei = try client.add(as: "huawei") { try HMSBackend(options: huaweiOptions(sandbox), context: $0) }

        // Each platform gets the token of its own service, never another's. The simulators call the first ones dead.
        let devices: [String: ResolvedDevice] = [
            "iphone": ResolvedDevice(
                [
                    DeviceToken("0410" + String(repeating: "0", count: 60), service: .iOSAPNs),
                    DeviceToken("firebase-42", service: .iOSFirebase),
                ],
                language: "fa-IR"
            ),
            "phone": [
                DeviceToken("sim-unregistered-1", service: .androidFirebase),
                DeviceToken("huawei-42", service: .androidHuawei),
            ],
        ]
        let chain = try client.add(as: "everywhere") { _ in
            try PlanBackend(
                .firstOf("apple", "google", "huawei").onUnknown(.wait),
                [
                    NamedBackend("apple", apple.breaking().bounded(to: 1_000)),
                    NamedBackend("google", google.paced(.perMinute(600_000, rampUp: .seconds(60)))),
                    NamedBackend("huawei", huawei),
                ],
                resolver: RecipientResolver { ids in devices.filter { ids.contains($0.key) } },
                observe: { entry in print("\(entry.backend):", words(entry.event)) }
            )
        }

        let notification = PushNotification(
            title: .localized("Order 42", ["fa": "سفارش ۴۲"]),
            body: "is on its way",
            sound: "default",
            data: ["order": "42"],
            collapseID: "order-42"
        )
        let outcomes = await chain.send(notification, to: [.device("iphone"), .device("phone")])
        for outcome in outcomes { print("at last:", words(.answered(outcome))) }
        let shown = sandbox.fcm.inbox.last?.message["notification"]?["title"]?.stringValue
        print("the iphone shows:", shown ?? "nothing")  // سفارش ۴۲: its person reads Persian.
    }

    static func words(_ event: PlanEvent) -> String {
        switch event {
        case .answered(.accepted): "taken"
        case .answered(.refused(let refusal)): "refused, \(refusal.reason)"
        case .answered(.unknown(let unknown)): "no answer, \(unknown.reason)"
        case .skipped(let reason): "skipped, \(reason)"
        case .waited(let state): state.map { "the platform says \($0.rawValue)" } ?? "the platform says nothing"
        }
    }

    // For the platforms themselves leave the lines about the simulators out, and read the keys from a safe place.

    static func appleOptions(_ sandbox: Sandbox) throws -> APNsOptions {
        let key = try APNsAuthKey(pem: Secret(sandbox.apns.key.pem))
        let (keyID, teamID) = (sandbox.apns.key.keyID, sandbox.apns.key.teamID)
        var options = APNsOptions(credential: .key(key, keyID: keyID, teamID: teamID), topic: Sandbox.topic)
        try options.common.simulate(sandbox.apns.url(.production), sandbox)
        return options
    }

    static func googleOptions(_ sandbox: Sandbox) throws -> FCMOptions {
        var options = FCMOptions(serviceAccount: try GoogleServiceAccount(json: Secret(sandbox.fcm.credentialsFile)))
        try options.common.simulate(sandbox.fcm.url(.send), sandbox)
        return options
    }

    private static func huaweiOptions(_ sandbox: Sandbox) throws -> HMSOptions {
        let app = sandbox.hms.app
        var options = HMSOptions(
            credential: .client(id: app.appID, secret: Secret(app.clientSecret)),
            api: .v1(appID: app.appID)
        )
        try options.common.simulate(sandbox.hms.url(HMSSimulator.push), sandbox)
        options.tokenEndpoint = try HTTPEndpoint(sandbox.hms.url(HMSSimulator.token))
        return options
    }
}
