public import ChaparCore
internal import Synchronization

/// A state store in memory; a test can read it and make it fail.
public final class MemoryState: StateStore {
    private let state = Mutex((values: [String: [UInt8]](), fails: false))
    private let held = Mutex<Set<String>>([])

    /// Makes an empty store.
    public init() {}

    /// The kept values, by name.
    public var values: [String: [UInt8]] {
        get { state.withLock { $0.values } }
        set { state.withLock { $0.values = newValue } }
    }

    /// Whether loading and saving fail from now on.
    public var fails: Bool {
        get { state.withLock { $0.fails } }
        set { state.withLock { $0.fails = newValue } }
    }

    /// Returns the value of a name.
    public func loadState(_ name: String) async throws(StoreError) -> [UInt8]? {
        guard !fails else { throw .failed("the disk is full") }
        return values[name]
    }

    /// Saves a value; nil removes it.
    public func saveState(_ name: String, _ value: [UInt8]?) async throws(StoreError) {
        guard !fails else { throw .failed("the disk is full") }
        state.withLock { $0.values[name] = value }
    }

    /// Runs `body` while it alone holds the name, as among gateways that share a database.
    public func exclusively<Value: Sendable>(
        _ name: String,
        _ body: @Sendable () async -> Value
    ) async throws(StoreError) -> Value {
        while held.withLock({ !$0.insert(name).inserted }) {
            // A cancelled task looks more often.
            try? await Task.sleep(for: .milliseconds(1))
        }
        defer { _ = held.withLock { $0.remove(name) } }
        return await body()
    }
}
