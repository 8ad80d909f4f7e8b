internal import Foundation
internal import ChaparComposition
internal import ChaparCore
internal import ChaparQueue

/// Records results that one statement cannot decide: retries, releases, results under a lease that is not in force, and
/// all results of deliveries with a collapse key.
///
/// It locks the rows, decides in order, and writes the decisions with one statement for each kind.
struct SlowRecord {
    private let core: StoreCore
    private let now: Int64
    private let ownNumbers: [Int64]
    /// The backend whose unclaimed deliveries are settled; nil when claims are recorded.
    private let settles: String?
    /// The unclaimed deliveries that it settled.
    private(set) var settled: Set<Int64> = []
    private(set) var outcome = RecordOutcome()
    private var rows: [Int64: DeliveryRow] = [:]
    private var heads: [Int64: NotificationHead] = [:]
    /// All deliveries that have one of the rows' collapse keys, by key.
    private var rivals: [Int64: [CollapseRival]] = [:]
    private var ended: [EndedDelivery] = []
    private var gone: Set<Int64> = []
    private var changed: [DeliveryRow] = []
    private var attempts: [Int64: [UInt8]] = [:]
    private var events: [[UInt8]?] = []

    /// Makes a record for claims, or for the unclaimed deliveries of a backend.
    init(_ core: StoreCore, settlingAt backend: String? = nil) {
        self.core = core
        settles = backend
        now = core.now
        ownNumbers = core.ownNumbers
    }

    /// Decides on resolutions and writes what they change.
    mutating func record(
        _ resolutions: [(Resolution, RecordRequest.EndEvent)],
        _ db: isolated PostgresConnection
    ) throws(PostgresError) {
        try lock(Set(resolutions.map(\.0.delivery)), db)
        for (resolution, event) in resolutions { try decide(resolution, event) }
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
        // Read after the rows are locked: a transaction that adds another delivery with a row's key waits for the row,
        // or has committed.
        rivals = try CollapseRival.all(having: Set(rows.values.compactMap(\.collapse)), db)
    }

    private mutating func decide(
        _ resolution: Resolution,
        _ event: RecordRequest.EndEvent
    ) throws(PostgresError) {
        guard var row = rows[resolution.delivery], let head = heads[row.notification] else {
            if settles == nil { outcome.change.ignored += 1 }  // It is final already.
            return
        }
        if let settles {
            guard row.owner == nil, row.lease == resolution.lease, core.flows.flow(row.flow)?.backend == settles,
                settled.insert(row.id).inserted
            else { return }
        }
        let isInForce =
            resolution.lease.map { $0 == row.lease && row.owner.map(ownNumbers.contains) == true } ?? row.isClaimed
        if !isInForce, settles == nil {
            // Only the platform's acceptance is believed under an expired lease: it is true no matter who reports it.
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
                throw .declined(.refused("the plan of delivery \(row.id) has no step \(step)"))
            }
            let former = core.flows.flow(row.flow)
            let flow = Flow(
                backend: plan.backends[step],
                isUrgent: former?.isUrgent ?? true,
                caller: former?.caller ?? head.caller
            )
            let backend = core.flows.target(of: flow.backend)
            if endWithdrawn(row, head, resolution, event) { return }
            if endReplaced(row, head, backend, resolution, event) { return }
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
            wait(row, head, backend)
            if let event = resolution.event { events.append(event) }
        case .release:
            let backend = core.flows.flow(row.flow)?.backend ?? ""
            if endWithdrawn(row, head, resolution, event) { return }
            if endReplaced(row, head, backend, resolution, event) { return }
            if row.flags.contains(.recovered) { row.flags.insert(.replay) }
            row.flags.remove(.recovered)
            wait(row, head, backend)
            if let event = resolution.event { events.append(event) }
        }
    }

    private mutating func end(_ row: DeliveryRow, _ state: DeliveryState, _ resolution: Resolution) {
        ended.append(EndedDelivery(row, state, attempt: resolution.attempt, receipt: resolution.receipt))
        outcome.change.ended[state, default: 0] += 1
        rows[row.id] = nil
        gone.insert(row.id)
        // Deliveries that waited for it can be claimed now, whenever they became due.
        if row.collapse != nil, let backend = core.flows.flow(row.flow)?.backend { outcome.stir(backend, due: .min) }
    }

    private mutating func wait(_ row: DeliveryRow, _ head: NotificationHead, _ backend: String) {
        var row = row
        row.owner = nil
        if !rivals(of: row, head, at: backend).isEmpty { row.owner = 0 }
        changed.append(row)
        rows[row.id] = row
        outcome.stir(backend, due: row.due)
    }

    /// Ends a delivery that was cancelled while it was claimed, instead of putting it back; returns false for others.
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

    /// Ends a delivery for which a newer one with its collapse key waits, instead of putting it back; returns false for
    /// others.
    private mutating func endReplaced(
        _ row: DeliveryRow,
        _ head: NotificationHead,
        _ backend: String,
        _ resolution: Resolution,
        _ event: RecordRequest.EndEvent
    ) -> Bool {
        guard rivals(of: row, head, at: backend).contains(where: { $0 > row.id }) else { return false }
        let state = resolution.mayHaveBeenSent ? .unknown : row.withdrawnState
        end(row, state, resolution)
        events.append(event(row.claimed(head), state, .replaced))
        return true
    }

    /// Returns its caller's other deliveries at a backend to the same recipient with the same collapse ID, except those
    /// that have ended in this transaction.
    private func rivals(of row: DeliveryRow, _ head: NotificationHead, at backend: String) -> [Int64] {
        guard let key = row.collapse, let found = rivals[key] else { return [] }
        return found.filter {
            $0.row.id != row.id && $0.isRival(of: head.caller, head.collapseID) && $0.row.recipient == row.recipient
                && $0.backend == backend && !gone.contains($0.row.id)
        }.map(\.row.id)
    }

    private func writeChanged(_ db: isolated PostgresConnection) throws(PostgresError) {
        guard !changed.isEmpty else { return }
        try db.run(
            """
            UPDATE chapar.waiting w SET owner = a.owner,
                lease = CASE WHEN $9 THEN (SELECT nextval('chapar.leases')) ELSE w.lease END, flow = a.flow, due = a.due, step = a.step, flags = a.flags,
                attempts = a.attempts, attempt_log = \(EndedDelivery.joinedLog.replacing("attempt_log", with: "w.attempt_log"))
            FROM unnest($1::bigint[], $2::bigint[], $3::bigint[], $4::bigint[], $5::bigint[], $6::bigint[], $7::bigint[],
                $8::bytea[]) AS a(id, owner, flow, due, step, flags, attempts, attempt)
            WHERE w.id BETWEEN a.id AND a.id
            """,
            [
                .integers(changed.map(\.id)), .integers(changed.map(\.owner)), .integers(changed.map(\.flow)),
                .integers(changed.map(\.due)), .integers(changed.map { Int64($0.step) }),
                .integers(changed.map(\.flags.rawValue)), .integers(changed.map { Int64($0.attempts) }),
                .byteArrays(changed.map { attempts[$0.id] }),
                // A new lease tells a reader of an unclaimed row that it has changed.
                .bool(settles != nil),
            ]
        )
        try EndedDelivery.letGo(Set(changed.compactMap(\.collapse)), db)
    }
}
