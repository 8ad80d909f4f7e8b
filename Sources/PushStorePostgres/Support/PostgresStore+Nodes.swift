internal import Foundation
public import PushCore
public import PushQueue

extension PostgresStore: NodeExchange {
    /// The gateways that have a lease.
    public func nodes() async throws(StoreError) -> [StoreNode] {
        let own = core.nodeNumber
        return try await session(on: core.reader) { (db) throws(PostgresError) in
            let rows = try db.run(
                """
                SELECT number, name, (extract(epoch FROM started) * 1000)::bigint,
                    (extract(epoch FROM lease_until - clock_timestamp()) * 1000)::bigint
                FROM chapar.nodes ORDER BY number
                """
            )
            return (0..<rows.count).map { row in
                StoreNode(
                    number: rows.integer(row, 0) ?? 0,
                    name: rows.text(row, 1) ?? "",
                    startedAt: Date(millisecondsSince1970: rows.integer(row, 2) ?? 0),
                    leaseLeft: .milliseconds(rows.integer(row, 3) ?? 0),
                    isSelf: rows.integer(row, 0) == own
                )
            }
        }
    }

    /// Hands a note to the task that tells.
    public func tell(_ note: NodeNote) { core.announcer.announce(note) }

    /// Adds a listener.
    public func hear(_ listener: @escaping @Sendable (NodeNote) -> Void) { core.announcer.hear(listener) }
}
