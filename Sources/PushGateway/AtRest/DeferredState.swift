package import PushCore
internal import Synchronization

/// Stands in for the store's small values while backends are built, since the configuration says where the store is.
///
/// Backends ask for their state when they send, which is after ``bind(_:)``.
package final class DeferredState: StateStore, EncryptingState {
    private let store = Mutex<(any StateStore)?>(nil)

    /// Makes one that no store stands behind yet.
    package init() {}

    /// Names the store.
    package func bind(_ store: any StateStore) { self.store.withLock { $0 = store } }

    /// As the store; fails before there is one.
    package func loadState(_ name: String) async throws(StoreError) -> [UInt8]? {
        guard let store = store.withLock({ $0 }) else { throw .closed }
        return try await store.loadState(name)
    }

    /// As the store; fails before there is one.
    package func saveState(_ name: String, _ value: [UInt8]?) async throws(StoreError) {
        guard let store = store.withLock({ $0 }) else { throw .closed }
        try await store.saveState(name, value)
    }

    /// As the store; fails before there is one.
    package func exclusively<Value: Sendable>(
        _ name: String,
        _ body: @Sendable () async -> Value
    ) async throws(StoreError) -> Value {
        guard let store = store.withLock({ $0 }) else { throw .closed }
        return try await store.exclusively(name, body)
    }
}
