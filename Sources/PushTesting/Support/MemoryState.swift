public import PushCore
internal import Synchronization

/// Keeps small values in memory, as a gateway's store keeps them on disk; a test looks into it and can make it fail.
public final class MemoryState: StateStore {
    private let state = Mutex((values: [String: [UInt8]](), fails: false))

    /// Makes an empty store.
    public init() {}

    /// What it keeps, by name.
    public var values: [String: [UInt8]] {
        get { state.withLock { $0.values } }
        set { state.withLock { $0.values = newValue } }
    }

    /// Whether loading and saving fail from now on.
    public var fails: Bool {
        get { state.withLock { $0.fails } }
        set { state.withLock { $0.fails = newValue } }
    }

    /// The value of a name.
    public func loadState(_ name: String) async throws(StoreError) -> [UInt8]? {
        guard !fails else { throw .failed("the disk is full") }
        return values[name]
    }

    /// Keeps a value; nil removes it.
    public func saveState(_ name: String, _ value: [UInt8]?) async throws(StoreError) {
        guard !fails else { throw .failed("the disk is full") }
        state.withLock { $0.values[name] = value }
    }
}
