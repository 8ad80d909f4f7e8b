internal import ChaparCore
internal import ChaparQueue

/// Reads devices whose rows are locked until the end of the transaction.
///
/// Before this a transaction takes the locks of ids and tokens (``RegistryLocks``).
enum LockedDevices {
    /// Locks the rows of devices and reads them: those with these ids, and those that have one of these tokens.
    ///
    /// No returned row has changed since it was locked; rows that were deleted meanwhile are missing.
    static func read(
        _ ids: [String],
        having tokens: [DeviceToken],
        _ db: isolated PostgresConnection
    ) throws(PostgresError) -> [StoredDevice] {
        let numbers = try db.run(
            """
            SELECT number FROM chapar.devices WHERE number = ANY (ARRAY(
                SELECT number FROM chapar.devices WHERE id = ANY ($1)
                UNION SELECT device FROM chapar.device_tokens WHERE hash = ANY ($2)
            )) ORDER BY number FOR UPDATE
            """,
            [.texts(ids), .integers(tokens.map { TokenHash.of($0) })]
        )
        return try read(numbers.integers(), db)
    }

    /// Locks the rows of devices with these numbers and reads them.
    static func read(
        numbers: [Int64],
        _ db: isolated PostgresConnection
    ) throws(PostgresError) -> [StoredDevice] {
        let rows = try db.run(
            "SELECT number FROM chapar.devices WHERE number = ANY ($1) ORDER BY number FOR UPDATE",
            [.integers(numbers)]
        )
        return try read(rows.integers(), db)
    }

    /// Reads locked devices in a separate statement: one that waited for a lock still sees other tables as they were
    /// before its wait.
    private static func read(
        _ numbers: [Int64],
        _ db: isolated PostgresConnection
    ) throws(PostgresError) -> [StoredDevice] {
        guard !numbers.isEmpty else { return [] }
        let select = DeviceRows.select(from: "(SELECT * FROM chapar.devices WHERE number = ANY ($1)) d")
        return DeviceRows.read(try db.run(select, [.integers(numbers)]))
    }
}
