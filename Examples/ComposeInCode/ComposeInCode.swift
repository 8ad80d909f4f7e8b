// Sends through Apple's push service from code, with no server and no configuration file. To run it without an account a
// simulator takes Apple's place: `swift run ComposeInCode`.
import Logging
import PushAPNs
import PushCore
import PushHTTP
import PushSandbox

@main
enum ComposeInCode {
    static func main() async throws {
        try await Sandbox.run { sandbox in
            let backend = try makeBackend(sandbox)

            let notification = PushNotification(
                title: .localized(default: "Order 42", languages: ["fa": "سفارش ۴۲"]),
                body: "is on its way",
                sound: "default",
                data: ["order": "42"],
                timeToLive: .seconds(3600),
                collapseID: "order-42"
            )
            let installed = "ab" + String(repeating: "0", count: 62)
            let removed = "0410" + String(repeating: "0", count: 60)  // The simulator answers 410 to these.
            let outcomes = await backend.send(
                notification,
                to: [installed, removed].map { .token(DeviceToken($0, service: .iOSAPNs)) }
            )

            for outcome in outcomes {
                switch outcome {
                case .accepted(let acceptance): print("taken, apns-id", acceptance.platformID ?? "none")
                case .refused(let refusal): print("refused:", refusal.reason, refusal.detail ?? "")
                case .unknown(let unknown): print("no answer, it may have been delivered:", unknown.reason)
                }
            }
            try await FallbackExample.run(apple: backend, sandbox)  // Ends the backend too.
            try await OneSignalExample.run(sandbox)
            try await AltcraftExample.run(sandbox)
            try await ChabokExample.run(sandbox)
        }
    }

    /// For Apple itself leave the two lines about the simulator out, and read the key from a safe place.
    private static func makeBackend(_ sandbox: Sandbox) throws -> APNsBackend {
        let logger = Logger(label: "example")
        let key = try APNsAuthKey(pem: Secret(sandbox.apns.key.pem))
        var options = APNsOptions(
            credential: .key(key, keyID: sandbox.apns.key.keyID, teamID: sandbox.apns.key.teamID),
            topic: Sandbox.topic
        )
        options.common.baseURL = HTTPEndpoint(url: sandbox.apns.url(.production))
        options.common.trustPEM = sandbox.apns.authority.certificatePEM
        let context = BackendContext(name: "ios", http: NIOTransport(logger: logger), logger: logger)
        return try APNsBackend(options: options, context: context)
    }
}
