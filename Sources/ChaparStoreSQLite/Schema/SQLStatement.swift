import Foundation
import GRDB
import GRDBSQLite
import ChaparCore

/// A prepared statement of the writer, a thin wrapper of SQLite's own calls: it runs once for each row.
///
/// Used by the writer's thread only. Bound values stay bound until they are replaced.
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

    /// Binds an empty blob, which is not NULL.
    private func bindEmptyBlob(_ index: Int32) { bind(index, emptyBytes: 0) }

    /// Binds a blob of zeros.
    func bind(_ index: Int32, emptyBytes count: Int) { sqlite3_bind_zeroblob(handle, index, Int32(clamping: count)) }

    /// Runs a statement that returns no rows.
    ///
    /// Returns the number of rows that it changed.
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

    /// Steps to the next row; returns false, and resets the statement, after the last one.
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

    /// Resets every statement of a connection: after an error some may be at a row, where they would hold their
    /// snapshot and accept no values.
    static func resetAll(_ connection: OpaquePointer) {
        var statement: OpaquePointer?
        while let next = sqlite3_next_stmt(connection, statement) {
            sqlite3_reset(next)
            statement = next
        }
    }

    // MARK: Values of the row at hand
    //
    // Each getter throws `StoreError.damaged` for a value of another type: SQLite's own would turn it into a number or
    // a text, and a column of a table takes values of every type. A statement that is kept must be reset then
    // (``resetAll(_:)``).

    func isNull(_ column: Int32) -> Bool { sqlite3_column_type(handle, column) == SQLITE_NULL }

    /// Returns a whole number.
    func integer(_ column: Int32) throws(StoreError) -> Int64 {
        guard sqlite3_column_type(handle, column) == SQLITE_INTEGER else { throw damage(column, "a whole number") }
        return sqlite3_column_int64(handle, column)
    }

    /// Returns a whole number; nil for null.
    func optional(_ column: Int32) throws(StoreError) -> Int64? { isNull(column) ? nil : try integer(column) }

    /// Returns the number of a delivery, a notification or an event, whose sums cannot overflow.
    func id(_ column: Int32) throws(StoreError) -> Int64 {
        let number = try integer(column)
        guard StoredRange.ids.contains(number) else { throw damage(column, "such a number") }
        return number
    }

    /// Returns a count.
    func count(_ column: Int32) throws(StoreError) -> Int {
        let number = try integer(column)
        guard StoredRange.counts.contains(number) else { throw damage(column, "such a number") }
        return Int(number)
    }

    /// Returns a time in milliseconds since 1970, whose sums and differences cannot overflow.
    func moment(_ column: Int32) throws(StoreError) -> Int64 {
        let number = try integer(column)
        guard StoredRange.moments.contains(number) else { throw damage(column, "a time") }
        return number
    }

    /// Returns a time that is stored in milliseconds since 1970.
    func date(_ column: Int32) throws(StoreError) -> Date { Date(millisecondsSince1970: try moment(column)) }

    /// Returns a time that is stored in milliseconds since 1970; nil for null.
    func optionalDate(_ column: Int32) throws(StoreError) -> Date? { isNull(column) ? nil : try date(column) }

    /// Returns a text.
    func text(_ column: Int32) throws(StoreError) -> String {
        try requireText(column)
        return String(decoding: content(column), as: UTF8.self)
    }

    /// Returns a text; nil for null.
    func optionalText(_ column: Int32) throws(StoreError) -> String? { isNull(column) ? nil : try text(column) }

    /// Returns the bytes of a text or blob; empty for null.
    func bytes(_ column: Int32) throws(StoreError) -> [UInt8] {
        try requireBytes(column)
        return Array(content(column))
    }

    /// Returns how many bytes a text or blob has.
    func byteCount(_ column: Int32) -> Int { Int(sqlite3_column_bytes(handle, column)) }

    /// Checks that there is a text.
    func requireText(_ column: Int32) throws(StoreError) {
        guard sqlite3_column_type(handle, column) == SQLITE_TEXT else { throw damage(column, "a text") }
    }

    /// Checks that there is a text, a blob or null.
    func requireBytes(_ column: Int32) throws(StoreError) {
        switch sqlite3_column_type(handle, column) {
        case SQLITE_TEXT, SQLITE_BLOB, SQLITE_NULL: break
        default: throw damage(column, "a text or bytes")
        }
    }

    /// Returns the value that a closure reads from the current row; nil for a damaged row, which is logged once and
    /// which the caller skips.
    func readable<Value>(_ read: (SQLStatement) throws(StoreError) -> Value, _ status: StoreStatus) -> Value? {
        do throws(StoreError) {
            return try read(self)
        } catch {
            status.logDamage("\(error)")
            return nil
        }
    }

    /// Returns the error for a value of a wrong type or outside its bounds.
    func damage(_ column: Int32, _ wanted: String) -> StoreError {
        let sql = String(cString: sqlite3_sql(handle))
        let table = sql.range(of: "FROM ").map { sql[$0.upperBound...].prefix { !$0.isWhitespace } }
        let name = sqlite3_column_name(handle, column).map { String(cString: $0) } ?? "\(column)"
        let found =
            switch sqlite3_column_type(handle, column) {
            case SQLITE_INTEGER: "the number \(sqlite3_column_int64(handle, column))"
            case SQLITE_FLOAT: "a fraction"
            case SQLITE_TEXT: "a text"
            case SQLITE_BLOB: "bytes"
            default: "nothing"
            }
        return .damaged("\(table.map { "\($0)." } ?? "")\(name) holds \(found) where \(wanted) belongs")
    }

    private func content(_ column: Int32) -> UnsafeRawBufferPointer {
        let start = sqlite3_column_blob(handle, column)
        return UnsafeRawBufferPointer(start: start, count: start == nil ? 0 : byteCount(column))
    }

    /// `SQLITE_TRANSIENT`, which the importer leaves out: SQLite makes its own copy.
    private static var transient: sqlite3_destructor_type { unsafeBitCast(-1, to: sqlite3_destructor_type.self) }
}

/// The translation of SQLite's errors for callers.
enum SQLFailure {
    /// SQLITE_CONSTRAINT_DATATYPE: a row of a strict table has a value of another type, which only damage brings.
    static let wrongType = SQLITE_CONSTRAINT | 12 << 8

    /// Returns the connection's last error.
    static func error(_ connection: OpaquePointer, doing sql: String) -> StoreError {
        let extended = sqlite3_extended_errcode(connection)
        let code = extended & 0xFF  // sqlite3_errcode gives the extended code too, as GRDB turns extended codes on.
        let message = String(cString: sqlite3_errmsg(connection))
        if code == SQLITE_FULL {
            return .full(reason: "the disk is full: \(message)", retryAfter: .seconds(10))
        }
        if code == SQLITE_CORRUPT || code == SQLITE_NOTADB || extended == wrongType {
            return .damaged("SQLite: \(message) (\(extended))")
        }
        return .failed("SQLite: \(message) (\(extended)) in: \(sql.prefix(60))")
    }
}

/// The bounds of numbers that this store writes: a file that holds others is damaged.
///
/// They leave room for every sum of such numbers.
enum StoredRange {
    /// Numbers of deliveries, notifications and events; the highest is of the year 2093.
    static let ids: Range<Int64> = 0..<1 << 62
    /// Counts.
    static let counts: ClosedRange<Int64> = 0...Int64(Int32.max)
    /// Times in milliseconds since 1970, exact as a `Double` too.
    static let moments: ClosedRange<Int64> = -(1 << 53)...1 << 53
}

/// Reads of a file outside of the commit loop.
extension Database {
    /// Prepares a statement, whose getters throw for a damaged value; GRDB's rows would end the process.
    func statement(_ sql: String) throws(StoreError) -> SQLStatement {
        guard let connection = sqliteConnection else { throw .closed }
        return try SQLStatement(connection, sql)
    }

    /// Returns the number in the first column of the first row; nil for null and without a row.
    func number(_ sql: String, _ arguments: Int64...) throws(StoreError) -> Int64? {
        let rows = try statement(sql)
        for (place, argument) in arguments.enumerated() { rows.bind(Int32(clamping: place + 1), argument) }
        return try rows.next() ? try rows.optional(0) : nil
    }

    /// Returns the small value under a name; nil when there is none.
    func value(named name: String) throws(StoreError) -> [UInt8]? {
        let rows = try statement("SELECT value FROM state WHERE name = ?1")
        rows.bind(1, name)
        return try rows.next() ? try rows.bytes(0) : nil
    }
}

extension StoreError {
    /// Makes the error for a file that cannot be read.
    init(reading error: any Error) {
        switch error {
        case let error as StoreError: self = error
        case let error as DatabaseError
        where [.SQLITE_CORRUPT, .SQLITE_NOTADB].contains(error.resultCode)
            || error.extendedResultCode.rawValue == SQLFailure.wrongType:
            self = .damaged("SQLite: \(error.message ?? "\(error.resultCode)") (\(error.extendedResultCode.rawValue))")
        default: self = .failed("\(error)")
        }
    }

    /// Makes the error for a store's file that cannot be used, with the fix.
    init(opening path: String, _ error: any Error) {
        switch StoreError(reading: error) {
        case .damaged(let what):
            self = .damaged(
                """
                the store \(path) is damaged: \(what). Put a backup in its place: chapar restore BACKUP \
                (the damaged file is kept under another name); see docs/Operations.md, "A damaged store"
                """
            )
        case .failed(let reason) where !(error is StoreError):
            self = .failed("cannot open the store \(path): \(reason)")
        case let other: self = other
        }
    }
}
