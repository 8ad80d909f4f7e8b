import ChaparCore
import ChaparQueue

/// The end of a transaction: memory and callers get it after the commit, or memory undoes it.
extension CommitLoop {
    /// Applies the committed transaction to memory, and answers callers.
    func apply() {
        if pending.isOpen { queueIndex.flowsWereSaved() }
        if let new = pending.staged { queueIndex.keep(new) }
        if !pending.emptied.isEmpty { queueIndex.dropEmptyStagedRows() }
        for effect in pending.effects {
            switch effect {
            case .added(let entry): entry.flow.add(entry, now: now)
            case .stored(let flow, let key): flow.add(onDisk: key)
            case .ended(let entry): queueIndex.endClaim(entry, now: now)
            case .returned(let old, let new):
                queueIndex.endClaim(old, now: now)
                new.flow.add(new, now: now)
            case .removed(let flow, let key, let collapse): queueIndex.remove(key, collapse: collapse, from: flow)
            }
        }
        core.waiting = queueIndex.waiting
        queueIndex.expiryFloor = min(queueIndex.expiryFloor, pending.newExpiry)
        expiryRound.lowest = min(expiryRound.lowest, pending.newExpiry)
        lastEvent = lastEvent.adding(clamping: Int64(pending.events.count))
        noteCommitted()
        notifyObservers()
        core.feed.append(pending.events)
        for assignment in pending.assignments {
            if assignment.entries.isEmpty {
                // It got nothing and waits on, before calls that came later.
                queueIndex.queue(named: assignment.ticket.backend).tickets.insert(assignment.ticket, at: 0)
            } else {
                queueIndex.start(assignment.lease)
                assignment.ticket.answer(.success(assignment.entries.map(\.delivery)))
            }
        }
        for (rows, flow, reply) in pending.accepted { backPressure.accept(rows, in: flow, reply) }
        for answer in pending.answers { answer() }
    }

    /// Notes the newest committed event outside of the database, once a second while there are new ones.
    func noteCommitted() {
        guard let moment = nextCommittedNote, now >= moment else { return }
        committedNoted = (now, lastEvent)
        core.noteCommitted(lastEvent)
    }

    /// The time of the next note; nil while nothing new is committed.
    var nextCommittedNote: Int64? {
        guard lastEvent != committedNoted.event else { return nil }
        return committedNoted.at.adding(clamping: Self.committedInterval)
    }

    private func notifyObservers() {
        var change = StoreChange()
        change.accepted = pending.added
        change.ignored = pending.ignored
        for (code, count) in pending.ends.enumerated() where count > 0 {
            if let state = DeliveryState(code: Int64(code)) { change.ended[state] = count }
        }
        if change != StoreChange() { core.observers.notify(change) }
    }

    /// Undoes in memory a transaction that failed.
    func rollBack() {
        for (entry, waited) in pending.given.reversed() {
            queueIndex.undoClaim(entry, now: now)
            if waited { entry.flow.add(entry, now: now) }
        }
        for (entry, stagedRow) in pending.written.reversed() { stagedRow.staged.restore(entry, stagedRow) }
        pending.staged?.forget()
        for entry in pending.taken { queueIndex.restoreClaim(entry) }
        for assignment in pending.assignments.reversed() {
            queueIndex.queue(named: assignment.ticket.backend).tickets.insert(assignment.ticket, at: 0)
        }
    }
}
