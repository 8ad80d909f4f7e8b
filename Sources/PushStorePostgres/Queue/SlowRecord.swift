internal import Foundation
internal import PushComposition
internal import PushCore
internal import PushQueue

/// Writes what one statement cannot decide: retries, releases, what comes under a lease that is not in force, and all that has a
/// collapse key.
///
/// Locks the rows, decides in order, and writes the decisions with a statement for each kind.
struct SlowRecord {
    private let core: StoreCore
    private let now: Int64
    private(set) var outcome = RecordOutcome()
    private var rows: [Int64: DeliveryRow] = [:]
    private var heads: [Int64: NotificationHead] = [:]
    private var ended: [EndedDelivery] = []
    private var changed: [DeliveryRow] = []
    private var attempts: [Int64: [UInt8]] = [:]
    private var events: [[UInt8]?] = []

    init(_ core: StoreCore) {
        self.core = core
        now = core.now
    }

    /// Decides on resolutions and writes what they change.
    mutating func record(
        _ resolutions: [(Resolution, RecordRequest.EndEvent)],
        _ db: isolated PostgresConnection
    ) throws(PostgresError) {
        try lock(Set(resolutions.map(\.0.delivery)), db)
        for (resolution, event) in resolutions { try decide(resolution, event, db) }
        try EndedDelivery.write(ended, now: now, db)
        try writeChanged(db)
        guard !events.isEmpty else { return }
        outcome.hasEvents = true
        try EventLog.append(events, now: now, db)
    }

    private mutating func lock(_ ids: Set<Int64>, _ db: isolated PostgresConnection) throws(PostgresError) {
        let found = try db.run(
            "SELECT \(DeliveryRow.columns) FROM chapar.waiting w WHERE w.id = ANY ($1) ORDER BY w.id FOR UPDATE",
            [.integers(ids.sorted())]
        )
        for delivery in DeliveryRow.all(found) { rows[delivery.id] = delivery }
        heads = try core.heads.heads(of: Set(rows.values.map(\.notification)), db)
    }

    private mutating func decide(
        _ resolution: Resolution,
        _ event: RecordRequest.EndEvent,
        _ db: isolated PostgresConnection
    ) throws(PostgresError) {
        guard var row = rows[resolution.delivery], let head = heads[row.notification] else {
            outcome.change.ignored += 1  // It is final already.
            return
        }
        let isInForce = row.isClaimed && resolution.lease ?? row.lease == row.lease
        if !isInForce {
            // Only that the platform has the message is true whoever says so.
            guard case .end(let state) = resolution.transition, state.canBeRecordedLate else {
                outcome.change.ignored += 1
                return
            }
        }
        switch resolution.transition {
        case .end(let state):
            end(row, state, resolution)
            if let event = resolution.event { events.append(event) }
        case .retry(let moment, let step):
            let plan = head.heads[min(row.plan, head.heads.count - 1)].plan
            guard plan.backends.indices.contains(step) else {
                throw .declined(.failed("the plan of delivery \(row.id) has no step \(step)"))
            }
            let former = core.flows.flow(row.flow)
            let flow = Flow(
                backend: plan.backends[step],
                isUrgent: former?.isUrgent ?? true,
                caller: former?.caller ?? head.caller
            )
            let backend = core.flows.target(of: flow.backend)
            if endWithdrawn(row, head, resolution, event) { return }
            if try endReplaced(row, head, backend, resolution, event, db) { return }
            guard let number = core.flows.number(of: flow) else { throw .lacks(flow) }
            if resolution.mayHaveBeenSent || row.flags.contains(.recovered) { row.flags.insert(.replay) }
            row.flags.remove(.recovered)
            row.flow = number
            row.due = moment.millisecondsSince1970
            row.step = step
            if let attempt = resolution.attempt {
                row.attempts += 1
                attempts[row.id] = attempt
            }
            try wait(row, backend, db)
            if let event = resolution.event { events.append(event) }
        case .release:
            let backend = core.flows.flow(row.flow)?.backend ?? ""
            if endWithdrawn(row, head, resolution, event) { return }
            if try endReplaced(row, head, backend, resolution, event, db) { return }
            if row.flags.contains(.recovered) { row.flags.insert(.replay) }
            row.flags.remove(.recovered)
            try wait(row, backend, db)
            if let event = resolution.event { events.append(event) }
        }
    }

    private mutating func end(_ row: DeliveryRow, _ state: DeliveryState, _ resolution: Resolution) {
        ended.append(EndedDelivery(row, state, attempt: resolution.attempt, receipt: resolution.receipt))
        outcome.change.ended[state, default: 0] += 1
        rows[row.id] = nil
        // Whoever waited for it can be claimed now, since whenever it was due.
        if row.collapse != nil, let backend = core.flows.flow(row.flow)?.backend { outcome.stir(backend, due: .min) }
    }

    private mutating func wait(_ row: DeliveryRow, _ backend: String, _ db: isolated PostgresConnection)
        throws(PostgresError)
    {
        var row = row
        row.owner = nil
        if row.collapse != nil, try !rivals(of: row, at: backend, db).isEmpty { row.owner = 0 }
        changed.append(row)
        rows[row.id] = row
        outcome.stir(backend, due: row.due)
    }

    /// Ends a delivery that would wait again although it was cancelled while it was claimed; false for others.
    private mutating func endWithdrawn(
        _ row: DeliveryRow,
        _ head: NotificationHead,
        _ resolution: Resolution,
        _ event: RecordRequest.EndEvent
    ) -> Bool {
        guard row.flags.contains(.cancelled) else { return false }
        let state = resolution.mayHaveBeenSent ? .unknown : row.withdrawnState
        end(row, state, resolution)
        let claim = row.claimed(head)
        events.append(core.inHand.cancellation(of: row.id)?(claim, state) ?? event(claim, state, .cancelled))
        return true
    }

    /// Ends a delivery that would wait again although a newer one with its collapse key waits; false for others.
    private mutating func endReplaced(
        _ row: DeliveryRow,
        _ head: NotificationHead,
        _ backend: String,
        _ resolution: Resolution,
        _ event: RecordRequest.EndEvent,
        _ db: isolated PostgresConnection
    ) throws(PostgresError) -> Bool {
        guard row.collapse != nil else { return false }
        guard try rivals(of: row, at: backend, db).contains(where: { $0 > row.id }) else { return false }
        let state = resolution.mayHaveBeenSent ? .unknown : row.withdrawnState
        end(row, state, resolution)
        events.append(event(row.claimed(head), state, .replaced))
        return true
    }

    /// The other deliveries at a backend to the same recipient with the same collapse id, that have not ended in this transaction.
    private func rivals(
        of row: DeliveryRow,
        at backend: String,
        _ db: isolated PostgresConnection
    ) throws(PostgresError) -> [Int64] {
        let found = try db.run(
            """
            SELECT w.id FROM chapar.waiting w JOIN chapar.flows f ON f.number = w.flow
            JOIN chapar.notifications n ON n.id = w.notification
            WHERE w.collapse = $1 AND w.id <> $2 AND w.recipient = $3 AND f.backend = $4
            AND n.collapse_id = (SELECT collapse_id FROM chapar.notifications WHERE id = $5)
            """,
            [
                .integer(row.collapse), .integer(row.id), .text(row.recipient.storedForm), .text(backend),
                .integer(row.notification),
            ]
        )
        let gone = Set(ended.map(\.id))
        return (0..<found.count).compactMap { found.integer($0, 0) }.filter { !gone.contains($0) }
    }

    private func writeChanged(_ db: isolated PostgresConnection) throws(PostgresError) {
        guard !changed.isEmpty else { return }
        try db.run(
            """
            UPDATE chapar.waiting w SET owner = a.owner, flow = a.flow, due = a.due, step = a.step, flags = a.flags,
                attempts = a.attempts, attempt_log = \(EndedDelivery.joinedLog.replacing("attempt_log", with: "w.attempt_log"))
            FROM unnest($1::bigint[], $2::bigint[], $3::bigint[], $4::bigint[], $5::bigint[], $6::bigint[], $7::bigint[],
                $8::bytea[]) AS a(id, owner, flow, due, step, flags, attempts, attempt)
            WHERE w.id = a.id
            """,
            [
                .integers(changed.map(\.id)), .integers(changed.map(\.owner)), .integers(changed.map(\.flow)),
                .integers(changed.map(\.due)), .integers(changed.map { Int64($0.step) }),
                .integers(changed.map(\.flags.rawValue)), .integers(changed.map { Int64($0.attempts) }),
                .byteArrays(changed.map { attempts[$0.id] }),
            ]
        )
        try EndedDelivery.letGo(Set(changed.compactMap(\.collapse)), db)
    }
}
