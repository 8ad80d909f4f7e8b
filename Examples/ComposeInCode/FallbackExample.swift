// Three platforms as one: what Apple cannot reach any more goes through Firebase, what Google cannot reach through Huawei.
import Logging
import PushAPNs
import PushCore
import PushFCM
import PushHMS
import PushHTTP
import PushSandbox

enum FallbackExample {
    static func run(apple: APNsBackend, _ sandbox: Sandbox) async throws {
        let google = try makeGoogle(sandbox)
        let huawei = try makeHuawei(sandbox)

        // Each platform gets the token of its own service, never another's. The simulators call the first ones dead.
        let devices = [
            "iphone": [
                DeviceToken("0410" + String(repeating: "0", count: 60), service: .iOSAPNs),
                DeviceToken("firebase-42", service: .iOSFirebase),
            ],
            "phone": [
                DeviceToken("sim-unregistered-1", service: .androidFirebase),
                DeviceToken("huawei-42", service: .androidHuawei),
            ],
        ]
        let chain = FallbackBackend(
            [
                NamedBackend("apple", apple.breaking().bounded(to: 1_000)),
                NamedBackend("google", google.paced(.perMinute(600_000, rampUp: .seconds(60)))),
                NamedBackend("huawei", huawei),
            ],
            onUnknown: .wait,
            resolver: RecipientResolver { ids in devices.filter { ids.contains($0.key) } },
            observe: { entry in print("\(entry.backend):", words(entry.event)) }
        )

        let notification = PushNotification(title: "Order 42", body: "is on its way")
        let outcomes = await chain.send(notification, to: [.device("iphone"), .device("phone")])
        for outcome in outcomes { print("at last:", words(.answered(outcome))) }
        await chain.shutdown(grace: .seconds(1))
    }

    private static func words(_ event: PlanEvent) -> String {
        switch event {
        case .answered(.accepted): "taken"
        case .answered(.refused(let refusal)): "refused, \(refusal.reason)"
        case .answered(.unknown(let unknown)): "no answer, \(unknown.reason)"
        case .skipped(let reason): "skipped, \(reason)"
        case .waited(let state): state.map { "the platform says \($0.rawValue)" } ?? "the platform says nothing"
        }
    }

    /// For Firebase itself leave the two lines about the simulator out, and read the service account's file.
    private static func makeGoogle(_ sandbox: Sandbox) throws -> FCMBackend {
        let logger = Logger(label: "example")
        let account = try GoogleServiceAccount(json: Secret(sandbox.fcm.credentialsFile))
        var options = FCMOptions(serviceAccount: account)
        options.common.baseURL = HTTPEndpoint(url: sandbox.fcm.url(.send))
        options.common.trustPEM = sandbox.authority.certificatePEM
        let context = BackendContext(name: "android", http: NIOTransport(logger: logger), logger: logger)
        return try FCMBackend(options: options, context: context)
    }
    /// For Huawei itself leave the three lines about the simulator out.
    private static func makeHuawei(_ sandbox: Sandbox) throws -> HMSBackend {
        let logger = Logger(label: "example")
        let app = sandbox.hms.app
        var options = HMSOptions(
            credential: .client(id: app.appID, secret: Secret(app.clientSecret)),
            api: .v1(appID: app.appID)
        )
        options.common.baseURL = HTTPEndpoint(url: sandbox.hms.url(HMSSimulator.push))
        options.tokenEndpoint = HTTPEndpoint(url: sandbox.hms.url(HMSSimulator.token)) ?? options.tokenEndpoint
        options.common.trustPEM = sandbox.authority.certificatePEM
        let context = BackendContext(name: "huawei", http: NIOTransport(logger: logger), logger: logger)
        return try HMSBackend(options: options, context: context)
    }
}
