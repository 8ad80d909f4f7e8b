// Two platforms as one: a device that removed its APNs token still gets the message through Firebase.
import Logging
import PushAPNs
import PushCore
import PushFCM
import PushHTTP
import PushSandbox

enum FallbackExample {
    static func run(apple: APNsBackend, _ sandbox: Sandbox) async throws {
        let google = try makeGoogle(sandbox)

        // Each platform gets the token of its own service, never another's.
        let tokens = RecipientResolver { ids in
            let dead = "0410" + String(repeating: "0", count: 60)  // The simulator answers 410 to these.
            let device = [DeviceToken(dead, service: .iOSAPNs), DeviceToken("firebase-42", service: .iOSFirebase)]
            return Dictionary(uniqueKeysWithValues: ids.map { ($0, device) })
        }
        let chain = FallbackBackend(
            [
                NamedBackend("apple", apple.breaking().bounded(to: 1_000)),
                NamedBackend("google", google.paced(.perMinute(600_000, rampUp: .seconds(60)))),
            ],
            onUnknown: .wait,
            resolver: tokens,
            observe: { entry in print("\(entry.backend):", words(entry.event)) }
        )

        let outcomes = await chain.send(PushNotification(title: "Order 42"), to: [.device("phone-1")])
        print("at last:", words(.answered(outcomes[0])))
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
}
