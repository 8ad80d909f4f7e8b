import Foundation
import ChaparCore
import ChaparComposition
import ChaparQueue

/// Stores new notifications, and gives them at once to calls that wait for work.
///
/// Used by the writer's thread only.
final class Enqueuing {
    private let transaction: Transaction
    private let queueIndex: QueueIndex
    private let rows: RowWriter
    private let claims: Claims
    private let endings: Endings
    private let rivals: Rivals
    private let searchIndex: SearchIndex
    private let campaigns: CampaignTable
    private let sql: KeyStatements

    init(
        _ transaction: Transaction,
        _ rows: RowWriter,
        _ claims: Claims,
        _ endings: Endings,
        _ rivals: Rivals,
        _ searchIndex: SearchIndex
    ) throws(StoreError) {
        self.transaction = transaction
        queueIndex = transaction.queueIndex
        self.rows = rows
        self.claims = claims
        self.endings = endings
        self.rivals = rivals
        self.searchIndex = searchIndex
        campaigns = CampaignTable(transaction.connection)
        sql = try KeyStatements(transaction.connection)
    }

    /// Stores a batch, unless its idempotency key, the disk or the number of waiting deliveries forbids it.
    func enqueue(_ batch: EnqueueBatch, _ reply: EnqueueReply) throws(StoreError) {
        if let entry = batch.idempotency, let known = try answer(to: entry) {
            transaction.pending.answers.append { reply.succeed(known) }
            return
        }
        if !batch.isCampaignChange, let refusal = refusal(of: batch) {
            transaction.pending.answers.append { reply.fail(refusal) }
            return
        }
        try transaction.begin()
        if let write = batch.campaign, try !campaigns.write(write, parts: batch.notifications) {
            transaction.pending.answers.append { reply.succeed(.outdated) }
            return
        }
        var firstFlow: Flow?
        try batch.notifications.withUnsafeBufferPointer { (all) throws(StoreError) in
            guard let first = all.baseAddress else { return }
            for index in all.indices {  // By index, so that none is copied.
                let flow = try insert(first + index)
                if index == 0 { firstFlow = flow }
            }
        }
        if let entry = batch.idempotency { try remember(entry) }
        if let firstFlow {
            transaction.pending.accepted.append((batch.deliveries, firstFlow, reply))
        } else {
            transaction.pending.answers.append { reply.succeed(.accepted) }
        }
    }

    /// Returns the answer to an idempotency key that was seen before; nil for a new one.
    private func answer(to entry: IdempotencyEntry) throws(StoreError) -> EnqueueResult? {
        let statement = sql.findKey
        statement.bind(1, entry.caller)
        statement.bind(2, entry.key)
        guard try statement.next() else { return nil }
        defer { statement.reset() }
        guard try statement.moment(2) > transaction.now else { return nil }
        return try statement.bytes(0) == entry.fingerprint ? .replayed(answer: statement.bytes(1)) : .keyReused
    }

    private func remember(_ entry: IdempotencyEntry) throws(StoreError) {
        let statement = sql.insertKey
        statement.bind(1, entry.caller)
        statement.bind(2, entry.key)
        statement.bind(3, blob: entry.fingerprint)
        statement.bind(4, blob: entry.answer)
        statement.bind(5, entry.keepUntil.millisecondsSince1970)
        try statement.run()
    }

    private func refusal(of batch: EnqueueBatch) -> StoreError? {
        if let reason = transaction.core.refusal(now: transaction.now) {
            return .full(reason: reason, retryAfter: .seconds(30))
        }
        return batch.refusal(
            waiting: queueIndex.waiting + transaction.pending.added,
            bound: transaction.core.options.maximumWaiting
        ) {
            queueIndex.waiting(of: $0) + transaction.pending.added(by: $0)
        }
    }

    /// Stores a notification; returns the flow of its first delivery.
    private func insert(_ new: UnsafePointer<NewNotification>) throws(StoreError) -> Flow {
        guard !new.pointee.recipients.isEmpty else {
            throw .failed("the notification \(new.pointee.id) has no recipient")
        }
        let flow = try flow(of: new, 0)
        // The parts of a campaign are counted by their rows.
        let isSimple =
            new.pointee.recipients.count == 1 && new.pointee.collapseID == nil && new.pointee.record.partOf == nil
        if isSimple, try insertBehind(flow, new) { return flow }
        let first = (head: head(of: new, 0), flow: flow)
        /// The heads and flows of recipients whose plan is not the first one; empty for nearly every notification.
        var others: [Way?] =
            new.pointee.planOf.isEmpty ? [] : Array(repeating: nil, count: new.pointee.record.plans.count)
        let accepted = new.pointee.record.acceptedAt.millisecondsSince1970
        let scheduled = new.pointee.dueAt?.millisecondsSince1970
        let expires = new.pointee.expiresAt.millisecondsSince1970
        let due = max(scheduled ?? accepted, 0)
        let contentBytes = new.pointee.record.content.count
        let stays =
            isSimple && new.planIndex(ofRecipient: 0) == 0
            && rows.staysInMemory(first.flow, due: due, bytes: contentBytes)
        rows.setRecord(new.pointee.record)
        if !stays { bindShared(of: new, scheduled: scheduled) }
        for (index, recipient) in new.pointee.recipients.enumerated() {
            let id = new.pointee.id.delivery(at: index)
            var way = first
            if !others.isEmpty, new.pointee.planOf[index] != new.pointee.planOf[0] {
                way = try self.way(of: new, index, &others)
            }
            let (head, flow) = way
            rows.setRecipient(recipient)
            let collapse = new.pointee.collapseID.map { CollapseHash.of(rows.recipientText, $0) }
            if let collapse, let collapseID = new.pointee.collapseID {
                let key = (hash: collapse, id: collapseID, caller: new.pointee.caller)
                try replace(key, in: flow.queue, by: id, new.pointee.replacementEvent)
            }
            let entry = Entry(
                id: id,
                head: head,
                recipient: recipient,
                flow: flow,
                due: due,
                collapse: collapse,
                // Counted twice: decoded, and in its stored form while there is no row. All recipients share it.
                contentBytes: index == 0 ? 2 * contentBytes : 0
            )
            let isGiven = giveAtOnce(entry)
            let mark = isGiven ? Schema.handedOut : 0
            if stays {
                rows.stage(entry, StagedRow.Row(expires: expires, scheduled: scheduled))
            } else if index == 0 {
                try rows.insertHead(entry, plan: new.planIndex(ofRecipient: 0), expires: expires, mark: mark)
            } else {
                let plan = new.planIndex(ofRecipient: index)
                try rows.insertChild(entry, plan: plan, expires: expires, mark: mark)
            }
            if !isGiven { transaction.pending.append(.added(entry)) }
        }
        try note(new, expires: expires)
        return first.flow
    }

    /// Stores the single delivery of a notification only on disk, when it comes after other deliveries that are only on
    /// disk.
    ///
    /// Otherwise it does nothing and returns false.
    private func insertBehind(_ flow: Flow, _ new: UnsafePointer<NewNotification>) throws(StoreError) -> Bool {
        let accepted = new.pointee.record.acceptedAt.millisecondsSince1970
        let scheduled = new.pointee.dueAt?.millisecondsSince1970
        let key = DueKey(due: max(scheduled ?? accepted, 0), id: new.pointee.id.rawValue)
        guard flow.comesAfterDisk(key) else { return false }
        let expires = new.pointee.expiresAt.millisecondsSince1970
        rows.setRecord(new.pointee.record)
        bindShared(of: new, scheduled: scheduled)
        rows.setRecipient(new.pointee.recipients[0])
        let plan = new.planIndex(ofRecipient: 0)
        try rows.insertHead(key, flow, plan: plan, expires: expires, accepted: accepted)
        transaction.pending.append(.stored(flow, key))
        try note(new, expires: expires)
        return true
    }

    /// Records the deliveries, the expiry, the event and the search keys of a new notification.
    private func note(_ new: UnsafePointer<NewNotification>, expires: Int64) throws(StoreError) {
        try searchIndex.add(new)
        transaction.pending.add(new.pointee.recipients.count, by: new.pointee.caller)
        transaction.pending.newExpiry = min(transaction.pending.newExpiry, expires)
        if !new.pointee.event.isEmpty { transaction.pending.events.append(new.pointee.event) }
    }

    /// The head that a delivery shares with others of the same plan, and the flow it begins in.
    private typealias Way = (head: DeliveryHead, flow: Flow)

    /// Returns the head and the flow of a recipient that has another plan than the first one.
    private func way(
        of new: UnsafePointer<NewNotification>,
        _ index: Int,
        _ others: inout [Way?]
    ) throws(StoreError) -> Way {
        let number = Int(new.pointee.planOf[index])
        if let known = others[number] { return known }
        let way = (head: head(of: new, index), flow: try flow(of: new, index))
        others[number] = way
        return way
    }

    private func head(of new: UnsafePointer<NewNotification>, _ index: Int) -> DeliveryHead {
        DeliveryHead(
            id: new.pointee.id,
            record: new.pointee.record,
            notification: new.pointee.notification,
            plan: new.planIndex(ofRecipient: index),
            expiresAt: new.pointee.expiresAt
        )
    }

    private func flow(of new: UnsafePointer<NewNotification>, _ index: Int) throws(StoreError) -> Flow {
        let plan = NotificationRecord.plan(in: new.pointee.record.plans, at: new.planIndex(ofRecipient: index))
        guard let backend = plan.backends.first else {
            throw .failed("the notification \(new.pointee.id) has no backend")
        }
        return queueIndex.flow(of: backend, isUrgent: new.isUrgent, caller: new.pointee.caller)
    }

    private func bindShared(of new: UnsafePointer<NewNotification>, scheduled: Int64?) {
        rows.bindShared(
            RowWriter.SharedColumns(
                count: new.pointee.recipients.count,
                scheduled: scheduled,
                caller: new.pointee.caller,
                collapseID: new.pointee.collapseID
            )
        )
    }

    /// Claims a new delivery for a call that waits for it, when nothing comes before it.
    private func giveAtOnce(_ entry: Entry) -> Bool {
        let queue = entry.flow.queue
        guard entry.due <= transaction.now, queue.isNext(entry, now: transaction.now),
            !queueIndex.isInFlight(entry.collapseKey),
            let assignment = claims.assignment(for: queue), entry.flow.isUrgent || assignment.normal > 0
        else { return false }
        guard claims.give(entry, to: assignment, waited: false) else { return false }
        claims.list(entry, assignment.lease)
        entry.flow.passThrough()
        return true
    }

    /// Withdraws the caller's deliveries that wait for the same recipient with the same collapse ID.
    private func replace(
        _ collapse: Rivals.Collapse,
        in queue: BackendQueue,
        by id: Int64,
        _ replacementEvent: (@Sendable (ClaimedDelivery, DeliveryState) -> [UInt8])?
    ) throws(StoreError) {
        // A claimed one ends when its owner would put it back.
        for older in try rivals.find(collapse, queue, rows.recipientText, besides: id)
        where queueIndex.claims[older] == nil {
            var reader = transaction.makeReader()
            guard let entry = try reader.entry(older) else { continue }
            try endings.withdraw(entry, replacementEvent)
        }
    }
}

/// The statements of idempotency keys.
private struct KeyStatements {
    let findKey: SQLStatement
    let insertKey: SQLStatement

    init(_ connection: OpaquePointer) throws(StoreError) {
        findKey = try SQLStatement(
            connection,
            "SELECT fingerprint, answer, keep FROM idempotency WHERE caller = ?1 AND key = ?2"
        )
        insertKey = try SQLStatement(
            connection,
            "INSERT OR REPLACE INTO idempotency (caller, key, fingerprint, answer, keep) VALUES (?1, ?2, ?3, ?4, ?5)"
        )
    }
}

/// Properties of a notification that is not copied: its own properties, called through the pointer, would copy it
/// first.
extension UnsafePointer<NewNotification> {
    fileprivate var isUrgent: Bool {
        NewNotification.isUrgent(pointee.notification.priority, partOf: pointee.record.partOf)
    }

    fileprivate func planIndex(ofRecipient place: Int) -> Int {
        NewNotification.planIndex(ofRecipient: place, pointee.planOf)
    }
}
