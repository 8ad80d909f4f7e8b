import Foundation
import ChaparCore

/// The two clocks of the writer: the steady one, which deadlines use, and the wall clock, which `send_at` follows.
///
/// It saves both for the next process, and shifts scheduled deliveries when the wall clock was set. Used by the
/// writer's thread only.
final class WriterClock {
    /// The smallest step of the wall clock that is followed, in milliseconds; smaller ones add up until they reach it.
    private static let smallestJump: Int64 = 1_000
    /// The interval, in milliseconds, at which a commit also saves the clocks.
    private static let saveInterval: Int64 = 10_000

    private let transaction: Transaction
    private let rows: RowWriter
    private let shiftScheduled: SQLStatement
    /// How far the wall clock was ahead of the steady one when it was last read, in milliseconds.
    private var offset: Int64
    /// The steady time at which the clocks were last saved.
    private var savedAt = Int64.min

    init(_ transaction: Transaction, _ rows: RowWriter, offset: Int64) throws(StoreError) {
        self.transaction = transaction
        self.rows = rows
        shiftScheduled = try SQLStatement(
            transaction.connection,
            """
            UPDATE deliveries SET due = due - ?1, expires = expires - ?1, scheduled = scheduled - ?1 WHERE id IN (
            SELECT w.id FROM deliveries w INDEXED BY waiting
            WHERE w.state = 0 AND w.mark <> 2 AND w.due > ?2 AND w.attempts = 0 AND w.due =
            (SELECT h.scheduled FROM deliveries h WHERE h.id = coalesce(w.head, w.id)))
            """
        )
        self.offset = offset
    }

    private var time: StoreTime { transaction.core.time }

    /// How far the wall clock is ahead of the steady one, in milliseconds.
    private var wallOffset: Int64 {
        let (wall, steady) = time.reading
        return wall.millisecondsSince1970.subtracting(clamping: steady.millisecondsSince1970)
    }

    /// Saves the clocks now and then, for the next process.
    func write() throws(StoreError) {
        // When this transaction has saved a jump, `offset` is still the one before it.
        guard !transaction.pending.areClocksSaved,
            transaction.now.subtracting(clamping: savedAt) >= Self.saveInterval
        else { return }
        try save(offset)
    }

    /// Saves the clocks, so that the transaction writes something.
    func touch() throws(StoreError) {
        try transaction.begin()
        try save(offset)
    }

    private func save(_ offset: Int64) throws(StoreError) {
        let now = transaction.now
        var marks = [("steady", now), ("wall", now.adding(clamping: offset))]
        if let boot = time.bootTime {
            // Adjusted to the moment of the transaction, which began a little earlier.
            let passed = time.steady.millisecondsSince1970.subtracting(clamping: now)
            // `counted` is the steady time they belong to, since an older program saves only that.
            marks += [("boot", boot.boot), ("uptime", boot.uptime.subtracting(clamping: passed)), ("counted", now)]
        }
        for (name, value) in marks { try transaction.saveMark(name, value) }
        transaction.pending.areClocksSaved = true
        transaction.pending.answers.append {
            self.offset = offset
            self.savedAt = now
        }
    }

    /// Shifts deliveries that are scheduled for a time of day, when the wall clock was set.
    func follow() throws(StoreError) {
        let offset = wallOffset
        let jump = offset.subtracting(clamping: self.offset)
        guard jump.magnitude >= Self.smallestJump else { return }
        try transaction.begin()
        // Rows are read again, so everything needs one, also what this transaction adds.
        try rows.writeOutAll()
        transaction.pending.readsAgain = true
        shiftScheduled.bind(1, jump)
        shiftScheduled.bind(2, transaction.now)
        try shiftScheduled.run()
        try save(offset)
        transaction.pending.answers.append { [queueIndex = transaction.queueIndex, core = transaction.core] in
            for flow in queueIndex.flows { flow.readAgain() }
            queueIndex.expiry = ExpiryRound()
            core.status.logJump(milliseconds: jump)
        }
    }
}
