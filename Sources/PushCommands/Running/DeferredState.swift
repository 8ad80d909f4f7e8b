import PushCore
import Synchronization

/// Stands in for the store's small values while backends are built, since the configuration says where the store is.
///
/// Backends ask for their state when they send, which is after ``bind(_:)``.
final class DeferredState: StateStore {
    private let store = Mutex<(any StateStore)?>(nil)

    /// Names the store.
    func bind(_ store: any StateStore) { self.store.withLock { $0 = store } }

    func loadState(_ name: String) async throws(StoreError) -> [UInt8]? {
        guard let store = store.withLock({ $0 }) else { throw .closed }
        return try await store.loadState(name)
    }

    func saveState(_ name: String, _ value: [UInt8]?) async throws(StoreError) {
        guard let store = store.withLock({ $0 }) else { throw .closed }
        try await store.saveState(name, value)
    }

    func exclusively<Value: Sendable>(
        _ name: String,
        _ body: @Sendable () async -> Value
    ) async throws(StoreError) -> Value {
        guard let store = store.withLock({ $0 }) else { throw .closed }
        return try await store.exclusively(name, body)
    }
}
