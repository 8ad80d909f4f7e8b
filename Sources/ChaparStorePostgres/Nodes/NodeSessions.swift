internal import ChaparCore
internal import Synchronization

/// The server sessions of a node, so that other nodes can end them when it is declared dead.
///
/// A suspended process, or a cut network, leaves transactions that hold locks. The server ends those that wait for
/// their next statement after a third of a lease (``PostgresConnection``), but not a statement under way. Behind a
/// pooler a session is not the node's own, so none is noted.
final class NodeSessions: Sendable {
    private let connections = Mutex<[PostgresConnection]>([])

    func add(_ new: [PostgresConnection]) { connections.withLock { $0 += new } }

    /// The ids of the server processes that serve this node now.
    private var processes: [Int64] { connections.withLock { $0.compactMap(\.serverProcess) } }

    /// The SQL expression for a session in `nodes.sessions`: process ids are reused, so it has the start as well.
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

    /// Ends the sessions of nodes; returns how many.
    ///
    /// It ends only those of this user and database: a row of `nodes` gives no right to end others.
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
