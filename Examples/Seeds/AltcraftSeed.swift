// The README of Altcraft's iOS SDK, sample by sample. What an app did in its delegate with completions, a program does with
// `await`; what Apple alone has (screen, delegate, notification center) is named where it is left out.
import Foundation
import Logging
import ChaparAltcraft
import ChaparAltcraftSDK
import ChaparCore
import ChaparHTTP
import ChaparSandbox
import Synchronization

enum AltcraftSeed {
    static func run(_ client: PushClient, _ sandbox: Sandbox) async throws {
        let jwt = JWTManager(signer: try signer(sandbox))
        try await jwt.setAnonJWT()
        try await didFinishLaunching(client, sandbox, jwt)
        await events()
        await subscriptions()
        try await logIn(jwt)
        try await logOut(jwt)
        await status()
        await tokens()
        await pushes()
        // The completion of the original is the end of the call.
        await AltcraftSDK.shared.clear()
        await AltcraftSDK.shared.shutdown()
    }

    /// `application(_:didFinishLaunchingWithOptions:)`.
    private static func didFinishLaunching(_ client: PushClient, _ sandbox: Sandbox, _ jwt: JWTManager) async throws {
        // New: a phone knows its network, its store and itself; a program says what they are.
        var common = CommonBackendOptions(timeout: .seconds(60))
        common.trustPEM = sandbox.authority.certificatePEM  // The simulator's certificate; not for Altcraft itself.
        await AltcraftSDK.shared.connect(
            http: client.http,
            device: DeviceRecord(id: "this", attributes: ["os_version": "18.6.2", "model": "iPhone14,7"]),
            common: common,
            logger: Logger(label: "altcraft")
        )

        await AltcraftSDK.shared.setAppGroup(groupName: "group.altcraft.apns.example")
        await AltcraftSDK.shared.backgroundTasks.registerBackgroundTask()
        // As in the original's whole example; its shorter one writes `AltcraftSDK.setJWTProvider`, a misprint.
        AltcraftSDK.shared.setJWTProvider(provider: JWTProvider(manager: jwt))
        await AltcraftSDK.shared.pushTokenFunction.setAPNSTokenProvider(APNSProvider())
        await AltcraftSDK.shared.pushTokenFunction.setFCMTokenProvider(FCMProvider())
        await AltcraftSDK.shared.pushTokenFunction.setHMSTokenProvider(HMSProvider())
        // Left out: `notificationManager.registerForPushNotifications(for: application)` asks a person for permission.

        let config = AltcraftConfiguration.Builder()
            .setApiUrl(sandbox.altcraft.url)  // "your apiUrl"
            // `.setRToken("your rToken")` is left out: it would go before the JWT.
            .setAppInfo(AppInfo(appID: "your appID", appIID: "your appIID", appVer: "your appVer"))
            .setProviderPriorityList([Constants.ProviderName.apns, Constants.ProviderName.firebase])
            .build()

        // The completion of the original is the result here.
        let success = await AltcraftSDK.shared.initialization(configuration: config)
        print("altcraft: initialized:", success)
    }

    /// The value of event 230, as the README reads it.
    private static func events() async {
        AltcraftSDK.shared.eventSDKFunctions.subscribe { event in
            if event is RetryEvent { print("altcraft: will be repeated:", event.message ?? "") }
            if event.eventCode == 230 {
                if let responseWithHttp = event.value?["response_with_http_code"] as? ResponseWithHttp {
                    let response = responseWithHttp.response
                    let profile = response?.profile
                    let subscription = profile?.subscription
                    if let model = subscription?.fields?["_device_model"]?.stringValue {
                        print("altcraft: subscribed:", model, responseWithHttp.httpCode ?? 0)
                    }
                    let firstCat = subscription?.cats?.first
                    print("altcraft: category:", firstCat?.name ?? "none", firstCat?.active ?? false)
                }
            }
        }
    }

    private static func subscriptions() async {
        // Also the answer, when there was one; the original returns nothing.
        await AltcraftSDK.shared.pushSubscriptionFunctions.pushSubscribe()
        await AltcraftSDK.shared.pushSubscriptionFunctions.pushSubscribe(
            sync: true,
            profileFields: ["_fname": "Andrey", "_lname": "Pogodin"],
            customFields: ["vip": true],  // "developer" in the README: a field must exist in the resource.
            cats: [CategoryData(name: "sport", active: true)],  // "developer_news", for the same reason.
            replace: false,
            skipTriggers: false
        )
        await AltcraftSDK.shared.pushSubscriptionFunctions.pushSubscribe(
            profileFields: AltcraftSDK.shared.pushSubscriptionFunctions.actionField(key: "_fname").set(value: "Andrey")
        )
    }

    private static func logIn(_ jwt: JWTManager) async throws {
        try await jwt.setRegJWT()
        let result = await AltcraftSDK.shared.pushSubscriptionFunctions.unSuspendPushSubscription()
        if result?.httpCode == 200, result?.response?.profile?.subscription == nil {
            await AltcraftSDK.shared.pushSubscriptionFunctions.pushSubscribe()
        }
    }

    private static func logOut(_ jwt: JWTManager) async throws {
        try await jwt.setAnonJWT()
        let result = await AltcraftSDK.shared.pushSubscriptionFunctions.unSuspendPushSubscription()
        if result?.httpCode == 200, result?.response?.profile?.subscription == nil {
            await AltcraftSDK.shared.pushSubscriptionFunctions.pushSubscribe()
        }
    }

    private static func status() async {
        let responseWithHttp = await AltcraftSDK.shared.pushSubscriptionFunctions.getStatusForCurrentSubscription()
        let subscription = responseWithHttp?.response?.profile?.subscription
        print("altcraft: status:", subscription?.status ?? "none", subscription?.provider ?? "-")
        _ = await AltcraftSDK.shared.pushSubscriptionFunctions.getStatusOfLatestSubscription()
        _ = await AltcraftSDK.shared.pushSubscriptionFunctions.getStatusOfLatestSubscriptionForProvider(provider: nil)
    }

    private static func tokens() async {
        let functions = AltcraftSDK.shared.pushTokenFunction
        let data = await functions.getPushToken()
        print("altcraft: token of", data?.provider ?? "nobody")
        await functions.changePushProviderPriorityList([
            Constants.ProviderName.firebase, Constants.ProviderName.apns, Constants.ProviderName.huawei,
        ])
        await functions.deleteDeviceToken(provider: Constants.ProviderName.firebase)
        await functions.forcedTokenUpdate()
        await functions.setPushToken(provider: Constants.ProviderName.apns, pushToken: Data([0xAB, 0xCD]))
    }

    /// The notification service extension, and a tap; a payload stands in the place of `UNNotificationRequest`.
    private static func pushes() async {
        let service = AltcraftPushReceiver()
        let request: JSONObject = [
            "aps": ["alert": ["title": "Order 118", "body": "On its way"]], "_ac_push": true, "_uid": "m-7f31c0",
            "_click-url": "shop://orders/118",
        ]
        if service.isAltcraftPush(request) {
            // What is left out here is drawing: `contentHandler`, and the time that iOS gives to it.
            let payload = await service.didReceive(.object(request))
            print("altcraft: received:", payload?.title ?? "")
        }
        await AltcraftSDK.shared.pushEventFunctions.openEvent(from: .object(request))
    }

    /// The key of an app's own server, which signs for the simulator here.
    private static func signer(_ sandbox: Sandbox) throws -> AltcraftSigner {
        try AltcraftSigner(
            .es256,
            keyPEM: Secret(sandbox.altcraft.signingKeyPEM),
            users: AltcraftSigner.Target(databaseID: 12, matching: "custom", fieldName: "user_id"),
            anonymous: AltcraftSigner.Target(databaseID: 11, matching: "custom", fieldName: "device_id")
        )
    }
}

/// The README's `JWTManager.shared`, which it does not show: database 11 is `#1Anonymous`, 12 is `#2Registered`.
private final class JWTManager: Sendable {
    private let signer: AltcraftSigner
    private let jwt = Mutex<String?>(nil)

    init(signer: AltcraftSigner) { self.signer = signer }

    var current: String? { jwt.withLock { $0 } }
    func setRegJWT() async throws { try await set("andrey") }
    func setAnonJWT() async throws { try await set(nil) }

    private func set(_ user: String?) async throws {
        let fresh = try await signer.jwt(for: AltcraftIdentity(user: user, device: "this"))?.reveal()
        jwt.withLock { $0 = fresh }
    }
}

// A struct in the place of a class: the protocols ask for `Sendable`.
private struct JWTProvider: JWTInterface {
    let manager: JWTManager
    func getToken() -> String? { manager.current }
}

private struct APNSProvider: APNSInterface {
    // `getToken(completion:)` in the original.
    func getToken() async -> String? { "ab" + String(repeating: "3", count: 62) }
}

private struct FCMProvider: FCMInterface {
    func getToken() async -> String? { "fcm:APA91bSample" }
    func deleteToken() async -> Bool { true }
}

private struct HMSProvider: HMSInterface {
    func getToken() async -> String? { nil }  // No APNs token yet, no Huawei token, as in the README.
    func deleteToken() async -> Bool { true }
}
