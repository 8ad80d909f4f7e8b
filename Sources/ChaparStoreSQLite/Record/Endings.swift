import ChaparCore
import ChaparComposition
import ChaparQueue

/// Ends deliveries: writes their final states, in their rows or in the archive, and takes them from memory after the
/// commit.
///
/// Used by the writer's thread only.
final class Endings {
    private let transaction: Transaction
    private let rows: RowWriter
    private let archive: Archive
    private let searchIndex: SearchIndex
    private let sql: EndingStatements

    init(_ transaction: Transaction, _ rows: RowWriter, _ archive: Archive, _ searchIndex: SearchIndex)
        throws(StoreError)
    {
        self.transaction = transaction
        self.rows = rows
        self.archive = archive
        self.searchIndex = searchIndex
        sql = try EndingStatements(transaction.connection)
    }

    /// Archives a delivery that had no row, in its final state after one attempt or none; returns false when it has a
    /// row already.
    func archiveEnded(
        _ entry: Entry,
        as state: DeliveryState,
        _ attempt: [UInt8]?
    ) throws(StoreError) -> Bool {
        guard entry.stagedRow != nil else { return false }
        try transaction.begin()
        guard let stagedRow = entry.takeStagedRow() else { return false }
        archive.add(entry, stagedRow.row, as: state, attempt: attempt)
        if state.isDead { try searchIndex.addEnd(entry.id) }
        transaction.pending.end(state)
        rows.leave(entry, stagedRow)
        return true
    }

    /// Writes the final state of a delivery after its first attempt, without moving the row.
    func endAtOnce(_ id: Int64, as state: DeliveryState, _ attempt: [UInt8]) throws(StoreError) -> Bool {
        let statement = sql.endAtOnce
        statement.bind(1, id)
        statement.bind(2, state.code)
        statement.bind(3, transaction.now)
        if let padding = RowPadding.left(beside: attempt.count) {
            statement.bind(5, emptyBytes: padding)
        } else {
            statement.bindNull(5)
        }
        let isNews =
            try attempt.withUnsafeBufferPointer { (bytes) throws(StoreError) in
                statement.bindText(4, borrowing: bytes)
                return try statement.run()
            } == 1
        if isNews { transaction.pending.end(state) }
        return isNews
    }

    /// Writes a final state; returns false when the delivery had one already.
    ///
    /// The addition to its log counts as an attempt unless `isCounted` is false.
    @discardableResult
    func end(
        _ id: Int64,
        as state: DeliveryState,
        attempt: [UInt8]?,
        isCounted: Bool = true
    ) throws(StoreError) -> Bool {
        assert(DeliveryState.transitions.allows(from: .sending, to: state))
        try transaction.begin()
        let statement = sql.end
        statement.bind(1, id)
        statement.bind(2, state.code)
        statement.bind(3, transaction.now)
        statement.bind(4, attempt == nil || !isCounted ? 0 : 1)
        statement.bind(5, 0)
        let isNews = try statement.run(attempt: attempt) == 1
        if isNews { transaction.pending.end(state) }
        return isNews
    }

    /// Writes the final states of deliveries that leave no attempt, and empties the list.
    ///
    /// Those with consecutive numbers have one statement, which costs a third of one for each.
    func end(_ ends: inout [(id: Int64, state: DeliveryState)]) throws(StoreError) {
        ends.sort { $0.id < $1.id }
        var run: EndRun?
        for (id, state) in ends {
            if run?.add(id, state) == true { continue }
            if let run { try end(run) }
            run = EndRun(first: id, state: state)
        }
        if let run { try end(run) }
        ends.removeAll(keepingCapacity: true)
    }

    private func end(_ run: EndRun) throws(StoreError) {
        guard run.count > 1 else {
            try end(run.first, as: run.state, attempt: nil)
            return
        }
        try transaction.begin()
        let statement = sql.endRun
        statement.bind(1, run.first)
        statement.bind(2, run.first.adding(clamping: run.count))
        statement.bind(3, run.state.code)
        statement.bind(4, transaction.now)
        let count = try statement.run()
        transaction.pending.end(run.state, count: count)
    }

    /// Moves a delivery that ended while it waited for the next backend to the flow of the backend that accepted it.
    ///
    /// It changes nothing for a delivery that no backend has accepted.
    func giveBack(_ entry: Entry, _ attempt: [UInt8]? = nil) throws(StoreError) {
        guard let step = entry.head.plan.acceptingStep(entry.attemptLog, attempt) else { return }
        let flow = transaction.queueIndex.flow(
            of: entry.head.plan.backend(at: step),
            isUrgent: entry.flow.isUrgent,
            caller: entry.flow.caller
        )
        sql.giveBack.bind(1, entry.id)
        sql.giveBack.bind(2, flow.number)
        try sql.giveBack.run()
    }

    /// Ends a waiting delivery.
    func withdraw(_ entry: Entry, _ event: (@Sendable (ClaimedDelivery, DeliveryState) -> [UInt8])?) throws(StoreError)
    {
        let state = entry.withdrawnState
        try end(entry.id, as: state, attempt: nil)
        if state == .acceptedByPlatform { try giveBack(entry) }
        transaction.pending.append(.removed(entry.flow, entry.key, entry.collapseKey))
        if let event { transaction.pending.events.append(event(entry.delivery, state)) }
    }

    /// Takes a delivery that ended from memory, and from its owner when it is claimed.
    func finish(_ entry: Entry, _ isClaimed: Bool) {
        if isClaimed {
            transaction.endClaim(entry)
            transaction.pending.append(.ended(entry))
        } else {
            transaction.pending.append(.removed(entry.flow, entry.key, entry.collapseKey))
        }
    }
}

/// Deliveries with consecutive numbers that end in one state.
private struct EndRun {
    var first: Int64
    var count: Int64 = 1
    var state: DeliveryState

    /// Adds a delivery; returns false when it does not follow.
    mutating func add(_ id: Int64, _ state: DeliveryState) -> Bool {
        guard state == self.state, id == first.adding(clamping: count) else { return false }
        count = count.adding(clamping: 1)
        return true
    }
}

/// The statements that write final states.
private struct EndingStatements {
    let end: SQLStatement
    let endRun: SQLStatement
    let endAtOnce: SQLStatement
    let giveBack: SQLStatement

    init(_ connection: OpaquePointer) throws(StoreError) {
        end = try SQLStatement(
            connection,
            "UPDATE deliveries SET state = ?2, \(AttemptColumns.assignments) WHERE id = ?1 AND state = 0"
        )
        endRun = try SQLStatement(
            connection,
            "UPDATE deliveries SET state = ?3, changed = ?4 WHERE id >= ?1 AND id < ?2 AND state = 0"
        )
        giveBack = try SQLStatement(connection, "UPDATE deliveries SET flow = ?2 WHERE id = ?1")
        endAtOnce = try SQLStatement(
            connection,
            "UPDATE deliveries SET state = ?2, attempts = 1, changed = ?3, attempt_log = ?4, padding = ?5 WHERE id = ?1 AND state = 0"
        )
    }
}
