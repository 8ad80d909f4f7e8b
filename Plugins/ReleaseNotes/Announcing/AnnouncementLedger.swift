import ChaparCore
import ChaparQueue

/// Remembers, over restarts, which devices an announcement went to, so that it goes to each device once.
///
/// A part is written before it is handed to the gateway, and again afterwards. If a crash leaves its fate unknown, it
/// is handed over again under the same idempotency key, which sends nothing twice.
struct AnnouncementLedger: Sendable {
    /// One notification of an announcement.
    struct Part: Sendable {
        /// The request to the gateway.
        var request: JSONObject
        var key: String
        /// The gateway's id; nil while it is not known whether it has one.
        var notification: NotificationID?
        /// Whether the gateway refused it, so that its devices do not have the announcement.
        fileprivate(set) var isRefused = false

        /// Whether the gateway may or may not have it.
        var isOpen: Bool { notification == nil && !isRefused }

        var devices: [String] { (request["to"]?["devices"]?.arrayValue ?? []).compactMap(\.stringValue) }

        fileprivate var json: JSONValue {
            var object: JSONObject = ["request": .object(request), "key": .string(key)]
            if let notification { object["notification"] = .string("\(notification)") }
            if isRefused { object["refused"] = true }
            return .object(object)
        }

        init(request: JSONObject, key: String) { (self.request, self.key) = (request, key) }

        fileprivate init?(_ json: JSONValue) {
            guard let request = json["request"]?.objectValue, let key = json["key"]?.stringValue else { return nil }
            (self.request, self.key) = (request, key)
            notification = json["notification"]?.stringValue.flatMap { NotificationID($0) }
            isRefused = json["refused"]?.boolValue ?? false
        }
    }

    private let prefix: String
    private let state: (any StateStore)?
    private(set) var parts: [Part] = []

    /// Reads what is known about the announcement of a version.
    init(_ app: String, _ version: ReleaseVersion, state: (any StateStore)?) async throws(PushError) {
        prefix = "release_notes/\(app)/announced/\(version)"
        self.state = state
        while let state {
            do throws(StoreError) {
                guard let bytes = try await state.loadState("\(prefix)/\(parts.count)") else { return }
                guard let part = (try? JSONValue(parsing: bytes)).flatMap(Part.init) else { return }
                parts.append(part)
            } catch {
                throw Self.failed(error)
            }
        }
    }

    /// Notes a part; gives its number.
    mutating func add(_ part: Part) async throws(PushError) -> Int {
        parts.append(part)
        try await save(parts.count - 1)
        return parts.count - 1
    }

    /// Notes that the gateway has taken a part.
    mutating func markAccepted(_ number: Int, _ notification: NotificationID) async throws(PushError) {
        parts[number].notification = notification
        try await save(number)
    }

    /// Removes a part that the gateway refused, if it is the last one.
    ///
    /// An earlier part stays, marked as refused: the numbers of the parts after it are in their keys.
    mutating func withdraw(_ number: Int) async throws(PushError) {
        guard number == parts.count - 1 else {
            parts[number].isRefused = true
            return try await save(number)
        }
        parts.removeLast()
        do throws(StoreError) {
            try await state?.saveState("\(prefix)/\(number)", nil)
        } catch {
            throw Self.failed(error)
        }
    }

    private func save(_ number: Int) async throws(PushError) {
        do throws(StoreError) {
            try await state?.saveState("\(prefix)/\(number)", parts[number].json.bytes)
        } catch {
            throw Self.failed(error)
        }
    }

    private static func failed(_ error: StoreError) -> PushError {
        PushError(.unavailable, "the store failed: \(error)", reason: "store_failed")
    }
}
