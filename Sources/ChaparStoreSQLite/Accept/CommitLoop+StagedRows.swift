import ChaparCore
import ChaparQueue
import ChaparComposition

/// New deliveries that are staged without rows of their own, and the writing of their rows.
extension CommitLoop {
    /// Whether a new notification to one recipient is staged without a row: it is due now, and stays in memory until it
    /// is claimed.
    ///
    /// It is not asked for notifications with a collapse ID: those are searched for among the rows.
    func staysInMemory(_ flow: Flow, due: Int64, bytes: Int) -> Bool {
        due <= transaction.now && !transaction.pending.readsAgain
            && flow.hasCapacity(for: transaction.pending.effects.count + 1, bytes: transaction.pending.bytes + bytes)
    }

    /// Stages a new delivery without a row; ``recipientText`` has its recipient.
    func keep(_ entry: Entry, _ row: StagedRow.Row) {
        let staged: StagedRows
        if let begun = transaction.pending.staged {
            staged = begun
        } else {
            staged = queueIndex.makeStagedRows(at: transaction.now)
            transaction.pending.staged = staged
            stagedBytes.removeAll(keepingCapacity: true)
        }
        staged.add(entry, row)
        let plan = packed(entry.head.plan)
        StagedRowPacking.append(entry, row, recipient: recipientText, plan: plan, to: &stagedBytes)
    }

    /// Returns a plan as it is stored, which for most deliveries is that of the one before.
    private func packed(_ plan: DeliveryPlan) -> [UInt8] {
        if plan != packedPlan.plan { packedPlan = (plan, Array(plan.storedForm.utf8)) }
        return packedPlan.bytes
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
        for staged in queueIndex.staged
        where staged.at <= transaction.now.subtracting(clamping: StagedRows.oldest)
            || staged.earliestExpiry <= transaction.now
        {
            try writeOut(staged)
        }
    }

    /// Writes the rows of all staged deliveries.
    func writeOutAll() throws(StoreError) {
        for staged in queueIndex.staged { try writeOut(staged) }
    }

    private func writeOut(_ staged: StagedRows) throws(StoreError) {
        for case let entry? in staged.entries { try writeOut(entry) }
    }

    /// Writes the row of a delivery that waits or is claimed, when it has none.
    func writeOut(_ entry: Entry) throws(StoreError) {
        guard let stagedRow = entry.stagedRow else { return }
        try transaction.begin()
        recipientText.removeAll(keepingCapacity: true)
        entry.recipient.appendStoredForm(to: &recipientText)
        bindShared(
            SharedColumns(
                count: 1,
                accepted: stagedRow.row.accepted,
                scheduled: stagedRow.row.scheduled,
                plan: entry.head.plan,
                caller: stagedRow.row.caller,
                collapseID: nil
            )
        )
        let isClaimed = entry.lease != nil
        bindDelivery(
            sql.insertHead,
            entry.id,
            entry.flow,
            due: entry.due,
            expires: stagedRow.row.expires,
            mark: isClaimed ? Schema.handedOut : 0,
            collapse: entry.collapse
        )
        try runHead(sql.insertHead, stagedRow.row.content)
        if !isClaimed { transaction.pending.newExpiry = min(transaction.pending.newExpiry, stagedRow.row.expires) }
        hasRow(entry, stagedRow)
    }

    /// Archives a delivery that had no row, in its final state after one attempt or none; returns false when it has a
    /// row already.
    func archiveEnded(_ entry: Entry, as state: DeliveryState, _ attempt: [UInt8]?) throws(StoreError) -> Bool {
        guard entry.stagedRow != nil else { return false }
        try transaction.begin()
        guard let stagedRow = entry.takeStagedRow() else { return false }
        archive.add(entry, stagedRow.row, as: state, attempt: attempt, plan: packed(entry.head.plan))
        transaction.pending.end(state)
        hasRow(entry, stagedRow)
        return true
    }

    private func hasRow(_ entry: Entry, _ stagedRow: StagedRow) {
        entry.stagedRow = nil
        stagedRow.staged.leave(stagedRow.index)
        transaction.pending.written.append((entry, stagedRow))
        if stagedRow.staged.open == 0 { transaction.pending.emptied.append(stagedRow.staged) }
    }
}
