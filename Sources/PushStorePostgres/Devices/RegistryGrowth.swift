internal import Logging
internal import PushCore
internal import Synchronization

/// Sees to it that the server knows the size of a registry that is being filled.
///
/// The server plans a statement by its statistics and keeps the plan. It gathers them about once in a minute; until
/// then an import into an empty registry would go through whole tables for each device. So whoever adds devices has
/// them gathered each time that as many have come as there were, up to a size from which on every plan is the right
/// one.
final class RegistryGrowth: Sendable {
    private static let largest = 1_000_000

    private struct State {
        var added = 0
        var next = 1_000
    }

    private let state = Mutex(State())

    /// Adds devices; whether statistics are to be gathered now.
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
    /// Has the server look at the registry's tables; it passes over one at which it is looking already.
    func gatherStatistics() async {
        do throws(StoreError) {
            try await session(on: registryReader) { (db) throws(PostgresError) in
                try db.perform("ANALYZE (SKIP_LOCKED) chapar.devices, chapar.device_tokens, chapar.device_tags")
            }
        } catch {
            logger.debug("no statistics of the registry were gathered", metadata: ["store.error": "\(error)"])
        }
    }
}
