internal import Foundation
internal import ChaparComposition
internal import ChaparCore
internal import ChaparQueue
internal import Synchronization

/// A row of `waiting`: a delivery that has not ended.
struct DeliveryRow: Sendable {
    /// The bits of `waiting.flags`.
    struct Flags: OptionSet, Sendable {
        let rawValue: Int64
        /// An attempt may have been delivered.
        static let replay = Flags(rawValue: 1)
        /// It was cancelled while it was claimed, so it is not retried.
        static let cancelled = Flags(rawValue: 2)
        /// Its last owner died while it had the claim.
        static let recovered = Flags(rawValue: 4)
    }

    /// The columns that ``init(_:_:)`` reads, of a table called `w`.
    static let columns = """
        w.id, w.notification, w.flow, w.due, w.owner, w.lease, w.collapse, w.attempts, w.step, w.plan, w.flags, w.recipient, \
        w.attempt_log
        """

    var id: Int64
    var notification: Int64
    var flow: Int64
    var due: Int64
    /// The node that has claimed it; nil for none, 0 while it waits for another delivery.
    var owner: Int64?
    var lease: Int64
    var collapse: Int64?
    var attempts: Int
    var step: Int
    var plan: Int
    var flags: Flags
    var recipient: Recipient
    var attemptLog: [UInt8]

    var isClaimed: Bool { owner ?? 0 > 0 }

    /// Whether an attempt may have been delivered, also one whose owner died.
    var mayHaveBeenSent: Bool { !flags.isDisjoint(with: [.replay, .recovered]) }

    /// The state in which it ends when it is withdrawn while it waits.
    var withdrawnState: DeliveryState {
        RecordRules.withdrawn(RecordRules.withdrawnState(mayHaveBeenSent: mayHaveBeenSent), attemptLog)
    }

    /// Returns the flow of the backend that accepted the delivery when the next one is to take over; nil when none
    /// accepted.
    ///
    /// `attempt` is the one that is recorded now.
    func acceptingFlow(_ plan: DeliveryPlan, _ flows: FlowTable, _ attempt: [UInt8]? = nil) -> Int64? {
        guard let step = plan.acceptingStep(attemptLog, attempt), let present = flows.flow(flow) else { return nil }
        let accepting = Flow(
            backend: plan.backend(at: step),
            isUrgent: present.isUrgent,
            caller: present.caller
        )
        return flows.number(of: accepting)
    }

    /// Reads all rows that can be read.
    static func all(_ rows: borrowing PostgresRows) -> [DeliveryRow] {
        var found: [DeliveryRow] = []
        for row in 0..<rows.count {
            if let delivery = DeliveryRow(rows, row) { found.append(delivery) }
        }
        return found
    }

    /// Reads a row; nil when its recipient cannot be read.
    init?(_ rows: borrowing PostgresRows, _ row: Int) {
        guard let recipient = Recipient(storedForm: rows.text(row, 11) ?? "") else { return nil }
        id = rows.integer(row, 0) ?? 0
        notification = rows.integer(row, 1) ?? 0
        flow = rows.integer(row, 2) ?? 0
        due = rows.integer(row, 3) ?? 0
        owner = rows.integer(row, 4)
        lease = rows.integer(row, 5) ?? 0
        collapse = rows.integer(row, 6)
        attempts = Int(count: rows.integer(row, 7) ?? 0)
        step = Int(count: rows.integer(row, 8) ?? 0)
        plan = Int(count: rows.integer(row, 9) ?? 0)
        flags = Flags(rawValue: rows.integer(row, 10) ?? 0)
        self.recipient = recipient
        attemptLog = rows.bytes(row, 12) ?? []
    }

    /// Returns the delivery as its owner gets it.
    func claimed(_ head: NotificationHead) -> ClaimedDelivery {
        let shared = head.head(plan: plan)
        return ClaimedDelivery(
            id: id,
            head: shared,
            recipient: recipient,
            caller: head.caller,
            step: shared.plan.step(stored: step),
            attempts: attempts,
            attemptLog: attemptLog,
            isReplay: mayHaveBeenSent,
            isRecovered: flags.contains(.recovered),
            lease: lease,
            isCancelled: flags.contains(.cancelled)
        )
    }
}

/// The parts that a notification's deliveries share.
struct NotificationHead: Sendable {
    /// A head for each plan of the record; never empty.
    var heads: [DeliveryHead]
    var caller: String
    var collapseID: String?
    /// About how many bytes of memory it takes.
    var bytes: Int

    /// The number of the notification.
    var number: Int64 { heads[0].id.rawValue }

    /// Makes the head of a new notification, whose content need not be read again.
    init(_ new: NewNotification) {
        heads = Self.heads(new.id, new.record, new.notification, expiresAt: new.expiresAt)
        caller = new.caller
        collapseID = new.collapseID
        // The record's content, and the decoded one, which takes about twice as much.
        bytes = 512 + 3 * new.record.content.count
    }

    /// The columns that ``init(_:_:)`` reads, of a table called `n`.
    static let columns = "n.id, n.expires, n.caller, n.collapse_id, n.record"

    /// Reads a row; nil when its record cannot be read.
    init?(_ rows: borrowing PostgresRows, _ row: Int) {
        guard let record = NotificationRecord(encoded: rows.bytes(row, 4) ?? []) else { return nil }
        heads = Self.heads(
            NotificationID(rawValue: rows.integer(row, 0) ?? 0),
            record,
            nil,
            expiresAt: Date(millisecondsSince1970: rows.integer(row, 1) ?? 0)
        )
        caller = rows.text(row, 2) ?? ""
        collapseID = rows.text(row, 3)
        bytes = 512 + record.content.count
    }

    private static func heads(
        _ id: NotificationID,
        _ record: NotificationRecord,
        _ notification: PushNotification?,
        expiresAt: Date
    ) -> [DeliveryHead] {
        // A record without plans, which no store reads, gets the head of a plan without backends.
        (0..<max(1, record.plans.count)).map { place in
            DeliveryHead(id: id, record: record, notification: notification, plan: place, expiresAt: expiresAt)
        }
    }

    /// Returns the head for the plan at an index of the record's plans; the last one stands for larger indices.
    func head(plan place: Int) -> DeliveryHead { heads[min(place, heads.count - 1)] }
}

/// The heads of the newest notifications, so that a claim need not read again what was just accepted here.
final class HeadCache: Sendable {
    private struct State {
        var heads: [Int64: NotificationHead] = [:]
        /// The numbers in the order in which they were added, the oldest first, from index `first` on.
        var order: [Int64] = []
        var first = 0
        var bytes = 0
    }

    private let state = Mutex(State())
    private let capacity: Int

    /// Makes a cache of about `capacity` bytes.
    init(capacity: Int) { self.capacity = capacity }

    func add(_ head: NotificationHead, _ id: Int64) {
        state.withLock { state in
            guard state.heads.updateValue(head, forKey: id) == nil else { return }
            state.order.append(id)
            state.bytes += head.bytes
            while state.bytes > capacity, state.first < state.order.count {
                if let old = state.heads.removeValue(forKey: state.order[state.first]) { state.bytes -= old.bytes }
                state.first += 1
            }
            if state.first > 1_024, state.first * 2 > state.order.count {
                state.order.removeFirst(state.first)
                state.first = 0
            }
        }
    }

    /// Returns the heads of notifications: from memory, else by one statement of a transaction; those whose record
    /// cannot be read are left out.
    func heads(of ids: Set<Int64>, _ db: isolated PostgresConnection) throws(PostgresError) -> [Int64: NotificationHead]
    {
        var found = known(ids)
        let missing = ids.filter { found[$0] == nil }
        guard !missing.isEmpty else { return found }
        let rows = try db.run(Self.statement, Self.parameters(missing))
        for row in 0..<rows.count {
            if let head = NotificationHead(rows, row) { found[head.number] = head }
        }
        return found
    }

    /// Returns the heads of notifications: from memory, else by a transaction of its own; those whose record cannot be
    /// read are left out.
    func heads(
        of ids: Set<Int64>,
        on connection: PostgresConnection
    ) async throws(PostgresError) -> [Int64: NotificationHead] {
        var found = known(ids)
        let missing = ids.filter { found[$0] == nil }
        guard !missing.isEmpty else { return found }
        let read = try await connection.single(Self.statement, Self.parameters(missing)) {
            (rows) throws(PostgresError) in
            (0..<rows.count).compactMap { NotificationHead(rows, $0) }
        }
        for head in read { found[head.number] = head }
        return found
    }

    private func known(_ ids: Set<Int64>) -> [Int64: NotificationHead] {
        state.withLock { state in
            var found: [Int64: NotificationHead] = [:]
            for id in ids { found[id] = state.heads[id] }
            return found
        }
    }

    /// The statement that reads heads, whose bounds limit it to the partitions of these days.
    private static let statement = """
        SELECT \(NotificationHead.columns) FROM chapar.notifications n WHERE n.id = ANY ($1) AND n.id >= $2 AND n.id <= $3
        """

    private static func parameters(_ ids: Set<Int64>) -> [PostgresValue] {
        [.integers(Array(ids)), .integer(ids.min()), .integer(ids.max())]
    }

    /// Forgets everything, since the rows have changed.
    func removeAll() { state.withLock { $0 = State() } }
}
