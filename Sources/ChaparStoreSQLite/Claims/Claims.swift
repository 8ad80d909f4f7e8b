import Foundation
import ChaparCore

/// Hands out deliveries to the calls that ask for them, and lists the leases on disk.
///
/// It changes the queues and the claims of the ``QueueIndex`` at once, before the commit: a claim is undone when the
/// transaction fails. Used by the writer's thread only.
final class Claims {
    /// The most deliveries that are read from disk for the calls that wait, however many they ask for.
    private static let largestHandOut = 10_000

    private let transaction: Transaction
    private let queueIndex: QueueIndex
    private let sql: ClaimStatements

    init(_ transaction: Transaction) throws(StoreError) {
        self.transaction = transaction
        queueIndex = transaction.queueIndex
        sql = try ClaimStatements(transaction.connection)
    }

    /// Reads more deliveries from disk where a flow that is asked for work runs low in memory.
    func loadWindows(of queue: BackendQueue) {
        let asked = min(queue.tickets.reduce(0) { $0 + max(0, $1.limit) }, Self.largestHandOut)
        let takesNormal = queue.tickets.contains { $0.normal > 0 }
        do throws(StoreError) {
            for flow in queue.flows where flow.isUrgent || takesNormal {
                try loadWindow(of: flow, wanted: max(transaction.core.options.pageSize, asked))
            }
        } catch {
            SQLStatement.resetAll(transaction.connection)
            transaction.core.status.record(error, now: transaction.now)
            for ticket in queue.tickets { ticket.answer(.failure(error)) }
            queue.tickets.removeAll()
        }
    }

    /// Reads as many as are wanted, within the byte limit; one at least, so that it makes progress.
    private func loadWindow(of flow: Flow, wanted: Int) throws(StoreError) {
        guard let frontier = flow.frontier, frontier.due <= transaction.now, flow.windowCount < wanted else { return }
        let pageSize = max(transaction.core.options.pageSize, wanted - flow.windowCount)
        let page = sql.page
        page.bind(1, flow.number)
        page.bind(2, frontier.due)
        page.bind(3, frontier.id)
        var keys: [DueKey] = []
        var next: DueKey?
        while try page.next() {
            // A damaged row must not stop its backend.
            guard let due = page.readable({ (row) throws(StoreError) in try row.moment(0) }, transaction.core.status)
            else {
                continue
            }
            let key = DueKey(due: due, id: try page.integer(1))
            if keys.count == pageSize || key.due > transaction.now {
                next = key
                page.reset()
                break
            }
            if queueIndex.claims[key.id] == nil { keys.append(key) }
        }
        var reader = transaction.makeReader()
        for key in keys {
            guard flow.hasCapacity(bytes: 0) || flow.windowCount == 0 else {
                next = key
                break
            }
            guard let entry = try reader.entry(key.id), !queueIndex.isHeld(key.id, entry.collapseKey) else { continue }
            flow.load(entry, now: transaction.now)
        }
        flow.advanceFrontier(to: next)
    }

    /// Claims due deliveries in memory for the calls that wait for them.
    func handOut() {
        for queue in queueIndex.queues where !queue.tickets.isEmpty {
            while let assignment = assignment(for: queue),
                let entry = queue.takeNext(now: transaction.now, normal: assignment.normal > 0)
            {
                if give(entry, to: assignment, waited: true) { list(entry, assignment.lease) }
            }
        }
    }

    /// Returns the call that the next delivery of a queue goes to; nil when none waits.
    func assignment(for queue: BackendQueue) -> PendingChanges.Assignment? {
        if let filling = transaction.pending.filling[ObjectIdentifier(queue)], !filling.isFull { return filling }
        while !queue.tickets.isEmpty {
            let ticket = queue.tickets.removeFirst()
            if ticket.isCancelled || ticket.limit <= 0 {
                ticket.answer(.success([]))
                continue
            }
            let assignment = PendingChanges.Assignment(ticket, queueIndex.makeLease())
            transaction.pending.assignments.append(assignment)
            transaction.pending.filling[ObjectIdentifier(queue)] = assignment
            return assignment
        }
        return nil
    }

    /// Claims a delivery; returns false when it was held back.
    func give(_ entry: Entry, to assignment: PendingChanges.Assignment, waited: Bool) -> Bool {
        guard queueIndex.claim(entry, under: assignment.lease) else { return false }
        assignment.take(entry)
        transaction.pending.given.append((entry, waited))
        return true
    }

    /// Adds a claim to those that are written before they are given out: after a crash they must be known.
    func list(_ entry: Entry, _ lease: Lease) {
        // A transaction that accepts work for several queues alternates between their leases.
        if let index = transaction.pending.listings.lastIndex(where: { $0.lease === lease }) {
            transaction.pending.listings[index].deliveries.append(entry.id)
        } else {
            transaction.pending.listings.append((lease, [entry.id]))
        }
    }

    /// Writes the lists of new leases, and removes those of leases whose deliveries all came back.
    func writeLeases() throws(StoreError) {
        for (lease, deliveries) in transaction.pending.listings {
            try transaction.begin()
            lease.isListed = true
            sql.insertLease.bind(1, lease.number)
            sql.insertLease.bind(2, blob: LeaseList.pack(deliveries))
            try sql.insertLease.run()
        }
        for (number, count) in transaction.pending.endedClaims {
            guard let lease = queueIndex.leases[number], lease.isListed, lease.remaining == count else { continue }
            try transaction.begin()
            sql.deleteLease.bind(1, number)
            try sql.deleteLease.run()
        }
    }

    /// Answers the calls whose wait has ended.
    func answerTimedOut() {
        for queue in queueIndex.queues where !queue.tickets.isEmpty {
            queue.tickets.removeAll { ticket in
                guard ticket.isCancelled || ticket.until <= transaction.now else { return false }
                ticket.answer(.success([]))
                return true
            }
        }
    }
}

/// The form in which a lease's deliveries are listed on disk: eight bytes for each number.
enum LeaseList {
    static func pack(_ deliveries: [Int64]) -> [UInt8] {
        var bytes: [UInt8] = []
        bytes.reserveCapacity(deliveries.count * 8)
        for number in deliveries { bytes.pack(number) }
        return bytes
    }

    static func unpack(_ bytes: [UInt8]) -> [Int64] {
        stride(from: 0, to: bytes.count - 7, by: 8).map { start in
            (0..<8).reduce(Int64(0)) { $0 | Int64(bytes[start + $1]) << Int64(8 * $1) }
        }
    }
}

/// The statements of claims.
private struct ClaimStatements {
    let page: SQLStatement
    let insertLease: SQLStatement
    let deleteLease: SQLStatement

    init(_ connection: OpaquePointer) throws(StoreError) {
        page = try SQLStatement(
            connection,
            """
            SELECT due, id FROM deliveries INDEXED BY waiting
            WHERE state = 0 AND mark <> 2 AND flow = ?1 AND (due, id) >= (?2, ?3) ORDER BY due, id
            """
        )
        insertLease = try SQLStatement(connection, "INSERT INTO leases (number, deliveries) VALUES (?1, ?2)")
        deleteLease = try SQLStatement(connection, "DELETE FROM leases WHERE number = ?1")
    }
}
