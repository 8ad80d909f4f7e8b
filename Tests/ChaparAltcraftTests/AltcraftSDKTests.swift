import Foundation
import ChaparCore
import ChaparHTTP
import ChaparSandbox
import ChaparTesting
import Synchronization
import Testing

@testable import ChaparAltcraft
@testable import ChaparAltcraftSDK

/// The SDK in its own words, over real sockets: what a user of the SDK would write.
@Suite("Altcraft: the SDK's words", .timeLimit(.minutes(1)))
struct AltcraftSDKTests {
    /// The providers of an app: of a JWT that can be switched, and of tokens that can be lost.
    final class App: JWTInterface, APNSInterface, FCMInterface, HMSInterface {
        let user = Mutex<String?>(nil)
        let isSilent = Mutex(false)
        let token = Mutex<String?>(apnsToken)
        let deletions = Mutex(0)
        let refusesDeletion = Mutex(false)

        func getToken() -> String? {
            if isSilent.withLock({ $0 }) { return nil }
            let (database, value) = user.withLock { $0 }.map { (12, $0) } ?? (11, "this")
            return AltcraftAuthTests.jwt([
                "matching": [
                    "db_id": .integer(Int64(database)), "matching": "profile_id", "profile_id": .string(value),
                ]
            ])
        }
        func getToken() async -> String? { token.withLock { $0 } }
        func deleteToken() async -> Bool {
            if refusesDeletion.withLock({ $0 }) { return false }
            deletions.withLock { $0 += 1 }
            token.withLock { $0 = fcmToken }
            return true
        }
    }

    struct Rig: Sendable {
        let simulator: AltcraftSimulator
        let transport: NIOTransport
        let state: MemoryState
        let events: Recorder<Event>
        let app: App
        let sdk: AltcraftSDK
        var codes: [Int] { events.all.compactMap(\.eventCode) }

        /// Another process over the same store.
        func restarted() async -> AltcraftSDK {
            let sdk = AltcraftSDKTests.sdk(simulator, transport, state, SystemTime())
            let events = events
            sdk.eventSDKFunctions.subscribe { events.add($0) }
            sdk.setJWTProvider(provider: app)
            await sdk.pushTokenFunction.setAPNSTokenProvider(app)
            return sdk
        }

        func configuration(_ rToken: String? = nil, _ list: [String]? = nil) -> AltcraftConfiguration? {
            AltcraftConfiguration.Builder(events: sdk.eventSDKFunctions).setApiUrl(simulator.url).setRToken(rToken)
                .setAppInfo(AppInfo(appID: "a", appIID: "i", appVer: "1")).setProviderPriorityList(list).build()
        }
    }

    private static func sdk(
        _ simulator: AltcraftSimulator,
        _ transport: NIOTransport,
        _ state: MemoryState,
        _ time: any TimeSource
    ) -> AltcraftSDK {
        var common = CommonBackendOptions(timeout: .seconds(10))
        common.trustPEM = simulator.certificatePEM
        return AltcraftSDK(http: transport, state: state, common: common, time: time, logger: quiet)
    }

    private func run(
        time: any TimeSource = SystemTime(),
        isInitialized: Bool = true,
        _ body: (Rig) async throws -> Void
    ) async throws {
        try await AltcraftSimulator.run { simulator in
            let transport = NIOTransport(logger: quiet)
            let state = MemoryState()
            let rig = Rig(
                simulator: simulator,
                transport: transport,
                state: state,
                events: Recorder(),
                app: App(),
                sdk: Self.sdk(simulator, transport, state, time)
            )
            rig.sdk.eventSDKFunctions.subscribe { rig.events.add($0) }
            rig.sdk.setJWTProvider(provider: rig.app)
            await rig.sdk.pushTokenFunction.setAPNSTokenProvider(rig.app)
            if isInitialized { #expect(await rig.sdk.initialization(configuration: rig.configuration())) }
            do { try await body(rig) } catch { Issue.record(error) }
            await rig.sdk.shutdown(grace: .milliseconds(50))
            await transport.shutdown(grace: .milliseconds(100))
        }
    }

    @Test("The builder gives nothing without an address (471) or with an unknown provider (473)")
    func builder() async throws {
        try await run(isInitialized: false) { rig in
            let builder = AltcraftConfiguration.Builder(events: rig.sdk.eventSDKFunctions)
            #expect(builder.build() == nil && builder.setApiUrl(" ").build() == nil)
            #expect(rig.configuration(nil, ["ios-apns", "amazon"]) == nil)
            #expect(rig.codes == [471, 471, 473])
            let made = try #require(rig.configuration("", ["IOS-FIREBASE"]))
            #expect(made.getRToken() == nil && made.getProviderPriorityList() == ["ios-firebase"])
            #expect(made.getApiUrl() == rig.simulator.url && made.getAppInfo()?.appVer == "1")
            #expect(rig.configuration()?.getProviderPriorityList() == nil, "none was set")
            #expect(await rig.sdk.initialization(configuration: nil) == false)
            #expect(await rig.sdk.initialization(configuration: builder.setApiUrl("ftp://x").build()) == false)
            await rig.sdk.setAppGroup(groupName: "")
            #expect(await rig.sdk.pushSubscriptionFunctions.pushSubscribe() == nil)
            #expect(rig.codes.suffix(4) == [401, 571, 405, 501])
        }
    }

    @Test("The seed's log-in and log-out: two databases, two identities, one recipe for both directions")
    func story() async throws {
        try await run { rig in
            let functions = rig.sdk.pushSubscriptionFunctions
            func switchUser(_ user: String?) async -> Bool {
                rig.app.user.withLock { $0 = user }
                let answer = await functions.unSuspendPushSubscription()
                guard answer?.httpCode == 200, answer?.response?.profile?.subscription == nil else { return false }
                return await functions.pushSubscribe(customFields: ["plan": "gold"])?.httpCode == 200
            }
            func states() -> [String?] {
                [("profile_id this", 11), ("profile_id ada", 12)].map {
                    rig.simulator.profile($0.0, in: $0.1)?.subscriptions.first?.status
                }
            }
            #expect(await functions.pushSubscribe()?.response?.profile?.subscription?.subscriptionId == apnsToken)
            #expect(await switchUser("ada") && states() == ["suspended", "subscribed"])
            #expect(await !switchUser(nil) && states() == ["subscribed", "suspended"])
            #expect(await !switchUser("ada") && states() == ["suspended", "subscribed"])
            #expect(await functions.getStatusForCurrentSubscription()?.response?.profile?.status == "subscribed")
            #expect(await functions.getStatusOfLatestSubscription()?.httpCode == 200)
            #expect(await functions.getStatusOfLatestSubscriptionForProvider(provider: "ios-firebase")?.httpCode == 200)
            #expect(await functions.getStatusOfLatestSubscriptionForProvider(provider: "amazon") == nil)
            #expect(rig.codes.last == 473)
            rig.simulator.add([FaultRule(.answer(FaultAnswer(503, "busy")))])
            let failed = await functions.unSuspendPushSubscription()
            #expect(
                failed?.httpCode == 503 && failed?.response?.errorText == "busy",
                "an answer is one, also when it is no"
            )
        }
    }

    @Test("Nothing is lost between a 5xx and its repeat by another process, and order and request ids stay")
    func survives() async throws {
        try await run { rig in
            rig.simulator.add([FaultRule(.answer(FaultAnswer(503)))])
            #expect(await rig.sdk.pushSubscriptionFunctions.pushSubscribe() == nil)
            #expect(await rig.sdk.pushSubscriptionFunctions.pushUnSubscribe() == nil)
            await rig.sdk.pushEventFunctions.openEvent(from: .object(AltcraftModelTests.apple))
            #expect(rig.codes.filter { $0 == 530 }.count >= 2 && rig.codes.contains(532))
            let first = rig.simulator.requestIDs
            rig.simulator.removeFaults()
            let next = await rig.restarted()
            #expect(await next.initialization(configuration: rig.configuration()))
            #expect(rig.simulator.profile("profile_id this", in: 11)?.subscriptions.first?.status == "unsubscribed")
            #expect(rig.simulator.events.map(\.smid) == ["m-7f31c0"])
            #expect(first.keys.allSatisfy { rig.simulator.requestIDs[$0, default: 0] > first[$0, default: 0] })
            #expect(rig.codes.suffix(3) == [230, 230, 232])
            await next.shutdown(grace: .zero)
        }
    }

    @Test("Rows of another profile wait, and never go out under the wrong JWT")
    func partition() async throws {
        try await run { rig in
            rig.simulator.add([FaultRule(match: FaultMatch(count: 1), .answer(FaultAnswer(503)))])
            await rig.sdk.pushSubscriptionFunctions.pushSuspend()
            rig.app.user.withLock { $0 = "ada" }
            await rig.sdk.pushSubscriptionFunctions.pushSubscribe()
            #expect(rig.simulator.profiles.map(\.key) == ["profile_id ada"])
            rig.app.user.withLock { $0 = nil }
            #expect(await rig.sdk.initialization(configuration: rig.configuration()))
            #expect(rig.simulator.profile("profile_id this", in: 11)?.subscriptions.first?.status == "suspended")
        }
    }

    @Test("Two app groups over one store know nothing of each other's requests, tokens or configuration")
    func groups() async throws {
        try await run { rig in
            rig.simulator.add([FaultRule(match: FaultMatch(count: 1), .answer(FaultAnswer(503)))])
            await rig.sdk.pushTokenFunction.setPushToken(provider: "ios-huawei", pushToken: "hms-token-of-one")
            await rig.sdk.pushSubscriptionFunctions.pushSubscribe()
            let other = await rig.restarted()
            await other.setAppGroup(groupName: "other")
            await other.pushTokenFunction.setAPNSTokenProvider(rig.app)
            #expect(await other.initialization(configuration: rig.configuration()))
            #expect(rig.simulator.profiles.isEmpty, "what waits in another group stays there")
            #expect(await other.pushTokenFunction.getPushToken()?.provider == "ios-apns")
            await other.clear()
            let waiting = try await rig.sdk.core.waiting()
            #expect(waiting == 1)
            #expect(await rig.sdk.pushTokenFunction.getPushToken()?.token == "hms-token-of-one")
            await other.shutdown(grace: .zero)
        }
    }

    @Test("Without a user the call is refused (402), and what waits stays (503)")
    func noUser() async throws {
        try await run { rig in
            rig.simulator.add([FaultRule(match: FaultMatch(count: 1), .answer(FaultAnswer(503)))])
            await rig.sdk.pushSubscriptionFunctions.pushSubscribe()
            rig.app.isSilent.withLock { $0 = true }
            await rig.sdk.pushSubscriptionFunctions.pushSuspend()
            #expect(rig.codes.suffix(3) == [540, 543, 402])
            #expect(await rig.sdk.initialization(configuration: rig.configuration()))
            #expect(rig.codes.suffix(3) == [540, 543, 503])
            rig.app.isSilent.withLock { $0 = false }
            #expect(await rig.sdk.initialization(configuration: rig.configuration()))
            #expect(rig.simulator.profiles.count == 1 && rig.codes.last == 230)
        }
    }

    @Test("Bad fields are refused before anything is kept; another role drops what waits; clearing sends nothing")
    func refusals() async throws {
        try await run { rig in
            let functions = rig.sdk.pushSubscriptionFunctions
            await functions.pushSubscribe(customFields: ["a": ["b": 1]])
            await functions.pushSubscribe(profileFields: functions.actionField(key: "a").incr("x"))
            await functions.pushSubscribe(cats: [CategoryData(name: "")])
            #expect(rig.codes.suffix(3) == [475, 474, 474] && rig.simulator.counters.requests == 0)
            rig.simulator.add([FaultRule(.answer(FaultAnswer(503)))])
            #expect(await rig.sdk.initialization(configuration: rig.configuration("role-1")))
            await functions.pushSubscribe()
            let before = try await rig.sdk.core.waiting()
            #expect(await rig.sdk.initialization(configuration: rig.configuration("role-2")))
            let after = try await rig.sdk.core.waiting()
            #expect(before == 1 && after == 0)
            await functions.pushSubscribe()
            let requests = rig.simulator.counters.requests
            await rig.sdk.clear()
            #expect(rig.codes.last == 205 && rig.simulator.counters.requests == requests)
            await functions.pushSubscribe()
            #expect(rig.codes.last == 501)
        }
    }

    @Test("Clearing before the initialization removes what earlier processes kept, and tells of a store that fails")
    func clearFirst() async throws {
        try await run { rig in
            rig.simulator.add([FaultRule(.answer(FaultAnswer(503)))])
            await rig.sdk.pushTokenFunction.setPushToken(provider: "ios-huawei", pushToken: "hms-token")
            await rig.sdk.pushSubscriptionFunctions.pushSubscribe()
            let kept = try await rig.sdk.core.waiting()
            #expect(kept == 1)
            rig.simulator.removeFaults()
            let requests = rig.simulator.counters.requests

            let next = await rig.restarted()
            await next.clear()
            #expect(rig.codes.last == 205 && rig.simulator.counters.requests == requests, "nothing is sent")
            #expect(await next.initialization(configuration: rig.configuration()))
            #expect(rig.simulator.profiles.isEmpty, "nothing waited any more")
            #expect(await next.pushTokenFunction.getPushToken()?.provider == "ios-apns", "nor is there a token by hand")
            await next.shutdown(grace: .zero)

            let broken = AltcraftSDK(http: rig.transport, state: BrokenState(), logger: quiet)
            broken.eventSDKFunctions.subscribe { rig.events.add($0) }
            await broken.clear()
            #expect(rig.codes.last == 403)
            await broken.shutdown(grace: .zero)
        }
    }

    /// A store on a disk that is gone.
    struct BrokenState: StateStore {
        func loadState(_ name: String) async throws(StoreError) -> [UInt8]? { throw .failed("gone") }
        func saveState(_ name: String, _ value: [UInt8]?) async throws(StoreError) { throw .failed("gone") }
    }

    @Test("A token that the app could not delete is not reported as deleted")
    func deletionFails() async throws {
        try await run { rig in
            let functions = rig.sdk.pushTokenFunction
            await functions.setFCMTokenProvider(rig.app)
            await functions.setHMSTokenProvider(rig.app)
            rig.app.refusesDeletion.withLock { $0 = true }
            for provider in ["ios-firebase", "ios-huawei"] {
                #expect(await !functions.deleteDeviceToken(provider: provider))
                #expect(rig.codes.last == 400)
            }
            rig.app.refusesDeletion.withLock { $0 = false }
            #expect(await functions.deleteDeviceToken(provider: "ios-huawei"))
        }
    }

    @Test("One callback hears the events: a new one replaces it, and what happens while it is off is lost")
    func stream() async throws {
        try await run { rig in
            let second = Recorder<Event>()
            let before = rig.codes
            rig.sdk.eventSDKFunctions.subscribe { second.add($0) }
            await rig.sdk.pushSubscriptionFunctions.pushSubscribe()
            #expect(rig.codes == before && second.all.map(\.eventCode).last == 230)
            rig.sdk.eventSDKFunctions.unsubscribe()
            await rig.sdk.pushSubscriptionFunctions.pushSuspend()
            #expect(second.all.filter { $0.eventCode == 230 }.count == 1)
            #expect(!(second.all.last is ErrorEvent))
            let answer = second.all.last?.value?["response_with_http_code"] as? ResponseWithHttp
            #expect(answer?.httpCode == 200 && answer?.response?.profile?.subscription?.status == "subscribed")
        }
    }

    @Test("Tokens: by priority, by hand, deleted, renewed")
    func tokens() async throws {
        try await run { rig in
            let functions = rig.sdk.pushTokenFunction
            #expect(await functions.getPushToken() == TokenData(provider: "ios-apns", token: apnsToken))
            await rig.sdk.pushSubscriptionFunctions.pushSubscribe()
            await functions.forcedTokenUpdate()
            #expect(rig.codes.last == 406 && rig.app.deletions.withLock { $0 } == 0)
            await functions.setFCMTokenProvider(rig.app)
            await functions.changePushProviderPriorityList(["ios-firebase", "ios-apns"])
            #expect(rig.codes.last == 231, "the subscription has moved")
            #expect(await functions.getPushToken()?.provider == "ios-firebase")
            await functions.forcedTokenUpdate()
            let moved = rig.simulator.profiles.first?.subscriptions.first
            #expect(moved?.token == fcmToken && moved?.provider == "ios-firebase")
            #expect(await functions.deleteDeviceToken(provider: "ios-firebase"))
            #expect(rig.app.deletions.withLock { $0 } == 2)
            #expect(await !functions.deleteDeviceToken(provider: "ios-apns") && rig.codes.last == 406)
            #expect(await !functions.deleteDeviceToken(provider: "amazon") && rig.codes.last == 473)
            #expect(await !functions.deleteDeviceToken(provider: "ios-huawei"), "there is no such provider")
            await functions.changePushProviderPriorityList(["amazon"])
            #expect(rig.codes.last == 473)
            await functions.setPushToken(provider: "ios-huawei", pushToken: [0xAB])
            #expect(await functions.getPushToken() == TokenData(provider: "ios-huawei", token: "ab"))
            await functions.setPushToken(provider: "amazon", pushToken: "x")
            #expect(rig.codes.last == 473)
        }
    }

    @Test("A token may be set and asked for before the initialization; an unknown provider is 473 there too")
    func tokensFirst() async throws {
        try await run(isInitialized: false) { rig in
            let functions = rig.sdk.pushTokenFunction
            #expect(await functions.getPushToken() == TokenData(provider: "ios-apns", token: apnsToken))
            await functions.setPushToken(provider: "amazon", pushToken: "x")
            #expect(rig.codes == [201, 473])
            await functions.setPushToken(provider: Constants.ProviderName.firebase, pushToken: fcmToken)
            #expect(await functions.getPushToken() == TokenData(provider: "ios-firebase", token: fcmToken))
            await functions.setPushToken(provider: Constants.ProviderName.apns, pushToken: Data([0xAB, 0x01]))
            #expect(await functions.getPushToken() == TokenData(provider: "ios-apns", token: "ab01"))
            #expect(await rig.sdk.initialization(configuration: rig.configuration()))
            #expect(await functions.getPushToken()?.token == "ab01", "the same token afterwards")
            await rig.sdk.pushSubscriptionFunctions.pushSubscribe()
            #expect(rig.simulator.profiles.first?.subscriptions.first?.token == "ab01")
        }
    }

    @Test("A changed order of providers is kept over a restart, until a configuration names another")
    func keptOrder() async throws {
        try await run { rig in
            let list = [Constants.ProviderName.huawei, Constants.ProviderName.apns]
            await rig.sdk.pushTokenFunction.setHMSTokenProvider(rig.app)
            #expect(await rig.sdk.pushTokenFunction.getPushToken()?.provider == "ios-apns")
            await rig.sdk.pushTokenFunction.changePushProviderPriorityList(list)
            #expect(await rig.sdk.pushTokenFunction.getPushToken()?.provider == "ios-huawei")
            let next = await rig.restarted()
            await next.pushTokenFunction.setHMSTokenProvider(rig.app)
            #expect(await next.initialization(configuration: rig.configuration()))
            #expect(await next.pushTokenFunction.getPushToken()?.provider == "ios-huawei")
            #expect(await next.initialization(configuration: rig.configuration(nil, ["ios-apns", "ios-huawei"])))
            #expect(await next.pushTokenFunction.getPushToken()?.provider == "ios-apns")
            #expect(await next.initialization(configuration: rig.configuration()))
            #expect(await next.pushTokenFunction.getPushToken()?.provider == "ios-apns", "the kept one is gone")
            await next.shutdown(grace: .zero)
        }
    }

    @Test("Providers come and go: nil removes one, and the next in order gives the token")
    func providersGo() async throws {
        try await run { rig in
            let functions = rig.sdk.pushTokenFunction
            await functions.setHMSTokenProvider(rig.app)
            await functions.setFCMTokenProvider(rig.app)
            await functions.setAPNSTokenProvider(nil)
            #expect(await functions.getPushToken()?.provider == "ios-firebase")
            await functions.setFCMTokenProvider(nil)
            #expect(await functions.getPushToken() == TokenData(provider: "ios-huawei", token: apnsToken))
            #expect(await functions.deleteDeviceToken(provider: "ios-huawei") && rig.app.deletions.withLock { $0 } == 1)
            await functions.setHMSTokenProvider(nil)
            #expect(await functions.getPushToken() == nil)
            await functions.forcedTokenUpdate()
            #expect(rig.codes.last == 502)
        }
    }

    @Test("A forced update of a token set by hand deletes it at its provider and goes on")
    func forcedByHand() async throws {
        try await run { rig in
            let functions = rig.sdk.pushTokenFunction
            await functions.setFCMTokenProvider(rig.app)
            await functions.setPushToken(provider: "ios-firebase", pushToken: "by-hand")
            await functions.forcedTokenUpdate()
            #expect(rig.app.deletions.withLock { $0 } == 1 && !rig.codes.contains(502))
            await functions.setPushToken(provider: "ios-apns", pushToken: "by-hand")
            await functions.forcedTokenUpdate()
            #expect(rig.codes.last == 406)
        }
    }

    @Test("A refused move is not asked for again with every subscription, but by a forced update")
    func refusedMove() async throws {
        try await run { rig in
            await rig.sdk.pushSubscriptionFunctions.pushSubscribe()
            rig.simulator.add([
                FaultRule(
                    match: FaultMatch(pathPrefix: "/subscription/push/update", count: 1),
                    .answer(FaultAnswer(400))
                )
            ])
            rig.app.token.withLock { $0 = apnsToken + "ff" }
            rig.simulator.add([
                FaultRule(
                    match: FaultMatch(pathPrefix: "/subscription/push/subscribe", count: 1),
                    .answer(FaultAnswer(400))
                )
            ])
            await rig.sdk.pushSubscriptionFunctions.pushSuspend()
            await rig.sdk.pushSubscriptionFunctions.pushSuspend(cats: [CategoryData(name: "golf", active: true)])
            #expect(rig.codes.filter { $0 == 431 }.count == 1)
            await rig.sdk.pushTokenFunction.forcedTokenUpdate()
            #expect(rig.codes.suffix(2) == [406, 231])
        }
    }

    @Test("The shared SDK has the seed's names: it wants connections, then it does what the samples do")
    func shared() async throws {
        try await run(isInitialized: false) { rig in
            let events = Recorder<Event>()
            AltcraftSDK.shared.eventSDKFunctions.subscribe { events.add($0) }
            #expect(AltcraftConfiguration.Builder().build() == nil && events.all.last?.eventCode == 471)
            let config = AltcraftConfiguration.Builder()
                .setApiUrl(rig.simulator.url)
                .setProviderPriorityList([Constants.ProviderName.apns, Constants.ProviderName.firebase])
                .build()
            #expect(await AltcraftSDK.shared.initialization(configuration: config) == false)
            #expect(events.all.last is ErrorEvent && events.all.last?.message?.contains("connect(") == true)
            var common = CommonBackendOptions(timeout: .seconds(10))
            common.trustPEM = rig.simulator.certificatePEM
            await AltcraftSDK.shared.connect(http: rig.transport, common: common, logger: quiet)
            AltcraftSDK.shared.setJWTProvider(provider: rig.app)
            await AltcraftSDK.shared.pushTokenFunction.setAPNSTokenProvider(rig.app)
            await AltcraftSDK.shared.backgroundTasks.registerBackgroundTask()
            #expect(await AltcraftSDK.shared.initialization(configuration: config))
            await AltcraftSDK.shared.pushSubscriptionFunctions.pushSubscribe(
                profileFields: AltcraftSDK.shared.pushSubscriptionFunctions.actionField(key: "_fname").set(value: "Ada")
            )
            let event = try #require(events.all.last { $0.eventCode == 230 })
            let answer = event.value?["response_with_http_code"] as? ResponseWithHttp
            #expect(answer?.response?.profile?.subscription?.fields?["_os"]?.stringValue == "IOS")
            rig.simulator.add([FaultRule(.answer(FaultAnswer(503)))])
            await AltcraftSDK.shared.pushSubscriptionFunctions.pushSuspend()
            #expect(events.all.last is RetryEvent && events.all.last?.value?["type"] == nil)
            let receiver = AltcraftPushReceiver()
            #expect(receiver.isAltcraftPush(AltcraftModelTests.apple) && !receiver.isAltcraftPush([:]))
            #expect(await receiver.didReceive(.object(AltcraftModelTests.apple))?.uid == "m-7f31c0")
            let retry = try #require(events.all.last { $0.eventCode == 532 })
            #expect(retry is RetryEvent && retry.value?["uid"] as? String == "m-7f31c0")
            await AltcraftSDK.shared.clear()
            await AltcraftSDK.shared.shutdown(grace: .zero)
            #expect(events.all.contains { $0.eventCode == 206 } && events.all.last?.eventCode == 570)
            AltcraftSDK.shared.eventSDKFunctions.unsubscribe()
        }
    }

    @Test("A payload that arrives is told and read; a tap opens what its button says")
    func payloads() async throws {
        try await run { rig in
            let notifications = rig.sdk.notificationManager
            rig.events.clear()
            let apple = JSONValue.object(AltcraftModelTests.apple)
            #expect(await notifications.didReceive(apple)?.buttons.count == 2)
            #expect(rig.codes == [203, 201, 232, 204] || rig.codes == [203, 232, 204])
            #expect(
                await notifications.didReceive(["aps": [:]]) == nil && notifications.isAltcraftPush(["_ac_push": nil])
            )
            #expect(await notifications.didReceive(action: "button0", payload: apple) == "https://shop.example.com/t")
            #expect(
                await notifications.didReceive(action: AltcraftReceivedPush.defaultAction, payload: apple)
                    == "shop://orders/118"
            )
            #expect(await notifications.didReceive(action: "button1", payload: apple) == nil && rig.codes.last == 455)
            #expect(await notifications.didReceive(action: "other", payload: apple) == nil && rig.codes.last == 457)
            rig.events.clear()
            _ = await notifications.didReceive(["_ac_push": 1, "_media": "no", "_buttons": "["])
            #expect(rig.codes == [203, 451, 454, 453, 204], "a failure never swallows the push")
            _ = await notifications.didReceive("text")
            #expect(rig.codes.last == 450)
            #expect(Set(rig.simulator.events.map(\.type)) == ["delivery", "open"])
        }
    }

    @Test("The background task repeats after 1, 5.5, 30.25 … seconds, then every three hours, and says so")
    func background() async throws {
        let time = StepTime()
        try await run(time: time) { rig in
            rig.simulator.add([FaultRule(match: FaultMatch(count: 4), .answer(FaultAnswer(503)))])
            await rig.sdk.pushSubscriptionFunctions.pushSubscribe()
            let task = Task { await rig.sdk.backgroundTasks.run() }
            var pauses: [Double] = []
            for _ in 0..<4 { pauses.append(await time.release().inSeconds) }
            pauses.append(await time.release { task.cancel() }.inSeconds)
            #expect(pauses == [1, 5.5, 30.25, 166.375, 10_800])
            await task.value
            #expect(rig.codes.filter { $0 == 530 }.count == 4 && rig.codes.filter { $0 == 230 }.count == 1)
            #expect(rig.codes.contains(206) && rig.codes.contains(207) && rig.codes.last == 570)
        }
    }
}

/// A clock whose waits end one by one, when the test says so.
final class StepTime: TimeSource {
    private let waits = AsyncStream<(Duration, CheckedContinuation<Void, Never>)>.makeStream()
    private let start = Date(timeIntervalSince1970: 1_760_000_000)

    var now: Date { start }

    func sleep(for duration: Duration) async throws {
        await withCheckedContinuation { waits.continuation.yield((duration, $0)) }
        try Task.checkCancellation()
    }

    /// Ends the next wait, after something that is to be done while it lasts; how long it would have been.
    func release(after body: () -> Void = {}) async -> Duration {
        for await (duration, continuation) in waits.stream {
            body()
            continuation.resume()
            return duration
        }
        return .zero
    }
}
