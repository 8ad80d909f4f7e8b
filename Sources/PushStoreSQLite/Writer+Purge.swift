import PushCore

/// Removing what nobody needs any more, a little at a time.
extension Writer {
    /// The most notifications, event rows and keys that one step looks at.
    private static let stepSize = 500

    func purge(_ step: PurgeStep, _ reply: Reply<PurgeStep>) throws(StoreError) {
        try begin()
        var next = step
        let isThrough = try purgeNotifications(&next)
        let eventsLeft = try purgeEvents(&next)
        let keysLeft = try purgeKeys(&next)
        next.isFinished = next.removed >= next.limit || isThrough && !eventsLeft && !keysLeft
        journal.answers.append { [next] in reply.succeed(next) }
    }

    /// True when there are no more notifications old enough.
    private func purgeNotifications(_ step: inout PurgeStep) throws(StoreError) -> Bool {
        let newest = NotificationID(firstAt: .init(millisecondsSince1970: step.before)).rawValue
        var budget = min(Self.stepSize, step.limit - step.removed)
        for _ in 0..<Self.stepSize {
            guard budget > 0 else { return false }
            sql.oldest.bind(1, step.cursor)
            guard try sql.oldest.next() else { return true }
            let (id, count) = (sql.oldest.integer(0), sql.oldest.integer(1))
            sql.oldest.reset()
            guard id < newest else { return true }
            guard try isFinished(id, count, before: step.before) else {
                step.cursor = id + count
                continue
            }
            let removed = min(count, Int64(budget))
            sql.deleteRange.bind(1, id + count - removed)
            sql.deleteRange.bind(2, id + count)
            try sql.deleteRange.run()
            try receiptTables().forget(from: id + count - removed, to: id + count)
            if removed < count {
                sql.shorten.bind(1, id)
                sql.shorten.bind(2, count - removed)
                try sql.shorten.run()
            } else {
                step.cursor = id + count
            }
            budget -= Int(removed)
            step.removed += Int(removed)
            sql.saveMark.bind(1, "highest")
            sql.saveMark.bind(2, core.highestID)
            try sql.saveMark.run()
        }
        return false
    }

    private func isFinished(_ id: Int64, _ count: Int64, before: Int64) throws(StoreError) -> Bool {
        sql.lastChange.bind(1, id)
        sql.lastChange.bind(2, id + count)
        guard try sql.lastChange.next() else { return false }
        defer { sql.lastChange.reset() }
        return sql.lastChange.integer(0) > 0 && sql.lastChange.integer(1) < before
    }

    /// Removes old events but for the newest, which keeps their numbers going.
    ///
    /// True when there may be more.
    private func purgeEvents(_ step: inout PurgeStep) throws(StoreError) -> Bool {
        let limit = min(Self.stepSize, step.limit - step.removed)
        guard limit > 0 else { return false }
        sql.oldEvents.bind(1, limit)
        var last: Int64?
        var count = 0
        while try sql.oldEvents.next() {
            guard sql.oldEvents.integer(1) < step.before else {
                sql.oldEvents.reset()
                break
            }
            last = sql.oldEvents.integer(0)
            count += 1
        }
        guard let last else { return false }
        sql.deleteEvents.bind(1, last)
        step.removed += try sql.deleteEvents.run()
        return count == limit
    }

    private func purgeKeys(_ step: inout PurgeStep) throws(StoreError) -> Bool {
        let limit = min(Self.stepSize, step.limit - step.removed)
        guard limit > 0 else { return false }
        sql.deleteKeys.bind(1, now)
        sql.deleteKeys.bind(2, limit)
        let removed = try sql.deleteKeys.run()
        step.removed += removed
        return removed == limit
    }
}
