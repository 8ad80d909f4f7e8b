import Foundation
import GRDB
public import ChaparCore
public import ChaparQueue

/// The entries of the outbox: every change goes through the writer's thread, in one commit with other commands that
/// wait.
extension SQLiteStore: OutboxStore {
    /// Adds entries; refused when the disk is nearly full or more is being stored than it can follow.
    public func enqueue(_ entries: [OutboxEntry]) async throws(StoreError) {
        guard !entries.isEmpty else { return }
        let refusal: Refusal = { (writer) throws(StoreError) in
            let outbox = try writer.outbox.changes()
            for entry in entries where try outbox.holds(entry.device) {
                return try writer.outbox.refusal()
            }
            return nil
        }
        try await work(rows: entries.count, isNew: true, refusal: refusal) { (writer) throws(StoreError) in
            let outbox = try writer.outbox.changes()
            for entry in entries {
                if try outbox.holds(entry.device) {
                    try writer.outbox.keep([.operation(entry)], at: entry.at)
                } else {
                    try writer.outbox.keep([entry])
                }
            }
        }
    }

    /// Claims due entries, and waits for some when there are none.
    public func claimEntries(
        of backend: String,
        limit: Int,
        lease: Duration,
        wait: Duration
    ) async throws(StoreError) -> [ClaimedEntry] {
        guard limit > 0 else { return [] }
        let until = time.steady.millisecondsSince1970.adding(clamping: wait.boundedMilliseconds)
        while !Task.isCancelled {
            let mark = outboxSignal.mark(backend)
            let found = try await work(rows: limit, isNew: false) { (writer) throws(StoreError) in
                try writer.outbox.entries().claim(
                    of: backend,
                    limit: limit,
                    until: writer.transaction.now.adding(clamping: lease.boundedMilliseconds),
                    now: writer.transaction.now
                )
            }
            guard found.claims.isEmpty, time.steady.millisecondsSince1970 < until else { return found.claims }
            await outboxSignal.wait(backend, since: mark, until: min(until, found.next ?? until)) { setTimer($0) }
        }
        return []
    }

    /// Records the results of claimed entries.
    public func record(_ results: [OutboxResult]) async throws(StoreError) {
        guard !results.isEmpty else { return }
        try await work(rows: results.count, isNew: false) { (writer) throws(StoreError) in
            let tables = try writer.outbox.entries()
            for result in results {
                try tables.record(result, now: writer.transaction.now)
                if let event = result.event { writer.transaction.pending.events.append(event) }
            }
            writer.outbox.notify(Set(results.map(\.claim.operation.backend)))
        }
    }

    /// Returns the entries that wait for a device.
    public func entries(ofDevice device: String, limit: Int) async throws(StoreError) -> [WaitingEntry] {
        try await readConnection { (connection) throws(StoreError) in
            let rows = try SQLStatement(
                connection,
                """
                SELECT \(OutboxEntryRow.columns) FROM outbox_entries INDEXED BY outbox_entries_of_device
                WHERE device = ?1 ORDER BY number LIMIT ?2
                """
            )
            rows.bind(1, device)
            rows.bind(2, max(0, limit))
            var found: [WaitingEntry] = []
            while try rows.next() {
                let row = try OutboxEntryRow(rows)
                found.append(
                    WaitingEntry(
                        number: row.number,
                        operation: row.operation,
                        attempts: row.attempts,
                        due: row.due
                    )
                )
            }
            return found
        }
    }

    /// Removes the entries that wait for a backend now, in steps, between which other calls get their turn.
    public func cancelEntries(of backend: String, device: String?) async throws(StoreError) -> Int {
        let last = try await work(rows: 0, isNew: false) { (writer) throws(StoreError) in
            try writer.outbox.changes().skip(backend, device: device)
            return try writer.outbox.entries().newestNumber()
        }
        var total = 0
        var removed = 0
        repeat {
            removed = try await work(rows: OutboxEntryTable.largestRemoval, isNew: false) {
                (writer) throws(StoreError) in
                defer { writer.outbox.notify([backend]) }
                return try writer.outbox.entries().remove(
                    of: backend,
                    device: device,
                    upTo: last,
                    now: writer.transaction.now
                )
            }
            total += removed
        } while removed == OutboxEntryTable.largestRemoval
        return total
    }

    /// Makes entries due that wait for a retry, in steps, between which other calls get their turn.
    public func makeRetriesDue(ofEntriesAt backend: String) async throws(StoreError) -> Int {
        var (total, changed) = (0, 0)
        repeat {
            changed = try await work(rows: OutboxEntryTable.largestRemoval, isNew: false) {
                (writer) throws(StoreError) in
                writer.outbox.notify([backend])
                return try writer.outbox.entries().makeRetriesDue(of: backend, now: writer.transaction.now)
            }
            total += changed
        } while changed == OutboxEntryTable.largestRemoval
        return total
    }

    /// Returns how much waits at each backend, as triggers of the tables count it.
    public func outboxDepths() async throws(StoreError) -> [String: OutboxDepth] {
        try await readConnection { (connection) throws(StoreError) in
            let rows = try SQLStatement(
                connection,
                """
                SELECT d.backend, d.waiting, (SELECT at FROM outbox_entries INDEXED BY outbox_entries_oldest
                WHERE backend = d.backend ORDER BY number LIMIT 1) FROM outbox_depths d
                """
            )
            var found: [String: OutboxDepth] = [:]
            while try rows.next() {
                let oldest = try rows.optionalDate(2)
                found[try rows.text(0)] = OutboxDepth(waiting: try rows.count(1), oldest: oldest)
            }
            return found
        }
    }

    /// Reads the file without GRDB's rows.
    func readConnection<Value: Sendable>(
        _ body: @escaping @Sendable (OpaquePointer) throws(StoreError) -> Value
    ) async throws(StoreError) -> Value {
        try await read { db in
            guard let connection = db.sqliteConnection else { throw StoreError.closed }
            return try body(connection)
        }
    }
}
