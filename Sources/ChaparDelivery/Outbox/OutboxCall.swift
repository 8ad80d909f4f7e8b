internal import Foundation
package import ChaparCore
internal import ChaparQueue

/// The platform call of an outbox entry, through one of the backend's abilities.
///
/// Made and run by ``OutboxWorker``. It neither reads nor writes the store.
struct OutboxCall: Sendable {
    /// The time that a platform has to answer.
    static let deadline = Duration.seconds(120)

    /// The result of a call that did not fail.
    enum Answer: Sendable {
        /// The platform accepted it, and answered this.
        case done(JSONObject)
        /// There was nothing left to do, for this reason.
        case moot(String)
    }

    let backend: any PushBackend
    let priority: [TokenService]
    let time: any TimeSource

    /// Carries out an operation on a device in its current state; `device` is nil when the device no longer exists.
    ///
    /// - Throws: The platform's refusal; `PushError.Code.unavailable` when the platform did not answer in time.
    func perform(_ claim: ClaimedEntry, _ device: Device?) async throws(PushError) -> Answer {
        do {
            return try await Deadline.run(Self.deadline, time: time) { try await call(claim, device) }
        } catch let error as PushError {
            throw error
        } catch is Deadline.Passed {
            throw PushError(.unavailable, "The platform did not answer in \(Self.deadline).", reason: "timeout")
        } catch {
            throw PushError(.unavailable, "The call was ended before the platform answered.", reason: "cancelled")
        }
    }

    private func call(_ claim: ClaimedEntry, _ device: Device?) async throws(PushError) -> Answer {
        let operation = claim.operation
        let attempt = OutboxAttempt(id: operation.id, at: operation.at, number: claim.attempt)
        switch operation.kind {
        case .register:
            let registrar = try ability(backend.devices, "devices")
            guard let device else { return .moot("device_removed") }
            let record = record(device, operation)
            guard registrar.accepts(record) else { return .moot("not_accepted") }
            return .done(["platform_id": .string(try await registrar.register(record))])
        case .remove:
            let record = Self.record(operation, stored: operation.body)
            try await ability(backend.devices, "devices").remove(record)
            return .done(JSONObject())
        case .subscription:
            let manager = try ability(backend.subscriptions, "subscriptions")
            guard let device else { return .moot("device_removed") }
            let record = record(device, operation)
            let status = operation.body["status"]?.stringValue.flatMap { SubscriptionStatus(rawValue: $0) }
            let options = operation.body["options"]?.objectValue ?? JSONObject()
            let change = SubscriptionChange(status ?? .subscribed, options: options)
            return .done(try await manager.change(change, of: record, as: attempt))
        case .tags:
            let editor = try ability(backend.tags, "tags")
            guard let device else { return .moot("device_removed") }
            let tags = operation.body["tags"]?.objectValue ?? JSONObject()
            return .done(try await editor.edit(tags, of: record(device, operation), as: attempt))
        case .event:
            let record = device.map { self.record($0, operation) } ?? Self.record(operation, stored: JSONObject())
            if let event = CustomEvent(operation: operation.body) {
                let reporter = try ability(backend.customEvents, "custom events")
                return .done(try await reporter.report(event, of: record, as: attempt))
            }
            let reporter = try ability(backend.events, "events")
            let event = operation.body["event"]?.stringValue.flatMap { PushEvent(rawValue: $0) } ?? .delivered
            let message = operation.body["message"]?.stringValue ?? ""
            return .done(try await reporter.report(event, platformID: message, device: record, as: attempt))
        }
    }

    private func record(_ device: Device, _ operation: OutboxEntry) -> DeviceRecord {
        var record = DeviceRecord(device, user: operation.user, priority: priority)
        record.hasNewUser = device.user != operation.user
        return record
    }

    /// Returns the record of a device that is gone, from the part that the operation kept.
    private static func record(_ operation: OutboxEntry, stored: JSONObject) -> DeviceRecord {
        let app = AppName(ofDevice: operation.device)
        return DeviceRecord(id: app.name(operation.device), user: operation.user.map(app.name), stored: stored)
    }

    /// Returns an ability that the backend had when the operation was requested.
    private func ability<Ability>(_ ability: Ability?, _ name: String) throws(PushError) -> Ability {
        guard let ability else {
            throw PushError(.unsupported, "The backend keeps no \(name) any more.", reason: "unsupported")
        }
        return ability
    }
}

extension CustomEvent {
    /// The arguments of an outbox entry.
    package var operation: JSONObject {
        ["custom": .string(name), "data": .object(data), "options": .object(options)]
    }

    /// Reads the arguments of an outbox entry; nil for an event of a message.
    init?(operation body: JSONObject) {
        guard let name = body["custom"]?.stringValue else { return nil }
        self.init(
            name,
            data: body["data"]?.objectValue ?? JSONObject(),
            options: body["options"]?.objectValue ?? JSONObject()
        )
    }
}

extension PushError {
    /// Whether the same call may succeed later.
    package var isPassing: Bool { code == .unavailable || code == .rateLimited || code == .badAnswer }
}
