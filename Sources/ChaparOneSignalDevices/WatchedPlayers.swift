package import ChaparCore
import Synchronization

/// A store of records with an index in memory of the devices that turned messages off.
///
/// A device enters the index when a record that says so is loaded or saved; after a restart that happens with the next
/// message. The registrars ask it whether to register a device at all.
package final class WatchedPlayers: PlayerStore {
    /// The most devices in the index; a further one replaces an arbitrary one.
    private static let capacity = 100_000

    private let inner: any PlayerStore
    private let declined = Mutex<Set<String>>([])

    package init(_ inner: any PlayerStore) { self.inner = inner }

    /// Whether the device is known to have turned messages off.
    package func isDeclined(_ device: String) -> Bool { declined.withLock { $0.contains(device) } }

    private func updateIndex(_ record: PlayerRecord) {
        declined.withLock { declined in
            guard record.subscription == .declined else { return _ = declined.remove(record.device) }
            if declined.count >= Self.capacity { declined.removeFirst() }
            declined.insert(record.device)
        }
    }

    package func load(device: String) async throws(PushError) -> PlayerRecord? {
        let record = try await inner.load(device: device)
        if let record { updateIndex(record) }
        return record
    }

    package func device(platformID: String) async throws(PushError) -> String? {
        try await inner.device(platformID: platformID)
    }

    package func save(_ record: PlayerRecord) async throws(PushError) {
        try await inner.save(record)
        updateIndex(record)
    }

    package func remove(device: String) async throws(PushError) {
        try await inner.remove(device: device)
        declined.withLock { _ = $0.remove(device) }
    }

    package func removeAll() async throws(PushError) {
        try await inner.removeAll()
        declined.withLock { $0 = [] }
    }
}
