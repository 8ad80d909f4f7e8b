import ChaparCore
import ChaparQueue

/// The receipts of a transaction: the table of awaited ones, whose statements are prepared when they are first needed.
///
/// Used by the writer's thread only.
final class Receipts {
    private let transaction: Transaction
    private let archive: Archive
    private var prepared: ReceiptTables?

    init(_ transaction: Transaction, _ archive: Archive) {
        self.transaction = transaction
        self.archive = archive
    }

    /// Returns the table, which is made at the first call.
    func tables() throws(StoreError) -> ReceiptTables {
        try prepared.keep(try ReceiptTables(transaction.connection, archive))
    }

    /// Records receipts, with their events.
    func record(_ receipts: [ReceiptEntry], _ reports: Reports) throws(StoreError) -> [ReceiptResult] {
        try transaction.begin()
        var results: [ReceiptResult] = []
        for receipt in receipts {
            let result = try tables().receive(
                receipt,
                now: transaction.now,
                waiting: { (id) throws(StoreError) in try reports.receive(receipt, about: id) },
                publish: { transaction.pending.events.append($0) }
            )
            results.append(result)
        }
        return results
    }
}
