internal import Foundation
internal import ChaparComposition
internal import ChaparCore
internal import ChaparQueue

/// New notifications of which none may replace another, so that one statement inserts them.
///
/// Of a caller's deliveries to one recipient with the same collapse ID at most one waits at a backend, and at most one
/// is claimed. A new one ends those that wait, and waits (`owner` 0) for one that is claimed. The key in the table does
/// not include the caller: a rival's caller is read from its notification.
struct CollapseWave {
    private var notifications: [NewNotification] = []
    private var keys: Set<Int64> = []

    /// Divides notifications into waves, in order.
    static func waves(_ notifications: [NewNotification]) -> [CollapseWave] {
        var waves: [CollapseWave] = [CollapseWave()]
        for new in notifications {
            let keys = new.collapseKeys
            if !waves[waves.count - 1].keys.isDisjoint(with: keys) { waves.append(CollapseWave()) }
            waves[waves.count - 1].notifications.append(new)
            waves[waves.count - 1].keys.formUnion(keys)
        }
        return waves
    }

    /// Ends the deliveries that are replaced, and inserts the rows.
    func insert(
        into rows: inout EnqueueRows,
        _ core: StoreCore,
        _ change: inout StoreChange,
        _ db: isolated PostgresConnection
    ) throws(PostgresError) {
        let rivals = try CollapseRival.all(having: keys, isLocked: true, db)
        let replaced = rivals.values.joined().filter { !$0.row.isClaimed }.map(\.row.notification)
        let heads = replaced.isEmpty ? [:] : try core.heads.heads(of: Set(replaced), db)
        var ended: [EndedDelivery] = []
        for new in notifications {
            guard let collapseID = new.collapseID else {
                try rows.add(new)
                continue
            }
            var held: [Bool] = []
            var seen: Set<String> = []
            for (index, key) in new.collapseKeys.enumerated() {
                let plan = new.plan(ofRecipient: index)
                let backend = core.flows.target(of: plan.backends.first ?? "")
                let mine = (rivals[key] ?? []).filter {
                    $0.isRival(of: new.caller, collapseID) && $0.row.recipient == new.recipients[index]
                        && $0.backend == backend
                }
                // A recipient that is listed twice gets one after the other.
                held.append(!seen.insert("\(key) \(backend)").inserted || mine.contains { $0.row.isClaimed })
                for row in mine.map(\.row) where !row.isClaimed {
                    let state = row.withdrawnState
                    ended.append(EndedDelivery(row, state))
                    change.ended[state, default: 0] += 1
                    if let head = heads[row.notification], let event = new.replacementEvent?(row.claimed(head), state) {
                        rows.add(event: event)
                    }
                }
            }
            try rows.add(new, held: held)
        }
        try EndedDelivery.write(ended, now: core.now, db)
    }

    /// Returns a key space apart from other locks of the store, and from those of other schemas, which are other
    /// stores.
    static func lockSpace(_ schema: String) -> Int64 {
        // The name for the default schema is the one of older versions, which may run beside this one.
        let name = schema == "chapar" ? "collapse ids" : "collapse ids of \(schema)"
        return Int64(bitPattern: StableHash.of(name)) & ~0xFFFF_FFFF
    }

    /// Locks the keys of waves until the commit, so that no other node adds deliveries with them.
    ///
    /// All are taken before the rows of the first wave, and in one order, so that there is no deadlock.
    ///
    /// There are at most 1,024 locks, however many recipients there are: the server keeps them in a table of fixed
    /// size.
    static func lock(
        _ waves: [CollapseWave],
        of schema: String,
        _ db: isolated PostgresConnection
    ) throws(PostgresError) {
        let space = lockSpace(schema)
        let locks = Set(waves.flatMap(\.keys).map { space | ($0 ^ $0 >> 32) & 1_023 })
        guard !locks.isEmpty else { return }
        try db.run(
            "SELECT count(pg_advisory_xact_lock(key)) FROM (SELECT key FROM unnest($1::bigint[]) AS k(key) ORDER BY key) AS keys",
            [.integers(locks.sorted())]
        )
    }
}

/// A delivery that has a collapse key and has not ended.
struct CollapseRival {
    var row: DeliveryRow
    var backend: String
    var collapseID: String?
    var caller: String

    /// Whether it has this caller and collapse ID.
    func isRival(of caller: String, _ collapseID: String?) -> Bool {
        self.collapseID == collapseID && self.caller == caller
    }

    /// Reads the deliveries with the keys, by key; with `isLocked` no other transaction claims or changes them until
    /// this one ends.
    static func all(
        having keys: Set<Int64>,
        isLocked: Bool = false,
        _ db: isolated PostgresConnection
    ) throws(PostgresError) -> [Int64: [CollapseRival]] {
        guard !keys.isEmpty else { return [:] }
        let rows = try db.run(
            """
            SELECT \(DeliveryRow.columns), f.backend, n.collapse_id, n.caller FROM chapar.waiting w
            JOIN chapar.flows f ON f.number = w.flow JOIN chapar.notifications n ON n.id = w.notification
            WHERE w.collapse = ANY ($1) ORDER BY w.id + 0\(isLocked ? " FOR UPDATE OF w" : "")
            """,
            [.integers(keys.sorted())]
        )
        var found: [Int64: [CollapseRival]] = [:]
        for row in 0..<rows.count {
            guard let delivery = DeliveryRow(rows, row), let key = delivery.collapse else { continue }
            found[key, default: []].append(
                CollapseRival(
                    row: delivery,
                    backend: rows.text(row, 13) ?? "",
                    collapseID: rows.text(row, 14),
                    caller: rows.text(row, 15) ?? ""
                )
            )
        }
        return found
    }
}

extension NewNotification {
    /// The collapse key of each recipient; none without a collapse id.
    fileprivate var collapseKeys: [Int64] {
        guard let collapseID else { return [] }
        return recipients.map { CollapseHash.of(Array($0.storedForm.utf8), collapseID) }
    }
}

/// A delivery that the store ends, or that an owner ends through ``SlowRecord``.
struct EndedDelivery: Sendable {
    var id: Int64
    var state: DeliveryState
    /// The attempt that is added to its log.
    var attempt: [UInt8]?
    var receipt: ReceiptAddress?
    /// The collapse key at which others may wait for it; nil without one.
    var collapse: Int64?

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
                USING unnest($1::bigint[], $2::bigint[], $3::bytea[], $4::bigint[], $5::bigint[])
                    AS a(id, state, attempt, message, token)
                WHERE w.id BETWEEN a.id AND a.id
                RETURNING w.id, w.notification, w.flow, w.recipient, w.attempt_log, a.state, a.attempt, a.message, a.token
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
                .integer(now),
            ]
        )
        try letGo(Set(ended.compactMap(\.collapse)), db)
    }

    /// The expression for the attempt log with the attempt appended.
    static let joinedLog = """
        CASE WHEN attempt IS NULL THEN attempt_log WHEN attempt_log IS NULL THEN attempt \
        ELSE attempt_log || ','::bytea || attempt END
        """

    /// Makes deliveries claimable that waited for another one of their caller with their collapse key, where there is
    /// none any more.
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
