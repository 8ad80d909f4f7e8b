// OneSignal and IDPush from code: a phone registers itself through IDPush, and gets what is sent through OneSignal, whose API
// stands behind a relay that takes access tokens.
import ChaparCore
import ChaparOAuth
import ChaparHTTP
import ChaparIDPush
import ChaparIDPushSDK
import ChaparOneSignal
import ChaparSandbox

enum OneSignalExample {
    static func run(_ client: PushClient, _ sandbox: Sandbox) async throws {
        let playerID = try await register(client, sandbox)
        let oneSignal = try client.add(as: "partner") { try makeOneSignal($0, sandbox) }
        let outcome = await oneSignal.send(PushNotification(title: "Order 42"), to: .platformID(playerID))
        if case .accepted(let acceptance) = outcome { print("onesignal: taken,", acceptance.platformID ?? "no id") }
    }

    /// What an app does on its device, with the actions that IDPush's own library has.
    private static func register(_ client: PushClient, _ sandbox: Sandbox) async throws -> String {
        var common = CommonBackendOptions(timeout: .seconds(30))
        common.trustPEM = sandbox.authority.certificatePEM
        let base = try HTTPBaseURL(sandbox.oneSignal.idPushURL)  // The simulator's address.

        let connection = try IDPushClient(base: base, common: common, http: client.http)
        let idPush = IDPush(
            client: connection,
            store: MemoryPlayerIDStore(),
            device: { DeviceFacts(appVersion: "3.4.1") }
        )
        idPush.setup(projectID: sandbox.oneSignal.rules.projectID)
        let added = await idPush.perform(.addDevice(token: "ab" + String(repeating: "0", count: 62)))
        let tagged = await idPush.perform(.setTags(tags: ["city": "tehran"]))
        print("idpush:", added.error ?? tagged.error ?? "registered" as Any)
        return idPush.playerID ?? ""
    }

    /// For OneSignal itself leave the lines about the simulator out, and give the app's own key in the place of a strategy.
    private static func makeOneSignal(_ context: BackendContext, _ sandbox: Sandbox) throws -> OneSignalBackend {
        var options = OneSignalOptions(appID: sandbox.oneSignal.rules.appID, apiKey: Secret("none"))
        options.base = try HTTPBaseURL(sandbox.oneSignal.apiURL)
        options.common.trustPEM = sandbox.authority.certificatePEM

        var settings = OAuth2Settings(base: options.base, clientID: OAuth2Simulator.clientID)
        settings.tokenURL = try HTTPBaseURL(sandbox.oauth2.tokenURL)
        settings.trustPEM = sandbox.authority.certificatePEM
        let strategy = try OAuth2RefreshToken(
            settings,
            store: MemoryCredentialStore(sandbox.oauth2.issue()),
            http: context.http
        )
        return try OneSignalBackend(options: options, strategy: strategy, context: context)
    }
}
