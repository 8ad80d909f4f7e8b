import ChaparCore
import ChaparQueue

/// The transaction of the commit loop: its time, its connection, and the changes that follow its commit.
///
/// It begins with the first write. All that writes does so within it, and says in ``pending`` what memory and callers
/// get once it is committed. After the commit it changes the ``QueueIndex``; before, memory shows claims only, which
/// ``rollBack()`` undoes. ``CommitLoop`` owns it, and decides when it starts and ends. Used by the writer's thread
/// only.
final class Transaction {
    let core: StoreCore
    let queueIndex: QueueIndex
    let connection: OpaquePointer
    private let sql: TransactionStatements
    private let reading: RowStatements
    /// The changes that follow the commit; not checked for exclusive access, since one thread uses it, and often.
    @exclusivity(unchecked) var pending = PendingChanges()
    /// Its time, in milliseconds since 1970.
    private(set) var now: Int64 = 0

    init(core: StoreCore, queueIndex: QueueIndex, connection: OpaquePointer) throws(StoreError) {
        self.core = core
        self.queueIndex = queueIndex
        self.connection = connection
        sql = try TransactionStatements(connection)
        reading = try RowStatements(connection)
    }

    // MARK: Start and end

    /// Sets the time of the transactions that follow.
    func start(at moment: Int64) { now = moment }

    /// Opens the transaction, once something is to be written.
    func begin() throws(StoreError) {
        guard !pending.isOpen else { return }
        try sql.begin.run()
        pending.isOpen = true
    }

    /// Commits it; memory does not show it before ``apply()``.
    func commit() throws(StoreError) { try sql.commit.run() }

    /// Undoes a transaction that failed, in the file and in memory.
    func rollBack() {
        SQLStatement.resetAll(connection)
        if pending.isOpen { _ = try? sql.rollback.run() }
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

    // MARK: After the commit

    /// Applies the committed transaction to memory.
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
        queueIndex.expiry.note(new: pending.newExpiry)
    }

    /// Calls the observers, when there is news for them.
    func notifyObservers() {
        var change = StoreChange()
        change.accepted = pending.added
        change.ignored = pending.ignored
        for (code, count) in pending.ends.enumerated() where count > 0 {
            if let state = DeliveryState(code: Int64(code)) { change.ended[state] = count }
        }
        if change != StoreChange() { core.observers.notify(change) }
    }

    /// Answers the calls that got deliveries; one that got none waits on, before calls that came later.
    func answerClaims() {
        for assignment in pending.assignments {
            if assignment.entries.isEmpty {
                queueIndex.queue(named: assignment.ticket.backend).tickets.insert(assignment.ticket, at: 0)
            } else {
                queueIndex.start(assignment.lease)
                assignment.ticket.answer(.success(assignment.entries.map(\.delivery)))
            }
        }
    }

    // MARK: Parts of it that all may write

    /// Takes a delivery from its owner, as part of this transaction.
    func endClaim(_ entry: Entry) {
        _ = queueIndex.removeClaim(entry.id)
        pending.taken.append(entry)
        if let lease = entry.lease { pending.endedClaims[lease.number, default: 0] += 1 }
    }

    /// Writes the flows that are new in this transaction.
    func writeFlows() throws(StoreError) {
        guard pending.isOpen else { return }
        for flow in queueIndex.unsavedFlows {
            sql.insertFlow.bind(1, flow.number)
            // Memory applies a move after the commit, so the queue still has its former name.
            sql.insertFlow.bind(2, pending.moves[flow.queue.name] ?? flow.queue.name)
            sql.insertFlow.bind(3, flow.isUrgent ? 1 : 0)
            sql.insertFlow.bind(4, flow.caller)
            try sql.insertFlow.run()
        }
    }

    /// Keeps a small value under a name, or removes it, as part of the transaction.
    func saveState(_ name: String, _ value: [UInt8]?) throws(StoreError) {
        try begin()
        let statement = value == nil ? sql.deleteState : sql.saveState
        statement.bind(1, name)
        if let value { statement.bind(2, blob: value) }
        try statement.run()
    }

    /// Saves a number under a name.
    func saveMark(_ name: String, _ value: Int64) throws(StoreError) {
        sql.saveMark.bind(1, name)
        sql.saveMark.bind(2, value)
        try sql.saveMark.run()
    }

    /// Makes a reader of waiting deliveries; those that it reads share the contents of their notifications.
    func makeReader() -> RowReader { RowReader(reading, queueIndex, core.status) }
}

/// The statements of every transaction.
private struct TransactionStatements {
    let begin: SQLStatement
    let commit: SQLStatement
    let rollback: SQLStatement
    let insertFlow: SQLStatement
    let saveState: SQLStatement
    let deleteState: SQLStatement
    let saveMark: SQLStatement

    init(_ connection: OpaquePointer) throws(StoreError) {
        begin = try SQLStatement(connection, "BEGIN IMMEDIATE")
        commit = try SQLStatement(connection, "COMMIT")
        rollback = try SQLStatement(connection, "ROLLBACK")
        insertFlow = try SQLStatement(
            connection,
            "INSERT OR IGNORE INTO flows (number, backend, urgent, caller) VALUES (?1, ?2, ?3, ?4)"
        )
        saveState = try SQLStatement(connection, "INSERT OR REPLACE INTO state (name, value) VALUES (?1, ?2)")
        deleteState = try SQLStatement(connection, "DELETE FROM state WHERE name = ?1")
        saveMark = try SQLStatement(connection, "INSERT OR REPLACE INTO marks (name, value) VALUES (?1, ?2)")
    }
}
