internal import Foundation
public import ChaparCore

extension AltcraftDevices: DeviceRegistrar {
    /// Whether the device has a token of a service in the order.
    public func accepts(_ device: DeviceRecord) -> Bool {
        let order = tokens.order
        return device.tokens.contains { order.contains($0.service) }
    }

    /// The order of the services, as one text.
    public var stamp: String { tokens.order.map(\.rawValue).joined(separator: ",") }

    /// Moves the device's subscription to its current token; a device without a subscription gets none.
    ///
    /// - Returns: Altcraft's other id of the subscription, else the token's fingerprint, since the main id is the
    ///   token.
    public func register(_ device: DeviceRecord) async throws(PushError) -> String {
        _ = try await updateToken(of: device, as: OutboxAttempt(at: client.time.now))
        let record = try await tokens.store.load(device.id)
        let token = try await tokens.token(of: device, record)
        return record.hashID ?? token.map { Fingerprint.of($0.value) } ?? ""
    }

    /// Changes the subscription as the options say, and forgets the device.
    public func remove(_ device: DeviceRecord) async throws(PushError) {
        let saved = try await tokens.store.load(device.id).saved
        if let saved, let status = client.options.removal.status {
            let attempt = OutboxAttempt(at: client.time.now)
            var context = AltcraftRequestContext(action: AltcraftAction(status), device: device, attempt: attempt)
            context.tokens = [saved.value]
            let time = Int64(clamping: attempt.at.timeIntervalSince1970)
            let change = AltcraftChange(sync: client.options.sync)
            _ = try await client.perform(context) { mode in
                .subscription(status, token: saved, mode: mode, at: time, options: change, fields: JSONObject())
            }
        }
        try await tokens.store.forget(device.id)
    }
}

extension AltcraftOptions.Removal {
    /// The status that the subscription gets; nil leaves it as it is.
    var status: SubscriptionStatus? {
        switch self {
        case .nothing: nil
        case .suspend: .suspended
        case .unsubscribe: .unsubscribed
        }
    }
}

extension AltcraftDevices: SubscriptionManager {
    /// Changes the status as ``change(_:of:as:)`` does, without options.
    public func setStatus(_ status: SubscriptionStatus, of device: DeviceRecord) async throws(PushError) {
        _ = try await subscription(
            SubscriptionChange(status),
            of: device,
            as: OutboxAttempt(at: client.time.now)
        )
    }

    /// Returns the status of the device's subscription.
    public func status(of device: DeviceRecord) async throws(PushError) -> SubscriptionStatus? {
        try await status(.current, of: device).status
    }

    /// Returns the problems of the options, each with its pointer and the fix.
    public func issues(in change: SubscriptionChange, of device: DeviceRecord) -> [Finding] {
        var issues: [Finding] = []
        _ = AltcraftChange(change.options, sync: client.options.sync, issues: &issues)
        return issues
    }

    /// Changes the status of the subscription.
    ///
    /// A change to subscribed that runs after its user has logged out leaves the subscription suspended, as a log-out
    /// does.
    public func change(
        _ change: SubscriptionChange,
        of device: DeviceRecord,
        as attempt: OutboxAttempt
    ) async throws(PushError) -> JSONObject {
        var change = change
        if change.status == .subscribed, device.hasNewUser { change.status = .suspended }
        return try await subscription(change, of: device, as: attempt).redacted().json
    }

    /// Asks about a subscription.
    public func report(_ query: SubscriptionQuery, of device: DeviceRecord) async throws(PushError)
        -> SubscriptionReport
    {
        let answer = try await status(query, of: device)
        return SubscriptionReport(answer.status, detail: answer.redacted().json)
    }

    /// Runs the SDK's steps after a log-in or log-out, except for the last one, which is the caller's.
    public func resume(_ device: DeviceRecord) async throws(PushError) -> SubscriptionReport? {
        let answer = try await unsuspend(device)
        return SubscriptionReport(answer.status, detail: answer.redacted().json)
    }
}

extension AltcraftDevices: TagEditor {
    /// Sets profile fields; a null value removes one.
    public func setTags(_ tags: JSONObject, of device: DeviceRecord) async throws(PushError) {
        _ = try await edit(tags, of: device, as: OutboxAttempt(at: client.time.now))
    }

    /// Returns the problems of profile fields.
    public func issues(in tags: JSONObject, of device: DeviceRecord) -> [Finding] {
        AltcraftFields.issues(profile: tags, at: "#")
    }

    /// Sets profile fields: a value is a plain value or a functional field; null removes a field.
    public func edit(_ tags: JSONObject, of device: DeviceRecord, as attempt: OutboxAttempt)
        async throws(PushError) -> JSONObject
    {
        var fields = JSONObject()
        for (name, value) in tags {
            fields[name] = value == .null ? AltcraftFields.actionField(key: name).unset()[name] : value
        }
        return try await updateProfile(fields, of: device, as: attempt).redacted().json
    }
}
