import Foundation
import PushCore
import PushQueue
import PushTesting
import Testing

@testable import PushStorePostgres

/// What dead nodes had is freed in portions of the table, between which the lease is renewed.
@Suite("PostgreSQL take-over in portions", .serialized, .timeLimit(.minutes(2)))
struct TakeOverTests {
    /// More than the table's pages for these deliveries, a few of which are a portion.
    private static let deliveries = 2_000
    private static let pages: Int64 = 4

    /// A dead node that has claimed everything.
    private func makeDead(_ store: PostgresStore) async throws {
        try await store.accept(to: (0..<Self.deliveries).map { .user("\($0)") })
        try await store.session(on: store.core.keeper) { (db) throws(PostgresError) in
            try db.perform(
                """
                INSERT INTO chapar.nodes (slot, name, lease_until) VALUES (63, 'dead', now() - interval '1 hour');
                UPDATE chapar.waiting SET owner = (SELECT number FROM chapar.nodes WHERE name = 'dead'), lease = 5;
                """
            )
            // So that the rows are in the first pages again.
            try db.perform("VACUUM FULL chapar.waiting")
        }
    }

    private func portion(_ store: PostgresStore) async throws -> TakeOver.Freed {
        try await TakeOver.run(within: .zero, pages: Self.pages, store.core)
    }

    @Test("A node goes on where another has stopped, until everything is freed and the place with it")
    func portions() async throws {
        try await Nodes.use(2) { nodes in
            try await makeDead(nodes[0])
            var (freed, rounds) = (0, 0)
            while true {
                let one = try await portion(nodes[rounds % 2])
                freed += one.deliveries
                rounds += 1
                if !one.isLeft { break }
                #expect(one.deliveries < Self.deliveries / 2)
                #expect(one.deliveries > 0 || freed == Self.deliveries, "pages were looked at twice")
                guard rounds < 1_000 else { break }
            }
            #expect(rounds > 4)
            #expect(freed == Self.deliveries)
            let recovered = DeliveryRow.Flags.recovered.rawValue
            #expect(
                try await nodes[0].count("SELECT count(*) FROM chapar.waiting WHERE owner IS NULL AND flags = \(recovered)")
                    == Self.deliveries
            )
            #expect(try await nodes[0].count("SELECT count(*) FROM chapar.nodes WHERE name = 'dead'") == 0)
            #expect(try await nodes[0].count("SELECT count(*) FROM chapar.marks WHERE starts_with(name, 'dead')") == 0)
            #expect(try await portion(nodes[0]).deliveries == 0)
        }
    }

    @Test("A node that comes back keeps what it has, and when it dies again everything is looked at again")
    func comesBack() async throws {
        try await Nodes.use { nodes in
            let store = nodes[0]
            try await makeDead(store)
            let first = try await portion(store)
            #expect(first.deliveries > 0 && first.isLeft)
            func setLease(_ span: String) async throws {
                try await store.session(on: store.core.keeper) { (db) throws(PostgresError) in
                    try db.perform("UPDATE chapar.nodes SET lease_until = now() + interval '\(span)' WHERE name = 'dead'")
                }
            }
            try await setLease("1 minute")
            #expect(try await portion(store).deliveries == 0)
            // It claims again what was freed of the first pages.
            try await store.session(on: store.core.keeper) { (db) throws(PostgresError) in
                try db.perform(
                    """
                    UPDATE chapar.waiting SET owner = (SELECT number FROM chapar.nodes WHERE name = 'dead') WHERE owner IS NULL;
                    """
                )
                try db.perform("VACUUM FULL chapar.waiting")
            }
            try await setLease("-1 minute")
            let rest = try await TakeOver.run(within: .seconds(60), pages: Self.pages, store.core)
            #expect(rest.deliveries == Self.deliveries)
            #expect(try await store.count("SELECT count(*) FROM chapar.marks WHERE starts_with(name, 'dead')") == 0)
        }
    }

    @Test("A delivery that somebody else changes at this moment holds up no other, and is freed the next time")
    func heldUp() async throws {
        try await Nodes.use { nodes in
            let store = nodes[0]
            try await makeDead(store)
            let other = PostgresConnection(store.options, name: "late")
            try await other.session { (db) throws(PostgresError) in
                try db.perform("BEGIN; SELECT FROM chapar.waiting ORDER BY id LIMIT 1 FOR UPDATE")
            }
            let first = try await TakeOver.run(within: .seconds(60), store.core)
            #expect(first.deliveries == Self.deliveries - 1)
            #expect(!first.isLeft)
            #expect(try await store.count("SELECT count(*) FROM chapar.nodes WHERE name = 'dead'") == 1)
            try await other.session { (db) throws(PostgresError) in try db.perform("ROLLBACK") }
            await other.close()
            #expect(try await TakeOver.run(within: .seconds(60), store.core).deliveries == 1)
            #expect(try await store.count("SELECT count(*) FROM chapar.nodes WHERE name = 'dead'") == 0)
        }
    }

    @Test("A portion reads its own pages alone")
    func plan() async throws {
        try await Nodes.use { nodes in
            try await makeDead(nodes[0])
            let pages = try await nodes[0].session(on: nodes[0].core.keeper) { (db) throws(PostgresError) in
                try db.perform("ANALYZE chapar.waiting; SET enable_seqscan = on")
                let statement = ClaimedPortion.statement(of: .dead([1]))
                    .replacing("$1", with: "'(8,0)'").replacing("$2", with: "'(12,0)'").replacing("$3", with: "'{1}'")
                let rows = try db.run("EXPLAIN (ANALYZE, BUFFERS) " + statement)
                return (0..<rows.count).compactMap { rows.text($0, 0) }
            }
            #expect(pages.contains { $0.contains("Tid Range Scan on waiting") }, "\(pages.joined(separator: "\n"))")
        }
    }
}
