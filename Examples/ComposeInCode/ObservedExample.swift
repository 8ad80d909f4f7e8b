// Metrics and spans of what is sent: what a program of its own shows wherever it shows its other figures.
import ChaparAPNs
import ChaparCore
import ChaparHTTP
import ChaparObservability
import ChaparSandbox

enum ObservedExample {
    static func run(_ client: PushClient, _ sandbox: Sandbox) async throws {
        let options = try FallbackExample.appleOptions(sandbox)
        let ios = try client.add(as: "ios") { context in
            try APNsBackend(options: options, context: context).observed(as: context.name)
        }
        let phone = Recipient.token("ab" + String(repeating: "0", count: 62), service: .iOSAPNs)
        print("observed:", PlatformExample.words(await ios.send(PushNotification(body: "Hello"), to: phone)))
    }
}
