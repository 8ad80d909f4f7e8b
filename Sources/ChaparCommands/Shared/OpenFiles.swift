import ChaparCore

/// The limit of files and connections that the process may have open.
enum OpenFiles {
    /// Raises the soft limit to the hard one: it is often 1,024 for the sake of old programs.
    static func raiseLimit() {
        guard let limit = CLibrary.Limit.openFiles.values, limit.now < limit.most else { return }
        _ = CLibrary.Limit.openFiles.set(now: limit.most, most: limit.most)
    }

    /// The hard limit; nil when it cannot be read.
    static var most: UInt64? { CLibrary.Limit.openFiles.values?.most }
}
