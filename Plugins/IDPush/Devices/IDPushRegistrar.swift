import Foundation
import ChaparCore
import ChaparOneSignalDevices

/// Registers and edits devices at IDPush, each with a record of its own.
///
/// It is the server-side counterpart of the five actions of `IDPush`.
struct IDPushRegistrar: DeviceRegistrar, SubscriptionManager, TagEditor {
    let client: IDPushClient
    let options: IDPushOptions
    let players: WatchedPlayers
    let limiter: DeviceLimiter
    let time: any TimeSource

    // MARK: Registering

    /// Whether the device has a token that OneSignal takes.
    func accepts(_ device: DeviceRecord) -> Bool { (try? DeviceFields(device)) != nil }

    /// Whether the device waits, since its user has turned messages off.
    func awaits(_ device: DeviceRecord) -> Bool { players.isDeclined(device.id) }

    /// The project, as a hash since it is a secret, and the entitlement of its tokens.
    var stamp: String { DeviceFields.hash("\(options.projectID.reveal())\n\(options.environment.rawValue)") }

    /// Adds the device, or edits it when only its fields have changed.
    ///
    /// Adding may be repeated: OneSignal identifies the device by the token.
    func register(_ device: DeviceRecord) async throws(PushError) -> String {
        let fields = try DeviceFields(device)
        return try await limiter.run(device.id) { () async throws(PushError) in
            let known = try await players.load(device: device.id)
            guard let known, known.tokenHash == fields.tokenHash(at: stamp) else {
                return try await add(fields, known).platformID
            }
            if known.fieldsHash == fields.fieldsHash { return try await players.readmit(known).platformID }
            var parameters = parameters(fields)
            parameters["external_user_id"] = .string(device.user ?? "")
            let record = try await edit(device, .editDevice(parameters: parameters)) { record in
                record.fieldsHash = fields.fieldsHash
                if record.subscription == .declined { record.subscription = .unknown }
            }
            return record.platformID
        }
    }

    /// Registers the device, then sends the fields that the action itself has no parameter for.
    ///
    /// IDPush's own action carries consent (`notification_types=1`); a user who has opted out is taken out
    /// again, as one operation.
    private func add(_ fields: DeviceFields, _ known: PlayerRecord?) async throws(PushError) -> PlayerRecord {
        let action = IDPushAction.addDevice(token: fields.token)
        let reply = try await exchange(action, playerID: nil, facts: facts(fields.record))
        guard let id = reply.playerID else { throw Self.invalid(reply) }
        var record = PlayerRecord(
            device: fields.record.id,
            platformID: id,
            tokenHash: fields.tokenHash(at: stamp),
            fieldsHash: "",
            since: time.now,
            renewedAt: known?.renewedAt
        )
        var parameters = parameters(fields)
        if let known, known.subscription == .unsubscribed || known.subscription == .declined {
            (record.subscription, record.reason) = (Optional(known).standingAfterRegistration, -2)
            parameters["notification_types"] = -2
        } else {
            // If the next request fails, it is repeated without the registration.
            try await players.save(record)
        }
        if !parameters.isEmpty {
            do { try await time.sleep(for: options.writeSpacing) } catch { throw Self.cancelled }
            _ = try await exchange(.editDevice(parameters: parameters), playerID: id, facts: facts(fields.record))
        }
        record.fieldsHash = fields.fieldsHash
        try await players.save(record)
        return record
    }

    /// Returns the parameters that IDPush passes on to OneSignal but that adding a device does not have.
    private func parameters(_ fields: DeviceFields) -> JSONObject {
        var parameters = JSONObject()
        if let language = fields.language { parameters["language"] = .string(language) }
        if let seconds = fields.secondsFromUTC(at: time.now) { parameters["timezone"] = .integer(Int64(seconds)) }
        if let user = fields.record.user { parameters["external_user_id"] = .string(user) }
        for name in DeviceFields.places {
            if let value = fields.record.attributes[name] { parameters[name] = value }
        }
        return parameters
    }

    /// Unsubscribes, since there is no route that deletes, and forgets the id.
    func remove(_ device: DeviceRecord) async throws(PushError) {
        try await limiter.run(device.id) { () async throws(PushError) in
            guard let record = try await players.load(device: device.id) else { return }
            do throws(PushError) {
                _ = try await exchange(.unsubscribe, playerID: record.platformID, facts: facts(device))
            } catch  where error.reason == IDPushRejections.unknownDevice {}  // Gone already.
            try await players.remove(device: device.id)
        }
    }

    // MARK: Subscription and tags

    /// Opts the device in or out.
    func setStatus(_ status: SubscriptionStatus, of device: DeviceRecord) async throws(PushError) {
        let isOn = status == .subscribed
        let now = time.now
        try await limiter.run(device.id) { () async throws(PushError) in
            _ = try await edit(device, isOn ? .subscribe : .unsubscribe) { record in
                record.subscription = isOn ? .subscribed : .unsubscribed
                record.reason = isOn ? 1 : -2
                record.since = now
            }
        }
    }

    /// Returns the status in the stored record, since IDPush has no route that reads.
    func status(of device: DeviceRecord) async throws(PushError) -> SubscriptionStatus? {
        switch try await players.load(device: device.id)?.subscription {
        case .subscribed?: .subscribed
        case .unsubscribed?, .declined?: .unsubscribed
        case .unknown?, nil: nil
        }
    }

    /// Finds the tags that OneSignal would not take.
    func issues(in tags: JSONObject, of device: DeviceRecord) -> [Finding] { OneSignalTags.issues(tags) }

    /// Sets tags.
    ///
    /// A user who has opted out stays so, although the seed's own action would opt the user in.
    func setTags(_ tags: JSONObject, of device: DeviceRecord) async throws(PushError) {
        let requests = try OneSignalTags.requests(tags)
        for request in requests {
            try await limiter.run(device.id) { () async throws(PushError) in
                let state = try await players.load(device: device.id)?.subscription
                var parameters: JSONObject = ["tags": .string(JSONValue.object(request).text)]
                if state == .unsubscribed { parameters["notification_types"] = -2 }
                _ = try await edit(device, .editDevice(parameters: parameters)) { _ in }
            }
        }
    }

    // MARK: Exchanges

    /// Edits the device's record.
    ///
    /// A player that is lost is added again from the token, and the edit done once more.
    private func edit(
        _ device: DeviceRecord,
        _ action: IDPushAction,
        _ change: (inout PlayerRecord) -> Void
    ) async throws(PushError) -> PlayerRecord {
        var record: PlayerRecord
        if let known = try await players.load(device: device.id) {
            record = known
        } else {
            record = try await add(try DeviceFields(device), nil)
        }
        do throws(PushError) {
            _ = try await exchange(action, playerID: record.platformID, facts: facts(device))
        } catch {
            // IDPush may report an unknown player with status 0 only: the device is then registered anew, at most once
            // a day.
            let isFresh = record.renewedAt.map { time.now.timeIntervalSince($0) < 86400 } ?? false
            guard error.reason == IDPushRejections.unknownDevice || error.reason == "refused_by_idpush" && !isFresh,
                let fields = try? DeviceFields(device)
            else { throw error }
            record.renewedAt = time.now
            try await players.save(record)  // Saved even if adding fails, so that not every edit tries it.
            record = try await add(fields, record)
            _ = try await exchange(action, playerID: record.platformID, facts: facts(device))
        }
        change(&record)
        try await players.save(record)
        return record
    }

    /// Performs one action and returns the meaning of its answer.
    ///
    /// An unreadable answer is retried: there are at most ``IDPushOptions/attempts`` attempts.
    private func exchange(
        _ action: IDPushAction,
        playerID: String?,
        facts: DeviceFacts
    ) async throws(PushError) -> IDPushReply {
        let request: IDPushRequest
        do throws(IDPushActionError) {
            request = try IDPushRequest(
                action,
                projectID: options.projectID.reveal(),
                playerID: playerID,
                facts: facts
            )
        } catch {
            throw PushError(.invalidRequest, error.description, reason: "missing_device_token")
        }
        for attempt in 1... {
            let answer: HTTPAnswer
            do throws(HTTPFailure) {
                answer = try await client.exchange(request)
            } catch {
                throw error.pushError
            }
            if let error = IDPushRejections.error(answer, isEdit: playerID != nil, now: time.now) { throw error }
            let reply = IDPushReply(status: answer.status, body: answer.body, for: action, acceptsAny2xx: true)
            if reply.error == nil { return reply }
            if case .integer? = reply.data?["status"], reply.data?["status"] != 1 {
                throw IDPushRejections.error(reply)
            }
            guard attempt < options.attempts else { throw Self.invalid(reply) }
            do { try await time.sleep(for: options.retryPause * attempt) } catch { throw Self.invalid(reply) }
        }
        throw PushError(.badAnswer, "IDPush gave no answer that can be read", reason: "invalid_response")
    }

    private static func invalid(_ reply: IDPushReply) -> PushError {
        PushError(.badAnswer, reply.message ?? "IDPush's answer cannot be read", reason: "invalid_response")
    }

    private static var cancelled: PushError {
        PushError(.unavailable, "the caller was cancelled", reason: "cancelled")
    }

    private func facts(_ device: DeviceRecord) -> DeviceFacts {
        let fields = try? DeviceFields(device)
        func text(_ name: String) -> String { device.attributes[name]?.stringValue ?? "" }
        let environment = text("environment").isEmpty ? options.environment.rawValue : text("environment")
        return DeviceFacts(
            type: fields?.kind.rawValue ?? Self.type(of: text("platform")),
            appVersion: text("app_version"),
            model: text("model"),
            osVersion: text("os_version"),
            isTestBuild: environment == "development"
        )
    }

    private static func type(of platform: String) -> Int { platform == "android" ? 1 : 0 }
}
