import GRDB

extension DatabasePool {
    /// The longest time, in milliseconds, that one of its six steps waits for readers.
    private static let patience = 200

    /// Moves the content of the write-ahead log into the file, and empties the log, before the connections close.
    ///
    /// It writes at most what the log holds. SQLite does this when the last connection closes; here that is one for
    /// reading, which may not, since GRDB closes the writer first.
    ///
    /// - Throws: When another connection reads for longer, or the disk fails: nothing is lost, and the log is still
    ///   needed.
    func foldLog() throws {
        try writeWithoutTransaction { db in
            try db.execute(sql: "PRAGMA busy_timeout = \(Self.patience)")
            _ = try db.checkpoint(.truncate)
        }
    }
}
