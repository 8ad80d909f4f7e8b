import ChaparCore

/// The statements about the rows of one notification, which several parts of the writer run.
struct NotificationStatements {
    let countOf: SQLStatement
    let deleteRange: SQLStatement
    let markCancelled: SQLStatement

    init(_ connection: OpaquePointer) throws(StoreError) {
        countOf = try SQLStatement(connection, "SELECT count FROM deliveries WHERE id = ?1 AND head IS NULL")
        deleteRange = try SQLStatement(connection, "DELETE FROM deliveries WHERE id >= ?1 AND id < ?2")
        markCancelled = try SQLStatement(
            connection,
            "UPDATE deliveries SET replay = replay | \(Schema.cancelled) WHERE id = ?1 AND state = 0"
        )
    }
}
