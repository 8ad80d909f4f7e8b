import ChaparCore
import ChaparQueue

/// Records decisions about deliveries that wait and are not claimed.
///
/// Used by the writer's thread only.
final class Settling {
    private let transaction: Transaction
    private let queueIndex: QueueIndex
    private let recording: Recording
    private let sql: SettlingStatements

    init(_ transaction: Transaction, _ recording: Recording) throws(StoreError) {
        self.transaction = transaction
        queueIndex = transaction.queueIndex
        self.recording = recording
        sql = try SettlingStatements(transaction.connection)
    }

    /// Records decisions about deliveries that still wait as they were read; writes nothing when none does.
    func settle(
        _ resolutions: [Resolution],
        of backend: String,
        _ event: EndEvent,
        _ reply: Reply<Set<Int64>>
    ) throws(StoreError) {
        var reader = transaction.makeReader()
        var settled: Set<Int64> = []
        for resolution in resolutions {
            guard let entry = try waiting(resolution.delivery, as: resolution.lease ?? 0, at: backend, &reader) else {
                continue
            }
            try recording.record(resolution, of: entry, as: .settled, isClaimed: false, event)
            settled.insert(resolution.delivery)
        }
        transaction.pending.answers.append { [settled] in reply.succeed(settled) }
    }

    /// Returns a delivery that waits for a backend and has not changed since it came back under a lease, or since it
    /// was accepted (0); nil for any other.
    private func waiting(
        _ id: Int64,
        as lease: Int64,
        at backend: String,
        _ reader: inout RowReader
    ) throws(StoreError) -> Entry? {
        guard queueIndex.claims[id] == nil else { return nil }
        var found: Entry?
        if let staged = queueIndex.withoutRow(NotificationID(rawValue: id)) {
            found = lease == 0 ? staged : nil
        } else {
            sql.markOf.bind(1, id)
            guard try sql.markOf.next() else { return nil }
            defer { sql.markOf.reset() }
            let mark = try sql.markOf.integer(0)
            found = mark == lease && mark != Schema.handedOut ? try reader.entry(id) : nil
        }
        // A delivery behind another one with its collapse ID must wait for that one.
        guard let entry = found, entry.flow.queue.name == backend, !queueIndex.isInFlight(entry.collapseKey) else {
            return nil
        }
        return entry
    }

    /// Makes deliveries of a backend due that wait for a retry.
    func makeDue(_ deliveries: [Int64], of backend: String, _ reply: Reply<Int>) throws(StoreError) {
        var reader = transaction.makeReader()
        var count = 0
        for id in deliveries where queueIndex.claims[id] == nil {
            guard let entry = try reader.entry(id), entry.due > transaction.now, entry.attempts > 0,
                entry.flow.queue.name == backend, !queueIndex.isInFlight(entry.collapseKey)
            else { continue }
            try transaction.begin()
            sql.makeDue.bind(1, id)
            sql.makeDue.bind(2, transaction.now)
            try sql.makeDue.run()
            let waiting = entry.waiting(
                due: transaction.now,
                isReplay: entry.isReplay,
                isRecovered: entry.isRecovered,
                isCancelled: entry.isCancelled
            )
            recording.comeBack(entry, false, as: waiting)
            count += 1
        }
        transaction.pending.answers.append { [count] in reply.succeed(count) }
    }
}

/// The statements about deliveries that wait.
private struct SettlingStatements {
    let markOf: SQLStatement
    let makeDue: SQLStatement

    init(_ connection: OpaquePointer) throws(StoreError) {
        markOf = try SQLStatement(connection, "SELECT mark FROM deliveries WHERE id = ?1 AND state = 0")
        makeDue = try SQLStatement(connection, "UPDATE deliveries SET due = ?2 WHERE id = ?1 AND state = 0")
    }
}
