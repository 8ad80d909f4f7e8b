import Foundation
import ChaparCore
import ChaparOneSignalDevices

/// Devices by OneSignal's user model: a user owns subscriptions, and tags belong to the user.
struct OneSignalUsers: OneSignalDevices {
    let client: OneSignalClient
    let players: WatchedPlayers
    let limiter: DeviceLimiter

    private var app: String { client.options.appID }

    // MARK: Registering

    /// Adds the device to its user, or to an anonymous one; an existing subscription moves.
    func register(_ device: DeviceRecord) async throws(PushError) -> String {
        let fields = try DeviceFields(device)
        if let user = device.user, OneSignalBatch.impossibleUsers.contains(user) {
            throw PushError(.invalidRequest, "OneSignal takes no such external id", reason: "bad_user")
        }
        return try await limiter.run(device.id) { () async throws(PushError) in
            let known = try await players.load(device: device.id)
            if let known, known.tokenHash == fields.tokenHash(at: stamp), known.fieldsHash == fields.fieldsHash {
                return try await players.readmit(known).platformID
            }
            return try await create(fields, known).platformID
        }
    }

    /// Creates the subscription, finds its id, and keeps it before it is reported.
    private func create(_ fields: DeviceFields, _ known: PlayerRecord?) async throws(PushError) -> PlayerRecord {
        var request = JSONObject()
        if let user = fields.record.user { request["identity"] = ["external_id": .string(user)] }
        var properties = JSONObject()
        if let language = fields.language { properties["language"] = .string(language) }
        if let zone = fields.timeZone { properties["timezone_id"] = .string(zone) }
        for name in DeviceFields.places {
            if let value = fields.record.attributes[name] { properties[name] = value }
        }
        if !properties.isEmpty { request["properties"] = .object(properties) }
        var subscription = self.subscription(fields)
        // Only ``setStatus(_:of:)`` opts a user in: a known subscription keeps its state, a new one is subscribed at
        // OneSignal.
        let standing = known.standingAfterRegistration
        if standing == .unsubscribed { (subscription["enabled"], subscription["notification_types"]) = (false, -31) }
        request["subscriptions"] = [.object(subscription)]
        let answer = try await post(request, for: fields.record.user)
        let identity = answer.body?["identity"]?["onesignal_id"]?.stringValue
        var id = Self.find(fields, in: answer.body)
        if id == nil {
            let alias: (String, String)? =
                fields.record.user.map { ("external_id", $0) } ?? identity.map { ("onesignal_id", $0) }
            for span in client.options.lookAgain where id == nil {
                guard let alias else { break }
                do { try await client.time.sleep(for: span) } catch { break }
                id = Self.find(fields, in: try await user(alias)?.body)
            }
        }
        guard let id else {
            throw PushError(
                .unavailable,
                "OneSignal has not told the subscription's id yet",
                reason: "subscription_pending",
                retryAfter: .seconds(5)
            )
        }
        let record = PlayerRecord(
            device: fields.record.id,
            platformID: id.lowercased(),
            oneSignalID: identity,
            tokenHash: fields.tokenHash(at: stamp),
            fieldsHash: fields.fieldsHash,
            subscription: standing,
            reason: standing == .unsubscribed ? -31 : 1,
            since: client.time.now
        )
        try await players.save(record)
        return record
    }

    /// Creates or changes a user; each user has one request a second, from all of its devices together.
    private func post(_ request: JSONObject, for user: String?) async throws(PushError) -> OneSignalAnswer {
        let path = try OneSignalClient.path("apps", app, "users")
        guard let user else { return try await client.call("POST", path, .object(request), quota: .writes) }
        return try await limiter.run("user:\(user)") { () async throws(PushError) in
            try await client.call("POST", path, .object(request), quota: .writes)
        }
    }

    private func subscription(_ fields: DeviceFields) -> JSONObject {
        var object: JSONObject = ["type": .string(fields.kind.subscriptionType), "token": .string(fields.plainToken)]
        if let version = fields.appVersion { object["app_version"] = .string(version) }
        if let model = fields.model { object["device_model"] = .string(model) }
        if let system = fields.osVersion { object["device_os"] = .string(system) }
        if let type = testType(fields) { object["test_type"] = .integer(Int64(type)) }
        return object
    }

    /// Returns the entitlement of the token; nil for the App Store.
    ///
    /// A wrong value sends to the wrong APNs host.
    private func testType(_ fields: DeviceFields) -> Int? {
        guard fields.kind == .iOS else { return nil }
        let fallback = client.options.environment
        return switch fields.environment(default: fallback) {
        case .production: nil
        case .development: 1
        case .adHoc: 2
        }
    }

    /// Returns the id of the subscription of this type and token.
    private static func find(_ fields: DeviceFields, in body: JSONObject?) -> String? {
        for entry in body?["subscriptions"]?.arrayValue ?? [] {
            guard entry["type"]?.stringValue == fields.kind.subscriptionType,
                entry["token"]?.stringValue == fields.plainToken, let id = entry["id"]?.stringValue, !id.isEmpty
            else { continue }
            return id
        }
        return nil
    }

    /// Reads a user; nil when there is none.
    private func user(_ alias: (label: String, id: String)) async throws(PushError) -> OneSignalAnswer? {
        let path = try OneSignalClient.path("apps", app, "users", "by", alias.label, alias.id)
        let answer = try await client.call("GET", path, quota: .views) { $0.status == 404 }
        guard answer.status != 404 else { return nil }
        guard answer.body != nil else {
            throw PushError(.badAnswer, "OneSignal's answer shows no user", reason: "bad_answer")
        }
        return answer
    }

    /// Deletes the subscription and forgets it.
    func remove(_ device: DeviceRecord) async throws(PushError) {
        try await limiter.run(device.id) { () async throws(PushError) in
            guard let record = try await players.load(device: device.id) else { return }
            let path = try OneSignalClient.path("apps", app, "subscriptions", record.platformID)
            _ = try await client.call("DELETE", path, quota: .writes) { $0.status == 404 }
            try await players.remove(device: device.id)
        }
    }

    // MARK: Subscriptions

    /// Opts the device in or out: `enabled` and `notification_types` together.
    func setStatus(_ status: SubscriptionStatus, of device: DeviceRecord) async throws(PushError) {
        let isOn = status == .subscribed
        try await limiter.run(device.id) { () async throws(PushError) in
            try await withRecord(device) { record throws(PushError) in
                var subscription = (try? DeviceFields(device)).map { self.subscription($0) } ?? JSONObject()
                subscription["enabled"] = .bool(isOn)
                subscription["notification_types"] = isOn ? 1 : -31
                let path = try OneSignalClient.path("apps", app, "subscriptions", record.platformID)
                func patch() async throws(PushError) -> OneSignalAnswer {
                    try await client.call("PATCH", path, ["subscription": .object(subscription)], quota: .writes) {
                        $0.isUnknownDevice || $0.hasCode("subscription-9")
                    }
                }
                var answer = try await patch()
                if answer.hasCode("subscription-9"), !isOn {
                    subscription["notification_types"] = nil
                    answer = try await patch()
                }
                guard (200..<300).contains(answer.status) || answer.isUnknownDevice else {
                    throw OneSignalRejections.error(answer)
                }
                return answer.isUnknownDevice
            } then: { record in
                record.subscription = isOn ? .subscribed : .unsubscribed
                record.reason = isOn ? 1 : -31
            }
        }
    }

    /// Runs an operation on the device's record.
    ///
    /// A record that OneSignal has lost is made again from the token, once.
    private func withRecord(
        _ device: DeviceRecord,
        _ body: (PlayerRecord) async throws(PushError) -> Bool,
        then change: (inout PlayerRecord) -> Void
    ) async throws(PushError) {
        var record: PlayerRecord
        if let known = try await players.load(device: device.id) {
            record = known
        } else {
            record = try await create(try DeviceFields(device), nil)
        }
        if try await body(record) {
            record = try await create(try DeviceFields(device), record)
            guard try await !body(record) else {
                throw PushError(
                    .invalidRequest,
                    "OneSignal does not know the device it has just taken",
                    reason: "unknown_device"
                )
            }
        }
        change(&record)
        record.since = client.time.now
        try await players.save(record)
    }

    /// Returns the status at OneSignal; `enabled` wins over `notification_types`.
    func status(of device: DeviceRecord) async throws(PushError) -> SubscriptionStatus? {
        let record = try await players.load(device: device.id)
        guard let record, let alias = alias(device, record), let answer = try await user(alias) else { return nil }
        for entry in answer.body?["subscriptions"]?.arrayValue ?? []
        where entry["id"]?.stringValue?.lowercased() == record.platformID {
            let types = entry["notification_types"]?.integerValue ?? 1
            return entry["enabled"]?.boolValue ?? (types > 0) ? .subscribed : .unsubscribed
        }
        return nil
    }

    private func alias(_ device: DeviceRecord, _ record: PlayerRecord?) -> (String, String)? {
        device.user.map { ("external_id", $0) } ?? record?.oneSignalID.map { ("onesignal_id", $0) }
    }

    // MARK: Tags

    /// Sets tags of the device's user: every other device of that user has them too.
    func setTags(_ tags: JSONObject, of device: DeviceRecord) async throws(PushError) {
        let requests = try OneSignalTags.requests(tags)
        guard !requests.isEmpty else { return }
        let record = try await players.load(device: device.id)
        guard let alias = alias(device, record) else {
            throw PushError(
                .invalidRequest,
                "the device has to be registered before it has tags",
                reason: "not_registered"
            )
        }
        for request in requests {
            try await limiter.run(device.id) { () async throws(PushError) in
                var answer = try await patch(request, alias)
                if answer.status == 404 {
                    // OneSignal has lost the user: the device is registered again, once, which makes the user.
                    let fresh = try await create(try DeviceFields(device), record)
                    answer = try await patch(request, self.alias(device, fresh) ?? alias)
                }
                guard (200..<300).contains(answer.status) else { throw OneSignalRejections.error(answer) }
            }
        }
    }

    private func patch(_ tags: JSONObject, _ alias: (String, String)) async throws(PushError) -> OneSignalAnswer {
        let path = try OneSignalClient.path("apps", app, "users", "by", alias.0, alias.1)
        return try await limiter.run("user:\(alias.1)") { () async throws(PushError) in
            let body: JSONValue = ["properties": ["tags": .object(tags)]]
            return try await client.call("PATCH", path, body, quota: .writes) { $0.status == 404 }
        }
    }

    /// Finds the tags that OneSignal would not take.
    func issues(in tags: JSONObject, of device: DeviceRecord) -> [Finding] { OneSignalTags.issues(tags) }
}
