import Synchronization

/// The memory limit of the unfinished answers of a pool's connections.
///
/// Each answer has its own limit; a peer that begins thousands and ends none would still fill the memory.
final class AnswerBudget: Sendable {
    /// The most bytes, fields included.
    let limit: Int
    private let used = Atomic<Int>(0)

    /// Makes a budget of `limit` bytes.
    init(limit: Int) { self.limit = limit }

    /// The number of bytes in use.
    var bytes: Int { used.load(ordering: .relaxed) }

    /// Reserves bytes; returns false when too few are left.
    func reserve(_ bytes: Int) -> Bool {
        guard used.wrappingAdd(bytes, ordering: .relaxed).newValue <= limit else {
            used.wrappingSubtract(bytes, ordering: .relaxed)
            return false
        }
        return true
    }

    /// Releases bytes.
    func release(_ bytes: Int) { used.wrappingSubtract(bytes, ordering: .relaxed) }
}
