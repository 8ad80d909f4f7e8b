import PushCore
import PushQueue

/// What follows a transaction: memory and callers learn of it, or memory forgets it.
extension CommitLoop {
    /// Shows in memory what was committed, and answers.
    func apply() {
        if journal.isOpen { book.flowsWereSaved() }
        if let new = journal.arrivals { book.keep(new) }
        if !journal.emptied.isEmpty { book.dropEmptyArrivals() }
        for effect in journal.effects {
            switch effect {
            case .added(let entry): entry.flow.add(entry, now: now)
            case .stored(let flow, let key): flow.add(onDisk: key)
            case .ended(let entry): book.settle(entry, now: now)
            case .returned(let old, let new):
                book.settle(old, now: now)
                new.flow.add(new, now: now)
            case .removed(let flow, let key, let collapse): book.remove(key, collapse: collapse, from: flow)
            }
        }
        book.expiryFloor = min(book.expiryFloor, journal.newExpiry)
        expiryRound.lowest = min(expiryRound.lowest, journal.newExpiry)
        lastEvent += Int64(journal.events.count)
        tellObservers()
        core.feed.append(journal.events)
        for assignment in journal.assignments {
            if assignment.entries.isEmpty {
                // Nothing came of it: it waits on, before those that came later.
                book.queue(named: assignment.ticket.backend).tickets.insert(assignment.ticket, at: 0)
            } else {
                book.start(assignment.lease)
                assignment.ticket.answer(.success(assignment.entries.map(\.delivery)))
            }
        }
        for (rows, flow, reply) in journal.accepted { pacer.accept(rows, in: flow, reply) }
        for answer in journal.answers { answer() }
    }

    private func tellObservers() {
        var change = StoreChange()
        change.accepted = journal.added
        change.ignored = journal.ignored
        for (code, count) in journal.ends.enumerated() where count > 0 {
            if let state = DeliveryState(code: Int64(code)) { change.ended[state] = count }
        }
        if change != StoreChange() { core.observers.tell(change) }
    }

    /// Undoes what memory shows of a transaction that failed.
    func takeBack() {
        for (entry, waited) in journal.given.reversed() {
            book.takeBack(entry, now: now)
            if waited { entry.flow.add(entry, now: now) }
        }
        for (entry, arrival) in journal.written.reversed() { arrival.arrivals.restore(entry, arrival) }
        journal.arrivals?.forget()
        for entry in journal.taken { book.restore(entry) }
        for assignment in journal.assignments.reversed() {
            book.queue(named: assignment.ticket.backend).tickets.insert(assignment.ticket, at: 0)
        }
    }
}
