import Foundation
import ChaparCore

/// The two clocks: the steady one, which deadlines use, and the wall clock, which `send_at` follows.
extension CommitLoop {
    /// The smallest step of the wall clock that is followed, in milliseconds; smaller ones add up until they reach it.
    private static let smallestJump: Int64 = 1_000
    /// The interval, in milliseconds, at which a commit also saves the clocks.
    private static let saveInterval: Int64 = 10_000

    /// How far the wall clock is ahead of the steady one, in milliseconds.
    var wallOffset: Int64 {
        let (wall, steady) = core.time.reading
        return wall.millisecondsSince1970.subtracting(clamping: steady.millisecondsSince1970)
    }

    /// Saves the clocks now and then, for the next process.
    func writeClock() throws(StoreError) {
        // When this transaction has saved a jump, `clock.offset` is still the one before it.
        guard !transaction.pending.areClocksSaved,
            transaction.now.subtracting(clamping: clock.savedAt) >= Self.saveInterval
        else { return }
        try saveClocks(clock.offset)
    }

    /// Saves the clocks, so that the transaction writes something.
    func touch() throws(StoreError) {
        try transaction.begin()
        try saveClocks(clock.offset)
    }

    private func saveClocks(_ offset: Int64) throws(StoreError) {
        var marks = [("steady", transaction.now), ("wall", transaction.now.adding(clamping: offset))]
        if let boot = core.time.bootTime {
            // Adjusted to the moment of the transaction, which began a little earlier.
            let passed = core.time.steady.millisecondsSince1970.subtracting(clamping: transaction.now)
            // `counted` is the steady time they belong to, since an older program saves only that.
            marks += [
                ("boot", boot.boot), ("uptime", boot.uptime.subtracting(clamping: passed)),
                ("counted", transaction.now),
            ]
        }
        for (name, value) in marks {
            sql.saveMark.bind(1, name)
            sql.saveMark.bind(2, value)
            try sql.saveMark.run()
        }
        transaction.pending.areClocksSaved = true
        transaction.pending.answers.append {
            self.clock.offset = offset
            self.clock.savedAt = self.transaction.now
        }
    }

    /// Shifts deliveries that are scheduled for a time of day, when the wall clock was set.
    func followWallClock() throws(StoreError) {
        let offset = wallOffset
        let jump = offset.subtracting(clamping: clock.offset)
        guard jump.magnitude >= Self.smallestJump else { return }
        try transaction.begin()
        // Rows are read again, so everything needs one, also what this transaction adds.
        try rows.writeOutAll()
        transaction.pending.readsAgain = true
        sql.shiftScheduled.bind(1, jump)
        sql.shiftScheduled.bind(2, transaction.now)
        try sql.shiftScheduled.run()
        try saveClocks(offset)
        transaction.pending.answers.append { [queueIndex, core] in
            for flow in queueIndex.flows { flow.readAgain() }
            queueIndex.expiry = ExpiryRound()
            core.status.logJump(milliseconds: jump)
        }
    }
}

/// The writer's state of the two clocks.
struct WriterClock {
    /// How far the wall clock was ahead of the steady one when it was last read, in milliseconds.
    var offset: Int64
    /// The steady time at which the clocks were last saved.
    var savedAt = Int64.min
}
