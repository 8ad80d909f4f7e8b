public import ChaparCore
public import ChaparQueue

/// Cancellation of a caller's waiting deliveries: searched in short reads, ended in short transactions.
extension PostgresStore {
    /// The most rows that one statement reads.
    private static let rowsPerStep: Int64 = 20_000
    /// The most deliveries that one transaction changes.
    private static let changesAtOnce: Int64 = 1_000

    /// Cancels a part of a caller's waiting deliveries.
    ///
    /// It goes through the deliveries by number, which never changes: so it does not miss those that another node
    /// claims, or puts back for a retry, between two parts. A claimed delivery stays with its node and is only marked.
    public func cancel(
        caller: String,
        from place: CallerCancellation.Place?,
        event: @escaping @Sendable (ClaimedDelivery, DeliveryState) -> [UInt8]
    ) async throws(StoreError) -> CallerCancellation {
        let end: Int64
        if let place { end = place.end } else { end = try await newestDelivery() }
        let place = place ?? CallerCancellation.Place(end: end)
        let (found, last) = try await scan(for: caller, place)
        var result = CallerCancellation(cancelled: 0)
        if let last { result.next = CallerCancellation.Place(end: place.end, after: last) }
        guard !found.isEmpty else { return result }
        try await prepareDay(core.now)
        let withdrawal = try await transaction(on: core.recorder) { [core] (db) throws(PostgresError) in
            let rows = DeliveryRow.all(
                try db.run(
                    "SELECT \(DeliveryRow.columns) FROM chapar.waiting w WHERE w.id = ANY ($1) ORDER BY w.id FOR UPDATE",
                    [.integers(found)]
                )
            )
            // Those that were marked before are not counted again.
            let news = rows.filter { !$0.isClaimed || !$0.flags.contains(.cancelled) }
            return try Withdrawal(of: news, event: event, core, db)
        }
        withdrawal.tell(core)
        (result.cancelled, result.inFlight) = (withdrawal.cancelled, withdrawal.inFlight)
        return result
    }

    /// Returns the next deliveries of a caller, and the number up to which rows were read; nil when none are left.
    private func scan(
        for caller: String,
        _ place: CallerCancellation.Place
    ) async throws(StoreError) -> (found: [Int64], last: Int64?) {
        try await session(on: core.reader) { (db) throws(PostgresError) in
            let rows = try db.run(
                """
                WITH looked AS MATERIALIZED (
                    SELECT w.id, w.flow IN (SELECT number FROM chapar.flows WHERE caller = $4) AS own FROM chapar.waiting w
                    WHERE w.id > $1 AND w.id <= $2 ORDER BY w.id LIMIT $3
                )
                SELECT max(id), NULL::bigint FROM looked
                UNION ALL (SELECT NULL, id FROM looked WHERE own ORDER BY id LIMIT $5)
                """,
                [
                    .integer(place.after), .integer(place.end), .integer(Self.rowsPerStep), .text(caller),
                    .integer(Self.changesAtOnce),
                ]
            )
            var last: Int64?
            var found: [Int64] = []
            for row in 0..<rows.count {
                if let id = rows.integer(row, 1) { found.append(id) } else { last = rows.integer(row, 0) }
            }
            return (found, found.count < Int(Self.changesAtOnce) ? last : found.max())
        }
    }
}
