internal import PushCore
internal import Synchronization

/// The sessions of a node at the server, by which others end what it left when it is taken for dead.
///
/// A process that stands still, or a cut network, leaves transactions that hold locks. The server ends those that wait
/// for their next statement after a third of a lease (``PostgresConnection``); a statement that is under way goes on.
/// Behind a pooler a session is not the node's own, so none is noted.
final class NodeSessions: Sendable {
    private let connections = Mutex<[PostgresConnection]>([])

    func add(_ new: [PostgresConnection]) { connections.withLock { $0 += new } }

    /// The processes of the server that serve this node now.
    private var processes: [Int64] { connections.withLock { $0.compactMap(\.serverProcess) } }

    /// How the sessions of `pg_stat_activity` read in `nodes.sessions`: a process's number alone comes again.
    private static let name = "a.pid || ' ' || (extract(epoch FROM a.backend_start) * 1000000)::bigint"

    /// Notes the sessions of a node.
    func note(of node: Int64, _ db: isolated PostgresConnection) throws(PostgresError) {
        try db.run(
            """
            UPDATE chapar.nodes SET sessions = (
                SELECT array_agg(\(Self.name)) FROM pg_stat_activity a WHERE a.pid::bigint = ANY ($2)
            ) WHERE number = $1
            """,
            [.integer(node), .integers(processes)]
        )
    }

    /// Ends the sessions of nodes; how many.
    ///
    /// Of this user and database alone: a row of `nodes` gives nobody the right to end another's.
    static func end(of nodes: [Int64], _ db: isolated PostgresConnection) throws(PostgresError) -> Int {
        let rows = try db.run(
            """
            SELECT pg_terminate_backend(a.pid) FROM pg_stat_activity a
            WHERE a.datname = current_database() AND a.usename = current_user AND a.pid <> pg_backend_pid()
                AND \(name) IN (SELECT unnest(sessions) FROM chapar.nodes WHERE number = ANY ($1))
            """,
            [.integers(nodes)]
        )
        return (0..<rows.count).filter { rows.bool($0, 0) }.count
    }
}
