import Foundation
import GRDB
public import ChaparCore
public import ChaparQueue

/// The unplanned changes of the outbox: kept by the commits that change devices, taken by the planner.
extension SQLiteStore {
    /// Returns the oldest changes, in order; waits for one when there is none.
    public func unplannedChanges(limit: Int, wait: Duration) async throws(StoreError) -> [OutboxChange] {
        guard limit > 0 else { return [] }
        let until = time.steady.millisecondsSince1970.adding(clamping: wait.boundedMilliseconds)
        while !Task.isCancelled {
            let mark = outboxSignal.mark(OutboxChangeTable.signal)
            let found = try await readConnection { (connection) throws(StoreError) in
                try OutboxReader.changes(connection, limit: limit)
            }
            guard found.isEmpty, time.steady.millisecondsSince1970 < until else { return found }
            await outboxSignal.wait(OutboxChangeTable.signal, since: mark, until: until) { setTimer($0) }
        }
        return []
    }

    /// Returns how many changes wait: exactly for one device, about for all.
    public func unplannedCount(ofDevice device: String?) async throws(StoreError) -> Int {
        try await readConnection { (connection) throws(StoreError) in
            let rows = try SQLStatement(
                connection,
                device == nil ? OutboxChangeTable.span : "SELECT count(*) FROM outbox_changes WHERE device = ?1"
            )
            if let device { rows.bind(1, device) }
            guard try rows.next() else { return 0 }
            defer { rows.reset() }
            return try rows.count(0)
        }
    }

    /// Replaces changes with the entries of their plans.
    public func record(_ plans: [OutboxPlan]) async throws(StoreError) {
        guard !plans.isEmpty else { return }
        let rows = plans.reduce(0) { $0 + 1 + $1.operations.count }
        try await work(rows: rows, isNew: false) { (writer) throws(StoreError) in
            let outbox = try writer.outbox.changes()
            for plan in plans {
                guard let skipped = try outbox.take(plan.change) else { continue }
                try writer.outbox.keep(plan.operations.filter { !skipped.contains($0.backend) })
            }
        }
    }

    /// Returns why nothing may be added to the outbox; nil when it has room.
    @Sendable
    static func outboxRefusal(_ writer: StoreWriter) throws(StoreError) -> StoreError? { try writer.outbox.refusal() }
}
