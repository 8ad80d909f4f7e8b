// Altcraft from code, in two ways: in the words of its mobile SDK, for one device, and through the plugin, for any number.
import Foundation
import Logging
import ChaparAltcraft
import ChaparAltcraftSDK
import ChaparCore
import ChaparHTTP
import ChaparSandbox
import Synchronization

enum AltcraftExample {
    static func run(_ client: PushClient, _ sandbox: Sandbox) async throws {
        try await inTheWordsOfTheSDK(client, sandbox)
        try await throughThePlugin(client, sandbox)
    }

    /// What an app wrote with the SDK: the log-in suspends the anonymous profile's subscription and makes the user's.
    private static func inTheWordsOfTheSDK(_ client: PushClient, _ sandbox: Sandbox) async throws {
        var common = CommonBackendOptions(timeout: .seconds(30))
        common.trustPEM = sandbox.authority.certificatePEM
        let login = Login(signer: try signer(sandbox))
        let token = "ab" + String(repeating: "1", count: 62)

        let sdk = AltcraftSDK(http: client.http, common: common, logger: Logger(label: "example"))
        sdk.eventSDKFunctions.subscribe { event in print("altcraft:", event.eventCode ?? 0, event.message ?? "") }
        sdk.setJWTProvider(provider: login)
        let configuration = AltcraftConfiguration.Builder(events: sdk.eventSDKFunctions)
            .setApiUrl(sandbox.altcraft.url)
            .setAppInfo(AppInfo(appID: "1:2:ios:3", appIID: "iid", appVer: "1.4.0"))
            .setProviderPriorityList(["ios-apns", "ios-firebase"])
            .build()
        try await login.become(nil)
        await sdk.initialization(configuration: configuration)
        await sdk.pushTokenFunction.setPushToken(provider: "ios-apns", pushToken: token)

        let functions = sdk.pushSubscriptionFunctions
        await functions.pushSubscribe(
            profileFields: functions.actionField(key: "bonus").incr(50),
            cats: [CategoryData(name: "sport", active: true)]
        )

        try await login.become("ada")
        let answer = await functions.unSuspendPushSubscription()
        if answer?.httpCode == 200, answer?.response?.profile?.subscription == nil {
            await functions.pushSubscribe()
        }
        await sdk.shutdown()
    }

    /// What a server does that keeps its own devices and its own queue; a gateway's queue does it for its registry.
    private static func throughThePlugin(_ client: PushClient, _ sandbox: Sandbox) async throws {
        let pixelHost = try HTTPBaseURL(sandbox.altcraft.url)
        var options = AltcraftOptions(base: pixelHost)
        options.common.trustPEM = sandbox.authority.certificatePEM

        let auth = AltcraftAuth(source: try signer(sandbox))
        let altcraft = try client.add(as: "crm") { try AltcraftBackend(options: options, auth: auth, context: $0) }
        let phone = DeviceRecord(
            id: "phone-1",
            user: "omid",
            tokens: [DeviceToken("ab" + String(repeating: "2", count: 62), service: .iOSAPNs)],
            attributes: ["os_version": "18.6.2", "model": "iPhone14,7"]
        )
        let change = SubscriptionChange(.subscribed, options: ["custom_fields": ["plan": "gold"], "replace": true])
        let answer = try await altcraft.mobile.subscription(change, of: phone, as: OutboxAttempt(at: Date()))
        print("altcraft:", answer.response?.profile?.subscription?.status ?? "no subscription")
    }

    /// Users are in database 12, devices without a user in 11; for Altcraft itself read the key from a safe place.
    private static func signer(_ sandbox: Sandbox) throws -> AltcraftSigner {
        try AltcraftSigner(
            .es256,
            keyPEM: Secret(sandbox.altcraft.signingKeyPEM),
            users: AltcraftSigner.Target(databaseID: 12, matching: "custom", fieldName: "user_id"),
            anonymous: AltcraftSigner.Target(databaseID: 11, matching: "custom", fieldName: "device_id")
        )
    }
}

/// Who is logged in; an app would get its JWT from its own server.
private final class Login: JWTInterface {
    private let signer: AltcraftSigner
    private let jwt = Mutex<String?>(nil)

    init(signer: AltcraftSigner) { self.signer = signer }

    func getToken() -> String? { jwt.withLock { $0 } }

    func become(_ user: String?) async throws {
        let fresh = try await signer.jwt(for: AltcraftIdentity(user: user, device: "this"))?.reveal()
        jwt.withLock { $0 = fresh }
    }
}
