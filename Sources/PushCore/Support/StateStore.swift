/// Small values that components keep over a restart, such as a provider token with its time.
public protocol StateStore: Sendable {
    /// The value kept under a name, nil when there is none.
    func loadState(_ name: String) async throws(StoreError) -> [UInt8]?
    /// Keeps a value under a name; nil removes it.
    func saveState(_ name: String, _ value: [UInt8]?) async throws(StoreError)
    /// Runs `body` while no other process that shares the store runs one under the same name.
    ///
    /// `body` must end on its own, well within a minute: a process that holds the name for longer counts as dead.
    ///
    /// - Throws: When the store cannot say who holds the name; `body` has not run then.
    func exclusively<Value: Sendable>(
        _ name: String,
        _ body: @Sendable () async -> Value
    ) async throws(StoreError) -> Value
}

extension StateStore {
    /// Nobody shares the store.
    public func exclusively<Value: Sendable>(
        _ name: String,
        _ body: @Sendable () async -> Value
    ) async throws(StoreError) -> Value {
        await body()
    }
}

/// Why a store did not do what it was asked.
@nonexhaustive
public enum StoreError: Error, Sendable, Hashable, CustomStringConvertible {
    /// It takes no new work for now: the disk is nearly full or too much waits. Nothing was stored.
    case full(reason: String, retryAfter: Duration)
    /// It has been closed, or was never opened.
    case closed
    /// It failed; the sentence says how. Whether anything was stored is not known.
    case failed(String)
    /// The value is there, encrypted with a key that is not at hand; the sentence says which.
    case sealed(String)
    /// A newer version of the program has changed it, in a way that this one would misread; the sentence says which. Nothing was
    /// changed, and trying again changes nothing.
    case newer(String)

    /// A sentence for people.
    public var description: String {
        switch self {
        case .full(let reason, _): reason
        case .closed: "the store is closed"
        case .failed(let reason), .sealed(let reason), .newer(let reason): reason
        }
    }
}
