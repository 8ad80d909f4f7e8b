internal import Foundation
internal import ChaparComposition
internal import ChaparCore
internal import ChaparQueue

/// Records results that one statement cannot decide: retries, releases, results under a lease that is not in force, and
/// all results of deliveries with a collapse key.
///
/// It locks the rows, lets ``RecordRules`` decide in order, and writes the decisions with one statement for each kind.
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
    /// The receipts that are expected for deliveries that wait on.
    private var expected: [(delivery: Int64, address: ReceiptAddress)] = []

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
        try writeExpected(db)
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
        guard let row = rows[resolution.delivery], let head = heads[row.notification] else {
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
        let plan = head.head(plan: row.plan).plan
        var facts = RecordFacts(
            settles != nil ? .settled : isInForce ? .claimed : .stale,
            mayHaveBeenSent: row.mayHaveBeenSent,
            isCancelled: row.flags.contains(.cancelled),
            steps: plan.backends.count
        )
        let (transition, mayHaveBeenSent) = (resolution.transition, resolution.mayHaveBeenSent)
        var decision = RecordRules.decide(transition, mayHaveBeenSent: mayHaveBeenSent, facts)
        let backend = backend(of: row, plan, after: decision)
        if decision.waits, isReplaced(row, head, at: backend) {
            facts.isReplaced = true
            decision = RecordRules.decide(transition, mayHaveBeenSent: mayHaveBeenSent, facts)
        }
        try carryOut(decision, resolution, row, head, plan, backend, event)
    }

    /// Returns the backend at which a delivery waits after a decision; empty when it does not wait.
    private func backend(of row: DeliveryRow, _ plan: DeliveryPlan, after decision: RecordDecision) -> String {
        switch decision {
        case .retry(_, let step, _): core.flows.target(of: plan.backends[step])
        case .release: core.flows.flow(row.flow)?.backend ?? ""
        case .ignore, .refuse, .end, .reached, .withdraw: ""
        }
    }

    /// Collects what a decision changes.
    private mutating func carryOut(
        _ decision: RecordDecision,
        _ resolution: Resolution,
        _ row: DeliveryRow,
        _ head: NotificationHead,
        _ plan: DeliveryPlan,
        _ backend: String,
        _ event: RecordRequest.EndEvent
    ) throws(PostgresError) {
        var row = row
        switch decision {
        case .ignore:
            outcome.change.ignored += 1
            return
        case .refuse(let refusal): throw .declined(refusal.error(of: row.id))
        case .end(let state): end(row, state, resolution)
        case .reached(let step):
            let former = core.flows.flow(row.flow)
            let flow = Flow(
                backend: plan.backends[step],
                isUrgent: former?.isUrgent ?? true,
                caller: former?.caller ?? head.caller
            )
            guard let number = core.flows.number(of: flow) else { throw .lacks(flow) }
            end(row, .acceptedByPlatform, resolution, in: number)
        case .withdraw(let known, let reason):
            let state = RecordRules.withdrawn(known, row.attemptLog, resolution.attempt)
            let isAccepted = state == .acceptedByPlatform
            end(row, state, resolution, in: isAccepted ? row.acceptingFlow(plan, core.flows, resolution.attempt) : nil)
            let claim = row.claimed(head)
            let own = reason == .cancelled ? core.inHand.cancellation(of: row.id)?(claim, state) : nil
            events.append(own ?? event(claim, state, reason))
            return
        case .retry(let moment, let step, let isReplay):
            let former = core.flows.flow(row.flow)
            let flow = Flow(
                backend: plan.backends[step],
                isUrgent: former?.isUrgent ?? true,
                caller: former?.caller ?? head.caller
            )
            guard let number = core.flows.number(of: flow) else { throw .lacks(flow) }
            row.flow = number
            row.due = moment.millisecondsSince1970
            row.step = step
            if let attempt = resolution.attempt {
                row.attempts += 1
                attempts[row.id] = attempt
            }
            if let receipt = resolution.receipt { expected.append((row.id, receipt)) }
            wait(row, head, backend, isReplay: isReplay)
        case .release(let isReplay): wait(row, head, backend, isReplay: isReplay)
        }
        if let event = resolution.event { events.append(event) }
    }

    private mutating func end(
        _ row: DeliveryRow,
        _ state: DeliveryState,
        _ resolution: Resolution,
        in flow: Int64? = nil
    ) {
        var end = EndedDelivery(row, state, attempt: resolution.attempt, receipt: resolution.receipt)
        end.flow = flow
        ended.append(end)
        outcome.change.ended[state, default: 0] += 1
        rows[row.id] = nil
        gone.insert(row.id)
        // Deliveries that waited for it can be claimed now, whenever they became due.
        if row.collapse != nil, let backend = core.flows.flow(row.flow)?.backend { outcome.stir(backend, due: .min) }
    }

    private mutating func wait(_ row: DeliveryRow, _ head: NotificationHead, _ backend: String, isReplay: Bool) {
        var row = row
        row.flags.remove(.recovered)
        if isReplay { row.flags.insert(.replay) }
        row.owner = nil
        if !rivals(of: row, head, at: backend).isEmpty { row.owner = 0 }
        changed.append(row)
        rows[row.id] = row
        outcome.stir(backend, due: row.due)
    }

    /// Returns whether a newer delivery with its collapse key has the queue of a backend.
    private func isReplaced(_ row: DeliveryRow, _ head: NotificationHead, at backend: String) -> Bool {
        rivals(of: row, head, at: backend).contains { $0 > row.id }
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

    /// Keeps the addresses of the receipts that deliveries wait for.
    private func writeExpected(_ db: isolated PostgresConnection) throws(PostgresError) {
        guard !expected.isEmpty else { return }
        try db.run(
            """
            INSERT INTO chapar.awaited (delivery, message, token)
            SELECT a.delivery, a.message, a.token FROM unnest($1::bigint[], $2::bigint[], $3::bigint[]) AS a(delivery, message, token)
            """,
            [
                .integers(expected.map(\.delivery)), .integers(expected.map(\.address.messageHash)),
                .integers(expected.map(\.address.tokenHash)),
            ]
        )
    }
}
