internal import Foundation
internal import ChaparComposition
package import ChaparCore
internal import Synchronization

/// The stored state of a device: the token that Altcraft confirmed, and one that was set by hand.
package struct AltcraftRecord: Hashable {
    /// The token of the subscription, as Altcraft has it.
    var saved: DeviceToken?
    /// The token that was set by hand and is preferred to those of the registry.
    package var manual: DeviceToken?
    /// Altcraft's other id of the subscription, which is no secret.
    var hashID: String?
    /// The token to which Altcraft refused to move the subscription; the move is not repeated before there is another
    /// token.
    var refused: DeviceToken?

    var isEmpty: Bool { self == AltcraftRecord() }
}

/// Keeps records in the gateway's store, or in memory when there is none.
///
/// Clearing everything is one write that raises an epoch: each record holds the epoch in which it was made, and counts
/// as none in a later one.
package actor AltcraftStore {
    /// The most records in memory.
    static let maximumInMemory = 100_000

    private let state: any StateStore
    private let prefix: String
    private var epoch: Int64?

    package init(_ context: BackendContext) {
        state = context.state ?? MemoryStateStore(limit: Self.maximumInMemory)
        prefix = "altcraft/\(context.name)"
    }

    /// Returns the record of a device; an empty one when there is none, or when it cannot be read.
    package func load(_ device: String) async throws(PushError) -> AltcraftRecord {
        let epoch = try await currentEpoch()
        guard let json = try await get("device/\(device)"), json["epoch"]?.integerValue == epoch else {
            return AltcraftRecord()
        }
        return AltcraftRecord(
            saved: Self.token(json["saved"]),
            manual: Self.token(json["manual"]),
            hashID: json["hash_id"]?.stringValue,
            refused: Self.token(json["refused"])
        )
    }

    func save(_ record: AltcraftRecord, of device: String) async throws(PushError) {
        guard !record.isEmpty else { return try await set("device/\(device)", nil) }
        var json: JSONObject = ["epoch": .integer(try await currentEpoch())]
        json["saved"] = record.saved.map { .string(Recipient.token($0).storedForm) }
        json["manual"] = record.manual.map { .string(Recipient.token($0).storedForm) }
        json["hash_id"] = record.hashID.map { .string($0) }
        json["refused"] = record.refused.map { .string(Recipient.token($0).storedForm) }
        try await set("device/\(device)", .object(json))
    }

    /// Changes the record of a device.
    package func edit(_ device: String, _ change: @Sendable (inout AltcraftRecord) -> Void) async throws(PushError) {
        let old = try await load(device)
        var record = old
        change(&record)
        if record != old { try await save(record, of: device) }
    }

    /// Forgets the record of a device, or of all.
    package func forget(_ device: String?) async throws(PushError) {
        if let device {
            try await set("device/\(device)", nil)
            try await set("last/\(try await currentEpoch())/\(device)", nil)
        } else {
            let next = try await currentEpoch().adding(clamping: 1)
            try await set("epoch", .integer(next))
            epoch = next
        }
    }

    /// Returns the token for a device's subscription: that of the first service in `order` that has one; nil when none
    /// has.
    ///
    /// A token set by hand is preferred to the device's own. `announce` is called for a choice that differs from the
    /// last one.
    package func token(
        of device: DeviceRecord,
        _ record: AltcraftRecord,
        order: [TokenService],
        announce: @escaping @Sendable (DeviceToken) -> Void
    ) async throws(PushError) -> DeviceToken? {
        let chain = TokenProviderChain(
            device.tokens.map { KnownToken(known: $0) },
            order: order,
            tries: 1,
            memory: try await memory(of: device.id),
            announce: { answer in if let token = answer.token { announce(token) } }
        )
        if let manual = record.manual { await chain.setManual(manual) }
        return await chain.token()
    }

    /// A provider of one known token of the device.
    private struct KnownToken: TokenProvider {
        let known: DeviceToken
        var service: TokenService { known.service }
        func token() async throws(PushError) -> DeviceToken? { known.value.isEmpty ? nil : known }
        func validate(_ text: String) throws(InvalidToken) -> DeviceToken { DeviceToken(text, service: service) }
    }

    /// Returns the memory in which a chain of token providers keeps its last token.
    func memory(of device: String) async throws(PushError) -> StoredTokenMemory {
        StoredTokenMemory(state, name: "\(prefix)/last/\(try await currentEpoch())/\(device)")
    }

    private func currentEpoch() async throws(PushError) -> Int64 {
        if let epoch { return epoch }
        let kept = try await get("epoch")?.integerValue ?? 0
        if epoch == nil { epoch = kept }
        return epoch ?? kept
    }

    private func get(_ name: String) async throws(PushError) -> JSONValue? {
        do throws(StoreError) {
            return try await state.loadState("\(prefix)/\(name)").flatMap { try? JSONValue(parsing: $0) }
        } catch {
            throw PushError(.unavailable, "the store failed: \(error)", reason: "store_failed")
        }
    }

    private func set(_ name: String, _ value: JSONValue?) async throws(PushError) {
        do throws(StoreError) {
            try await state.saveState("\(prefix)/\(name)", value?.bytes)
        } catch {
            throw PushError(.unavailable, "the store failed: \(error)", reason: "store_failed")
        }
    }

    private static func token(_ json: JSONValue?) -> DeviceToken? {
        guard case .token(let token)? = json?.stringValue.flatMap(Recipient.init(storedForm:)) else { return nil }
        return token
    }
}

/// Keeps small values in memory, for backends that are made without a store.
package final class MemoryStateStore: StateStore {
    private let values = Mutex<[String: [UInt8]]>([:])
    private let limit: Int

    package init(limit: Int) { self.limit = limit }

    package func loadState(_ name: String) async throws(StoreError) -> [UInt8]? { values.withLock { $0[name] } }

    package func saveState(_ name: String, _ value: [UInt8]?) async throws(StoreError) {
        let isFull = values.withLock { values in
            guard value == nil || values[name] != nil || values.count < limit else { return true }
            values[name] = value
            return false
        }
        if isFull { throw .full(reason: "there are \(limit) values in memory", retryAfter: .seconds(60)) }
    }
}
