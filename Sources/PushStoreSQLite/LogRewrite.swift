import GRDB
import GRDBSQLite

/// Makes the write-ahead log durable again before a store copies anything from it or appends to it.
///
/// After a sync that failed, the system may take pages of the log for written that are not: reads see them, and no later sync
/// writes them. A process that ended then left a log that is whole in memory only. What the next one commits behind such pages
/// would be lost with the power, and if the power is lost while it copies them to the database, that has a part of a
/// transaction, and no log the rest. What is written once more, the next sync writes.
enum LogRewrite {
    /// Bytes that are read and written at a time: SQLite's file system layer takes less than 128 KiB in a call.
    private static let part = 1 << 16

    /// Writes the log once more as it is, and syncs it; does nothing where there is none.
    ///
    /// To be called by the owner of the file before the first transaction that may copy the log: nobody else may write.
    static func run(_ db: Database) throws {
        // It reads the database, which opens the log.
        guard try String.fetchOne(db, sql: "PRAGMA journal_mode") == "wal" else { return }
        _ = try Int.fetchOne(db, sql: "SELECT count(*) FROM sqlite_master")
        var log: UnsafeMutablePointer<sqlite3_file>?
        try check(sqlite3_file_control(db.sqliteConnection, "main", SQLITE_FCNTL_JOURNAL_POINTER, &log))
        guard let log, let methods = log.pointee.pMethods?.pointee,
            let size = methods.xFileSize, let read = methods.xRead, let write = methods.xWrite, let sync = methods.xSync
        else { return }
        var count: Int64 = 0
        try check(size(log, &count))
        guard count > 0 else { return }
        try withUnsafeTemporaryAllocation(byteCount: part, alignment: 8) { buffer in
            var position: Int64 = 0
            while position < count {
                let bytes = Int32(clamping: min(Int64(part), count - position))
                try check(read(log, buffer.baseAddress, bytes, position))
                try check(write(log, buffer.baseAddress, bytes, position))
                position += Int64(bytes)
            }
        }
        try check(sync(log, SQLITE_SYNC_NORMAL))
    }

    private static func check(_ code: Int32) throws {
        guard code == SQLITE_OK else { throw DatabaseError(resultCode: ResultCode(rawValue: code)) }
    }
}
