import Foundation
import ChaparCore
import ChaparComposition
import ChaparQueue

/// Records what becomes of deliveries, as `RecordRules` decides: they end, or wait again.
///
/// Used by the writer's thread only.
final class Recording {
    private let transaction: Transaction
    private let queueIndex: QueueIndex
    private let rows: RowWriter
    private let endings: Endings
    private let rivals: Rivals
    private let receipts: Receipts
    private let sql: RecordingStatements

    init(
        _ transaction: Transaction,
        _ rows: RowWriter,
        _ endings: Endings,
        _ rivals: Rivals,
        _ receipts: Receipts
    ) throws(StoreError) {
        self.transaction = transaction
        queueIndex = transaction.queueIndex
        self.rows = rows
        self.endings = endings
        self.rivals = rivals
        self.receipts = receipts
        sql = try RecordingStatements(transaction.connection)
    }

    /// Records the results of claimed deliveries.
    func record(_ resolutions: [Resolution], _ event: EndEvent, _ reply: Reply<Void>) throws(StoreError) {
        try resolutions.withUnsafeBufferPointer { (all) throws(StoreError) in
            guard let first = all.baseAddress else { return }
            var ends: [(id: Int64, state: DeliveryState)] = []
            for index in all.indices {  // Without copies.
                if let (entry, state) = plainEnd(first + index) {
                    ends.append((entry.id, state))
                    endings.finish(entry, true)
                } else {
                    // It may be another result of one of them.
                    if !ends.isEmpty { try endings.end(&ends) }
                    try record(first + index, event)
                }
            }
            if !ends.isEmpty { try endings.end(&ends) }
        }
        transaction.pending.answers.append { reply.succeed(()) }
    }

    /// Returns the delivery of a result, when it is claimed under the result's lease.
    private func claim(_ pointer: UnsafePointer<Resolution>) -> Entry? {
        guard let entry = queueIndex.claims[pointer.pointee.delivery],
            pointer.pointee.lease.map({ $0 == entry.lease?.number }) ?? true
        else { return nil }
        return entry
    }

    /// Returns the claim and the final state of a result that leaves nothing else in the delivery's row; nil for any
    /// other.
    ///
    /// Most deliveries of a campaign that keeps failures only end so.
    private func plainEnd(_ pointer: UnsafePointer<Resolution>) -> (Entry, DeliveryState)? {
        guard pointer.pointee.attempt == nil, pointer.pointee.event == nil, pointer.pointee.receipt == nil,
            let entry = claim(pointer), entry.stagedRow == nil,
            case .end(let state) = RecordRules.decide(
                pointer.pointee.transition,
                mayHaveBeenSent: pointer.pointee.mayHaveBeenSent,
                entry.facts(.claimed)
            )
        else { return nil }
        return (entry, state)
    }

    private func record(_ pointer: UnsafePointer<Resolution>, _ event: EndEvent) throws(StoreError) {
        if let entry = claim(pointer) {
            // The usual case, in which only what is kept of the resolution is copied.
            if pointer.pointee.receipt == nil,
                case .end(let state) = RecordRules.decide(
                    pointer.pointee.transition,
                    mayHaveBeenSent: pointer.pointee.mayHaveBeenSent,
                    RecordFacts(.claimed)
                ),
                try endings.archiveEnded(entry, as: state, pointer.pointee.attempt)
            {
                endings.finish(entry, true)
                if let event = pointer.pointee.event { transaction.pending.events.append(event) }
                return
            }
            try record(pointer.pointee, of: entry, as: .claimed, isClaimed: true, event)
        } else {
            try recordStale(pointer.pointee, event)
        }
    }

    /// Records a result under a lease that is not in force.
    ///
    /// It reads the delivery only when the rules believe the result.
    private func recordStale(_ resolution: Resolution, _ event: EndEvent) throws(StoreError) {
        if case .ignore = RecordRules.decide(
            resolution.transition,
            mayHaveBeenSent: resolution.mayHaveBeenSent,
            RecordFacts(.stale)
        ) {
            transaction.pending.ignored += 1
            return
        }
        if let entry = queueIndex.claims[resolution.delivery] {
            try record(resolution, of: entry, as: .stale, isClaimed: true, event)
            return
        }
        var reader = transaction.makeReader()
        guard let entry = try reader.entry(resolution.delivery) else {
            transaction.pending.ignored += 1  // It is final already.
            return
        }
        try record(resolution, of: entry, as: .stale, isClaimed: false, event)
    }

    /// Writes what the rules decide about a delivery that has not ended.
    func record(
        _ resolution: Resolution,
        of entry: Entry,
        as standing: RecordFacts.Standing,
        isClaimed: Bool,
        _ event: EndEvent
    ) throws(StoreError) {
        try transaction.begin()
        let (transition, mayHaveBeenSent) = (resolution.transition, resolution.mayHaveBeenSent)
        var facts = entry.facts(standing)
        var decision = RecordRules.decide(transition, mayHaveBeenSent: mayHaveBeenSent, facts)
        if decision.waits, try isReplaced(entry, after: decision) {
            facts.isReplaced = true
            decision = RecordRules.decide(transition, mayHaveBeenSent: mayHaveBeenSent, facts)
        }
        switch decision {
        case .ignore: transaction.pending.ignored += 1
        case .refuse(let refusal): throw refusal.error(of: entry.id)
        case .end(let state): try end(entry, isClaimed, as: state, resolution)
        case .reached:
            try end(entry, isClaimed, as: .acceptedByPlatform, resolution)
            try endings.giveBack(entry)
        case .withdraw(let known, let reason):
            let state = RecordRules.withdrawn(known, entry.attemptLog, resolution.attempt)
            try endInsteadOfWaiting(entry, isClaimed, as: state, reason, resolution, event)
            if state == .acceptedByPlatform { try endings.giveBack(entry, resolution.attempt) }
        case .retry(let moment, let step, let isReplay):
            let flow = flow(of: entry, after: decision)
            let due = moment.millisecondsSince1970
            try retry(resolution, entry, isClaimed, flow: flow, due: due, step: step, isReplay: isReplay)
        case .release(let isReplay): try release(resolution, entry, isClaimed, isReplay: isReplay)
        }
    }

    /// Returns the flow in which a delivery waits after a decision.
    private func flow(of entry: Entry, after decision: RecordDecision) -> Flow {
        guard case .retry(_, let step, _) = decision else { return entry.flow }
        return queueIndex.flow(
            of: entry.head.plan.backends[step],
            isUrgent: entry.flow.isUrgent,
            caller: entry.flow.caller
        )
    }

    /// Ends a delivery as its owner says.
    private func end(
        _ entry: Entry,
        _ isClaimed: Bool,
        as state: DeliveryState,
        _ resolution: Resolution
    ) throws(StoreError) {
        let isNews =
            if try endings.archiveEnded(entry, as: state, resolution.attempt) {
                true
            } else if isClaimed, let attempt = resolution.attempt, entry.attempts == 0, entry.attemptLog.isEmpty {
                try endings.endAtOnce(entry.id, as: state, attempt)
            } else {
                try endings.end(entry.id, as: state, attempt: resolution.attempt)
            }
        endings.finish(entry, isClaimed)
        if isNews, let event = resolution.event { transaction.pending.events.append(event) }
        if isNews, let receipt = resolution.receipt { try receipts.tables().expect(entry.id, receipt) }
    }

    /// Ends a delivery that was cancelled or replaced while it was claimed, instead of putting it back.
    private func endInsteadOfWaiting(
        _ entry: Entry,
        _ isClaimed: Bool,
        as state: DeliveryState,
        _ reason: EndReason,
        _ resolution: Resolution,
        _ event: EndEvent
    ) throws(StoreError) {
        // The transaction that cancelled it gave it a row. When that one failed, it may have none.
        try rows.writeOut(entry)
        try endings.end(entry.id, as: state, attempt: resolution.attempt)
        endings.finish(entry, isClaimed)
        // A platform that has taken it reports of it.
        if let receipt = resolution.receipt { try receipts.tables().expect(entry.id, receipt) }
        // A cancellation has its own event; after a restart it is not known any more.
        let told = entry.cancellation?(entry.delivery, state) ?? event(entry.delivery, state, reason)
        transaction.pending.events.append(told)
    }

    /// Puts a delivery back as it was, unsent and without an attempt.
    private func release(
        _ resolution: Resolution,
        _ entry: Entry,
        _ isClaimed: Bool,
        isReplay: Bool
    ) throws(StoreError) {
        try rows.writeOut(entry)
        sql.release.bind(1, entry.id)
        sql.release.bind(2, returnNumber(of: entry))
        sql.release.bind(3, isReplay ? 1 : 0)
        try sql.release.run()
        comeBack(entry, isClaimed, as: entry.waiting(isReplay: isReplay))
        if let event = resolution.event { transaction.pending.events.append(event) }
    }

    /// Returns the number of the lease under which a delivery comes back; a new number for a delivery that was not
    /// claimed, so that a worker that saw it before finds that it has changed.
    private func returnNumber(of entry: Entry) -> Int64 { entry.lease?.number ?? queueIndex.makeLease().number }

    private func retry(
        _ resolution: Resolution,
        _ entry: Entry,
        _ isClaimed: Bool,
        flow: Flow,
        due: Int64,
        step: Int,
        isReplay: Bool
    ) throws(StoreError) {
        try rows.writeOut(entry)
        let statement = sql.retry
        statement.bind(1, entry.id)
        statement.bind(2, flow.number)
        statement.bind(3, transaction.now)
        statement.bind(4, resolution.attempt == nil ? 0 : 1)
        statement.bind(5, isReplay ? 1 : 0)
        statement.bind(7, due)
        statement.bind(8, step)
        statement.bind(9, returnNumber(of: entry))
        _ = try statement.run(attempt: resolution.attempt)
        let waiting = entry.waiting(in: flow, due: due, step: step, after: resolution.attempt, isReplay: isReplay)
        comeBack(entry, isClaimed, as: waiting)
        if let event = resolution.event { transaction.pending.events.append(event) }
        if let receipt = resolution.receipt { try receipts.tables().expect(entry.id, receipt) }
    }

    /// Returns whether a newer delivery of the same caller with the delivery's collapse ID has the queue in which the
    /// delivery would wait.
    private func isReplaced(_ entry: Entry, after decision: RecordDecision) throws(StoreError) -> Bool {
        guard let collapse = entry.collapse else { return false }
        let queue = flow(of: entry, after: decision).queue
        rows.setRecipient(entry.recipient)
        guard let key = try rivals.collapse(of: entry.head.id, hash: collapse) else { return false }
        return try rivals.find(key, queue, rows.recipientText, besides: entry.id).contains { $0 > entry.id }
    }

    /// Puts a delivery back, in the form of another entry.
    func comeBack(_ entry: Entry, _ isClaimed: Bool, as new: Entry) {
        // A search for expired deliveries that ran meanwhile did not see it.
        transaction.pending.newExpiry = min(transaction.pending.newExpiry, new.head.expiresAt.millisecondsSince1970)
        if isClaimed {
            transaction.endClaim(entry)
            transaction.pending.append(.returned(entry, as: new))
        } else {
            transaction.pending.append(.removed(entry.flow, entry.key, entry.collapseKey))
            transaction.pending.append(.added(new))
        }
    }
}

/// The statements that put deliveries back.
private struct RecordingStatements {
    let retry: SQLStatement
    let release: SQLStatement

    init(_ connection: OpaquePointer) throws(StoreError) {
        retry = try SQLStatement(
            connection,
            "UPDATE deliveries SET flow = ?2, \(AttemptColumns.assignments), due = ?7, step = ?8, mark = ?9 WHERE id = ?1 AND state = 0"
        )
        release = try SQLStatement(
            connection,
            "UPDATE deliveries SET mark = ?2, replay = replay | ?3 WHERE id = ?1 AND state = 0"
        )
    }
}
