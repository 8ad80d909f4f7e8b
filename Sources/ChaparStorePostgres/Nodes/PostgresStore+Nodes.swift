internal import Foundation
public import ChaparCore
public import ChaparQueue
internal import Synchronization

extension PostgresStore: NodeExchange {
    /// Returns the gateways that have a place, with the time left of their leases.
    public func nodes() async throws(StoreError) -> [StoreNode] {
        let own = core.nodeNumber
        return try await session(on: core.reader) { (db) throws(PostgresError) in
            let rows = try db.run(
                """
                SELECT number, name, (extract(epoch FROM started) * 1000)::bigint,
                    (extract(epoch FROM lease_until - clock_timestamp()) * 1000)::bigint, array_to_string(backends, E'\\n')
                FROM chapar.nodes ORDER BY number
                """
            )
            return (0..<rows.count).map { row in
                StoreNode(
                    number: rows.integer(row, 0) ?? 0,
                    name: rows.text(row, 1) ?? "",
                    startedAt: Date(millisecondsSince1970: rows.integer(row, 2) ?? 0),
                    leaseLeft: .milliseconds(rows.integer(row, 3) ?? 0),
                    isSelf: rows.integer(row, 0) == own,
                    backends: rows.text(row, 4).map { Set($0.split(separator: "\n").map(String.init)) }
                )
            }
        }
    }

    /// Whether the node has renewed its lease without a gap for a whole lease.
    public var mayJudge: Bool { core.leaseHealth.mayJudge }

    /// Writes the backends into the node's row; a failed write is repeated at each renewal of the lease.
    public func declare(backends: Set<String>) async throws(StoreError) {
        let core = core
        core.declared.withLock { $0 = (backends.sorted(), 0) }
        try await session(on: core.keeper) { (db) throws(PostgresError) in try core.noteBackends(db) }
    }

    /// Queues a note to other nodes.
    public func tell(_ note: NodeNote) { core.announcer.announce(note) }

    /// Adds a listener for notes of other nodes.
    public func hear(_ listener: @escaping @Sendable (NodeNote) -> Void) { core.announcer.hear(listener) }
}
