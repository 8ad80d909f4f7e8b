internal import ChaparCore
internal import ChaparQueue

/// A delivery that the store ends, or that an owner ends through ``SlowRecord``.
struct EndedDelivery: Sendable {
    var id: Int64
    var state: DeliveryState
    /// The attempt that is added to its log.
    var attempt: [UInt8]?
    var receipt: ReceiptAddress?
    /// The collapse key at which others may wait for it; nil without one.
    var collapse: Int64?
    /// The flow of the backend that accepted it, when it ended while it waited for the next backend.
    var flow: Int64?

    init(_ row: DeliveryRow, _ state: DeliveryState, attempt: [UInt8]? = nil, receipt: ReceiptAddress? = nil) {
        id = row.id
        self.state = state
        self.attempt = attempt
        self.receipt = receipt
        collapse = row.collapse
    }

    /// Moves deliveries, whose rows are locked, from `waiting` to `results`.
    static func write(_ ended: [EndedDelivery], now: Int64, _ db: isolated PostgresConnection) throws(PostgresError) {
        guard !ended.isEmpty else { return }
        try LateEnds.write(ended.lazy.map(\.id), now: now, db)
        try db.run(
            """
            WITH gone AS (
                DELETE FROM chapar.waiting w
                USING unnest($1::bigint[], $2::bigint[], $3::bytea[], $4::bigint[], $5::bigint[], $7::bigint[])
                    AS a(id, state, attempt, message, token, flow)
                WHERE w.id BETWEEN a.id AND a.id
                RETURNING w.id, w.notification, coalesce(a.flow, w.flow) AS flow, w.recipient, w.attempt_log, a.state, a.attempt, a.message, a.token
            ), expected AS (
                INSERT INTO chapar.awaited (delivery, message, token)
                SELECT id, message, token FROM gone WHERE message IS NOT NULL
            )
            INSERT INTO chapar.results (id, notification, flow, changed, state, recipient, attempt_log)
            SELECT id, notification, flow, $6, state, recipient, \(Self.joinedLog) FROM gone
            """,
            [
                .integers(ended.map(\.id)), .integers(ended.map(\.state.code)), .byteArrays(ended.map(\.attempt)),
                .integers(ended.map { $0.receipt?.messageHash }), .integers(ended.map { $0.receipt?.tokenHash }),
                .integer(now), .integers(ended.map(\.flow)),
            ]
        )
        try letGo(Set(ended.compactMap(\.collapse)), db)
    }

    /// The expression for the attempt log with the attempt appended.
    static let joinedLog = """
        CASE WHEN attempt IS NULL THEN attempt_log WHEN attempt_log IS NULL THEN attempt \
        ELSE attempt_log || ','::bytea || attempt END
        """

    /// Makes deliveries claimable that waited for another one with their collapse key, once no other of their caller is
    /// claimed or older.
    static func letGo(_ keys: Set<Int64>, _ db: isolated PostgresConnection) throws(PostgresError) {
        guard !keys.isEmpty else { return }
        try db.run(
            """
            UPDATE chapar.waiting w SET owner = NULL FROM chapar.flows f
            WHERE w.collapse = ANY ($1) AND w.owner = 0 AND f.number = w.flow AND NOT EXISTS (
                SELECT FROM chapar.waiting o JOIN chapar.flows g ON g.number = o.flow
                WHERE o.collapse = w.collapse AND o.recipient = w.recipient AND g.backend = f.backend AND g.caller = f.caller
                AND o.id <> w.id AND (o.owner > 0 OR o.id < w.id)
            )
            """,
            [.integers(keys.sorted())]
        )
    }
}
