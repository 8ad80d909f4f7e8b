// The page on how IDPush's library is made, as a program has it. The page's own spellings are kept; what a phone knows of itself
// is said, since a program runs anywhere.
import ChaparCore
import ChaparHTTP
import ChaparIDPush
import ChaparIDPushSDK
import ChaparSandbox

enum IDPushSeed {
    static func run(_ client: PushClient, _ sandbox: Sandbox) async throws {
        // IDPush.Setup(projectID: "…"): the same. It counts also before the next lines.
        IDPush.Setup(projectID: " \(sandbox.oneSignal.rules.projectID) ")

        // New: `IDPush.shared` says how requests are sent, where the player id is kept and what the device is. The original takes
        // Alamofire, `UserDefaults`, `Bundle`, `UIDevice` and `#if DEBUG` for that.
        var common = CommonBackendOptions(timeout: .seconds(30))
        common.trustPEM = sandbox.authority.certificatePEM  // The simulator's certificate; not for IDPush itself.
        IDPush.shared = IDPush(
            client: try IDPushClient(
                // The simulator's address, in the place of "https://idpush.top/api/v1/".
                base: try HTTPBaseURL(sandbox.oneSignal.idPushURL),
                common: common,
                http: client.http
            ),
            store: MemoryPlayerIDStore(),  // `FilePlayerIDStore(path)` keeps it over restarts.
            device: { DeviceFacts(appVersion: "3.4.1", model: "iPhone14,2", osVersion: "17.5.1", isTestBuild: true) }
        )

        // IDPush.Perform(action: .addDevice(token: token)) { error, data in … }: the same.
        let token = "9f3c" + String(repeating: "0", count: 60)
        await perform(.addDevice(token: token)) { data in
            // `data` is the server's answer, as `Any?`.
            print("idpush: added:", (data as? [String: Any])?["player_id"] as? String == IDPush.GetPlayerID())
        }
        await perform(.subscribe)

        // [String: Any]: the same.
        let tags: [String: Any] = ["city": "تهران", "level": 7]
        await perform(.setTags(tags: tags))
        let parameters: [String: Any] = ["language": "fa", "timezone": 12600]
        await perform(.editDevice(parameters: parameters))
        await perform(.unsubscribe)

        // An error is printed, then called back, as on the page.
        await perform(.addDevice(token: " "))
    }

    /// The page's form with its callback; the wait is for this program, which would end before the answer.
    private static func perform(
        _ action: IDPushAction,
        _ read: @escaping @Sendable (Any?) -> Void = { _ in }
    ) async {
        await withCheckedContinuation { continuation in
            IDPush.Perform(action: action) { error, data in
                if error == nil { read(data) }
                continuation.resume()
            }
        }
    }
}
