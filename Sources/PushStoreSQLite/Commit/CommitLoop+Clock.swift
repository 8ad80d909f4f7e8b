import Foundation
import PushCore

/// The two clocks: the steady one, which deadlines go by, and the wall clock, which `send_at` follows.
extension CommitLoop {
    /// A smaller step of the wall clock is left alone until more have come together, in milliseconds.
    private static let smallestJump: Int64 = 1_000
    /// The interval, in milliseconds, at which a commit also saves the clocks.
    private static let saveInterval: Int64 = 10_000

    /// How far the wall clock is ahead of the steady one, in milliseconds.
    var wallOffset: Int64 {
        let (wall, steady) = core.time.reading
        return wall.millisecondsSince1970.subtracting(clamping: steady.millisecondsSince1970)
    }

    /// Notes the clocks now and then, for the next process.
    func writeClock() throws(StoreError) {
        // After a jump the difference before it would be noted, and the jump be taken for another one.
        guard !pending.areClocksSaved, now.subtracting(clamping: clock.savedAt) >= Self.saveInterval else { return }
        try saveClocks(clock.offset)
    }

    /// Writes what is always there to be written.
    func touch() throws(StoreError) {
        try begin()
        try saveClocks(clock.offset)
    }

    private func saveClocks(_ offset: Int64) throws(StoreError) {
        var marks = [("steady", now), ("wall", now.adding(clamping: offset))]
        if let boot = core.time.bootTime {
            // As of the moment of the transaction, which began a little earlier.
            let passed = core.time.steady.millisecondsSince1970.subtracting(clamping: now)
            // `counted` says of which steady time, since an older program keeps that alone.
            marks += [("boot", boot.boot), ("uptime", boot.uptime.subtracting(clamping: passed)), ("counted", now)]
        }
        for (name, value) in marks {
            sql.saveMark.bind(1, name)
            sql.saveMark.bind(2, value)
            try sql.saveMark.run()
        }
        pending.areClocksSaved = true
        pending.answers.append {
            self.clock.offset = offset
            self.clock.savedAt = self.now
        }
    }

    /// Moves what was asked to go out at a time of day, when the wall clock was set.
    func followWallClock() throws(StoreError) {
        let offset = wallOffset
        let jump = offset.subtracting(clamping: clock.offset)
        guard jump.magnitude >= Self.smallestJump else { return }
        try begin()
        // What is read again has to be there, and what comes in this transaction too.
        try writeOutAll()
        pending.readsAgain = true
        sql.shiftScheduled.bind(1, jump)
        sql.shiftScheduled.bind(2, now)
        try sql.shiftScheduled.run()
        try saveClocks(offset)
        pending.answers.append { [queueIndex, core] in
            for flow in queueIndex.flows { flow.readAgain() }
            queueIndex.expiryFloor = .min
            self.expiryRound = ExpiryRound()
            core.status.logJump(milliseconds: jump)
        }
    }
}

/// What the writer knows of the two clocks.
struct WriterClock {
    /// How far the wall clock was ahead of the steady one at the last look, in milliseconds.
    var offset: Int64
    /// When the clocks were noted on disk, in steady time.
    var savedAt = Int64.min
}
