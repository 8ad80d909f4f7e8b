internal import Foundation
internal import ChaparComposition
public import ChaparCore
public import ChaparQueue

/// Waiting deliveries, without claims: they are read on the reader's connection, and only decisions are written.
extension PostgresStore {
    /// The most deliveries that one transaction makes due.
    private static let dueAtOnce = 1_000

    /// Returns a page of a backend's due deliveries that are wanted.
    public func waitingDeliveries(
        _ look: WaitingLook,
        where isWanted: @escaping @Sendable (WaitingDelivery) -> Bool
    ) async throws(StoreError) -> WaitingPage {
        let now = core.now
        let since = look.since?.millisecondsSince1970 ?? .min
        return try await session(on: core.reader) { [core] (db) throws(PostgresError) in
            try core.flows.read(db)
            var scan = WaitingScan(core.flows, look.backend, from: since, to: now, after: look.after, limit: look.limit)
            var found: [ClaimedDelivery] = []
            try scan.walk(core.heads, db) { row, head in
                let isRecovered = row.flags.contains(.recovered)
                let waiting = WaitingDelivery(
                    id: row.id,
                    recipient: row.recipient,
                    plan: head.head(plan: row.plan).plan,
                    step: row.step,
                    isReplay: isRecovered || row.flags.contains(.replay),
                    isRecovered: isRecovered,
                    isCancelled: row.flags.contains(.cancelled)
                )
                if isWanted(waiting) { found.append(row.claimed(head)) }
            }
            return WaitingPage(found: found, next: scan.next)
        }
    }

    /// Records decisions about deliveries that still wait as they were read; returns those that were changed.
    public func settle(
        _ resolutions: [Resolution],
        of backend: String,
        event: @escaping @Sendable (ClaimedDelivery, DeliveryState, EndReason) -> [UInt8]
    ) async throws(StoreError) -> Set<Int64> {
        guard !resolutions.isEmpty else { return [] }
        var attempts = 0
        while true {
            do throws(PostgresError) {
                try await core.refresh(core.recorder)
                try await core.prepareDay(core.now, on: core.recorder)
                let record = try await core.recorder.transaction { [core] (db) throws(PostgresError) in
                    var record = SlowRecord(core, settlingAt: backend)
                    try record.record(resolutions.map { ($0, event) }, db)
                    return (settled: record.settled, outcome: record.outcome)
                }
                for (backend, due) in record.outcome.stirred { core.stir(backend, due: due) }
                core.tell(record.outcome.change)
                if record.outcome.hasEvents { core.noteEvents() }
                return record.settled
            } catch {
                attempts += 1
                guard attempts < 8 else { throw error.storeError }
                if let flow = error.missingFlow {
                    do throws(PostgresError) {
                        try await core.flows.make([flow], on: core.recorder)
                    } catch {
                        throw error.storeError
                    }
                } else if !core.mayRepeat(error) {
                    throw error.storeError
                }
            }
        }
    }

    /// Makes deliveries due that wait for a retry, in steps.
    public func makeRetriesDue(of backend: String) async throws(StoreError) -> Int {
        let now = core.now
        var total = 0
        var place: WaitingPlace?
        repeat {
            let (found, next) = try await session(on: core.reader) { [core, place] (db) throws(PostgresError) in
                try core.flows.read(db)
                var scan = WaitingScan(
                    core.flows,
                    backend,
                    from: now.adding(clamping: 1),
                    to: .max,
                    after: place,
                    limit: Self.dueAtOnce
                )
                var found: [Int64] = []
                try scan.walk(core.heads, db) { row, head in
                    let waitsForWord = row.flags.contains(.replay) && head.head(plan: row.plan).plan.onUnknown == .wait
                    guard row.attempts > 0, !waitsForWord, !AttemptLog.keepsItsTime(row.attemptLog) else { return }
                    found.append(row.id)
                }
                return (found, scan.next)
            }
            if !found.isEmpty {
                total += try await transaction(on: core.recorder) { (db) throws(PostgresError) in
                    try db.run(
                        """
                        UPDATE chapar.waiting SET due = $2 WHERE ctid = ANY (ARRAY(
                            SELECT ctid FROM chapar.waiting
                            WHERE id = ANY ($1) AND coalesce(owner, -1) < 0 AND due > $2 AND attempts > 0 ORDER BY id FOR UPDATE))
                        """,
                        [.integers(found), .integer(now)]
                    ).changed
                }
            }
            place = next
        } while place != nil
        if total > 0 { core.stir(backend, due: now) }
        return total
    }
}

/// A scan of a backend's unclaimed deliveries, flow by flow, by the index of waiting ones, up to a limit of rows.
private struct WaitingScan {
    private let flows: [Int64]
    private let from: Int64
    private let to: Int64
    private var left: Int
    private var place: WaitingPlace?
    /// The place where it ended; nil after the last row.
    private(set) var next: WaitingPlace?

    init(
        _ table: FlowTable,
        _ backend: String,
        from: Int64,
        to: Int64,
        after place: WaitingPlace?,
        limit: Int
    ) {
        let numbers = table.numbers(of: backend)
        flows = (numbers.urgent + numbers.normal).filter { $0 >= place?.flow ?? .min }.sorted()
        (self.from, self.to, self.place) = (from, to, place)
        left = max(1, limit)
    }

    /// Gives `body` each delivery that can be read, in order.
    mutating func walk(
        _ heads: HeadCache,
        _ db: isolated PostgresConnection,
        _ body: (DeliveryRow, NotificationHead) -> Void
    ) throws(PostgresError) {
        for flow in flows {
            let isBegun = place?.flow == flow
            let rows = try db.run(
                Self.statement,
                [
                    .integer(flow), .integer(isBegun ? place?.due ?? from : from),
                    .integer(isBegun ? place?.id ?? .min : .min), .integer(to), .integer(left + 1),
                ]
            )
            let hasMore = rows.count > left
            let count = min(rows.count, left)
            // One record for each notification, in place of one for each of its deliveries.
            let shared = try heads.heads(of: Set((0..<count).compactMap { rows.integer($0, 1) }), db)
            for row in 0..<count {
                left -= 1
                place = WaitingPlace(flow: flow, due: rows.integer(row, 3) ?? 0, id: rows.integer(row, 0) ?? 0)
                guard let delivery = DeliveryRow(rows, row), let head = shared[delivery.notification] else { continue }
                body(delivery, head)
            }
            if hasMore {
                next = place
                return
            }
        }
    }

    /// The statement of a scan, which also returns rows whose notification is lost.
    private static let statement = """
        SELECT \(DeliveryRow.columns) FROM chapar.waiting w
        WHERE w.flow = $1 AND w.owner IS NULL AND (w.due, w.id) > ($2, $3) AND w.due <= $4
        ORDER BY w.due, w.id LIMIT $5
        """
}
