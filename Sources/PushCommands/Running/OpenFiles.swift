import PushCore

/// How many files and connections the process may have open.
enum OpenFiles {
    /// Takes as many as the system grants without more rights: the soft limit is often 1,024 for the sake of old
    /// programs.
    static func raiseLimit() {
        guard let limit = CLibrary.Limit.openFiles.values, limit.now < limit.most else { return }
        _ = CLibrary.Limit.openFiles.set(now: limit.most, most: limit.most)
    }

    /// The most that the process can have; nil when that cannot be read.
    static var most: UInt64? { CLibrary.Limit.openFiles.values?.most }
}
