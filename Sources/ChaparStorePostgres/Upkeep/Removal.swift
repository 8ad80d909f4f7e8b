internal import Foundation
internal import ChaparCore
internal import ChaparQueue

/// Removes data that has ended and is old: whole partitions, and rows such as idempotency keys in small steps.
struct Removal {
    private static let keysAtOnce: Int64 = 5_000

    private let core: StoreCore

    init(_ core: StoreCore) { self.core = core }

    /// Moves the marks forward, and removes what can be removed in a short time.
    ///
    /// - Returns: Whether there may be more to remove now.
    func run(_ retention: Retention) async throws(PostgresError) -> Bool {
        let now = core.now
        let keys = try await core.keeper.transaction { (db) throws(PostgresError) in
            try Marks.save(retention, db)
            try LateEnds.forget(before: retention.notifications.millisecondsSince1970, db)
            try QuotaTable.forgetOld(at: core.time.now, db)
            try CampaignTable.forget(before: retention.notifications.millisecondsSince1970, db)
            return try db.run(
                """
                DELETE FROM chapar.idempotency WHERE ctid = ANY (ARRAY(
                    SELECT ctid FROM chapar.idempotency WHERE keep < $1 ORDER BY keep LIMIT $2 FOR UPDATE SKIP LOCKED))
                """,
                [.integer(now), .integer(Self.keysAtOnce)]
            ).changed
        }
        let (notifications, events) = (
            retention.notifications.millisecondsSince1970, retention.events.millisecondsSince1970
        )
        var isMore = try await detachNotifications(notifications)
        if !isMore { isMore = try await detachEvents(events) }
        try await core.partitions.dropDetached(before: { $0 == .events ? events : notifications }, on: core.keeper)
        return isMore || keys == Self.keysAtOnce
    }

    /// Detaches the oldest day of notifications all of which ended before a time.
    private func detachNotifications(_ before: Int64) async throws(PostgresError) -> Bool {
        let days = try await core.keeper.session { (db) throws(PostgresError) in
            try Partitions.days(of: .notifications, db)
        }
        for day in days where Partitions.end(of: day) <= before {
            let isOver = try await core.keeper.session { (db) throws(PostgresError) in
                // Waiting deliveries are checked first: until they have ended they may note a bound.
                let isDone = try db.run(
                    "SELECT NOT EXISTS (SELECT FROM chapar.waiting WHERE id >= $1 AND id < $2)",
                    [
                        .integer(Partitions.Table.notifications.start(of: day)),
                        .integer(Partitions.Table.notifications.start(of: day.adding(clamping: 1))),
                    ]
                ).bool(0, 0)
                guard isDone else { return false }
                return try LateEnds.allEnded(in: day, before: before, db)
            }
            guard isOver else { continue }
            for table in [Partitions.Table.searchKeys, .handled, .awaited, .results, .notifications] {
                guard try await core.partitions.detach(table, day, on: core.keeper) else { return false }
            }
            return true
        }
        return false
    }

    /// Detaches the oldest day of events, but never that of the newest event.
    private func detachEvents(_ before: Int64) async throws(PostgresError) -> Bool {
        let newest = try await EventLog.number(on: core.keeper, core.numbering)
        let days = try await core.keeper.session { (db) throws(PostgresError) in try Partitions.days(of: .events, db) }
        for day in days where Partitions.end(of: day) <= before {
            let hasNewest = try await core.keeper.session { (db) throws(PostgresError) in
                try Self.hasNewest(of: newest, in: day, db)
            }
            if hasNewest { continue }
            return try await core.partitions.detach(.events, day, on: core.keeper)
        }
        return false
    }

    /// Whether a day has the newest event, or one without a number, by its indexes only, however many events it has.
    ///
    /// True also when another node has dropped the day meanwhile: there is nothing to detach.
    static func hasNewest(of newest: Int64, in day: Int64, _ db: isolated PostgresConnection) throws(PostgresError)
        -> Bool
    {
        let name = Partitions.Table.events.name(of: day)
        do throws(PostgresError) {
            return try db.run(
                """
                SELECT EXISTS (SELECT FROM chapar.\(name) WHERE first IS NULL)
                    OR coalesce((SELECT first + count > $1 FROM chapar.\(name) WHERE first IS NOT NULL ORDER BY first DESC LIMIT 1), false)
                """,
                [.integer(newest)]
            ).bool(0, 0)
        } catch {
            guard case .refused(code: "42P01", _) = error else { throw error }
            return true
        }
    }
}
