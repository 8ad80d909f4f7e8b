import Foundation
import ChaparCore
import ChaparOneSignalDevices

/// Devices by OneSignal's legacy player API: a device is a record of its own, with its own tags.
struct OneSignalPlayers: OneSignalDevices {
    let client: OneSignalClient
    let players: WatchedPlayers
    let limiter: DeviceLimiter

    private var app: String { client.options.appID }

    /// Adds the device, or edits it when only fields changed; a known token keeps its id at OneSignal.
    func register(_ device: DeviceRecord) async throws(PushError) -> String {
        let fields = try DeviceFields(device)
        return try await limiter.run(device.id) { () async throws(PushError) in
            let known = try await players.load(device: device.id)
            guard let known, known.tokenHash == fields.tokenHash(at: stamp) else {
                return try await add(fields, known).platformID
            }
            if known.fieldsHash == fields.fieldsHash { return try await players.readmit(known).platformID }
            var changes = body(fields)
            changes["external_user_id"] = .string(device.user ?? "")  // After a log-out it has no user.
            try await edit(device, changes) { record in
                record.fieldsHash = fields.fieldsHash
                if record.subscription == .declined { record.subscription = .unknown }
            }
            return try await players.load(device: device.id)?.platformID ?? known.platformID
        }
    }

    private func add(_ fields: DeviceFields, _ known: PlayerRecord?) async throws(PushError) -> PlayerRecord {
        var request = body(fields)
        // Only ``setStatus(_:of:)`` opts a user in: a known player keeps its state, a new one is subscribed at
        // OneSignal.
        let standing = known.standingAfterRegistration
        if standing == .unsubscribed { request["notification_types"] = -2 }
        let answer = try await client.call("POST", "/players", .object(request), quota: .writes)
        guard let id = answer.id, answer.body?["success"] != false else {
            throw PushError(.badAnswer, "OneSignal's answer has no player id", reason: "bad_answer")
        }
        let record = PlayerRecord(
            device: fields.record.id,
            platformID: id.lowercased(),
            tokenHash: fields.tokenHash(at: stamp),
            fieldsHash: fields.fieldsHash,
            subscription: standing,
            reason: standing == .unsubscribed ? -2 : 1,
            since: client.time.now
        )
        try await players.save(record)
        return record
    }

    private func body(_ fields: DeviceFields) -> JSONObject {
        var object: JSONObject = [
            "app_id": .string(app), "device_type": .integer(Int64(fields.kind.rawValue)),
            "identifier": .string(fields.plainToken),
        ]
        if let language = fields.language { object["language"] = .string(language) }
        if let seconds = fields.secondsFromUTC(at: client.time.now) { object["timezone"] = .integer(Int64(seconds)) }
        if let version = fields.appVersion { object["game_version"] = .string(version) }
        if let model = fields.model { object["device_model"] = .string(model) }
        if let system = fields.osVersion { object["device_os"] = .string(system) }
        if let user = fields.record.user { object["external_user_id"] = .string(user) }
        for name in DeviceFields.places {
            if let value = fields.record.attributes[name] { object[name] = value }
        }
        let fallback = client.options.environment
        if fields.kind == .iOS {
            switch fields.environment(default: fallback) {
            case .production: break
            case .development: object["test_type"] = 1
            case .adHoc: object["test_type"] = 2
            }
        }
        return object
    }

    /// Edits the device's record; one that OneSignal has lost is added again from the token, once.
    private func edit(
        _ device: DeviceRecord,
        _ changes: JSONObject,
        _ change: (inout PlayerRecord) -> Void = { _ in }
    ) async throws(PushError) {
        var request = changes
        request["app_id"] = .string(app)
        var record: PlayerRecord
        if let known = try await players.load(device: device.id) {
            record = known
        } else {
            record = try await add(try DeviceFields(device), nil)
        }
        func put(_ id: String) async throws(PushError) -> OneSignalAnswer {
            try await client.call("PUT", OneSignalClient.path("players", id), .object(request), quota: .writes) {
                $0.isUnknownDevice
            }
        }
        var answer = try await put(record.platformID)
        if answer.isUnknownDevice {
            record = try await add(try DeviceFields(device), record)
            answer = try await put(record.platformID)
        }
        guard (200..<300).contains(answer.status) else { throw OneSignalRejections.error(answer) }
        change(&record)
        try await players.save(record)
    }

    /// Deletes the record at OneSignal and forgets it.
    func remove(_ device: DeviceRecord) async throws(PushError) {
        try await limiter.run(device.id) { () async throws(PushError) in
            guard let record = try await players.load(device: device.id) else { return }
            let path = try OneSignalClient.path("players", record.platformID) + "?app_id=\(app)"
            _ = try await client.call("DELETE", path, quota: .writes) { $0.isUnknownDevice }
            try await players.remove(device: device.id)
        }
    }

    /// Sets `notification_types`: 1 subscribes, -2 unsubscribes.
    func setStatus(_ status: SubscriptionStatus, of device: DeviceRecord) async throws(PushError) {
        let isOn = status == .subscribed
        let now = client.time.now
        try await limiter.run(device.id) { () async throws(PushError) in
            try await edit(device, ["notification_types": isOn ? 1 : -2]) { record in
                record.subscription = isOn ? .subscribed : .unsubscribed
                record.reason = isOn ? 1 : -2
                record.since = now
            }
        }
    }

    /// Returns the player's status at OneSignal.
    func status(of device: DeviceRecord) async throws(PushError) -> SubscriptionStatus? {
        guard let record = try await players.load(device: device.id) else { return nil }
        let path = try OneSignalClient.path("players", record.platformID) + "?app_id=\(app)"
        let answer = try await client.call("GET", path, quota: .views) { $0.isUnknownDevice }
        guard !answer.isUnknownDevice else { return nil }
        guard let body = answer.body else {
            throw PushError(.badAnswer, "OneSignal's answer shows no player", reason: "bad_answer")
        }
        if body["invalid_identifier"]?.boolValue ?? false { return .unsubscribed }
        return (body["notification_types"]?.integerValue ?? 1) > 0 ? .subscribed : .unsubscribed
    }

    /// Sets tags of the device.
    func setTags(_ tags: JSONObject, of device: DeviceRecord) async throws(PushError) {
        for request in try OneSignalTags.requests(tags) {
            try await limiter.run(device.id) { () async throws(PushError) in
                try await edit(device, ["tags": .object(request)])
            }
        }
    }

    /// Finds the tags that OneSignal would not take.
    func issues(in tags: JSONObject, of device: DeviceRecord) -> [Finding] { OneSignalTags.issues(tags) }
}
