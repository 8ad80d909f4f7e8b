internal import Foundation
internal import Logging
public import ChaparCore
public import ChaparQueue
internal import Synchronization

/// The rows of ``Schema/quotas``, one for each quota that nodes share.
enum QuotaTable {
    /// The statements at the beginning of a transaction.
    ///
    /// A crash of the server may lose the last reservations, and a node that disappears during a transaction does not
    /// keep others waiting.
    static let settings = [
        "SET LOCAL synchronous_commit = off", "SET LOCAL idle_in_transaction_session_timeout = '2s'",
    ]
    /// The longest time for a statement, so that a worker that is to end does not wait for it for long.
    static let timeout = Duration.seconds(5)
    /// The time without use after which a bucket is full and its ramp is down, as without a row.
    private static let longestUse = Duration.seconds(3 * 86_400)

    /// Locks a row for this transaction, and changes it; `time` replaces the database's time.
    static func reserve(
        _ request: QuotaRequest,
        of name: String,
        at time: Date?,
        _ db: isolated PostgresConnection
    ) throws(PostgresError) -> QuotaGrant {
        guard var found = try level(name, at: time, db) else { throw .declined(.failed("the quota has no row")) }
        let grant = found.level.reserve(request, at: found.now)
        try db.run(
            "UPDATE chapar.quotas SET fill = $2::float8, ramp = $3::float8, filled_at = $4 WHERE name = $1",
            [
                .text(name), .text("\(found.level.fill)"), .text("\(found.level.ramp)"),
                .integer(microseconds(found.level.filledAt)),
            ]
        )
        return grant
    }

    /// Removes rows that would by now have the values of a new row.
    static func forgetOld(at now: Date, _ db: isolated PostgresConnection) throws(PostgresError) {
        let end = microseconds(now.addingTimeInterval(-longestUse.inSeconds))
        try db.run("DELETE FROM chapar.quotas WHERE filled_at < $1", [.integer(end)])
    }

    /// Locks a row, which is made if it is missing; returns it with the time after that.
    private static func level(
        _ name: String,
        at time: Date?,
        _ db: isolated PostgresConnection
    ) throws(PostgresError) -> (level: QuotaLevel, now: Date)? {
        for isNew in [true, false] {
            // The clock is read from the row that is locked, not while its lock is waited for.
            let rows = try db.run(
                """
                WITH quota AS MATERIALIZED (SELECT fill, ramp, filled_at FROM chapar.quotas WHERE name = $1 FOR UPDATE)
                SELECT fill::text, ramp::text, filled_at, (extract(epoch FROM clock_timestamp()) * 1000000)::bigint FROM quota
                """,
                [.text(name)]
            )
            if rows.count == 1, let fill = rows.text(0, 0).flatMap({ Double($0) }),
                let ramp = rows.text(0, 1).flatMap({ Double($0) }), let filled = rows.integer(0, 2),
                let clock = rows.integer(0, 3)
            {
                return (QuotaLevel(fill: fill, ramp: ramp, filledAt: date(filled)), time ?? date(clock))
            }
            guard isNew else { break }
            try db.run(
                """
                INSERT INTO chapar.quotas (name, fill, ramp, filled_at)
                VALUES ($1, 1, 0, coalesce($2, (extract(epoch FROM clock_timestamp()) * 1000000)::bigint))
                ON CONFLICT (name) DO NOTHING
                """,
                [.text(name), .integer(time.map { microseconds($0) })]
            )
        }
        return nil
    }

    private static func microseconds(_ time: Date) -> Int64 {
        Int64(clamping: (time.timeIntervalSince1970 * 1_000_000).rounded())
    }

    private static func date(_ microseconds: Int64) -> Date {
        Date(timeIntervalSince1970: Double(microseconds) / 1_000_000)
    }
}

/// Limits how often failures of quotas are logged.
final class QuotaFailures: Sendable {
    private static let interval = Duration.seconds(10)
    private let last = Mutex<ContinuousClock.Instant?>(nil)

    /// Whether a failure is to be logged.
    func isNews() -> Bool {
        last.withLock { last in
            if let last, last.duration(to: .now) < Self.interval { return false }
            last = .now
            return true
        }
    }
}

extension PostgresStore: QuotaLedger {
    /// Returns unused quota and reserves more in one transaction, with the quota's row locked, by the database's clock.
    public func reserve(_ request: QuotaRequest, of quota: String) async throws(StoreError) -> QuotaGrant {
        let time = core.databaseTime == nil ? core.time.steady : nil
        do throws(StoreError) {
            return try await transaction(on: quotas) { (db) throws(PostgresError) in
                try QuotaTable.reserve(request, of: quota, at: time, db)
            }
        } catch {
            if error != .closed, quotaFailures.isNews() {
                logger.warning(
                    "a quota cannot be reserved, so nothing is sent beyond what was reserved before",
                    metadata: ["quota": "\(quota)", "store.error": "\(error)"]
                )
            }
            throw error
        }
    }
}
