import ChaparCore

/// The parts of the writer that a ``TableWork`` uses, within the transaction that runs it.
///
/// ``CommitLoop`` makes it once. Used by the writer's thread only.
final class StoreWriter {
    let transaction: Transaction
    let outbox: OutboxWriter
    let devices: DeviceWriter
    let receipts: Receipts
    let reports: Reports
    let withdrawals: Withdrawals
    let erasing: Erasing
    let freePages: FreePages
    let searchIndex: SearchIndex
    private var preparedWebhooks: WebhookTable?
    private var preparedSeries: SeriesTable?

    init(
        _ transaction: Transaction,
        _ receipts: Receipts,
        _ reports: Reports,
        _ withdrawals: Withdrawals,
        _ erasing: Erasing,
        _ freePages: FreePages,
        _ searchIndex: SearchIndex
    ) {
        self.transaction = transaction
        outbox = OutboxWriter(transaction)
        devices = DeviceWriter(transaction, outbox)
        self.receipts = receipts
        self.reports = reports
        self.withdrawals = withdrawals
        self.erasing = erasing
        self.freePages = freePages
        self.searchIndex = searchIndex
    }

    /// Returns the tables of webhooks, whose statements are prepared at the first call.
    func webhooks() throws(StoreError) -> WebhookTable {
        try preparedWebhooks.keep(try WebhookTable(transaction.connection))
    }

    /// Returns the table of counts over time, whose statements are prepared at the first call.
    func series() throws(StoreError) -> SeriesTable {
        try preparedSeries.keep(try SeriesTable(transaction.connection))
    }
}
