internal import ChaparCore
internal import ChaparQueue

/// The locks of the registry and the outbox, which every change takes in the same order, so that there is no deadlock.
///
/// 1. Advisory locks of the transaction, for ids and tokens that may not be in the tables yet. A transaction takes them
///    before it gives a device a token, creates a device or puts an entry into a device's line. There are ``buckets``
///    of them, however many ids and tokens a call names: the server keeps locks in a table of fixed size, and many
///    nodes share it.
/// 2. The rows of devices, in the order of their numbers: a transaction locks a device's row before it changes the
///    device, its tokens or its tags.
/// 3. Rows of `outbox_changes`, in the order of their numbers; then those of `outbox_entries`.
///
/// Claims lock rows of entries only, and skip locked ones instead of waiting.
struct RegistryLocks {
    private static let buckets: UInt64 = 1_024

    private let schema: String
    private var keys: Set<Int64> = []

    /// Makes an empty set of locks for a schema.
    init(_ options: PostgresOptions) { schema = options.schema }

    /// Adds the locks of devices.
    mutating func add(devices ids: some Sequence<String>) {
        for id in ids { add(StableHash.of(id)) }
    }

    /// Adds the locks of tokens, of whatever app.
    mutating func add(tokens: some Sequence<DeviceToken>) {
        for token in tokens { add(UInt64(bitPattern: TokenHash.of(token))) }
    }

    private mutating func add(_ hash: UInt64) {
        let space = StableHash.of("registry of \(schema)") & ~0xFFFF_FFFF
        // Mixes in the upper half of the hash: FNV mixes the lower bits of a text's last byte least.
        keys.insert(Int64(bitPattern: space | (hash ^ hash >> 32) % Self.buckets))
    }

    /// Takes all locks and waits for them; they end with the transaction.
    func take(_ db: isolated PostgresConnection) throws(PostgresError) {
        guard !keys.isEmpty else { return }
        try db.run("SELECT pg_advisory_xact_lock(k) FROM unnest($1::bigint[]) AS k", [.integers(keys.sorted())])
    }

    /// Locks the rows of devices and reads them: those with these ids, and those that have one of these tokens.
    ///
    /// No returned row has changed since it was locked; rows that were deleted meanwhile are missing.
    static func devices(
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
        return try read(Self.integers(numbers), db)
    }

    /// Locks the rows of devices with these numbers and reads them.
    static func devices(
        numbers: [Int64],
        _ db: isolated PostgresConnection
    ) throws(PostgresError) -> [StoredDevice] {
        let rows = try db.run(
            "SELECT number FROM chapar.devices WHERE number = ANY ($1) ORDER BY number FOR UPDATE",
            [.integers(numbers)]
        )
        return try read(Self.integers(rows), db)
    }

    /// Reads locked devices in a separate statement: one that waits for a lock still sees other tables as they were
    /// before.
    private static func read(
        _ numbers: [Int64],
        _ db: isolated PostgresConnection
    ) throws(PostgresError) -> [StoredDevice] {
        guard !numbers.isEmpty else { return [] }
        let select = DeviceRows.select(from: "(SELECT * FROM chapar.devices WHERE number = ANY ($1)) d")
        return DeviceRows.read(try db.run(select, [.integers(numbers)]))
    }

    /// Returns the integers of a column of rows.
    static func integers(_ rows: borrowing PostgresRows, _ column: Int = 0) -> [Int64] {
        var found: [Int64] = []
        for row in 0..<rows.count { if let number = rows.integer(row, column) { found.append(number) } }
        return found
    }
}
