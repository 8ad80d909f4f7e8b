import GRDBSQLite

extension SQLiteStore {
    /// The version of the SQLite library that is loaded, such as `3.40.1`.
    package static var sqliteVersion: String { String(cString: sqlite3_libversion()) }
}
