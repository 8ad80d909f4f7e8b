import Foundation
import ChaparComposition
import ChaparCore
import ChaparQueue

/// The notifications of a ``MemoryDatabase``: the simplest implementation of the contract.
///
/// Each method is one transaction. Searches scan all rows; only waiting and ended deliveries are kept apart.
struct MemoryTables {
    /// A delivery that has not ended.
    struct Waiting {
        var id: Int64
        var notification: Int64
        var recipient: Recipient
        /// The index of its plan in the notification's record.
        var planPlace: Int
        var plan: DeliveryPlan
        var backend: String
        var isUrgent: Bool
        var due: Date
        /// The time of day at which it is due, instead of ``due``.
        var wallDue: Date?
        var step = 0
        var attempts = 0
        var attemptLog: [UInt8] = []
        var isReplay = false
        var isRecovered = false
        var isCancelled = false
        /// The node that has claimed it.
        var owner: Int64?
        var lease: Int64 = 0
        /// The address of the report that it waits for.
        var receipt: ReceiptAddress?

        /// Whether an attempt may have been delivered, also one whose owner died.
        var mayHaveBeenSent: Bool { isReplay || isRecovered }

        /// The state in which it ends when it gets no further attempt.
        var withdrawnState: DeliveryState {
            RecordRules.withdrawn(RecordRules.withdrawnState(mayHaveBeenSent: mayHaveBeenSent), attemptLog)
        }
    }

    /// A delivery that has ended.
    struct Ended {
        var id: Int64
        var notification: Int64
        var recipient: Recipient?
        var backend: String
        var state: DeliveryState
        var attemptLog: [UInt8]
        var receipt: ReceiptAddress?
        var changed: Date
    }

    /// The number of waiting deliveries from which new work is refused.
    var maximumWaiting = 5_000_000
    var notifications: [Int64: NewNotification] = [:]
    var waiting: [Int64: Waiting] = [:]
    var ended: [Int64: Ended] = [:]
    /// The marks of bad ends.
    var handled: [Int64: (isAcknowledged: Bool, isResent: Bool)] = [:]
    var keys: [String: IdempotencyEntry] = [:]
    var campaigns: [Int64: Campaign] = [:]
    var series: [SeriesKey: SeriesBlock] = [:]
    var webhooks: [String: MemoryWebhook] = [:]
    /// The parts of each campaign.
    var parts: [Int64: [StoredPart]] = [:]
    /// The parts of which nothing waits any more.
    var settledParts: Set<Int64> = []
    var state: [String: [UInt8]] = [:]
    var moves: [String: String] = [:]
    var allocator = NotificationIDAllocator(above: 0)
    /// The events that are kept, each with the time at which it was written.
    var events: [(event: StoredEvent, at: Date)] = []
    var lastEvent: Int64 = 0
    var lastLease: Int64 = 0
    var nodes: [Int64: MemoryStore.Node] = [:]
    var lastNode: Int64 = 0
    /// The part of its share that normal priority has not got yet at each backend, in tenths of deliveries.
    var credits: [String: Int] = [:]

    mutating func append(_ event: [UInt8], _ now: Date) {
        lastEvent += 1
        events.append((StoredEvent(number: lastEvent, json: event), now))
    }

    // MARK: Acceptance

    mutating func enqueue(
        _ batch: EnqueueBatch,
        _ time: any TimeSource
    ) -> Result<(result: EnqueueResult, change: StoreChange), StoreError> {
        let now = time.steady
        let key = batch.idempotency.map { $0.caller + "\u{0}" + $0.key } ?? ""
        if let entry = batch.idempotency, let first = keys[key], first.keepUntil > now {
            let isSame = first.fingerprint == entry.fingerprint
            return .success((isSame ? .replayed(answer: first.answer) : .keyReused, StoreChange()))
        }
        let refusal = batch.refusal(waiting: waiting(of: nil), bound: maximumWaiting) { waiting(of: $0) }
        if let refusal { return .failure(refusal) }
        if let campaign = batch.campaign, !write(campaign, batch.notifications) {
            return .success((.outdated, StoreChange()))
        }
        if let entry = batch.idempotency { keys[key] = entry }
        var change = StoreChange()
        for new in batch.notifications { insert(new, time, &change) }
        change.accepted = batch.deliveries
        return .success((.accepted, change))
    }

    /// Returns the number of waiting deliveries of a caller, or of all.
    func waiting(of caller: String?) -> Int {
        waiting.values.count { row in
            row.owner == nil && (caller == nil || notifications[row.notification]?.caller == caller)
        }
    }

    private mutating func insert(_ new: NewNotification, _ time: any TimeSource, _ change: inout StoreChange) {
        notifications[new.id.rawValue] = new
        for (place, recipient) in new.recipients.enumerated() {
            let planPlace = new.planIndex(ofRecipient: place)
            let plan = new.record.plan(at: planPlace)
            var row = Waiting(
                id: new.id.rawValue + Int64(place),
                notification: new.id.rawValue,
                recipient: recipient,
                planPlace: planPlace,
                plan: plan,
                backend: target(of: plan.backends[0]),
                isUrgent: new.isUrgent,
                due: new.dueAt ?? new.record.acceptedAt
            )
            row.wallDue = new.dueAt.map { time.wall($0) }
            for older in rivals(of: row) where older.owner == nil && older.notification != row.notification {
                end(givenBack(older), older.withdrawnState, time.steady, &change)
                guard let event = new.replacementEvent else { continue }
                append(event(claim(of: older), older.withdrawnState), time.steady)
            }
            waiting[row.id] = row
        }
        if !new.event.isEmpty { append(new.event, time.steady) }
    }

    func target(of backend: String) -> String { moves[backend] ?? backend }

    /// Returns a delivery as it ends: that of the backend that took it, if another one was to take over.
    func givenBack(_ row: Waiting, _ attempt: [UInt8]? = nil) -> Waiting {
        guard let step = row.plan.acceptingStep(row.attemptLog, attempt) else { return row }
        var row = row
        row.backend = target(of: row.plan.backend(at: step))
        return row
    }

    /// Returns the other waiting deliveries with the same collapse id, caller, recipient and backend, in order.
    func rivals(of row: Waiting, at backend: String? = nil) -> [Waiting] {
        guard let own = notifications[row.notification], let collapseID = own.collapseID else { return [] }
        return waiting.values.filter {
            guard $0.id != row.id, $0.recipient == row.recipient, $0.backend == backend ?? row.backend,
                let other = notifications[$0.notification]
            else { return false }
            return other.collapseID == collapseID && other.caller == own.caller
        }.sorted { $0.id < $1.id }
    }

    // MARK: Claims

    func due(_ row: Waiting, _ time: any TimeSource) -> Date { row.wallDue.map { time.steady($0) } ?? row.due }

    /// Returns whether it is unclaimed, and no other with its collapse id is claimed or was accepted before it.
    func isFree(_ row: Waiting) -> Bool {
        row.owner == nil && !rivals(of: row).contains { $0.owner != nil || $0.id < row.id }
    }

    /// Claims due deliveries: high priority first, except a share for normal; callers take turns.
    mutating func claim(
        _ backend: String,
        limit: Int,
        normal: Int,
        for node: Int64,
        _ time: any TimeSource
    ) -> [ClaimedDelivery] {
        moves[backend] = nil
        let now = time.steady
        let found = waiting.values.filter { $0.backend == backend && due($0, time) <= now && isFree($0) }
        let urgent = inTurns(found.filter(\.isUrgent), time)
        let others = inTurns(found.filter { !$0.isUrgent }, time).prefix(max(0, normal))
        credits[backend, default: 0] += limit
        let share = urgent.isEmpty ? limit : min(credits[backend, default: 0] / Self.normalShare, others.count)
        var taken = Array(urgent.prefix(limit - min(share, limit)))
        taken += others.prefix(limit - taken.count)
        let normalTaken = taken.count { !$0.isUrgent }
        let isRivalled = urgent.count > taken.count - normalTaken && others.count > normalTaken
        // A share is owed only for deliveries that were there to be claimed.
        credits[backend] =
            isRivalled
            ? min(max(0, credits[backend, default: 0] - Self.normalShare * normalTaken), max(Self.normalShare, limit))
            : 0
        return take(taken.sorted { (due($0, time), $0.id) < (due($1, time), $1.id) }, for: node)
    }

    private static let normalShare = 10

    /// Returns the first row of each caller, then the second of each, and so on.
    private func inTurns(_ rows: [Waiting], _ time: any TimeSource) -> [Waiting] {
        let ordered = rows.map { (row: $0, due: due($0, time)) }.sorted { ($0.due, $0.row.id) < ($1.due, $1.row.id) }
        var turns: [String: Int] = [:]
        return ordered.enumerated().map { place, one in
            let caller = notifications[one.row.notification]?.caller ?? ""
            turns[caller, default: 0] += 1
            return (row: one.row, turn: turns[caller, default: 0], place: place)
        }.sorted { ($0.turn, $0.place) < ($1.turn, $1.place) }.map(\.row)
    }

    mutating func claimExpired(_ limit: Int, for node: Int64, _ now: Date) -> [ClaimedDelivery] {
        let found = waiting.values.filter { $0.owner == nil && expiry(of: $0) <= now }
        return take(found.sorted { ($0.due, $0.id) < ($1.due, $1.id) }.prefix(max(0, limit)), for: node)
    }

    private func expiry(of row: Waiting) -> Date { notifications[row.notification]?.expiresAt ?? .distantFuture }

    private mutating func take(_ rows: some Sequence<Waiting>, for node: Int64) -> [ClaimedDelivery] {
        rows.map { found in
            var row = found
            lastLease += 1
            (row.owner, row.lease) = (node, lastLease)
            waiting[row.id] = row
            return claim(of: row)
        }
    }

    func claim(of row: Waiting) -> ClaimedDelivery {
        let new = notifications[row.notification]
        let head = DeliveryHead(
            id: NotificationID(rawValue: row.notification),
            record: new?.record ?? NotificationRecord(content: [], plans: [row.plan], acceptedAt: .distantPast),
            plan: row.planPlace,
            expiresAt: new?.expiresAt ?? .distantFuture
        )
        return ClaimedDelivery(
            id: row.id,
            head: head,
            recipient: row.recipient,
            caller: new?.caller ?? "",
            step: row.step,
            attempts: row.attempts,
            attemptLog: row.attemptLog,
            isReplay: row.mayHaveBeenSent,
            isRecovered: row.isRecovered,
            lease: row.lease,
            isCancelled: row.isCancelled
        )
    }

    /// Frees a node's claims, marked as possibly sent.
    mutating func recover(_ node: Int64) {
        for (id, row) in waiting where row.owner == node {
            waiting[id]?.owner = nil
            waiting[id]?.isRecovered = true
        }
    }

    /// Frees claims, by their leases, whose answers their owner never got.
    mutating func release(_ lost: [Int64: Int64]) {
        for (id, lease) in lost where waiting[id]?.owner != nil && waiting[id]?.lease == lease {
            waiting[id]?.owner = nil
        }
    }

    // MARK: Ends

    mutating func end(
        _ row: Waiting,
        _ state: DeliveryState,
        _ now: Date,
        _ change: inout StoreChange,
        attempt: [UInt8]? = nil,
        receipt: ReceiptAddress? = nil
    ) {
        waiting[row.id] = nil
        ended[row.id] = Ended(
            id: row.id,
            notification: row.notification,
            recipient: row.recipient,
            backend: row.backend,
            state: state,
            attemptLog: row.attemptLog.joined(with: attempt),
            receipt: receipt ?? row.receipt,
            changed: now
        )
        change.ended[state, default: 0] += 1
    }

    // MARK: Reading

    func state(of row: Waiting, _ time: any TimeSource) -> DeliveryState {
        if row.owner != nil { return .sending }
        return row.attempts > 0 ? .retrying : due(row, time) > time.steady ? .scheduled : .queued
    }

    func notification(_ id: NotificationID, _ time: any TimeSource) -> StoredNotification? {
        guard let new = notifications[id.rawValue] else { return nil }
        var counts: [DeliveryState: Int] = [:]
        for number in new.numbers {
            if let row = waiting[number] { counts[state(of: row, time), default: 0] += 1 }
            if let row = ended[number] { counts[row.state, default: 0] += 1 }
        }
        return StoredNotification(
            id: id,
            record: new.record,
            caller: new.caller,
            dueAt: new.dueAt,
            expiresAt: new.expiresAt,
            counts: counts
        )
    }

    func deliveries(of id: NotificationID, after: Int64?, limit: Int, _ time: any TimeSource) -> [StoredDelivery] {
        guard let new = notifications[id.rawValue] else { return [] }
        return new.numbers.lazy.filter { $0 > after ?? .min }.prefix(max(0, limit)).compactMap { number in
            if let row = waiting[number] {
                return StoredDelivery(
                    id: number,
                    recipient: row.recipient,
                    state: state(of: row, time),
                    backend: row.backend,
                    dueAt: due(row, time),
                    expiresAt: new.expiresAt,
                    attemptLog: row.attemptLog
                )
            }
            guard let row = ended[number], let recipient = row.recipient else { return nil }
            var delivery = StoredDelivery(
                id: number,
                recipient: recipient,
                state: row.state,
                backend: row.backend,
                dueAt: nil,
                expiresAt: new.expiresAt,
                attemptLog: row.attemptLog
            )
            delivery.endedAt = row.changed
            return delivery
        }
    }

    func depths(_ time: any TimeSource) -> [String: QueueDepth] {
        var depths: [String: QueueDepth] = [:]
        for row in waiting.values {
            var depth = depths[row.backend] ?? QueueDepth()
            if row.owner == nil { depth.waiting += 1 } else { depth.claimed += 1 }
            let due = due(row, time)
            if due <= time.steady, isFree(row) { depth.oldestDue = min(depth.oldestDue ?? due, due) }
            depths[row.backend] = depth
        }
        return depths
    }

    func depthsBySender(_ time: any TimeSource) -> [String: SenderDepth] {
        var depths: [String: SenderDepth] = [:]
        for row in waiting.values where row.owner == nil {
            let (caller, due) = (notifications[row.notification]?.caller ?? "", due(row, time))
            var depth = depths[caller] ?? SenderDepth()
            depth.waiting += 1
            if due <= time.steady, isFree(row) { depth.oldestDue = min(depth.oldestDue ?? due, due) }
            depths[caller] = depth
        }
        return depths
    }

    func nextDue(_ backend: String, _ time: any TimeSource) -> Date? {
        waiting.values.lazy.filter { $0.backend == backend && $0.owner == nil }.map { due($0, time) }
            .filter { $0 > time.steady }.min()
    }

    func events(after: Int64, limit: Int) -> [StoredEvent] {
        let first = events.partitioningIndex(after)
        return events[first...].prefix(max(0, limit)).map(\.event)
    }

    // MARK: Removal

    mutating func purge(_ retention: Retention, _ now: Date) {
        for (id, new) in notifications {
            let over = new.numbers.allSatisfy { number in
                waiting[number] == nil && ended[number].map { $0.changed < retention.notifications } ?? true
            }
            guard over else { continue }
            for number in new.numbers { (ended[number], handled[number]) = (nil, nil) }
            notifications[id] = nil
        }
        for (id, campaign) in campaigns where campaign.endedAt.map({ $0 < retention.notifications }) ?? false {
            (campaigns[id], parts[id]) = (nil, nil)
        }
        let old = events.dropLast().prefix { $0.at < retention.events }.count
        events.removeFirst(old)
        keys = keys.filter { $0.value.keepUntil > now }
    }
}

extension NewNotification {
    /// Removes what a search by user or device finds of a recipient.
    mutating func forgetUser(at place: Int) {
        if users.indices.contains(place) { users[place] = nil }
        if recipients.indices.contains(place) { recipients[place] = .device("") }
    }

    /// The numbers of its deliveries.
    var numbers: Range<Int64> { id.rawValue..<id.rawValue + Int64(recipients.count) }
}

extension [UInt8] {
    /// Returns an attempt log with another entry.
    func joined(with entry: [UInt8]?) -> [UInt8] {
        guard let entry else { return self }
        return isEmpty ? entry : self + [UInt8(ascii: ",")] + entry
    }
}

extension [(event: StoredEvent, at: Date)] {
    /// Returns the index of the first event after a number: the numbers have no gaps.
    fileprivate func partitioningIndex(_ after: Int64) -> Int {
        guard let first = first?.event.number, after >= first else { return 0 }
        return Swift.min(count, Int(after - first) + 1)
    }
}
