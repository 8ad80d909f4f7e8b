import PushCore
import PushQueue
import PushComposition

/// New deliveries without rows of their own, and their rows in the end.
extension CommitLoop {
    /// Whether a new notification to one recipient is kept without a row: it goes now, and stays in memory until it is
    /// claimed.
    ///
    /// One that replaces others is not asked about: it is looked for among the rows.
    func staysInMemory(_ flow: Flow, due: Int64, bytes: Int) -> Bool {
        due <= now && !journal.readsAgain && flow.hasRoom(for: journal.effects.count + 1, bytes: journal.bytes + bytes)
    }

    /// Keeps a new delivery without a row; ``recipientText`` has its recipient.
    func keep(_ entry: Entry, _ row: Arrival.Row) {
        let arrivals: StagedRows
        if let begun = journal.arrivals {
            arrivals = begun
        } else {
            arrivals = book.makeArrivals(at: now)
            journal.arrivals = arrivals
            arrivalBytes.removeAll(keepingCapacity: true)
        }
        arrivals.add(entry, row)
        let plan = packed(entry.head.plan)
        ArrivalPacking.append(entry, row, recipient: recipientText, plan: plan, to: &arrivalBytes)
    }

    /// A plan as it is stored, which for most deliveries is that of the one before.
    private func packed(_ plan: DeliveryPlan) -> [UInt8] {
        if plan != packedPlan.plan { packedPlan = (plan, Array(plan.storedForm.utf8)) }
        return packedPlan.bytes
    }

    /// Writes what this transaction keeps without rows, and removes what has only rows now.
    func writeArrivals() throws(StoreError) {
        if let new = journal.arrivals {
            try begin()
            sql.insertArrivals.bind(1, new.number)
            try arrivalBytes.withUnsafeBufferPointer { (bytes) throws(StoreError) in
                sql.insertArrivals.bindBlob(2, borrowing: bytes)
                _ = try sql.insertArrivals.run()
            }
        }
        for arrivals in journal.emptied where arrivals.open == 0 {
            sql.deleteArrivals.bind(1, arrivals.number)
            try sql.deleteArrivals.run()
        }
    }

    /// Gives rows to the deliveries that have been without for the most commits.
    func writeOutOldest() throws(StoreError) {
        guard book.arrivals.count > StagedRows.most, let oldest = book.arrivals.first else { return }
        try writeOut(oldest)
    }

    /// Gives rows to what may have expired, so that the search for it finds it.
    func writeOutForSearch() throws(StoreError) {
        for arrivals in book.arrivals where arrivals.at + StagedRows.oldest <= now || arrivals.earliestExpiry <= now {
            try writeOut(arrivals)
        }
    }

    /// Gives rows to everything that has none.
    func writeOutAll() throws(StoreError) {
        for arrivals in book.arrivals { try writeOut(arrivals) }
    }

    private func writeOut(_ arrivals: StagedRows) throws(StoreError) {
        for case let entry? in arrivals.entries { try writeOut(entry) }
    }

    /// Gives a row to a delivery that waits or is claimed, when it has none.
    func writeOut(_ entry: Entry) throws(StoreError) {
        guard let arrival = entry.arrival else { return }
        try begin()
        recipientText.removeAll(keepingCapacity: true)
        entry.recipient.appendStoredForm(to: &recipientText)
        bindShared(
            SharedColumns(
                count: 1,
                accepted: arrival.row.accepted,
                scheduled: arrival.row.scheduled,
                plan: entry.head.plan,
                caller: arrival.row.caller,
                collapseID: nil
            )
        )
        let isClaimed = entry.lease != nil
        bindDelivery(
            sql.insertHead,
            entry.id,
            entry.flow,
            due: entry.due,
            expires: arrival.row.expires,
            mark: isClaimed ? Schema.handedOut : 0,
            collapse: entry.collapse
        )
        try runHead(sql.insertHead, arrival.row.content)
        if !isClaimed { journal.newExpiry = min(journal.newExpiry, arrival.row.expires) }
        hasRow(entry, arrival)
    }

    /// Puts a delivery that had no row into the archive, in the final state that its first attempt or the lack of one led
    /// to; false when it has a row already.
    func archiveEnded(_ entry: Entry, as state: DeliveryState, _ attempt: [UInt8]?) throws(StoreError) -> Bool {
        guard entry.arrival != nil else { return false }
        try begin()
        guard let arrival = entry.takeArrival() else { return false }
        archive.add(entry, arrival.row, as: state, attempt: attempt, plan: packed(entry.head.plan))
        journal.end(state)
        hasRow(entry, arrival)
        return true
    }

    private func hasRow(_ entry: Entry, _ arrival: Arrival) {
        entry.arrival = nil
        arrival.arrivals.leave(arrival.place)
        journal.written.append((entry, arrival))
        if arrival.arrivals.open == 0 { journal.emptied.append(arrival.arrivals) }
    }
}
