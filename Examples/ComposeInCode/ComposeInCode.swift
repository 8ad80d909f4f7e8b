// Sends through Apple's push service from code, with no server, no database and no configuration file. To run it without
// an account a simulator takes Apple's place: `swift run ComposeInCode`.
import Logging
import ChaparAPNs
import ChaparCore
import ChaparHTTP
import ChaparSandbox

@main
enum ComposeInCode {
    static func main() async throws {
        try await Sandbox.run { sandbox in
            try await sendOne(sandbox, pem: sandbox.apns.key.pem)
            let examples: [@Sendable (PushClient, Sandbox) async throws -> Void] = [
                FallbackExample.run, PlatformExample.run, OneSignalExample.run, AltcraftExample.run,
                ChabokExample.run, SimulatorExample.run, ObservedExample.run,
            ]
            for example in examples {
                try await PushClient.run(logger: Logger(label: "example")) { try await example($0, sandbox) }
            }
        }
    }

    /// The whole of it.
    ///
    /// For Apple itself leave the line about the simulator out, and read the key from a safe place.
    private static func sendOne(_ sandbox: Sandbox, pem: String) async throws {
        let (keyID, teamID) = (sandbox.apns.key.keyID, sandbox.apns.key.teamID)
        let phone = "ab" + String(repeating: "0", count: 62)

        try await PushClient.run(logger: Logger(label: "shop")) { client in
            let key = try APNsAuthKey(pem: Secret(pem))
            var options = APNsOptions(credential: .key(key, keyID: keyID, teamID: teamID), topic: Sandbox.topic)
            try options.common.simulate(sandbox.apns.url(.production), sandbox)  // Apple is simulated.
            let ios = try client.add(as: "ios") { try APNsBackend(options: options, context: $0) }

            let notification = PushNotification(title: "Order 42", body: "is on its way", timeToLive: .seconds(3600))
            let outcome = await ios.send(notification, to: .token(phone, service: .iOSAPNs))
            switch outcome {
            case .accepted(let acceptance): print("taken, apns-id", acceptance.platformID ?? "none")
            case .refused(let refusal): print("refused:", refusal.reason, refusal.detail ?? "")
            case .unknown(let unknown): print("no answer, it may have been delivered:", unknown.reason)
            }
        }
    }
}

extension CommonBackendOptions {
    /// Sends to a simulator instead of the platform.
    mutating func simulate(_ url: String, _ sandbox: Sandbox) throws {
        address = try .simulator(url)
        trustPEM = sandbox.authority.certificatePEM
    }
}
