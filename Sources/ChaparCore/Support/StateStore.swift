/// Small values that components keep across restarts, such as a provider token with its time.
public protocol StateStore: Sendable {
    /// Returns the value stored under a name; nil when there is none.
    func loadState(_ name: String) async throws(StoreError) -> [UInt8]?
    /// Stores a value under a name; nil removes it.
    func saveState(_ name: String, _ value: [UInt8]?) async throws(StoreError)
    /// Runs `body` while no other process that shares the store runs a body under the same name.
    ///
    /// `body` must end on its own, well within a minute: a process that holds the name for longer counts as dead.
    ///
    /// - Throws: When the store cannot tell who holds the name; `body` has not run then.
    func exclusively<Value: Sendable>(
        _ name: String,
        _ body: @Sendable () async -> Value
    ) async throws(StoreError) -> Value
}

extension StateStore {
    /// Runs `body` at once: no other process shares the store.
    public func exclusively<Value: Sendable>(
        _ name: String,
        _ body: @Sendable () async -> Value
    ) async throws(StoreError) -> Value {
        await body()
    }
}

extension StateStore {
    /// Returns the value stored under a name.
    ///
    /// If there is none, makes and stores one; of several processes only one makes it.
    ///
    /// - Parameters:
    ///   - name: The name.
    ///   - isUsable: Whether a stored value can be used; otherwise a new value is made.
    ///   - make: Makes a value.
    /// - Returns: The value, the same to every process that shares the store.
    /// - Throws: When the store fails, or cannot tell who holds the name.
    package func loadState(
        _ name: String,
        where isUsable: @Sendable ([UInt8]) -> Bool,
        orMake make: @Sendable () -> [UInt8]
    ) async throws(StoreError) -> [UInt8] {
        if let kept = try await loadState(name), isUsable(kept) { return kept }
        let made: Result<[UInt8], StoreError> = try await exclusively(name) {
            do throws(StoreError) {
                if let kept = try await loadState(name), isUsable(kept) { return .success(kept) }
                let value = make()
                try await saveState(name, value)
                return .success(value)
            } catch {
                return .failure(error)
            }
        }
        return try made.get()
    }
}

/// The reason why a store did not carry out a call.
@nonexhaustive
public enum StoreError: Error, Sendable, Hashable, CustomStringConvertible {
    /// It takes no new work for now: the disk is nearly full or too much waits. Nothing was stored.
    case full(reason: String, retryAfter: Duration)
    /// The store takes no new work from this caller for now: the caller's share of the queue is full, while other
    /// callers have room. Nothing was stored.
    case shareFull(reason: String, retryAfter: Duration)
    /// The store has been closed, or was never opened.
    case closed
    /// The store failed; the sentence says how.
    ///
    /// It is unknown whether anything was stored.
    case failed(String)
    /// The store can never write these values: nothing was stored, and a repeat fails in the same way.
    case refused(String)
    /// A value in the store's file is damaged; the sentence names it.
    ///
    /// Nothing was changed, a repetition fails in the same way, and undamaged rows can be read.
    case damaged(String)
    /// The value is encrypted with a key that is not available; the sentence names it.
    case sealed(String)
    /// A newer version of the program has changed the store in a way that this version would misread; the sentence says
    /// which.
    ///
    /// Nothing was changed, and a repeat fails in the same way.
    case newer(String)

    /// A sentence for people.
    public var description: String {
        switch self {
        case .full(let reason, _), .shareFull(let reason, _): reason
        case .closed: "the store is closed"
        case .failed(let reason), .refused(let reason), .damaged(let reason), .sealed(let reason), .newer(let reason):
            reason
        }
    }
}
