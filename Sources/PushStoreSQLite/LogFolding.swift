import GRDB

extension DatabasePool {
    /// The longest time, in milliseconds, that one of its six steps waits for readers.
    private static let patience = 200

    /// Moves what the write-ahead log holds into the file, and empties it, before the connections close.
    ///
    /// It writes at most what the log holds. SQLite does so when the last connection closes; here that is one for
    /// reading, which may not: GRDB closes the writer first.
    ///
    /// - Throws: When somebody else reads for longer, or the disk fails: nothing is lost, and the log goes on being
    ///   needed.
    func foldLog() throws {
        try writeWithoutTransaction { db in
            try db.execute(sql: "PRAGMA busy_timeout = \(Self.patience)")
            _ = try db.checkpoint(.truncate)
        }
    }
}
