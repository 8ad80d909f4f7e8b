internal import Foundation
public import ChaparCore

/// Devices at Altcraft: their tokens, subscriptions, profile fields and events.
///
/// A gateway calls it through the abilities of a backend; other code calls the methods that return Altcraft's whole
/// answers. The caller queues, orders and repeats calls.
public final class AltcraftDevices: Sendable {
    let client: AltcraftClient
    let tokens: AltcraftTokens

    init(_ client: AltcraftClient, context: BackendContext) {
        self.client = client
        tokens = AltcraftTokens(client, context: context)
    }

    /// Returns the tag of the profile that the device's requests concern now.
    ///
    /// Without a credential it emits events and throws. The last event is 503 for a queue, which keeps its requests,
    /// and 402 for a call, which fails.
    package func userTag(of device: DeviceRecord, isQueue: Bool = false) async throws(PushError) -> String {
        do throws(PushError) {
            return try await client.auth.session(for: AltcraftIdentity(device)).tag
        } catch {
            let code = error.reason.flatMap { Int($0) } ?? 543
            client.emit(.error, "userTag()", error.message, code, device: device.id)
            if code == 540 { client.emit(.error, "userTag()", "auth data is nil", 543, device: device.id) }
            client.emit(.error, "userTag()", "the user cannot be identified", isQueue ? 503 : 402, device: device.id)
            throw error
        }
    }

    // MARK: Tokens

    /// Returns the token for the device's subscription: one set by hand, else that of the first service in the order;
    /// nil when there is none.
    public func pushToken(of device: DeviceRecord) async throws(PushError) -> TokenData? {
        let record = try await tokens.store.load(device.id)
        return try await tokens.token(of: device, record).map {
            TokenData(provider: $0.service.rawValue, token: $0.value)
        }
    }

    /// Sets a token that is preferred to those of the registry, until ``AltcraftBackend/forget(device:)``.
    ///
    /// An empty token changes nothing.
    ///
    /// - Throws: Reason 473 for a service that Altcraft does not know.
    public func setPushToken(_ token: String, provider: String, of device: String) async throws(PushError) {
        let service = try service(provider, device)
        guard !token.isEmpty else { return }
        try await tokens.store.edit(device) { $0.manual = DeviceToken(token, service: service) }
    }

    /// Sets a token of bytes, which become lower-case hexadecimal digits, as
    /// ``setPushToken(_:provider:of:)-swift.method`` does.
    public func setPushToken(_ token: [UInt8], provider: String, of device: String) async throws(PushError) {
        let digits = Array("0123456789abcdef".utf8)
        let text = token.flatMap { [digits[Int($0 >> 4)], digits[Int($0 & 15)]] }
        try await setPushToken(String(decoding: text, as: UTF8.self), provider: provider, of: device)
    }

    /// The order in which a device's tokens are preferred.
    public var providerPriority: [TokenService] { tokens.order }

    /// Changes the order; an unknown name changes nothing.
    ///
    /// Devices whose token changes by it are moved at their next registration, which a gateway makes when ``stamp``
    /// changes.
    ///
    /// - Throws: Reason 473.
    public func setProviderPriority(_ names: [String]) throws(PushError) {
        do throws(AltcraftFault) {
            tokens.order = try AltcraftProviders.order(names)
        } catch {
            client.emit(.error, "changePushProviderPriorityList()", error.message, 473, error.value)
            throw error.pushError
        }
    }

    /// Moves the device's subscription to its current token, if Altcraft has another one.
    ///
    /// - Returns: Whether a request was made.
    @discardableResult
    public func updateToken(of device: DeviceRecord, as attempt: OutboxAttempt) async throws(PushError) -> Bool {
        try await updateToken(of: device, as: attempt, repeatsRefused: true)
    }

    /// Moves the subscription as ``updateToken(of:as:)`` does.
    ///
    /// With JWTs, a move that Altcraft refused before is made again only if `repeatsRefused`.
    package func updateToken(
        of device: DeviceRecord,
        as attempt: OutboxAttempt,
        repeatsRefused: Bool
    ) async throws(PushError) -> Bool {
        let record = try await tokens.store.load(device.id)
        guard let token = try await tokens.token(of: device, record) else {
            client.emit(.error, "tokenUpdate()", "there is no push token", 502, device: device.id)
            throw PushError(.invalidRequest, "the device has no push token that counts here", reason: "502")
        }
        return try await update(record, to: token, device, attempt, repeatsRefused: repeatsRefused)
    }

    private func update(
        _ record: AltcraftRecord,
        to token: DeviceToken,
        _ device: DeviceRecord,
        _ attempt: OutboxAttempt,
        repeatsRefused: Bool
    ) async throws(PushError) -> Bool {
        // Altcraft has confirmed no token, so there is no subscription to move: the first subscription saves its token.
        guard let saved = record.saved, saved != token else { return false }
        // With a JWT Altcraft finds the profile without the old token, so a refused move need not be repeated each
        // time.
        guard repeatsRefused || client.auth.isShared || record.refused != token else { return false }
        var context = AltcraftRequestContext(action: .update, device: device, attempt: attempt)
        context.tokens = [saved.value, token.value]
        let isSync = client.auth.isShared
        do throws(PushError) {
            _ = try await client.perform(context) { _ in AltcraftRequest.update(from: saved, to: token, isSync: isSync)
            }
        } catch {
            if error.code == .invalidRequest { try await tokens.store.edit(device.id) { $0.refused = token } }
            throw error
        }
        try await tokens.store.edit(device.id) { ($0.saved, $0.refused) = (token, nil) }
        return true
    }

    // MARK: Subscriptions

    /// Changes the status of the subscription; returns Altcraft's answer.
    ///
    /// - Throws: `PushError.Code.invalidRequest`, without a request, when the options are wrong; otherwise the error of
    ///   the request.
    public func subscription(
        _ change: SubscriptionChange,
        of device: DeviceRecord,
        as attempt: OutboxAttempt
    ) async throws(PushError) -> ResponseWithHttp {
        var issues: [Finding] = []
        let options = AltcraftChange(change.options, sync: client.options.sync, issues: &issues)
        var context = AltcraftRequestContext(action: AltcraftAction(change.status), device: device, attempt: attempt)
        if let issue = issues.first {
            let code = issue.code == "not_primitive" ? 475 : 474
            client.emit(context, .error, "\(issue.pointer): \(issue.detail)", code)
            throw PushError(.invalidRequest, "\(issue.pointer): \(issue.detail)", reason: "\(code)")
        }
        if change.status == .subscribed, device.attributes["notifications_allowed"] == false {
            throw client.unprepared(context, "the device does not allow notifications", code: 504)
        }
        let record = try await tokens.store.load(device.id)
        guard let token = try await tokens.token(of: device, record) else {
            throw client.unprepared(context, "there is no push token")
        }
        context.tokens = [token.value]
        do throws(PushError) {
            let own = OutboxAttempt(at: attempt.at, number: attempt.number)
            _ = try await update(record, to: token, device, own, repeatsRefused: false)
        } catch {
            // With a role token Altcraft finds the profile by the old token, so nothing may be sent before the move.
            guard error.code == .invalidRequest, !client.auth.isShared else { throw error }
        }
        let fields = device.altcraftFields(client.options.appInfo).overlaid(with: options.customFields)
        let time = Int64(clamping: attempt.at.timeIntervalSince1970)
        let answer = try await client.perform(context) { mode in
            .subscription(change.status, token: token, mode: mode, at: time, options: options, fields: fields)
        }
        try await recordAnswer(answer, token, device.id)
        return answer
    }

    /// Suspends the subscriptions that other profiles have with the device's token and resumes this profile's, after a
    /// log-in or log-out.
    public func unsuspend(_ device: DeviceRecord) async throws(PushError) -> ResponseWithHttp {
        try await unsuspend(device, answer: nil)
    }

    package func unsuspend(_ device: DeviceRecord, answer answerSlot: AnswerSlot?) async throws(PushError)
        -> ResponseWithHttp
    {
        var context = AltcraftRequestContext(
            action: .unsuspend,
            device: device,
            attempt: OutboxAttempt(at: client.time.now)
        )
        context.answerSlot = answerSlot
        let record = try await tokens.store.load(device.id)
        guard let token = try await tokens.token(of: device, record) else {
            throw client.unprepared(context, "there is no push token")
        }
        context.tokens = [token.value]
        let answer = try await client.perform(context) { .unsuspend(token, mode: $0) }
        if answer.response?.profile?.subscription != nil { try await recordAnswer(answer, token, device.id) }
        return answer
    }

    /// Asks about a subscription.
    public func status(_ query: SubscriptionQuery, of device: DeviceRecord) async throws(PushError) -> ResponseWithHttp
    {
        try await status(query, of: device, answer: nil)
    }

    package func status(
        _ query: SubscriptionQuery,
        of device: DeviceRecord,
        answer answerSlot: AnswerSlot?
    ) async throws(PushError) -> ResponseWithHttp {
        var context = AltcraftRequestContext(
            action: .status,
            device: device,
            attempt: OutboxAttempt(at: client.time.now)
        )
        context.answerSlot = answerSlot
        let service: TokenService?
        var token: String?
        switch query {
        case .latest: service = nil
        case .latestOf(let wanted?): service = try self.service(wanted.rawValue, device.id)
        case .latestOf(nil), .current:
            let record = try await tokens.store.load(device.id)
            var current = record.saved
            if current == nil { current = try await tokens.token(of: device, record) }
            guard let current else { throw client.unprepared(context, "there is no push token") }
            service = current.service
            if query == .current { token = current.value }
        }
        context.tokens = token.map { [$0] } ?? []
        return try await client.perform(context) { .status(service: service, token: token, mode: $0) }
    }

    private func recordAnswer(_ answer: ResponseWithHttp, _ token: DeviceToken, _ device: String)
        async throws(PushError)
    {
        let hashID = answer.response?.profile?.subscription?.hashId
        try await tokens.store.edit(device) { record in
            // After a refused move, Altcraft made this subscription with the new token.
            if record.saved == nil || record.refused == token { (record.saved, record.refused) = (token, nil) }
            if let hashID { record.hashID = hashID }
        }
    }

    // MARK: Profiles and events

    /// Changes profile fields without touching a subscription.
    public func updateProfile(
        _ fields: JSONObject,
        skipTriggers: Bool = false,
        of device: DeviceRecord,
        as attempt: OutboxAttempt
    ) async throws(PushError) -> ResponseWithHttp {
        let context = AltcraftRequestContext(action: .profile, device: device, attempt: attempt)
        if let issue = AltcraftFields.issues(profile: fields, at: "#").first {
            client.emit(context, .error, "\(issue.pointer): \(issue.detail)", 474)
            throw PushError(.invalidRequest, "\(issue.pointer): \(issue.detail)", reason: "474")
        }
        let folded = AltcraftFields.folded(profile: fields)
        return try await client.perform(context) { _ in .profile(folded, skipTriggers: skipTriggers) }
    }

    /// Reports to Altcraft that a message reached the device, or was opened; `uid` is the message's id in its payload.
    public func report(
        _ event: PushEvent,
        uid: String,
        of device: DeviceRecord,
        as attempt: OutboxAttempt
    ) async throws(PushError) -> ResponseWithHttp {
        let value: JSONObject = ["uid": .string(uid), "type": .string(event.altcraftName)]
        let context = AltcraftRequestContext(
            action: .event,
            device: device,
            attempt: attempt,
            value: value,
            remark: event.altcraftName
        )
        guard !uid.allSatisfy(\.isWhitespace) else {
            client.emit(context, .error, "the payload has no _uid", 451)
            throw PushError(.invalidRequest, "the payload has no _uid", reason: "451")
        }
        let time = Int64(clamping: attempt.at.timeIntervalSince1970)
        return try await client.perform(context) { .event(event, uid: uid, mode: $0, at: time) }
    }

    /// Reports to Altcraft an event of the app's own, such as a purchase.
    ///
    /// - Throws: `PushError.Code.invalidRequest`, without a request, when the event is wrong; otherwise the error of
    ///   the request.
    public func report(
        custom event: CustomEvent,
        of device: DeviceRecord,
        as attempt: OutboxAttempt
    ) async throws(PushError) -> ResponseWithHttp {
        let context = AltcraftRequestContext(
            action: .mobile,
            device: device,
            attempt: attempt,
            value: ["name": .string(event.name)],
            remark: event.name
        )
        var issues: [Finding] = []
        let read = AltcraftMobileEvent(event, pixel: client.options.pixel, issues: &issues)
        if let issue = issues.first {
            let code = issue.code == "not_primitive" ? 472 : 474
            client.emit(context, .error, "\(issue.pointer): \(issue.detail)", code)
            throw PushError(.invalidRequest, "\(issue.pointer): \(issue.detail)", reason: "\(code)")
        }
        let time = Int64(clamping: attempt.at.timeIntervalSince1970)
        return try await client.perform(context) { _ in .mobile(read, at: time, zone: device.minutesWest) }
    }

    func service(_ name: String, _ device: String) throws(PushError) -> TokenService {
        do throws(AltcraftFault) {
            return try AltcraftProviders.service(name)
        } catch {
            client.emit(.error, "provider()", error.message, 473, error.value, device: device)
            throw error.pushError
        }
    }
}

extension JSONObject {
    /// Returns these members with the other's added, which replace those of the same name.
    func overlaid(with other: JSONObject) -> JSONObject {
        var object = self
        for (name, value) in other { object[name] = value }
        return object
    }
}
