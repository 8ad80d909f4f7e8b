import Foundation
import ChaparCore
import ChaparQueue

/// The outbox of a transaction: its tables, whose statements are prepared when they are first needed, and the calls
/// that are woken after the commit.
///
/// Used by the writer's thread only.
final class OutboxWriter {
    private let transaction: Transaction
    private var preparedChanges: OutboxChangeTable?
    private var preparedEntries: OutboxEntryTable?

    init(_ transaction: Transaction) { self.transaction = transaction }

    /// Returns the table of changes that are not planned, which is made at the first call.
    func changes() throws(StoreError) -> OutboxChangeTable {
        try preparedChanges.keep(try OutboxChangeTable(transaction.connection))
    }

    /// Returns the table of entries, which is made at the first call.
    func entries() throws(StoreError) -> OutboxEntryTable {
        try preparedEntries.keep(try OutboxEntryTable(transaction.connection, transaction.core.status))
    }

    /// Returns why nothing may be added; nil when there is room.
    func refusal() throws(StoreError) -> StoreError? {
        guard try changes().backlog() >= transaction.core.options.maximumUnplannedChanges else { return nil }
        return .full(reason: "devices change faster than platforms can be told of it", retryAfter: .seconds(5))
    }

    /// Keeps changes as a part of this transaction.
    func keep(_ changes: [OutboxChange.Content], at moment: Date) throws(StoreError) {
        guard !changes.isEmpty else { return }
        let table = try self.changes()
        for change in changes { try table.add(change, at: moment.millisecondsSince1970) }
        notify([OutboxChangeTable.signal])
    }

    /// Adds entries as a part of this transaction.
    func keep(_ operations: [OutboxEntry]) throws(StoreError) {
        guard !operations.isEmpty else { return }
        let table = try entries()
        for operation in operations { try table.add(operation, now: transaction.now) }
        notify(Set(operations.map(\.backend)))
    }

    /// Wakes calls that wait for entries of these backends, once this transaction is committed.
    func notify(_ backends: Set<String>) {
        transaction.pending.answers.append { [core = transaction.core] in core.outboxSignal.notify(backends) }
    }
}
