public import Foundation
public import ChaparCore
import Synchronization

/// The record of one device at OneSignal: its id there and its subscription.
///
/// There is one for each device and backend.
public struct PlayerRecord: Sendable, Hashable {
    /// The last known state of the device's subscription.
    @nonexhaustive
    public enum Subscription: String, Sendable, CaseIterable {
        /// It gets messages.
        case subscribed
        /// It gets none, since the gateway was asked for that.
        case unsubscribed
        /// It gets none, as OneSignal answered to a send: the user turned messages off on the device.
        ///
        /// Messages skip it until the app registers it again.
        case declined
        /// The state is unknown.
        case unknown
    }

    /// The gateway's id of the device.
    public var device: String
    /// OneSignal's id of it: the player or subscription id.
    public var platformID: String
    /// OneSignal's id of the device's user, when the platform returned one.
    public var oneSignalID: String?
    /// The hash of the token it was registered with, to detect a new one.
    public var tokenHash: String
    /// The hash of the fields it was registered with.
    public var fieldsHash: String
    /// The state of the subscription.
    public var subscription: Subscription
    /// The platform's number for that state (`notification_types`).
    public var reason: Int
    /// The time since when it has this state.
    public var since: Date
    /// The last time when an edit led to a new registration of the device.
    public var renewedAt: Date?

    /// Makes a record.
    public init(
        device: String,
        platformID: String,
        oneSignalID: String? = nil,
        tokenHash: String,
        fieldsHash: String,
        subscription: Subscription = .subscribed,
        reason: Int = 1,
        since: Date,
        renewedAt: Date? = nil
    ) {
        self.device = device
        self.platformID = platformID
        self.oneSignalID = oneSignalID
        self.tokenHash = tokenHash
        self.fieldsHash = fieldsHash
        self.subscription = subscription
        self.reason = reason
        self.since = since
        self.renewedAt = renewedAt
    }
}

extension PlayerRecord? {
    /// The state of a device's subscription after it is registered again, without consent in the request.
    ///
    /// A new device is `unknown`: it may have opted out in the app's own SDK before.
    package var standingAfterRegistration: PlayerRecord.Subscription {
        switch self?.subscription {
        case .subscribed?: .subscribed
        case .unsubscribed?: .unsubscribed
        case .declined?, .unknown?, nil: .unknown
        }
    }
}

/// A store of the records of devices.
///
/// It is the only part of a gateway's store that such a plugin needs; a store in memory serves in code.
public protocol PlayerStore: Sendable {
    /// Returns the record of a device.
    func load(device: String) async throws(PushError) -> PlayerRecord?
    /// Returns the device that has a platform's id.
    func device(platformID: String) async throws(PushError) -> String?
    /// Stores a record.
    ///
    /// Another device's record with the same platform id is removed: the newer registration wins.
    func save(_ record: PlayerRecord) async throws(PushError)
    /// Removes the record of a device.
    func remove(device: String) async throws(PushError)
    /// Removes all records.
    func removeAll() async throws(PushError)
}

extension PlayerStore {
    /// Makes a device that had turned messages off eligible again, since its app has registered it; this opts no user
    /// in.
    package func readmit(_ record: PlayerRecord) async throws(PushError) -> PlayerRecord {
        guard record.subscription == .declined else { return record }
        var record = record
        record.subscription = .unknown
        try await save(record)
        return record
    }

    /// Removes the record of one device, or all.
    package func forget(_ device: String?) async throws(PushError) {
        if let device { try await remove(device: device) } else { try await removeAll() }
    }
}

/// A store of records in memory.
public actor MemoryPlayerStore: PlayerStore {
    private var records: [String: PlayerRecord] = [:]
    private var devices: [String: String] = [:]

    /// Makes an empty store.
    public init() {}

    /// Returns the record of a device.
    public func load(device: String) -> PlayerRecord? { records[device] }

    /// Returns the device that has a platform's id.
    public func device(platformID: String) -> String? { devices[platformID] }

    /// Stores a record.
    public func save(_ record: PlayerRecord) {
        if let other = devices[record.platformID], other != record.device { records[other] = nil }
        if let old = records[record.device]?.platformID, old != record.platformID { devices[old] = nil }
        records[record.device] = record
        devices[record.platformID] = record.device
    }

    /// Removes a record.
    public func remove(device: String) {
        if let record = records.removeValue(forKey: device) { devices[record.platformID] = nil }
    }

    /// Removes all records.
    public func removeAll() { (records, devices) = ([:], [:]) }
}

/// A store of records in the gateway's store, as small values of their own.
public final class StatePlayerStore: PlayerStore {
    private let state: any StateStore
    private let prefix: String
    /// The generation of the current records; removing all records starts a new one.
    ///
    /// Nil until it has been read.
    private let generation = Mutex<Int?>(nil)

    /// Makes a store whose records belong to the backend of this name.
    public init(_ state: any StateStore, backend: String) {
        self.state = state
        prefix = "players/\(backend)"
    }

    /// Returns the record of a device; a malformed one counts as none.
    public func load(device: String) async throws(PushError) -> PlayerRecord? {
        guard let bytes = try await get("device/\(device)"), let json = try? JSONValue(parsing: bytes) else {
            return nil
        }
        return PlayerRecord(json, device: device)
    }

    /// Returns the device that has a platform's id.
    public func device(platformID: String) async throws(PushError) -> String? {
        try await get("id/\(platformID)").map { String(decoding: $0, as: UTF8.self) }
    }

    /// Stores a record.
    public func save(_ record: PlayerRecord) async throws(PushError) {
        if let other = try await device(platformID: record.platformID), other != record.device {
            try await set("device/\(other)", nil)
        }
        if let old = try await load(device: record.device)?.platformID, old != record.platformID {
            try await set("id/\(old)", nil)
        }
        try await set("device/\(record.device)", record.json.bytes)
        try await set("id/\(record.platformID)", Array(record.device.utf8))
    }

    /// Removes a record.
    public func remove(device: String) async throws(PushError) {
        guard let record = try await load(device: device) else { return }
        try await set("device/\(device)", nil)
        try await set("id/\(record.platformID)", nil)
    }

    /// Removes all records.
    ///
    /// The store cannot list them: they stay in it unread, and newer ones have other names.
    public func removeAll() async throws(PushError) {
        let next = try await currentGeneration() + 1
        do throws(StoreError) {
            try await state.saveState("\(prefix)/generation", Array("\(next)".utf8))
        } catch {
            throw Self.failure(error)
        }
        generation.withLock { $0 = next }
    }

    private func currentGeneration() async throws(PushError) -> Int {
        if let known = generation.withLock({ $0 }) { return known }
        do throws(StoreError) {
            let bytes = try await state.loadState("\(prefix)/generation") ?? []
            let read = Int(count: Int64(String(decoding: bytes, as: UTF8.self)) ?? 0)
            generation.withLock { $0 = $0 ?? read }
            return read
        } catch {
            throw Self.failure(error)
        }
    }

    private func path(_ name: String) async throws(PushError) -> String {
        let generation = try await currentGeneration()
        return generation == 0 ? "\(prefix)/\(name)" : "\(prefix)/\(generation)/\(name)"
    }

    private static func failure(_ error: StoreError) -> PushError {
        PushError(.unavailable, "the store failed: \(error)", reason: "store_failed")
    }

    private func get(_ name: String) async throws(PushError) -> [UInt8]? {
        let path = try await path(name)
        do throws(StoreError) {
            return try await state.loadState(path)
        } catch {
            throw Self.failure(error)
        }
    }

    private func set(_ name: String, _ value: [UInt8]?) async throws(PushError) {
        let path = try await path(name)
        do throws(StoreError) {
            try await state.saveState(path, value)
        } catch {
            throw Self.failure(error)
        }
    }
}

extension PlayerRecord {
    fileprivate var json: JSONValue {
        var object: JSONObject = [
            "id": .string(platformID), "token": .string(tokenHash), "fields": .string(fieldsHash),
            "subscription": .string(subscription.rawValue), "reason": .integer(Int64(reason)),
            "since": .integer(since.millisecondsSince1970),
        ]
        if let oneSignalID { object["onesignal_id"] = .string(oneSignalID) }
        if let renewedAt { object["renewed"] = .integer(renewedAt.millisecondsSince1970) }
        return .object(object)
    }

    fileprivate init?(_ json: JSONValue, device: String) {
        guard let id = json["id"]?.stringValue, let token = json["token"]?.stringValue,
            let fields = json["fields"]?.stringValue,
            let subscription = json["subscription"]?.stringValue.flatMap(Subscription.init),
            let reason = json["reason"]?.integerValue, let since = json["since"]?.integerValue
        else { return nil }
        self.init(
            device: device,
            platformID: id,
            oneSignalID: json["onesignal_id"]?.stringValue,
            tokenHash: token,
            fieldsHash: fields,
            subscription: subscription,
            reason: Int(clamping: reason),
            since: Date(millisecondsSince1970: since),
            renewedAt: json["renewed"]?.integerValue.map { Date(millisecondsSince1970: $0) }
        )
    }
}

extension PlayerRecord {
    /// Returns the store that a context provides; one in memory without it.
    package static func store(_ context: BackendContext) -> any PlayerStore {
        context.state.map { StatePlayerStore($0, backend: context.name) } ?? MemoryPlayerStore()
    }
}
