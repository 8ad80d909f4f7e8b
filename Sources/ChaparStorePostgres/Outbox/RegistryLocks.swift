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
/// 3. The locks of users (``LabelWriter``), shared by changes of a device's user, exclusive for changes of a user's
///    labels; then rows of labels and of their counts.
/// 4. Rows of `outbox_changes`, in the order of their numbers; then those of `outbox_entries`.
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

    /// Adds the locks of tokens; those of all apps share them.
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
}
