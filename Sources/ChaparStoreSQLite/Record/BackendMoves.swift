import ChaparCore
import ChaparQueue

/// Moves what waits for one backend to another one, by a change of names only, however much waits.
///
/// Used by the writer's thread only.
final class BackendMoves {
    private let transaction: Transaction
    private let queueIndex: QueueIndex
    private let sql: MoveStatements

    init(_ transaction: Transaction) throws(StoreError) {
        self.transaction = transaction
        queueIndex = transaction.queueIndex
        sql = try MoveStatements(transaction.connection)
    }

    /// Moves the waiting deliveries of a backend to another one.
    func move(_ name: String, to other: String, _ reply: Reply<Int?>) throws(StoreError) {
        let queue = queueIndex.queue(named: name)
        guard name != other, queue.claimed == 0 else {
            transaction.pending.answers.append { reply.succeed(name == other ? 0 : nil) }
            return
        }
        try transaction.begin()
        try transaction.writeFlows()
        for statement in [sql.moveFlows, sql.redirectMoves, sql.insertMove] {
            statement.bind(1, name)
            statement.bind(2, other)
            try statement.run()
        }
        // Flows that are made later in this transaction are the other backend's.
        for (former, target) in transaction.pending.moves where target == name {
            transaction.pending.moves[former] = other
        }
        transaction.pending.moves[name] = other
        transaction.pending.answers.append { [queueIndex] in
            let waiting = queue.waiting
            queueIndex.move(queue, to: other)
            reply.succeed(waiting)
        }
    }

    /// Ends the move of a backend that is in use again.
    func endMove(of name: String) throws(StoreError) {
        guard queueIndex.moves[name] != nil else { return }
        try transaction.begin()
        sql.deleteMove.bind(1, name)
        try sql.deleteMove.run()
        transaction.pending.answers.append { [queueIndex] in queueIndex.endMove(of: name) }
    }
}

/// The statements of moves.
private struct MoveStatements {
    let moveFlows: SQLStatement
    let redirectMoves: SQLStatement
    let insertMove: SQLStatement
    let deleteMove: SQLStatement

    init(_ connection: OpaquePointer) throws(StoreError) {
        moveFlows = try SQLStatement(connection, "UPDATE flows SET backend = ?2 WHERE backend = ?1")
        redirectMoves = try SQLStatement(connection, "UPDATE moves SET target = ?2 WHERE target = ?1")
        insertMove = try SQLStatement(connection, "INSERT OR REPLACE INTO moves (backend, target) VALUES (?1, ?2)")
        deleteMove = try SQLStatement(connection, "DELETE FROM moves WHERE backend = ?1")
    }
}
