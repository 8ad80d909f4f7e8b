import Foundation
import GRDB
import ChaparComposition
public import ChaparCore
public import ChaparQueue

/// Reads of waiting deliveries, without claims: they come from the file, and the writer writes only decisions.
extension SQLiteStore {
    /// Returns a page of a backend's due deliveries that are wanted; the first page has those without rows, too, from
    /// memory.
    public func waitingDeliveries(
        _ look: WaitingLook,
        where isWanted: @escaping @Sendable (WaitingDelivery) -> Bool
    ) async throws(StoreError) -> WaitingPage {
        let now = time.steady.millisecondsSince1970
        let since = look.since?.millisecondsSince1970 ?? .min
        let (flows, claimed, staged) = try await self.look { index -> ([WaitingFlow], Set<Int64>, [ClaimedDelivery]) in
            guard let queue = index.existingQueue(look.backend) else { return ([], [], []) }
            let flows = queue.flows.map { WaitingFlow(number: $0.number, caller: $0.caller) }
            // A claim is in memory only, not in the row.
            let claimed = queue.claimed == 0 ? [] : index.claimedIDs(in: queue)
            guard look.after == nil else { return (flows, claimed, []) }
            // Deliveries without rows were never claimed, and none of them waits for another one.
            let staged = index.stagedAndWaiting(in: queue).filter { $0.due >= since && $0.due <= now }
                .map(\.delivery).filter { isWanted(WaitingDelivery($0)) }
            return (flows, claimed, staged)
        }
        let start = WaitingScan(
            flows,
            range: min(since, now)...now,
            after: look.after,
            limit: look.limit,
            claimed: claimed
        )
        var page = try await scan { db in
            var scan = start
            guard let connection = db.sqliteConnection else { throw StoreError.closed }
            let found = try scan.deliveries(on: connection, where: isWanted)
            return WaitingPage(found: found, next: scan.next)
        }
        let known = Set(page.found.map(\.id))
        page.found += staged.filter { !known.contains($0.id) }
        return page
    }

    /// Records decisions about deliveries that still wait as they were read; returns those that were changed.
    public func settle(
        _ resolutions: [Resolution],
        of backend: String,
        event: @escaping @Sendable (ClaimedDelivery, DeliveryState, EndReason) -> [UInt8]
    ) async throws(StoreError) -> Set<Int64> {
        guard !resolutions.isEmpty else { return [] }
        return try await ask { .settle(resolutions, of: backend, event, $0) }
    }

    /// Makes deliveries due that wait for a retry, in steps, between which other calls get their turn.
    public func makeRetriesDue(of backend: String) async throws(StoreError) -> Int {
        let now = time.steady.millisecondsSince1970
        let flows = try await look { index in
            (index.existingQueue(backend)?.flows ?? []).map { WaitingFlow(number: $0.number, caller: $0.caller) }
        }
        var total = 0
        var place: WaitingPlace?
        repeat {
            let start = WaitingScan(flows, range: now.adding(clamping: 1)...Int64.max, after: place, limit: rowsPerScan)
            let (found, next) = try await scan { db in
                var scan = start
                guard let connection = db.sqliteConnection else { throw StoreError.closed }
                return (try scan.retries(on: connection), scan.next)
            }
            if !found.isEmpty { total += try await ask { .makeDue(found, of: backend, $0) } }
            place = next
        } while place != nil
        return total
    }
}

extension WaitingDelivery {
    fileprivate init(_ delivery: ClaimedDelivery) {
        self.init(
            id: delivery.id,
            recipient: delivery.recipient,
            plan: delivery.plan,
            step: delivery.step,
            isReplay: delivery.isReplay,
            isRecovered: delivery.isRecovered,
            isCancelled: delivery.isCancelled
        )
    }
}

/// A flow, for a connection that reads.
struct WaitingFlow: Sendable {
    var number: Int64
    var caller: String
}

/// A scan of the waiting deliveries of flows, flow by flow, by the index of waiting ones, up to a limit of rows.
///
/// Claimed deliveries count as read, but their contents are not read.
private struct WaitingScan: Sendable {
    private let flows: [WaitingFlow]
    private let range: ClosedRange<Int64>
    private let claimed: Set<Int64>
    private var left: Int
    private var place: WaitingPlace?
    /// The place where it ended; nil after the last row.
    private(set) var next: WaitingPlace?

    init(
        _ flows: [WaitingFlow],
        range: ClosedRange<Int64>,
        after place: WaitingPlace?,
        limit: Int,
        claimed: Set<Int64> = []
    ) {
        self.flows = flows.filter { $0.number >= place?.flow ?? .min }.sorted { $0.number < $1.number }
        self.range = range
        self.claimed = claimed
        self.place = place
        left = max(1, limit)
    }

    /// Returns the rows that are wanted, with their contents.
    mutating func deliveries(
        on connection: OpaquePointer,
        where isWanted: (WaitingDelivery) -> Bool
    ) throws(StoreError) -> [ClaimedDelivery] {
        var found: [ClaimedDelivery] = []
        try walk(connection) { (row, flow) throws(StoreError) in
            guard let recipient = Recipient(storedForm: try row.text(6)),
                let record = NotificationRecord(encoded: try row.bytes(11))
            else { return }
            let head = DeliveryHead(
                id: NotificationID(rawValue: try row.id(8)),
                record: record,
                plan: try row.count(9),
                expiresAt: try row.date(10)
            )
            let (flags, mark) = (try row.integer(4), try row.integer(5))
            var waiting = WaitingDelivery(
                id: try row.id(1),
                recipient: recipient,
                plan: head.plan,
                step: try row.count(2),
                isReplay: flags & Schema.replay != 0,
                isRecovered: mark == 1,
                isCancelled: flags & Schema.cancelled != 0
            )
            waiting.isReplay = waiting.isReplay || waiting.isRecovered
            guard isWanted(waiting) else { return }
            found.append(
                ClaimedDelivery(
                    id: waiting.id,
                    head: head,
                    recipient: recipient,
                    caller: flow.caller,
                    step: waiting.step,
                    attempts: try row.count(3),
                    attemptLog: try row.bytes(7),
                    isReplay: waiting.isReplay,
                    isRecovered: waiting.isRecovered,
                    lease: mark,
                    isCancelled: waiting.isCancelled
                )
            )
        }
        return found
    }

    /// Returns the numbers of the deliveries that wait for a retry.
    mutating func retries(on connection: OpaquePointer) throws(StoreError) -> [Int64] {
        var found: [Int64] = []
        try walk(connection) { (row, _) throws(StoreError) in
            let isReplay = try row.integer(4) & Schema.replay != 0
            guard try row.count(3) > 0 else { return }
            if isReplay, let record = NotificationRecord(encoded: try row.bytes(11)),
                record.plan(at: try row.count(9)).onUnknown == .wait
            {
                return
            }
            if AttemptLog.keepsItsTime(try row.bytes(7)) { return }
            found.append(try row.id(1))
        }
        return found
    }

    private mutating func walk(
        _ connection: OpaquePointer,
        _ body: (SQLStatement, WaitingFlow) throws(StoreError) -> Void
    ) throws(StoreError) {
        let row = try SQLStatement(connection, Self.statement)
        for flow in flows {
            let isBegun = place?.flow == flow.number
            row.bind(1, flow.number)
            row.bind(2, isBegun ? place?.due ?? .min : range.lowerBound)
            row.bind(3, isBegun ? place?.id ?? .min : .min)
            row.bind(4, range.upperBound)
            row.bind(5, left + 1)
            while try row.next() {
                guard left > 0 else {
                    row.reset()
                    next = place
                    return
                }
                left -= 1
                let id = try row.integer(1)
                place = WaitingPlace(flow: flow.number, due: try row.integer(0), id: id)
                guard !claimed.contains(id) else { continue }
                do throws(StoreError) {
                    try body(row, flow)
                } catch {
                    guard case .damaged = error else { throw error }  // The claim of this row logs it.
                }
            }
        }
    }

    /// The statement of a scan: the row of the notification's number has what its deliveries share.
    ///
    /// A row whose due time is not a whole number is on no page, since no page could begin after it.
    private static let statement = """
        SELECT w.due, w.id, w.step, w.attempts, w.replay, w.mark, w.recipient, w.attempt_log, h.id,
        w.plan, w.expires, h.record
        FROM deliveries w INDEXED BY waiting JOIN deliveries h ON h.id = coalesce(w.head, w.id)
        WHERE w.state = 0 AND w.mark <> 2 AND w.flow = ?1 AND (w.due, w.id) > (?2, ?3) AND w.due <= ?4
        AND typeof(w.due) = 'integer'
        ORDER BY w.due, w.id LIMIT ?5
        """
}
