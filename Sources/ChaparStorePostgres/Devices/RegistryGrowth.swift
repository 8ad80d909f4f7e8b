internal import Logging
internal import ChaparCore
internal import Synchronization

/// Decides when the server gathers statistics of a registry that is being filled.
///
/// The server plans a statement by its statistics and keeps the plan. It gathers them about once a minute; until then
/// an import into an empty registry would scan whole tables for each device. So a node gathers them each time that the
/// number of devices it has added doubles, up to a size from which every plan is the right one.
final class RegistryGrowth: Sendable {
    private static let largest = 1_000_000

    private struct State {
        var added = 0
        var next = 1_000
    }

    private let state = Mutex(State())

    /// Counts added devices; returns whether statistics are due.
    func add(_ count: Int) -> Bool {
        state.withLock { state in
            state.added += count
            guard state.added >= state.next, state.next < Self.largest else { return false }
            while state.next <= state.added { state.next *= 2 }
            return true
        }
    }
}

extension PostgresStore {
    /// Gathers statistics of the registry's tables; skips tables that are being analyzed already.
    func gatherStatistics() async {
        do throws(StoreError) {
            try await session(on: registryReader) { (db) throws(PostgresError) in
                try db.perform(
                    """
                    ANALYZE (SKIP_LOCKED) chapar.devices, chapar.device_tokens, chapar.device_tags, chapar.device_labels
                    """
                )
            }
        } catch {
            logger.debug("no statistics of the registry were gathered", metadata: ["store.error": "\(error)"])
        }
    }
}
