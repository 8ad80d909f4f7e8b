import ChaparCore
import ChaparComposition
import ChaparQueue

/// Writes the rows of deliveries that wait: those of new notifications, and those of staged deliveries that had none.
///
/// It owns the statements that insert deliveries, with the values that stay bound to them, and the bytes of the staged
/// row that the transaction adds. ``setRecipient(_:)`` comes before each row. Used by the writer's thread only.
final class RowWriter {
    /// The columns, except the record, that the row of a notification's number has for all of its deliveries.
    struct SharedColumns {
        var count: Int
        var scheduled: Int64?
        var caller: String
        var collapseID: String?
    }

    private let transaction: Transaction
    private let queueIndex: QueueIndex
    private let sql: RowWriterStatements
    /// The recipient of the current row, as text; kept to reuse its memory.
    @exclusivity(unchecked) private(set) var recipientText: [UInt8] = []
    /// The record of the current head, encoded; kept to reuse its memory.
    @exclusivity(unchecked) private(set) var recordBytes: [UInt8] = []
    /// The values that are bound to the statement that inserts notifications.
    private var boundCaller: String?
    private var boundCollapse: String?
    /// Whether the rows that come next have padding.
    private var hasPadding = true
    /// The staged deliveries of the transaction, in the form in which they are written.
    @exclusivity(unchecked) private var stagedBytes: [UInt8] = []

    init(_ transaction: Transaction) throws(StoreError) {
        self.transaction = transaction
        queueIndex = transaction.queueIndex
        sql = try RowWriterStatements(transaction.connection)
    }

    // MARK: Rows

    /// Sets the recipient of the row that comes next.
    func setRecipient(_ recipient: Recipient) {
        recipientText.removeAll(keepingCapacity: true)
        recipient.appendStoredForm(to: &recipientText)
    }

    /// Encodes the record of the head, or of the staged delivery, that comes next.
    func setRecord(_ record: NotificationRecord) {
        recordBytes.removeAll(keepingCapacity: true)
        record.encode(to: &recordBytes)
        let isLogged = record.partOf?.keepsAll ?? true
        if isLogged != hasPadding { setPadding(isLogged) }
    }

    /// Switches padding on or off for the next rows: most rows of a campaign that keeps only failures never get an
    /// attempt log.
    private func setPadding(_ isThere: Bool) {
        sql.bindPadding(isThere)
        hasPadding = isThere
    }

    /// Binds the shared columns of the head that comes next; those that stay the same for many notifications only when
    /// they change.
    func bindShared(_ shared: SharedColumns) {
        let statement = sql.insertHead
        statement.bind(8, shared.count)
        statement.bind(11, shared.scheduled)
        if shared.caller != boundCaller {
            statement.bind(12, shared.caller)
            boundCaller = shared.caller
        }
        if shared.collapseID != boundCollapse {
            if let id = shared.collapseID { statement.bind(13, id) } else { statement.bindNull(13) }
            boundCollapse = shared.collapseID
        }
    }

    /// Writes the row of a notification's number, which is that of its first delivery.
    func insertHead(_ entry: Entry, plan: Int, expires: Int64, mark: Int64) throws(StoreError) {
        bindDelivery(sql.insertHead, entry.key, entry.flow, expires: expires, mark: mark, collapse: entry.collapse)
        try runHead(plan: plan, accepted: entry.head.acceptedAt.millisecondsSince1970)
    }

    /// Writes the row of the one delivery of a notification of which nothing stays in memory.
    func insertHead(_ key: DueKey, _ flow: Flow, plan: Int, expires: Int64, accepted: Int64) throws(StoreError) {
        bindDelivery(sql.insertHead, key, flow, expires: expires, mark: 0, collapse: nil)
        try runHead(plan: plan, accepted: accepted)
    }

    /// Writes the row of another delivery of a notification.
    func insertChild(_ entry: Entry, plan: Int, expires: Int64, mark: Int64) throws(StoreError) {
        let statement = sql.insertChild
        bindDelivery(statement, entry.key, entry.flow, expires: expires, mark: mark, collapse: entry.collapse)
        statement.bind(8, entry.head.id.rawValue)
        statement.bind(9, entry.head.acceptedAt.millisecondsSince1970)
        statement.bind(10, plan)
        try runWithRecipient(statement)
    }

    /// Binds the columns that every row has.
    private func bindDelivery(
        _ statement: SQLStatement,
        _ key: DueKey,
        _ flow: Flow,
        expires: Int64,
        mark: Int64,
        collapse: Int64?
    ) {
        statement.bind(1, key.id)
        statement.bind(2, flow.number)
        statement.bind(3, key.due)
        statement.bind(4, expires)
        statement.bind(5, mark)
        statement.bind(6, collapse)
    }

    private func runHead(plan: Int, accepted: Int64) throws(StoreError) {
        sql.insertHead.bind(9, accepted)
        sql.insertHead.bind(10, plan)
        try recordBytes.withUnsafeBufferPointer { (bytes) throws(StoreError) in
            sql.insertHead.bindBlob(14, borrowing: bytes)
            try runWithRecipient(sql.insertHead)
        }
    }

    private func runWithRecipient(_ statement: SQLStatement) throws(StoreError) {
        try recipientText.withUnsafeBufferPointer { (bytes) throws(StoreError) in
            statement.bindText(7, borrowing: bytes)
            _ = try statement.run()
        }
    }

    // MARK: Deliveries without rows

    /// Whether a new notification to one recipient is staged without a row: it is due now, and stays in memory until it
    /// is claimed.
    ///
    /// Callers do not ask for a notification with a collapse ID, since rivals are searched for among the rows.
    func staysInMemory(_ flow: Flow, due: Int64, bytes: Int) -> Bool {
        due <= transaction.now && !transaction.pending.readsAgain
            && flow.hasCapacity(for: transaction.pending.effects.count + 1, bytes: transaction.pending.bytes + bytes)
    }

    /// Stages a new delivery without a row; ``setRecord(_:)`` came before.
    func stage(_ entry: Entry, _ row: StagedRow.Row) {
        let staged: StagedRows
        if let begun = transaction.pending.staged {
            staged = begun
        } else {
            staged = queueIndex.makeStagedRows(at: transaction.now)
            transaction.pending.staged = staged
            stagedBytes.removeAll(keepingCapacity: true)
        }
        staged.add(entry, row)
        StagedRowPacking.append(
            entry.key,
            flow: entry.flow.number,
            row,
            recipient: recipientText,
            caller: entry.flow.caller,
            record: recordBytes,
            to: &stagedBytes
        )
    }

    /// Writes the deliveries that this transaction stages, and removes staged rows whose deliveries all have rows now.
    func writeStagedRows() throws(StoreError) {
        if let new = transaction.pending.staged {
            try transaction.begin()
            sql.insertStagedRows.bind(1, new.number)
            try stagedBytes.withUnsafeBufferPointer { (bytes) throws(StoreError) in
                sql.insertStagedRows.bindBlob(2, borrowing: bytes)
                _ = try sql.insertStagedRows.run()
            }
        }
        for staged in transaction.pending.emptied where staged.open == 0 {
            sql.deleteStagedRows.bind(1, staged.number)
            try sql.deleteStagedRows.run()
        }
    }

    /// Writes the rows of the deliveries that have been without for the most commits.
    func writeOutOldest() throws(StoreError) {
        guard queueIndex.staged.count > StagedRows.most, let oldest = queueIndex.staged.first else { return }
        try writeOut(oldest)
    }

    /// Writes the rows of staged deliveries that may have expired, so that the search finds them.
    func writeOutForSearch() throws(StoreError) {
        let oldest = transaction.now.subtracting(clamping: StagedRows.oldest)
        for staged in queueIndex.staged where staged.at <= oldest || staged.earliestExpiry <= transaction.now {
            try writeOut(staged)
        }
    }

    /// Writes the rows of all staged deliveries.
    func writeOutAll() throws(StoreError) {
        for staged in queueIndex.staged { try writeOut(staged) }
    }

    /// Writes the rows of the deliveries of one commit that have none.
    func writeOut(_ staged: StagedRows) throws(StoreError) {
        for case let entry? in staged.entries { try writeOut(entry) }
    }

    /// Writes the row of a delivery that waits or is claimed, when it has none.
    func writeOut(_ entry: Entry) throws(StoreError) {
        guard let stagedRow = entry.stagedRow else { return }
        try transaction.begin()
        setRecipient(entry.recipient)
        setRecord(entry.head.record)
        bindShared(
            SharedColumns(count: 1, scheduled: stagedRow.row.scheduled, caller: entry.flow.caller, collapseID: nil)
        )
        let isClaimed = entry.lease != nil
        let mark = isClaimed ? Schema.handedOut : 0
        try insertHead(entry, plan: 0, expires: stagedRow.row.expires, mark: mark)
        if !isClaimed {
            transaction.pending.newExpiry = min(transaction.pending.newExpiry, stagedRow.row.expires)
        }
        leave(entry, stagedRow)
    }

    /// Records that a delivery is not staged any more: it has a row, or is in the archive.
    func leave(_ entry: Entry, _ stagedRow: StagedRow) {
        entry.stagedRow = nil
        stagedRow.staged.leave(stagedRow.index)
        transaction.pending.written.append((entry, stagedRow))
        if stagedRow.staged.open == 0 { transaction.pending.emptied.append(stagedRow.staged) }
    }
}

/// The statements that write rows and staged rows; bound values stay bound.
private struct RowWriterStatements {
    let insertHead: SQLStatement
    let insertChild: SQLStatement
    let insertStagedRows: SQLStatement
    let deleteStagedRows: SQLStatement

    init(_ connection: OpaquePointer) throws(StoreError) {
        insertHead = try SQLStatement(
            connection,
            """
            INSERT INTO deliveries (id, state, flow, due, expires, step, attempts, replay, mark, changed, collapse,
            recipient, count, plan, scheduled, caller, collapse_id, record, padding)
            VALUES (?1, 0, ?2, ?3, ?4, 0, 0, 0, ?5, ?9, ?6, ?7, ?8, ?10, ?11, ?12, ?13, ?14, ?15)
            """
        )
        insertChild = try SQLStatement(
            connection,
            """
            INSERT INTO deliveries (id, state, flow, due, expires, step, attempts, replay, mark, changed, collapse,
            recipient, head, plan, padding) VALUES (?1, 0, ?2, ?3, ?4, 0, 0, 0, ?5, ?9, ?6, ?7, ?8, ?10, ?11)
            """
        )
        insertStagedRows = try SQLStatement(connection, "INSERT INTO arrivals (number, packed) VALUES (?1, ?2)")
        deleteStagedRows = try SQLStatement(connection, "DELETE FROM arrivals WHERE number = ?1")
        bindPadding(true)
    }

    func bindPadding(_ isThere: Bool) {
        for (statement, place) in [(insertHead, Int32(15)), (insertChild, 11)] {
            if isThere { statement.bind(place, emptyBytes: RowPadding.initial) } else { statement.bindNull(place) }
        }
    }
}
