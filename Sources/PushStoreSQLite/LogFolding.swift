import Dispatch
import GRDB
import Synchronization

extension DatabasePool {
    /// So long a step of it waits for whoever reads, in milliseconds; there are six of them.
    private static let patience = 200
    /// So long it takes at most.
    private static let limit = DispatchTimeInterval.milliseconds(1_500)

    /// Moves what the write-ahead log holds into the file, and empties it, before the connections close; ends in 1.5 seconds.
    ///
    /// SQLite does so when the last connection closes. Here that is one for reading, which may not: GRDB closes the writer first.
    ///
    /// - Throws: When somebody else reads for longer, or the disk fails: nothing is lost, and the log goes on being needed.
    func foldLog() throws {
        let time = FoldingTime(self)
        DispatchQueue.global().asyncAfter(deadline: .now() + Self.limit) { time.interrupt() }
        defer { time.end() }
        try writeWithoutTransaction { db in
            try db.execute(sql: "PRAGMA busy_timeout = \(Self.patience)")
            _ = try db.checkpoint(.truncate)
        }
    }
}

/// Ends what takes too long, unless it has ended.
private final class FoldingTime: Sendable {
    private let pool: Mutex<DatabasePool?>

    init(_ pool: DatabasePool) { self.pool = Mutex(pool) }

    func end() { pool.withLock { $0 = nil } }

    func interrupt() { pool.withLock { $0?.interrupt() } }
}
