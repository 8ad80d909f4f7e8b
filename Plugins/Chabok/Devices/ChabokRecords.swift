import ChaparCore
import Synchronization

/// The state of a device as it was last sent to Chabok.
struct ChabokRecord: Sendable, Hashable {
    var installation: String
    var user: String?
    /// The body of the registration, with which a later one is compared.
    var fields: JSONObject

    fileprivate var json: JSONValue {
        var object: JSONObject = ["installation": .string(installation), "fields": .object(fields)]
        if let user { object["user"] = .string(user) }
        return .object(object)
    }

    init(installation: String, user: String?, fields: JSONObject) {
        self.installation = installation
        self.user = user
        self.fields = fields
    }

    fileprivate init?(_ json: JSONValue?) {
        guard let installation = json?["installation"]?.stringValue, let fields = json?["fields"]?.objectValue else {
            return nil
        }
        self.init(installation: installation, user: json?["user"]?.stringValue, fields: fields)
    }
}

/// Keeps the records: in the gateway's store where there is one, else in memory.
final class ChabokRecords: Sendable {
    private let state: (any StateStore)?
    private let prefix: String
    private let memory = Mutex<[String: ChabokRecord]>([:])

    init(_ state: (any StateStore)?, backend: String) {
        self.state = state
        prefix = "chabok/\(backend)/device"
    }

    /// Returns the record of a device; nil for none, or for one that cannot be read.
    func load(_ device: String) async throws(PushError) -> ChabokRecord? {
        guard let state else { return memory.withLock { $0[device] } }
        do throws(StoreError) {
            guard let bytes = try await state.loadState("\(prefix)/\(device)") else { return nil }
            return ChabokRecord(try? JSONValue(parsing: bytes))
        } catch {
            throw Self.failed(error)
        }
    }

    func save(_ record: ChabokRecord?, of device: String) async throws(PushError) {
        guard let state else { return memory.withLock { $0[device] = record } }
        do throws(StoreError) {
            try await state.saveState("\(prefix)/\(device)", record?.json.bytes)
        } catch {
            throw Self.failed(error)
        }
    }

    func forget(_ device: String?) async throws(PushError) {
        if let device { return try await save(nil, of: device) }
        memory.withLock { $0.removeAll() }
    }

    private static func failed(_ error: StoreError) -> PushError {
        PushError(.unavailable, "the store failed: \(error)", reason: "store_failed")
    }
}
