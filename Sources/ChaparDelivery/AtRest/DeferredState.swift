package import ChaparCore
internal import Synchronization

/// A stand-in for the store of small values while backends are made, before the store is open.
///
/// Backends read their state when they send, which is after ``bind(_:)``.
package final class DeferredState: StateStore, EncryptingState {
    private let store = Mutex<(any StateStore)?>(nil)

    /// Makes a stand-in without a store.
    package init() {}

    /// Sets the store.
    package func bind(_ store: any StateStore) { self.store.withLock { $0 = store } }

    /// Loads from the store; fails before there is one.
    package func loadState(_ name: String) async throws(StoreError) -> [UInt8]? {
        guard let store = store.withLock({ $0 }) else { throw .closed }
        return try await store.loadState(name)
    }

    /// Saves in the store; fails before there is one.
    package func saveState(_ name: String, _ value: [UInt8]?) async throws(StoreError) {
        guard let store = store.withLock({ $0 }) else { throw .closed }
        try await store.saveState(name, value)
    }

    /// Runs under the store's lock of that name; fails before there is a store.
    package func exclusively<Value: Sendable>(
        _ name: String,
        _ body: @Sendable () async -> Value
    ) async throws(StoreError) -> Value {
        guard let store = store.withLock({ $0 }) else { throw .closed }
        return try await store.exclusively(name, body)
    }
}
