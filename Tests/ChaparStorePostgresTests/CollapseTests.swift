import Foundation
import ChaparCore
import ChaparQueue
import ChaparStoreContract
import ChaparTesting
import Testing

@testable import ChaparStorePostgres

@Suite("Collapse ids in PostgreSQL", .timeLimit(.minutes(1)))
struct CollapseTests {
    @Test("Statements are one for all, not one for each delivery")
    func statements() async throws {
        try await Nodes.use(2) { nodes in
            _ = try await statements(of: 1, "first", nodes)
            let few = try await statements(of: 2, "few", nodes)
            let many = try await statements(of: 60, "many", nodes)
            #expect(many.replacing - few.replacing < 10)
            #expect(many.waiting - few.waiting < 10)
        }
    }

    /// How many statements it takes until so many messages have replaced others on another node, and until those wait
    /// again that were claimed.
    private func statements(of count: Int, _ name: String, _ nodes: [PostgresStore]) async throws -> (
        replacing: Int64, waiting: Int64
    ) {
        func accept(_ node: PostgresStore) async throws {
            let all = (0..<count).map { node.sample(to: [.user("\(name) \($0)")], backend: name, collapseID: "order") }
            #expect(try await node.enqueue(EnqueueBatch(all)) == .accepted)
        }
        try await accept(nodes[0])
        var before = try await executions(nodes[1].core.writer)
        try await accept(nodes[1])
        let replacing = try await executions(nodes[1].core.writer) - before
        let claims = try await nodes[0].claim(backend: name, limit: count, wait: .seconds(5))
        #expect(claims.count == count)
        before = try await executions(nodes[0].core.recorder)
        try await nodes[0].record(
            claims.map { Resolution(of: $0, .retry(at: nodes[0].time.steady + 60, step: 0), attempt: [0x7B, 0x7D]) }
        )
        #expect(try await nodes[0].count("SELECT count(*) FROM chapar.waiting WHERE attempts = 1") >= count)
        return (replacing, try await executions(nodes[0].core.recorder) - before)
    }

    /// How often the statements that a connection has prepared were executed.
    private func executions(_ connection: PostgresConnection) async throws -> Int64 {
        try await connection.session { (db) throws(PostgresError) in
            try db.run("SELECT sum(generic_plans + custom_plans)::bigint FROM pg_prepared_statements").integer(0, 0)
                ?? 0
        }
    }
}
