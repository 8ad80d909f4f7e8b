public import Foundation
internal import ChaparComposition
public import ChaparCore
public import ChaparAltcraft

/// Subscriptions, in the SDK's words.
///
/// An app reaches it through ``AltcraftSDK``. It has no state: every call becomes a request of the one
/// `AltcraftSDKCore`, which stores a failed request and repeats it.
public struct AltcraftSubscriptionFunctions: Sendable {
    let core: AltcraftSDKCore

    /// Subscribes the device; returns the answer, nil without one.
    ///
    /// After a failure of the platform the request is repeated later.
    @discardableResult
    public func pushSubscribe(
        sync: Bool = true,
        profileFields: JSONObject? = nil,
        customFields: JSONObject? = nil,
        cats: [CategoryData]? = nil,
        replace: Bool? = nil,
        skipTriggers: Bool? = nil
    ) async -> ResponseWithHttp? {
        await change(.subscribed, sync, profileFields, customFields, cats, replace, skipTriggers)
    }

    /// Unsubscribes the device.
    @discardableResult
    public func pushUnSubscribe(
        sync: Bool = true,
        profileFields: JSONObject? = nil,
        customFields: JSONObject? = nil,
        cats: [CategoryData]? = nil,
        replace: Bool? = nil,
        skipTriggers: Bool? = nil
    ) async -> ResponseWithHttp? {
        await change(.unsubscribed, sync, profileFields, customFields, cats, replace, skipTriggers)
    }

    /// Suspends the device's subscription, without an unsubscription in the profile.
    @discardableResult
    public func pushSuspend(
        sync: Bool = true,
        profileFields: JSONObject? = nil,
        customFields: JSONObject? = nil,
        cats: [CategoryData]? = nil,
        replace: Bool? = nil,
        skipTriggers: Bool? = nil
    ) async -> ResponseWithHttp? {
        await change(.suspended, sync, profileFields, customFields, cats, replace, skipTriggers)
    }

    /// Suspends the subscriptions that other profiles have with the device's token and resumes this profile's, after
    /// the JWT was switched.
    ///
    /// The request is not repeated. Returns nil when there was no answer. If the answer is HTTP 200 without a
    /// subscription, subscribe next.
    public func unSuspendPushSubscription() async -> ResponseWithHttp? {
        guard let backend = await core.ready("unSuspendPushSubscription()") else { return nil }
        let answerSlot = AnswerSlot()
        // A failure was emitted as an event already; its answer, if there was one, is still returned.
        _ = try? await backend.mobile.unsuspend(core.record(), answer: answerSlot)
        return answerSlot.answer
    }

    /// Returns the status of the profile's newest subscription.
    public func getStatusOfLatestSubscription() async -> ResponseWithHttp? { await status(.latest) }

    /// Returns the status of the device's own subscription.
    public func getStatusForCurrentSubscription() async -> ResponseWithHttp? { await status(.current) }

    /// Returns the status of the profile's newest subscription of a service; nil means the service of the current
    /// token.
    public func getStatusOfLatestSubscriptionForProvider(provider: String? = nil) async -> ResponseWithHttp? {
        await status(.latestOf(provider.map { TokenService(rawValue: $0) }))
    }

    /// Begins a functional field.
    public func actionField(key: String) -> ActionField { AltcraftFields.actionField(key: key) }

    private func status(_ query: SubscriptionQuery) async -> ResponseWithHttp? {
        guard let backend = await core.ready("status()") else { return nil }
        let answerSlot = AnswerSlot()
        _ = try? await backend.mobile.status(query, of: core.record(), answer: answerSlot)
        return answerSlot.answer
    }

    private func change(
        _ status: SubscriptionStatus,
        _ sync: Bool,
        _ profileFields: JSONObject?,
        _ customFields: JSONObject?,
        _ cats: [CategoryData]?,
        _ replace: Bool?,
        _ skipTriggers: Bool?
    ) async -> ResponseWithHttp? {
        let options = JSONObject.present([
            ("sync", .bool(sync)), ("profile_fields", profileFields.map { .object($0) }),
            ("custom_fields", customFields.map { .object($0) }), ("cats", cats.map { .array($0.map(\.json)) }),
            ("replace", replace.map { .bool($0) }), ("skip_triggers", skipTriggers.map { .bool($0) }),
        ])
        var issues: [Finding] = []
        _ = AltcraftChange(options, sync: sync, issues: &issues)
        if let issue = issues.first {
            let code = issue.code == "not_primitive" ? 475 : 474
            core.events.emit(.error, "\(AltcraftAction(status).rawValue)()", "\(issue.pointer): \(issue.detail)", code)
            return nil
        }
        return await core.submit(status.rawValue, options, "\(AltcraftAction(status).rawValue)()")
    }
}

/// Push tokens, in the SDK's words.
///
/// An app reaches it through ``AltcraftSDK``, and sets its token providers here. This type has no state: the core's
/// chain has the providers, their order and a token set by hand.
public struct AltcraftTokenFunctions: Sendable {
    let core: AltcraftSDKCore

    /// Sets the provider of APNs tokens; nil removes it.
    public func setAPNSTokenProvider(_ provider: (any APNSInterface)?) async {
        guard let provider else { return await core.removeProvider(of: .iOSAPNs) }
        await core.setProvider(ClosureTokenProvider(.iOSAPNs) { await provider.getToken() })
    }

    /// Sets the provider of Firebase tokens; nil removes it.
    public func setFCMTokenProvider(_ provider: (any FCMInterface)?) async {
        guard let provider else { return await core.removeProvider(of: .iOSFirebase) }
        let source = ClosureTokenProvider(.iOSFirebase) { await provider.getToken() }
        await core.setProvider(Self.deleting(source) { await provider.deleteToken() })
    }

    /// Sets the provider of Huawei tokens; nil removes it.
    public func setHMSTokenProvider(_ provider: (any HMSInterface)?) async {
        guard let provider else { return await core.removeProvider(of: .iOSHuawei) }
        let source = ClosureTokenProvider(.iOSHuawei) { await provider.getToken() }
        await core.setProvider(Self.deleting(source) { await provider.deleteToken() })
    }

    private static func deleting(
        _ source: ClosureTokenProvider,
        _ delete: @escaping @Sendable () async -> Bool
    ) -> DeletingClosureTokenProvider {
        DeletingClosureTokenProvider(source) { _ in
            guard await delete() else { throw PushError(.unavailable, "the app did not delete the token") }
        }
    }

    /// Returns the current token: one set by hand, else that of the first provider in order that has one; also before
    /// the initialization.
    public func getPushToken() async -> TokenData? { await core.pushToken() }

    /// Sets a token that is preferred to all providers, until the data is cleared; also before the initialization.
    ///
    /// An unknown provider is event 473; nil and an empty token change nothing.
    public func setPushToken(provider: String, pushToken: String?) async {
        await core.setPushToken(pushToken ?? "", provider: provider)
    }

    /// Sets a token of bytes, which become lower-case hexadecimal digits.
    public func setPushToken(provider: String, pushToken: [UInt8]) async {
        await core.setPushToken(pushToken.hexadecimal, provider: provider)
    }

    /// Sets a token of the bytes that Apple gives to an app.
    public func setPushToken(provider: String, pushToken: Data) async {
        await core.setPushToken(Array(pushToken).hexadecimal, provider: provider)
    }

    /// Changes the order of the services and moves the subscription; an unknown name changes nothing (event 473).
    ///
    /// The order is stored, also over a restart, until a configuration names another or the data is cleared.
    public func changePushProviderPriorityList(_ list: [String]) async {
        guard let backend = await core.ready("changePushProviderPriorityList()") else { return }
        do throws(PushError) {
            try backend.mobile.setProviderPriority(list)
            try await core.setOrder(backend.mobile.providerPriority)
        } catch {
            return  // Emitted as an event.
        }
        do throws(StoreError) {
            try await core.keepOrder(backend.mobile.providerPriority)
        } catch {
            core.events.emit(.error, "changePushProviderPriorityList()", "the order cannot be kept: \(error)", 403)
        }
        await core.sweep()
    }

    /// Deletes the token of a service, and returns whether it is gone.
    ///
    /// An APNs token cannot be deleted (event 406); an unknown name is event 473, a failure event 400.
    @discardableResult
    public func deleteDeviceToken(provider: String) async -> Bool {
        do throws(AltcraftFault) {
            let service = try AltcraftProviders.service(provider)
            guard service != .iOSAPNs else {
                core.events.emit(.error, "deleteDeviceToken()", "an APNs token cannot be deleted", 406)
                return false
            }
            do throws(PushError) {
                try await core.chain.delete(service)
                return true
            } catch {
                core.events.emit(.error, "deleteDeviceToken()", error.message, 400)
                return false
            }
        } catch {
            core.events.emit(.error, "deleteDeviceToken()", error.message, 473, error.value)
            return false
        }
    }

    /// Deletes the current token if it can be deleted, and moves the subscription to the next one.
    ///
    /// No token is event 502; an APNs token is event 406, after which the ordinary update goes on.
    public func forcedTokenUpdate() async {
        guard await core.ready("forcedTokenUpdate()") != nil else { return }
        func nothing() { core.events.emit(.error, "forcedTokenUpdate()", "there is no push token", 502) }
        guard let current = await getPushToken() else { return nothing() }
        do throws(PushError) {
            try await core.chain.delete(TokenService(rawValue: current.provider))
        } catch {
            let code = error.code == .unsupported || current.provider == Constants.ProviderName.apns ? 406 : 400
            core.events.emit(.error, "forcedTokenUpdate()", error.message, code)
        }
        guard await getPushToken() != nil else { return nothing() }
        await core.sweepAnew()
    }
}

extension [UInt8] {
    /// The bytes as lower-case hexadecimal digits, two for each byte.
    fileprivate var hexadecimal: String {
        let digits = Array("0123456789abcdef".utf8)
        return String(decoding: flatMap { [digits[Int($0 >> 4)], digits[Int($0 & 15)]] }, as: UTF8.self)
    }
}

/// Deliveries and openings, in the SDK's words.
public struct AltcraftEventFunctions: Sendable {
    let core: AltcraftSDKCore

    /// Reports that a message reached the device; a payload that is not Altcraft's is ignored.
    @discardableResult
    public func deliveryEvent(from payload: JSONValue) async -> ResponseWithHttp? { await report(.delivered, payload) }

    /// Reports that a message was opened; a payload that is not Altcraft's is ignored.
    @discardableResult
    public func openEvent(from payload: JSONValue) async -> ResponseWithHttp? { await report(.opened, payload) }

    private func report(_ event: PushEvent, _ payload: JSONValue) async -> ResponseWithHttp? {
        let function = "\(event.altcraftName)Event()"
        guard let object = payload.objectValue else {
            core.events.emit(.error, function, "the payload is no object", 450)
            return nil
        }
        guard let read = AltcraftReceivedPush(object) else { return nil }
        guard let uid = read.uid else {
            core.events.emit(.error, function, "the payload has no _uid", 451)
            return nil
        }
        return await core.submit(event.rawValue, ["uid": .string(uid)], function)
    }
}

/// Payloads that arrive and taps on them, without a display.
public struct AltcraftNotifications: Sendable {
    let core: AltcraftSDKCore

    /// Whether a payload is Altcraft's.
    public func isAltcraftPush(_ payload: JSONObject) -> Bool { AltcraftReceivedPush.isAltcraft(payload) }

    /// Reads a payload that arrived and tells its delivery; nil when it is not Altcraft's.
    ///
    /// An unreadable part emits an event, and the rest is returned.
    public func didReceive(_ payload: JSONValue) async -> AltcraftReceivedPush? {
        guard let object = payload.objectValue else {
            core.events.emit(.error, "didReceive()", "the payload is no object", 450)
            return nil
        }
        guard let read = AltcraftReceivedPush(object) else { return nil }
        core.events.emit(.info, "didReceive()", "an Altcraft push was received", 203)
        await AltcraftEventFunctions(core: core).deliveryEvent(from: payload)
        if read.hasBadButtons { core.events.emit(.error, "didReceive()", "_buttons cannot be read", 454) }
        if read.hasBadMedia { core.events.emit(.error, "didReceive()", "_media is no address", 453) }
        core.events.emit(.info, "didReceive()", "the push is handed on", 204)
        return read
    }

    /// Reports the opening after a tap, and returns the address to open; nil opens the app itself.
    public func didReceive(action: String, payload: JSONValue) async -> String? {
        guard let read = payload.objectValue.flatMap(AltcraftReceivedPush.init) else { return nil }
        await AltcraftEventFunctions(core: core).openEvent(from: payload)
        do throws(AltcraftReceivedPush.LinkFault) {
            return try read.link(for: action)
        } catch {
            let value = JSONObject.present([
                ("identifier", .string(error.identifier)), ("index", error.index.map { .integer(Int64($0)) }),
            ])
            core.events.emit(.error, "didReceive()", "the tap leads nowhere", error.code, value)
            return nil
        }
    }
}

/// The background work of the SDK, as a loop that the caller runs.
public struct AltcraftBackgroundTasks: Sendable {
    let core: AltcraftSDKCore

    /// Begins ``run()`` in the background and returns at once; it goes on until ``AltcraftSDK/shutdown(grace:)``.
    public func registerBackgroundTask() async { await core.runInBackground { await run() } }

    /// Repeats waiting requests until the task is cancelled: soon after a failure, and every three hours in any case.
    public func run() async {
        core.events.emit(.info, "registerBackgroundTask()", "the background task is registered", 206)
        while await core.waitForWork() {
            await core.sweep()
            core.events.emit(.info, "backgroundTask()", "the background task is completed", 207)
        }
        core.events.emit(.error, "backgroundTask()", "the background task was ended", 570)
    }
}

/// The SDK's class for the notification service extension, without its display: reads a payload and reports its
/// delivery.
public struct AltcraftPushReceiver: Sendable {
    private let notifications: AltcraftNotifications

    /// Makes a receiver that reports deliveries through an SDK, by default ``AltcraftSDK/shared``.
    public init(_ sdk: AltcraftSDK = .shared) { notifications = sdk.notificationManager }

    /// Whether a payload is Altcraft's.
    public func isAltcraftPush(_ payload: JSONObject) -> Bool { notifications.isAltcraftPush(payload) }

    /// Reads a payload that arrived and tells its delivery; nil when it is not Altcraft's.
    public func didReceive(_ payload: JSONValue) async -> AltcraftReceivedPush? {
        await notifications.didReceive(payload)
    }
}
