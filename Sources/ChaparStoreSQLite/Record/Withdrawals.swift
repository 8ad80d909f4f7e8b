import ChaparCore
import ChaparQueue

/// Cancels deliveries, those of a notification or of a caller: waiting ones end, claimed ones are marked.
///
/// Used by the writer's thread only.
final class Withdrawals {
    private let transaction: Transaction
    private let queueIndex: QueueIndex
    private let rows: RowWriter
    private let endings: Endings
    private let archive: Archive
    private let shared: NotificationStatements
    private let sql: WithdrawalStatements
    /// The rest of cancellations, for another transaction, before what waits in the inbox.
    private var continuations: [StoreCommand] = []

    init(
        _ transaction: Transaction,
        _ rows: RowWriter,
        _ endings: Endings,
        _ archive: Archive,
        _ shared: NotificationStatements
    ) throws(StoreError) {
        self.transaction = transaction
        queueIndex = transaction.queueIndex
        self.rows = rows
        self.endings = endings
        self.archive = archive
        self.shared = shared
        sql = try WithdrawalStatements(transaction.connection)
    }

    /// Takes the commands that continue in another transaction.
    func takeContinuations() -> [StoreCommand] {
        var taken: [StoreCommand] = []
        swap(&taken, &continuations)
        return taken
    }

    /// Cancels the next part of a notification's deliveries, and answers after the last.
    func cancel(_ step: CancelStep, _ reply: Reply<Cancellation?>) throws(StoreError) {
        if let entry = queueIndex.withoutRow(step.id) { try rows.writeOut(entry) }
        shared.countOf.bind(1, step.id.rawValue)
        guard try shared.countOf.next() else {
            let isArchived = try archive.delivery(step.id.rawValue) != nil
            transaction.pending.answers.append {
                reply.succeed(isArchived ? Cancellation(cancelled: 0, tooLate: 1) : nil)
            }
            return
        }
        let count = try shared.countOf.count(0)
        shared.countOf.reset()
        let limit = transaction.core.options.rowsPerCommit
        let waiting = sql.waitingOf
        waiting.bind(1, step.after)
        waiting.bind(2, step.id.delivery(at: count))
        waiting.bind(3, limit)
        var numbers: [Int64] = []
        while try waiting.next() { numbers.append(try waiting.integer(0)) }
        var next = step
        var reader = transaction.makeReader()
        for number in numbers {
            next.after = number
            if let claimed = queueIndex.claims[number] {
                try mark(claimed, step.event)
                next.inFlight += 1
                continue
            }
            guard let entry = try reader.entry(number) else { continue }
            try endings.withdraw(entry, step.event)
            next.cancelled += 1
        }
        transaction.pending.answers.append { [next] in
            if numbers.count == limit {
                self.continuations.append(.cancel(next, reply))
            } else {
                let tooLate = count - next.cancelled - next.inFlight
                reply.succeed(Cancellation(cancelled: next.cancelled, tooLate: tooLate, inFlight: next.inFlight))
            }
        }
    }

    /// Cancels a part of a caller's waiting deliveries: they get rows first, then end; at last the claimed ones are
    /// marked.
    ///
    /// No place in the table is kept between parts: ended deliveries have left the indexes that are read here, and
    /// deliveries that come back to a flow meanwhile are found there.
    func cancel(
        caller: String,
        from place: CallerCancellation.Place,
        _ event: @escaping @Sendable (ClaimedDelivery, DeliveryState) -> [UInt8]
    ) throws(StoreError) -> CallerCancellation {
        let limit = transaction.core.options.rowsPerCommit
        var result = CallerCancellation(cancelled: 0, next: place)
        let unwritten = queueIndex.withoutRow(of: caller, upTo: place.end, limit: limit)
        for entry in unwritten { try rows.writeOut(entry) }
        if unwritten.count == limit { return result }
        let waiting = try self.waiting(of: caller, upTo: place.end, limit: limit - unwritten.count)
        for entry in waiting { try endings.withdraw(entry, event) }
        result.cancelled = waiting.count
        if waiting.count + unwritten.count == limit { return result }
        for entry in queueIndex.claims.values
        where entry.flow.caller == caller && entry.id <= place.end && entry.cancellation == nil && !entry.isCancelled {
            try mark(entry, event)
            result.inFlight += 1
        }
        result.next = nil
        return result
    }

    /// Returns the deliveries of a caller that wait and have rows, up to a number, as many as `limit`.
    ///
    /// Unreadable rows are skipped: they do not count, and the part still comes to an end.
    private func waiting(of caller: String, upTo end: Int64, limit: Int) throws(StoreError) -> [Entry] {
        var reader = transaction.makeReader()
        var found: [Entry] = []
        for flow in queueIndex.flows where flow.caller == caller {
            let rows = sql.waitingOfFlow
            rows.bind(1, flow.number)
            rows.bind(2, end)
            defer { rows.reset() }
            while found.count < limit, try rows.next() {
                let number = try rows.integer(0)
                guard queueIndex.claims[number] == nil, let entry = try reader.entry(number) else { continue }
                found.append(entry)
            }
        }
        return found
    }

    /// Marks a claimed delivery, so that it is not retried.
    private func mark(
        _ claimed: Entry,
        _ event: @escaping @Sendable (ClaimedDelivery, DeliveryState) -> [UInt8]
    ) throws(StoreError) {
        try transaction.begin()
        shared.markCancelled.bind(1, claimed.id)
        try shared.markCancelled.run()
        claimed.cancellation = event  // At once: its outcome may be recorded in the same transaction.
    }
}

/// The statements that find the deliveries to cancel.
private struct WithdrawalStatements {
    let waitingOf: SQLStatement
    let waitingOfFlow: SQLStatement

    init(_ connection: OpaquePointer) throws(StoreError) {
        waitingOf = try SQLStatement(
            connection,
            "SELECT id FROM deliveries WHERE id > ?1 AND id < ?2 AND state = 0 LIMIT ?3"
        )
        waitingOfFlow = try SQLStatement(
            connection,
            "SELECT id FROM deliveries INDEXED BY waiting WHERE state = 0 AND mark <> 2 AND flow = ?1 AND id <= ?2"
        )
    }
}
