internal import Foundation
public import ChaparCore
public import ChaparQueue
internal import Synchronization

extension PostgresStore {
    /// Cancels the deliveries of a notification that are not final.
    public func cancel(
        _ id: NotificationID,
        event: @escaping @Sendable (ClaimedDelivery, DeliveryState) -> [UInt8]
    ) async throws(StoreError) -> Cancellation? {
        guard let stored = try await notification(id) else { return nil }
        let recipients = stored.counts.values.reduce(0, +)
        try await prepareDay(core.now)
        let (withdrawal, count) = try await transaction(on: core.recorder) { [core] (db) throws(PostgresError) in
            let rows = try db.run(
                "SELECT \(DeliveryRow.columns) FROM chapar.waiting w WHERE w.notification = $1 AND w.id >= $1 AND w.id < $2 ORDER BY w.id FOR UPDATE",
                [.integer(id.rawValue), .integer(id.delivery(at: recipients))]
            )
            let found = DeliveryRow.all(rows)
            return (try Withdrawal(of: found, event: event, core, db), found.count)
        }
        withdrawal.tell(core)
        return Cancellation(
            cancelled: withdrawal.cancelled,
            tooLate: recipients - count,
            inFlight: withdrawal.inFlight
        )
    }

    /// Claims waiting deliveries whose time to live is over.
    public func claimExpired(limit: Int) async throws(StoreError) -> [ClaimedDelivery] {
        do throws(PostgresError) {
            try await core.followWallClock()
        } catch {
            throw error.storeError
        }
        let (begin, now) = (ContinuousClock.now, core.now)
        let (range, span) = core.expiryScan.withLock { ($0.range(newest: now, begin), $0.limit) }
        guard let range else { return [] }
        do throws(PostgresError) {
            let claims = try await core.claim(
                Self.expiredClaim,
                [
                    .integer(range.lowerBound), .integer(range.upperBound), .integer(max(0, limit)),
                    .integer(core.nodeNumber),
                ],
                within: span
            )
            core.expiryScan.withLock { $0.end(took: begin.duration(to: .now), isFilled: claims.count >= limit) }
            return claims.map(\.delivery)
        } catch {
            guard error.isTimeout else { throw error.storeError }
            core.expiryScan.withLock { $0.cut(took: begin.duration(to: .now)) }
            return []
        }
    }

    private static let expiredClaim = """
        WITH found AS MATERIALIZED (
            SELECT ctid AS place FROM chapar.waiting WHERE owner IS NULL AND expires > $1 AND expires <= $2
            ORDER BY expires LIMIT $3 FOR UPDATE SKIP LOCKED
        )
        UPDATE chapar.waiting AS w SET owner = $4, lease = (SELECT nextval('chapar.leases'))
        WHERE w.ctid = ANY (ARRAY(SELECT place FROM found)) RETURNING \(DeliveryRow.columns)
        """

    /// Moves the waiting deliveries of a backend to another one, by a change of names only, however many wait.
    ///
    /// They are counted before, on the connection of ``DepthCount``: no outcome waits for the count to be recorded.
    public func move(backend: String, to other: String) async throws(StoreError) -> Int? {
        guard backend != other else { return 0 }
        let depth: QueueDepth
        do throws(PostgresError) {
            depth = try await DepthCount(core).depth(of: backend)
        } catch {
            throw error.storeError
        }
        guard depth.claimed == 0 else { return nil }
        try await transaction(on: core.recorder) { (db) throws(PostgresError) in
            try db.run(
                """
                UPDATE chapar.flows f SET backend = $2, merged = f.merged OR EXISTS (
                    SELECT FROM chapar.flows o
                    WHERE o.backend = $2 AND o.urgent = f.urgent AND o.caller = f.caller AND NOT o.merged
                ) WHERE backend = $1
                """,
                [.text(backend), .text(other)]
            )
            try db.run("UPDATE chapar.moves SET target = $2 WHERE target = $1", [.text(backend), .text(other)])
            try db.run(
                """
                INSERT INTO chapar.moves (backend, target) VALUES ($1, $2) ON CONFLICT (backend) DO UPDATE SET target = $2
                """,
                [.text(backend), .text(other)]
            )
            // A move back ends the former one.
            try db.run("DELETE FROM chapar.moves WHERE backend = target")
        }
        try await readFlows()
        core.stir(other, due: .min)
        return depth.waiting
    }

    private func readFlows() async throws(StoreError) {
        try await session(on: core.recorder) { [core] (db) throws(PostgresError) in try core.flows.read(db) }
    }

    // MARK: Receipts

    /// Records the receipts that platforms reported, in one commit.
    public func record(_ receipts: [ReceiptEntry]) async throws(StoreError) -> [ReceiptResult] {
        guard !receipts.isEmpty else { return [] }
        let now = core.now
        try await prepareDay(now)
        let (results, outcome) = try await transaction(on: core.recorder) { [core] (db) throws(PostgresError) in
            var receiver = ReceiptReceiver(core, now: now)
            try receiver.receive(receipts, db)
            return (receiver.results, receiver.outcome)
        }
        for (backend, due) in outcome.stirred { core.stir(backend, due: due) }
        core.tell(outcome.change)
        core.noteEvents()
        return results
    }

    /// Makes the partition for the events of a time, if it is missing.
    func prepareDay(_ now: Int64) async throws(StoreError) {
        do throws(PostgresError) {
            try await core.prepareDay(now, on: core.recorder)
        } catch {
            throw error.storeError
        }
    }
}
