// OneSignal and IDPush from code: a phone registers itself through IDPush, and gets what is sent through OneSignal, whose API
// stands behind a relay that takes access tokens.
import Logging
import PushCore
import PushHTTP
import PushIDPush
import PushSandbox

enum OneSignalExample {
    static func run(_ sandbox: Sandbox) async throws {
        let transport = NIOTransport(logger: Logger(label: "example"))
        let playerID = try await register(sandbox, transport)
        let oneSignal = try makeOneSignal(sandbox, transport)
        let outcome = await oneSignal.send(PushNotification(title: "Order 42"), to: [.platformID(playerID)])[0]
        if case .accepted(let acceptance) = outcome { print("onesignal: taken,", acceptance.platformID ?? "no id") }
        await oneSignal.shutdown(grace: .seconds(1))
        await transport.shutdown(grace: .seconds(1))
    }

    /// What an app does on its device, with the actions that IDPush's own library has.
    private static func register(_ sandbox: Sandbox, _ transport: NIOTransport) async throws -> String {
        var common = CommonBackendOptions(timeout: .seconds(30))
        common.trustPEM = sandbox.authority.certificatePEM
        let base = HTTPBaseURL(url: sandbox.oneSignal.idPushURL) ?? IDPushClient.address  // The simulator's address.

        let client = try IDPushClient(base: base, common: common, http: transport)
        let idPush = IDPush(client: client, store: MemoryPlayerIDStore(), device: { DeviceFacts(appVersion: "3.4.1") })
        idPush.setup(projectID: sandbox.oneSignal.rules.projectID)
        let added = await idPush.perform(.addDevice(token: "ab" + String(repeating: "0", count: 62)))
        let tagged = await idPush.perform(.setTags(tags: ["city": "tehran"]))
        print("idpush:", added.error ?? tagged.error ?? "registered" as Any)
        await client.shutdown(grace: .seconds(1))
        return idPush.playerID ?? ""
    }

    /// For OneSignal itself leave the lines about the simulator out, and give the app's own key in the place of a strategy.
    private static func makeOneSignal(_ sandbox: Sandbox, _ transport: NIOTransport) throws -> OneSignalBackend {
        var options = OneSignalOptions(appID: sandbox.oneSignal.rules.appID, apiKey: Secret("none"))
        options.base = HTTPBaseURL(url: sandbox.oneSignal.apiURL) ?? OneSignalOptions.address
        options.common.trustPEM = sandbox.authority.certificatePEM

        var settings = OAuth2Settings(base: options.base, clientID: OAuth2Simulator.clientID)
        settings.tokenURL = HTTPBaseURL(url: sandbox.oauth2.tokenURL)
        settings.trustPEM = sandbox.authority.certificatePEM
        let strategy = try OAuth2RefreshToken(
            settings,
            store: MemoryCredentialStore(sandbox.oauth2.issue()),
            http: transport
        )
        let context = BackendContext(name: "partner", http: transport, logger: Logger(label: "example"))
        return try OneSignalBackend(options: options, strategy: strategy, context: context)
    }
}
