import Foundation
import GRDBSQLite
import PushCore

/// A prepared statement of the writer, a thin cover over SQLite's own calls: it runs once for each row.
///
/// Used by the writer's thread only. What is bound stays bound until it is replaced.
final class SQLStatement {
    private let connection: OpaquePointer
    private let handle: OpaquePointer

    init(_ connection: OpaquePointer, _ sql: String) throws(StoreError) {
        var handle: OpaquePointer?
        let code = sqlite3_prepare_v3(connection, sql, -1, UInt32(SQLITE_PREPARE_PERSISTENT), &handle, nil)
        guard code == SQLITE_OK, let handle else { throw SQLFailure.error(connection, doing: sql) }
        self.connection = connection
        self.handle = handle
    }

    deinit { sqlite3_finalize(handle) }

    func bind(_ index: Int32, _ value: Int64) { sqlite3_bind_int64(handle, index, value) }
    func bind(_ index: Int32, _ value: Int) { sqlite3_bind_int64(handle, index, Int64(value)) }
    func bind(_ index: Int32, _ value: Int64?) {
        if let value { sqlite3_bind_int64(handle, index, value) } else { sqlite3_bind_null(handle, index) }
    }
    func bindNull(_ index: Int32) { sqlite3_bind_null(handle, index) }

    /// Binds a copy of a text.
    func bind(_ index: Int32, _ text: String) {
        sqlite3_bind_text(handle, index, text, Int32(clamping: text.utf8.count), Self.transient)
    }

    /// Binds bytes as text without a copy: they must stay where they are until the statement has run.
    func bindText(_ index: Int32, borrowing bytes: UnsafeBufferPointer<UInt8>) {
        guard let start = bytes.baseAddress else { return bind(index, "") }
        let text = UnsafeRawPointer(start).assumingMemoryBound(to: CChar.self)
        sqlite3_bind_text(handle, index, text, Int32(clamping: bytes.count), nil)
    }

    /// Binds a copy of bytes as a blob.
    func bind(_ index: Int32, blob bytes: [UInt8]) {
        guard !bytes.isEmpty else { return bindEmptyBlob(index) }
        sqlite3_bind_blob(handle, index, bytes, Int32(clamping: bytes.count), Self.transient)
    }

    /// Binds bytes as a blob without a copy: they must stay where they are until the statement has run.
    func bindBlob(_ index: Int32, borrowing bytes: UnsafeBufferPointer<UInt8>) {
        guard let start = bytes.baseAddress, !bytes.isEmpty else { return bindEmptyBlob(index) }
        sqlite3_bind_blob(handle, index, start, Int32(clamping: bytes.count), nil)
    }

    /// An empty blob, which is not NULL.
    private func bindEmptyBlob(_ index: Int32) { bind(index, emptyBytes: 0) }

    /// Binds a blob of zeros.
    func bind(_ index: Int32, emptyBytes count: Int) { sqlite3_bind_zeroblob(handle, index, Int32(clamping: count)) }

    /// Runs a statement that gives no rows.
    ///
    /// Returns how many rows it changed.
    @discardableResult
    func run() throws(StoreError) -> Int {
        let code = sqlite3_step(handle)
        guard code == SQLITE_DONE || code == SQLITE_ROW else {
            let error = SQLFailure.error(connection, doing: String(cString: sqlite3_sql(handle)))
            sqlite3_reset(handle)
            throw error
        }
        let changes = sqlite3_changes(connection)
        sqlite3_reset(handle)
        return Int(changes)
    }

    /// Steps to the next row; false, and reset, after the last one.
    func next() throws(StoreError) -> Bool {
        switch sqlite3_step(handle) {
        case SQLITE_ROW: return true
        case SQLITE_DONE:
            sqlite3_reset(handle)
            return false
        default:
            let error = SQLFailure.error(connection, doing: String(cString: sqlite3_sql(handle)))
            sqlite3_reset(handle)
            throw error
        }
    }

    /// Ends a statement before its last row.
    func reset() { sqlite3_reset(handle) }

    func isNull(_ column: Int32) -> Bool { sqlite3_column_type(handle, column) == SQLITE_NULL }
    func integer(_ column: Int32) -> Int64 { sqlite3_column_int64(handle, column) }
    func optional(_ column: Int32) -> Int64? { isNull(column) ? nil : integer(column) }
    func text(_ column: Int32) -> String { String(decoding: bytes(column), as: UTF8.self) }

    /// How many bytes a text or blob has.
    func byteCount(_ column: Int32) -> Int { Int(sqlite3_column_bytes(handle, column)) }

    /// The bytes of a text or blob; empty for null.
    func bytes(_ column: Int32) -> [UInt8] {
        guard let start = sqlite3_column_blob(handle, column) else { return [] }
        return Array(UnsafeRawBufferPointer(start: start, count: Int(sqlite3_column_bytes(handle, column))))
    }

    /// `SQLITE_TRANSIENT`, which the importer leaves out: SQLite makes its own copy.
    private static var transient: sqlite3_destructor_type { unsafeBitCast(-1, to: sqlite3_destructor_type.self) }
}

/// What SQLite's errors mean to a caller.
enum SQLFailure {
    /// The connection's last error.
    static func error(_ connection: OpaquePointer, doing sql: String) -> StoreError {
        let code = sqlite3_errcode(connection)
        let message = String(cString: sqlite3_errmsg(connection))
        if code == SQLITE_FULL {
            return .full(reason: "the disk is full: \(message)", retryAfter: .seconds(10))
        }
        let extended = sqlite3_extended_errcode(connection)
        return .failed("SQLite: \(message) (\(extended)) in: \(sql.prefix(60))")
    }
}
