import PushCore
import Synchronization

/// A store of records that knows, without asking, which devices turned messages off.
///
/// Devices are known from the moment their record was seen to say so: when OneSignal said it, or when something was to be
/// sent to them. After a restart that is the next message.
final class WatchedPlayers: PlayerStore {
    /// The most that are known; one more makes room by forgetting any other.
    private static let capacity = 100_000

    private let inner: any PlayerStore
    private let declined = Mutex<Set<String>>([])

    init(_ inner: any PlayerStore) { self.inner = inner }

    /// Whether the device turned messages off, as far as is known.
    func isDeclined(_ device: String) -> Bool { declined.withLock { $0.contains(device) } }

    private func note(_ record: PlayerRecord) {
        declined.withLock { declined in
            guard record.subscription == .declined else { return _ = declined.remove(record.device) }
            if declined.count >= Self.capacity { declined.removeFirst() }
            declined.insert(record.device)
        }
    }

    func load(device: String) async throws(PushError) -> PlayerRecord? {
        let record = try await inner.load(device: device)
        if let record { note(record) }
        return record
    }

    func device(platformID: String) async throws(PushError) -> String? {
        try await inner.device(platformID: platformID)
    }

    func save(_ record: PlayerRecord) async throws(PushError) {
        try await inner.save(record)
        note(record)
    }

    func remove(device: String) async throws(PushError) {
        try await inner.remove(device: device)
        declined.withLock { _ = $0.remove(device) }
    }

    func removeAll() async throws(PushError) {
        try await inner.removeAll()
        declined.withLock { $0 = [] }
    }
}
