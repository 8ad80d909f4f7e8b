import GRDB
import GRDBSQLite
import ChaparCore

/// Makes the write-ahead log durable again before SQLite opens a database.
///
/// After a failed sync the system may treat pages of the log as written that are not: reads return them, and no later
/// sync writes them. A process that ended then left a log that is complete in memory only. What the next process
/// commits behind such pages would be lost with the power. If the power is lost while they are copied to the database,
/// the database has a part of a transaction, and no log has the rest. Pages that are written again are written by the
/// next sync.
///
/// It runs before SQLite opens the file: SQLite copies the log even when it closes a connection because something else
/// failed.
enum LogRewrite {
    /// The bytes that are read and written at a time: SQLite's file system layer takes less than 128 KiB in a call.
    private static let part = 1 << 16

    /// Writes the log of a database again as it is, and syncs it; does nothing without a log.
    ///
    /// Only the owner of the file may call it: no other process may write.
    ///
    /// - Throws: ``GRDB/DatabaseError`` when the log cannot be read, written or synced; the database is as it was.
    static func run(_ path: String) throws {
        guard let system = sqlite3_vfs_find(nil), let open = system.pointee.xOpen, let access = system.pointee.xAccess
        else {
            return
        }
        guard let name = sqlite3_create_filename(path, path + "-journal", path + "-wal", 0, nil) else { return }
        defer { sqlite3_free_filename(name) }
        let log = sqlite3_filename_wal(name)
        var exists: Int32 = 0
        try check(access(system, log, SQLITE_ACCESS_EXISTS, &exists))
        guard exists != 0 else { return }
        try withUnsafeTemporaryAllocation(byteCount: Int(clamping: system.pointee.szOsFile), alignment: 16) { memory in
            memory.initializeMemory(as: UInt8.self, repeating: 0)
            guard let file = memory.baseAddress?.assumingMemoryBound(to: sqlite3_file.self) else { return }
            var flags: Int32 = 0
            try check(open(system, log, file, SQLITE_OPEN_READWRITE | SQLITE_OPEN_WAL, &flags))
            defer { _ = file.pointee.pMethods?.pointee.xClose(file) }
            try writeAgain(file)
        }
    }

    private static func writeAgain(_ file: UnsafeMutablePointer<sqlite3_file>) throws {
        guard let methods = file.pointee.pMethods?.pointee, let size = methods.xFileSize, let read = methods.xRead,
            let write = methods.xWrite, let sync = methods.xSync
        else { return }
        var count: Int64 = 0
        try check(size(file, &count))
        guard count > 0 else { return }
        try withUnsafeTemporaryAllocation(byteCount: part, alignment: 8) { buffer in
            var position: Int64 = 0
            while position < count {
                let bytes = Int32(clamping: min(Int64(part), count.subtracting(clamping: position)))
                try check(read(file, buffer.baseAddress, bytes, position))
                try check(write(file, buffer.baseAddress, bytes, position))
                position = position.adding(clamping: Int64(bytes))
            }
        }
        try check(sync(file, SQLITE_SYNC_NORMAL))
    }

    private static func check(_ code: Int32) throws {
        guard code == SQLITE_OK else { throw DatabaseError(resultCode: ResultCode(rawValue: code)) }
    }
}
