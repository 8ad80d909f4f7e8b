/// The locks on a file, among the handles of the process: what `unixLock` of SQLite does.
struct FileLocks {
    /// SQLite's levels, with its numbers.
    enum Level: Int32, Comparable {
        case none, shared, reserved, pending, exclusive

        static func < (one: Level, other: Level) -> Bool { one.rawValue < other.rawValue }
    }

    private var held: [Int: Level] = [:]

    /// Whether any handle is about to write.
    var isReserved: Bool { held.values.contains { $0 >= .reserved } }

    /// Raises a handle's lock; false when others are in the way.
    ///
    /// A handle that readers keep from `exclusive` then holds `pending`, so that no other handle gets a new lock.
    mutating func raise(_ handle: Int, to level: Level) -> Bool {
        let mine = held[handle] ?? .none
        guard mine < level else { return true }
        let highest = held.filter { $0.key != handle }.values.max() ?? .none
        switch level {
        case .none, .pending: return true
        case .shared: guard highest < .pending else { return false }
        case .reserved: guard highest < .reserved else { return false }
        case .exclusive:
            guard highest < .reserved else { return false }
            guard highest == .none else {
                held[handle] = .pending
                return false
            }
        }
        held[handle] = level
        return true
    }

    /// Lowers a handle's lock to `shared` or `none`.
    mutating func lower(_ handle: Int, to level: Level) {
        guard let mine = held[handle], level < mine else { return }
        held[handle] = level == .none ? nil : level
    }

    mutating func release(_ handle: Int) { held[handle] = nil }
}
