import Foundation
import ChaparCore
import ChaparQueue

/// The device registry of a transaction: its tables, whose statements are prepared when they are first needed, and the
/// outbox, which gets the changes.
///
/// Used by the writer's thread only.
final class DeviceWriter {
    private let transaction: Transaction
    private let outbox: OutboxWriter
    private var prepared: DeviceTables?

    init(_ transaction: Transaction, _ outbox: OutboxWriter) {
        self.transaction = transaction
        self.outbox = outbox
    }

    private func tables() throws(StoreError) -> DeviceTables {
        try prepared.keep(try DeviceTables(transaction.connection))
    }

    /// Changes the registry; with an `outbox` time the changes go into the outbox.
    func change<Value>(
        outbox moment: Date?,
        _ body: (DeviceTables) throws(StoreError) -> Value
    ) throws(StoreError) -> Value {
        let tables = try tables()
        let (value, changes) = try tables.collecting(moment != nil, body)
        let changed = tables.labels.changed
        if !changed.isEmpty {
            // Before the caller's own answer.
            transaction.pending.answers.append { [core = transaction.core] in core.subjects.forget(changed) }
        }
        if let moment { try outbox.keep(changes, at: moment) }
        return value
    }

    /// Puts devices into the outbox as if they were new; returns how many.
    func introduce(_ ids: [String], to backend: String, at moment: Date) throws(StoreError) -> Int {
        let changes = try tables().introductions(of: ids, to: backend)
        try outbox.keep(changes, at: moment)
        return changes.count
    }
}
