import GRDB
import GRDBSQLite
import PushCore

/// Makes the write-ahead log durable again before SQLite opens a database.
///
/// After a sync that failed, the system may take pages of the log for written that are not: reads see them, and no
/// later sync writes them. A process that ended then left a log that is whole in memory only. What the next one commits
/// behind such pages would be lost with the power, and if the power is lost while they are copied to the database, that
/// has a part of a transaction, and no log the rest. What is written once more, the next sync writes.
///
/// It comes before SQLite, which copies the log also when a connection is closed because something else failed.
enum LogRewrite {
    /// Bytes that are read and written at a time: SQLite's file system layer takes less than 128 KiB in a call.
    private static let part = 1 << 16

    /// Writes the log of a database once more as it is, and syncs it; does nothing where there is none.
    ///
    /// To be called by the owner of the file: nobody else may write.
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
