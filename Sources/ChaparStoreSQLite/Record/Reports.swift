import ChaparCore
import ChaparQueue

/// Records reports about deliveries that wait for one before another backend takes over, as `ReportRules` decides.
///
/// Used by the writer's thread only.
final class Reports {
    private let transaction: Transaction
    private let endings: Endings
    private let recording: Recording
    private var prepared: SQLStatement?

    init(_ transaction: Transaction, _ endings: Endings, _ recording: Recording) {
        self.transaction = transaction
        self.endings = endings
        self.recording = recording
    }

    /// Records a report within the transaction that is open; nil when it is not about such a delivery.
    func receive(_ receipt: ReceiptEntry, about id: Int64) throws(StoreError) -> ReceiptResult? {
        let claimed = transaction.queueIndex.claims[id]
        var found = claimed
        if found == nil {
            var reader = transaction.makeReader()
            found = try reader.entry(id)
        }
        guard let entry = found else { return nil }
        let decision = ReportRules.decide(
            receipt,
            entry.head.plan,
            step: entry.step,
            entry.attemptLog,
            isClaimed: claimed != nil,
            mayHaveBeenSent: entry.mayHaveBeenSent
        )
        guard decision != .ignore else { return nil }
        var received = ReceivedDelivery(entry.delivery, state: .retrying)
        guard receipt.isFor(received) else { return nil }
        switch decision {
        case .ignore: return nil
        case .repeated: return .repeated(received)
        case .early: return .early
        case .end(let state):
            received.state = state
            try endings.end(id, as: state, attempt: receipt.logEntry, isCounted: false)
            try endings.giveBack(entry)
            endings.finish(entry, false)
        case .note(let isDue): try note(receipt.logEntry, entry, due: isDue ? transaction.now : entry.due)
        }
        transaction.pending.events.append(receipt.event(received))
        return .recorded(received)
    }

    /// Adds an entry to the log of a delivery that waits on.
    private func note(_ logEntry: [UInt8], _ entry: Entry, due: Int64) throws(StoreError) {
        let statement = try prepared.keep(
            try SQLStatement(
                transaction.connection,
                "UPDATE deliveries SET \(AttemptColumns.assignments), due = ?7 WHERE id = ?1 AND state = 0"
            )
        )
        statement.bind(1, entry.id)
        statement.bind(3, transaction.now)
        statement.bind(4, 0)
        statement.bind(5, 0)
        statement.bind(7, due)
        _ = try statement.run(attempt: logEntry)
        let waiting = entry.waiting(
            due: due,
            after: logEntry,
            isCounted: false,
            isReplay: entry.isReplay,
            isRecovered: entry.isRecovered,
            isCancelled: entry.isCancelled
        )
        recording.comeBack(entry, false, as: waiting)
    }
}
