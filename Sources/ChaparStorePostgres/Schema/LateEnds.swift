internal import ChaparCore
internal import Synchronization

/// The time until which a day's deliveries are kept beyond that day: noted when one ends, or gets a receipt, on a later
/// day than that of its number.
///
/// So a day can be dropped without reading its rows. In `chapar.marks`, as `ended_d` and the day: the time before which
/// everything in the day ended; there is none for a day in which everything ended on that day. A bound covers the whole
/// day on which something ends late, so it is written once and found from then on.
final class LateEnds: Sendable {
    private struct Noted {
        var today = Int64.min
        var days: Set<Int64> = []
    }

    private let noted = Mutex(Noted())

    /// Notes that deliveries end today, before a statement that ends them without noting it.
    func note(_ ids: some Sequence<Int64>, now: Int64, on connection: PostgresConnection) async throws(PostgresError) {
        let bounds = Self.bounds(ids, now: now)
        let days = Set(bounds.keys)
        guard !days.isEmpty else { return }
        let today = Partitions.day(now)
        guard noted.withLock({ $0.today != today || !days.isSubset(of: $0.days) }) else { return }
        try await connection.session { (db) throws(PostgresError) in try Self.write(bounds, db) }
        noted.withLock {
            if $0.today != today { $0 = Noted(today: today) }
            $0.days.formUnion(days)
        }
    }

    /// Makes the next note write again: another server may have taken over, which lacks the last ones.
    func forgetNoted() { noted.withLock { $0 = Noted() } }

    /// Notes that deliveries end or change today, within the transaction that does it.
    static func write(_ ids: some Sequence<Int64>, now: Int64, _ db: isolated PostgresConnection) throws(PostgresError)
    {
        try write(bounds(ids, now: now), db)
    }

    /// Returns the earlier days of these numbers, each with the end of today.
    private static func bounds(_ ids: some Sequence<Int64>, now: Int64) -> [Int64: Int64] {
        let today = Partitions.day(now)
        let start = Partitions.Table.results.start(of: today)
        var bounds: [Int64: Int64] = [:]
        for id in ids where id < start { bounds[Partitions.day(ofNumber: id)] = Partitions.end(of: today) }
        return bounds
    }

    /// Moves the bounds of days forward.
    static func write(_ bounds: [Int64: Int64], _ db: isolated PostgresConnection) throws(PostgresError) {
        guard !bounds.isEmpty else { return }
        let days = bounds.keys.sorted()  // All nodes lock rows in this order.
        // Where the bound exists already nothing is locked.
        try db.run(
            """
            INSERT INTO chapar.marks AS m (name, value)
            SELECT 'ended_d' || a.day, a.value FROM unnest($1::bigint[], $2::bigint[]) AS a(day, value)
            WHERE NOT EXISTS (SELECT FROM chapar.marks o WHERE o.name = 'ended_d' || a.day AND o.value >= a.value)
            ON CONFLICT (name) DO UPDATE SET value = greatest(m.value, excluded.value)
            """,
            [.integers(days), .integers(days.map { bounds[$0] })]
        )
    }

    /// Whether everything in a day ended before a time; the caller leaves out days that are not over by then.
    static func allEnded(in day: Int64, before: Int64, _ db: isolated PostgresConnection) throws(PostgresError) -> Bool
    {
        try db.run(
            "SELECT NOT EXISTS (SELECT FROM chapar.marks WHERE name = 'ended_d' || $1::bigint AND value > $2)",
            [.integer(day), .integer(before)]
        ).bool(0, 0)
    }

    /// Removes the bounds that are older than what is kept.
    static func forget(before: Int64, _ db: isolated PostgresConnection) throws(PostgresError) {
        try db.run("DELETE FROM chapar.marks WHERE starts_with(name, 'ended_d') AND value <= $1", [.integer(before)])
    }
}
