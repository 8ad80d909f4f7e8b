internal import Foundation
internal import ChaparCore
internal import ChaparQueue

/// Finds the deliveries that receipts are about, and changes them, within one transaction and with one statement for
/// each step.
struct ReceiptReceiver {
    /// The longest attempt log, in bytes, to which receipts without a new state are still added.
    private static let longestAttemptLog = 32 << 10

    private struct Found {
        var delivery: ReceivedDelivery
        var backend: String
        var attemptLog: [UInt8]
        var added: [UInt8] = []
    }

    private let core: StoreCore
    private let now: Int64
    private(set) var results: [ReceiptResult] = []
    /// The effects of reports about deliveries that have not ended.
    private(set) var outcome = RecordOutcome()
    /// The unclaimed deliveries that the receipts may be about, with their heads.
    private var waiting: [Int64: (row: DeliveryRow, head: NotificationHead)] = [:]
    /// The other deliveries that have not ended and that the receipts may be about: no rows of them are locked.
    private var unlocked: [Int64: (row: DeliveryRow, head: NotificationHead)] = [:]
    private var ended: [EndedDelivery] = []
    /// The additions to the logs of deliveries that wait on, and their due times.
    private var noted: [Int64: (added: [UInt8], due: Int64)] = [:]
    private var deliveries: [Int64: Found] = [:]
    private var events: [[UInt8]?] = []

    init(_ core: StoreCore, now: Int64) { (self.core, self.now) = (core, now) }

    mutating func receive(_ receipts: [ReceiptEntry], _ db: isolated PostgresConnection) throws(PostgresError) {
        let candidates = try candidates(receipts.map(\.address), db)
        let ids = Set(candidates.joined())
        try lock(ids, db)
        try lockWaiting(ids.filter { deliveries[$0] == nil }, db)
        try look(at: ids.filter { deliveries[$0] == nil && waiting[$0] == nil }, db)
        for (receipt, ids) in zip(receipts, candidates) { results.append(decide(receipt, ids)) }
        try write(db)
    }

    /// Returns the numbers of the deliveries that each address may mean.
    private func candidates(
        _ addresses: [ReceiptAddress],
        _ db: isolated PostgresConnection
    ) throws(PostgresError) -> [[Int64]] {
        let rows = try db.run(
            """
            SELECT a.place, w.delivery FROM unnest($1::bigint[], $2::bigint[]) WITH ORDINALITY AS a(message, token, place)
            CROSS JOIN LATERAL (
                SELECT delivery FROM chapar.awaited
                WHERE message = a.message AND (a.token IS NULL OR token = a.token) ORDER BY delivery
                LIMIT CASE WHEN a.token IS NULL THEN 1 END
            ) AS w WHERE a.message IS NOT NULL ORDER BY a.place, w.delivery
            """,
            [
                .integers(addresses.map { $0.delivery == nil ? $0.messageHash : nil }),
                .integers(addresses.map { $0.token == nil ? nil : $0.tokenHash }),
            ]
        )
        var found = addresses.map { $0.delivery.map { [$0] } ?? [] }
        for row in 0..<rows.count {
            if let place = rows.integer(row, 0), let delivery = rows.integer(row, 1) {
                found[Int(place) - 1].append(delivery)
            }
        }
        return found
    }

    /// Locks the results of deliveries, in the order of their numbers.
    private mutating func lock(_ ids: Set<Int64>, _ db: isolated PostgresConnection) throws(PostgresError) {
        guard let lowest = ids.min(), let highest = ids.max() else { return }
        let rows = try db.run(
            """
            SELECT r.id, r.notification, r.state, r.recipient, r.attempt_log, f.backend, f.caller FROM chapar.results r
            JOIN chapar.flows f ON f.number = r.flow
            WHERE r.id = ANY ($1) AND r.id >= $2 AND r.id <= $3 AND r.changed >= \(Marks.value(of: .notifications))
            ORDER BY r.id FOR UPDATE OF r
            """,
            [.integers(ids.sorted()), .integer(lowest), .integer(highest)]
        )
        let records = try records(of: Set((0..<rows.count).compactMap { rows.integer($0, 1) }), db)
        for row in 0..<rows.count {
            guard let id = rows.integer(row, 0), let state = DeliveryState(code: rows.integer(row, 2) ?? 0),
                let recipient = Recipient(storedForm: rows.text(row, 3) ?? "")
            else { continue }
            let notification = rows.integer(row, 1) ?? 0
            let delivery = ReceivedDelivery(
                id: id,
                notificationID: NotificationID(rawValue: notification),
                recipient: recipient,
                caller: rows.text(row, 6) ?? "",
                state: state,
                record: records[notification],
                backend: rows.text(row, 5) ?? ""
            )
            deliveries[id] = Found(
                delivery: delivery,
                backend: delivery.backend,
                attemptLog: rows.bytes(row, 4) ?? []
            )
        }
    }

    /// Locks those of some deliveries that wait, in the order of their numbers; nearly always there are none.
    private mutating func lockWaiting(_ ids: Set<Int64>, _ db: isolated PostgresConnection) throws(PostgresError) {
        guard !ids.isEmpty else { return }
        let found = try db.run(
            """
            SELECT \(DeliveryRow.columns) FROM chapar.waiting w WHERE w.id = ANY ($1) AND coalesce(w.owner, 0) = 0
            ORDER BY w.id FOR UPDATE
            """,
            [.integers(ids.sorted())]
        )
        let rows = DeliveryRow.all(found).filter { !$0.isClaimed && AttemptLog.isAccepted($0.attemptLog) }
        guard !rows.isEmpty else { return }
        let heads = try core.heads.heads(of: Set(rows.map(\.notification)), db)
        for row in rows { if let head = heads[row.notification] { waiting[row.id] = (row, head) } }
    }

    /// Reads those of some deliveries that are claimed, or wait for another attempt; nearly always there are none.
    private mutating func look(at ids: Set<Int64>, _ db: isolated PostgresConnection) throws(PostgresError) {
        guard !ids.isEmpty else { return }
        let found = try db.run(
            "SELECT \(DeliveryRow.columns) FROM chapar.waiting w WHERE w.id = ANY ($1) ORDER BY w.id",
            [.integers(ids.sorted())]
        )
        let rows = DeliveryRow.all(found)
        let heads = rows.isEmpty ? [:] : try core.heads.heads(of: Set(rows.map(\.notification)), db)
        for row in rows { if let head = heads[row.notification] { unlocked[row.id] = (row, head) } }
        // Another transaction may have ended a delivery between the statements.
        try lock(ids.subtracting(unlocked.keys), db)
    }

    /// Returns whether a receipt about a delivery that is claimed, or waits for another attempt, has to come again.
    private func isEarly(_ receipt: ReceiptEntry, about id: Int64) -> Bool {
        guard let (row, head) = unlocked[id] else { return false }
        let claim = row.claimed(head)
        let decision = ReportRules.decide(
            receipt,
            claim.plan,
            step: claim.step,
            row.attemptLog,
            // It may have been given back after the statement that locks what waits.
            isClaimed: row.isClaimed || AttemptLog.isAccepted(row.attemptLog),
            mayHaveBeenSent: row.mayHaveBeenSent
        )
        return decision == .early && receipt.isFor(ReceivedDelivery(claim, state: .sending))
    }

    /// Records a receipt about a delivery that has not ended; nil when it is about none that waits for it.
    private mutating func report(_ receipt: ReceiptEntry, about id: Int64) -> ReceiptResult? {
        guard let (row, head) = waiting[id] else { return isEarly(receipt, about: id) ? .early : nil }
        let claim = row.claimed(head)
        let decision = ReportRules.decide(
            receipt,
            claim.plan,
            step: claim.step,
            row.attemptLog,
            mayHaveBeenSent: row.mayHaveBeenSent
        )
        guard decision != .ignore else { return nil }
        var received = ReceivedDelivery(claim, state: .retrying)
        guard receipt.isFor(received) else { return nil }
        switch decision {
        case .ignore: return nil
        case .repeated: return .repeated(received)
        case .early: return .early
        case .end(let state):
            received.state = state
            let added = noted.removeValue(forKey: id)?.added
            var end = EndedDelivery(
                row,
                state,
                attempt: (added.map { $0 + [UInt8(ascii: ",")] } ?? []) + receipt.logEntry
            )
            end.flow = row.acceptingFlow(claim.plan, core.flows)
            ended.append(end)
            outcome.change.ended[state, default: 0] += 1
            if row.collapse != nil, let backend = core.flows.flow(row.flow)?.backend {
                outcome.stir(backend, due: .min)
            }
            waiting[id] = nil
            // A further report of the call is about a delivery that has ended.
            let separator = row.attemptLog.isEmpty ? [] : [UInt8(ascii: ",")]
            deliveries[id] = Found(
                delivery: received,
                backend: received.backend,
                attemptLog: row.attemptLog + separator + receipt.logEntry
            )
        case .note(let isDue):
            var row = row
            let separator = row.attemptLog.isEmpty ? [] : [UInt8(ascii: ",")]
            row.attemptLog += separator + receipt.logEntry
            if isDue { row.due = now }
            let added = (noted[id].map { $0.added + [UInt8(ascii: ",")] } ?? []) + receipt.logEntry
            noted[id] = (added, row.due)
            waiting[id] = (row, head)
            if isDue, let backend = core.flows.flow(row.flow)?.backend { outcome.stir(backend, due: now) }
        }
        events.append(receipt.event(received))
        return .recorded(received)
    }

    /// Writes what reports changed of deliveries that have not ended.
    private func writeWaiting(_ db: isolated PostgresConnection) throws(PostgresError) {
        try EndedDelivery.write(ended, now: now, db)
        guard !noted.isEmpty else { return }
        let ids = noted.keys.sorted()
        try db.run(
            """
            UPDATE chapar.waiting w SET due = a.due, attempt_log = \(EndedDelivery.joinedLog.replacing("attempt_log", with: "w.attempt_log"))
            FROM unnest($1::bigint[], $2::bigint[], $3::bytea[]) AS a(id, due, attempt) WHERE w.id BETWEEN a.id AND a.id
            """,
            [.integers(ids), .integers(ids.map { noted[$0]?.due }), .byteArrays(ids.map { noted[$0]?.added })]
        )
    }

    /// Returns the records of notifications; those that cannot be read are left out.
    private func records(
        of notifications: Set<Int64>,
        _ db: isolated PostgresConnection
    ) throws(PostgresError) -> [Int64: NotificationRecord] {
        guard let lowest = notifications.min(), let highest = notifications.max() else { return [:] }
        let rows = try db.run(
            """
            SELECT n.id, n.record FROM chapar.notifications n WHERE n.id = ANY ($1) AND n.id >= $2 AND n.id <= $3
            """,
            [.integers(notifications.sorted()), .integer(lowest), .integer(highest)]
        )
        var found: [Int64: NotificationRecord] = [:]
        for row in 0..<rows.count {
            guard let id = rows.integer(row, 0), let bytes = rows.bytes(row, 1) else { continue }
            found[id] = NotificationRecord(encoded: bytes)
        }
        return found
    }

    private mutating func decide(_ receipt: ReceiptEntry, _ ids: [Int64]) -> ReceiptResult {
        let address = receipt.address
        for id in ids {
            if let result = report(receipt, about: id) { return result }
            guard var found = deliveries[id], address.backend.isEmpty || found.backend == address.backend,
                // Hashes may collide; the platform's id in the log does not.
                address.delivery != nil
                    || found.attemptLog.firstRange(of: JSONValue.string(address.platformID).bytes) != nil,
                receipt.isFor(found.delivery)
            else { continue }
            if let state = receipt.state {
                // A delivery never returns to a state, and two events of one moment may have the same words: only the
                // state decides.
                guard found.delivery.state.canBecome(state) else { return .repeated(found.delivery) }
                found.delivery.state = state
            } else if found.attemptLog.count > Self.longestAttemptLog
                || found.attemptLog.firstRange(of: receipt.logEntry) != nil
            {
                return .repeated(found.delivery)
            }
            let separator = found.attemptLog.isEmpty ? [] : [UInt8(ascii: ",")]
            found.attemptLog += separator + receipt.logEntry
            found.added += separator + receipt.logEntry
            deliveries[id] = found
            events.append(receipt.event(found.delivery))
            return .recorded(found.delivery)
        }
        return .unknown
    }

    private func write(_ db: isolated PostgresConnection) throws(PostgresError) {
        try writeWaiting(db)
        let changed = deliveries.values.filter { !$0.added.isEmpty }
        guard !changed.isEmpty else { return try EventLog.append(events, now: now, db) }
        try LateEnds.write(changed.lazy.map(\.delivery.id), now: now, db)
        try db.run(
            """
            UPDATE chapar.results r SET state = a.state, changed = $4, attempt_log = coalesce(r.attempt_log, '') || a.added
            FROM unnest($1::bigint[], $2::bigint[], $3::bytea[]) AS a(id, state, added) WHERE r.id BETWEEN a.id AND a.id
            """,
            [
                .integers(changed.map(\.delivery.id)), .integers(changed.map(\.delivery.state.code)),
                .byteArrays(changed.map(\.added)), .integer(now),
            ]
        )
        try EventLog.append(events, now: now, db)
    }
}
