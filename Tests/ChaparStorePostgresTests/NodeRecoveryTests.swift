import Foundation
import ChaparCore
import ChaparQueue
import ChaparTesting
import Testing

@testable import ChaparStorePostgres

/// Claims of nodes that are dead, gone or wrong about them are freed in ranges of pages.
@Suite("Recovery of a dead node's claims", .serialized, .timeLimit(.minutes(2)))
struct NodeRecoveryTests {
    private static let deliveries = 2_000

    /// Nodes whose ranges are a few of the pages that these deliveries take.
    private func withNodes(
        _ count: Int = 1,
        pages: Int64 = 4,
        claims: Int64 = 5_000,
        _ body: ([PostgresStore]) async throws -> Void
    ) async throws {
        try await Nodes.use(count) {
            $0.pagesPerScan = pages
            $0.claimsPerTransaction = claims
            $0.nodeLease = .seconds(60)
        } _: { nodes in
            try await nodes[0].accept(to: (0..<Self.deliveries).map { .user("\($0)") })
            try await body(nodes)
        }
    }

    /// Gives everything to a node of a number, and brings it into the first pages.
    private func give(to owner: String, _ store: PostgresStore) async throws {
        try await store.session(on: store.core.keeper) { (db) throws(PostgresError) in
            try db.perform("UPDATE chapar.waiting SET owner = \(owner), lease = 5")
            try db.perform("VACUUM FULL chapar.waiting")
        }
    }

    private static let dead = "(SELECT number FROM chapar.nodes WHERE name = 'dead')"

    /// Makes nodes dead; the keepers leave their claims to the test.
    private func makeDead(_ nodes: [PostgresStore]) async throws {
        for node in nodes { await node.pauseKeeper() }
        let store = nodes[0]
        try await store.session(on: store.core.keeper) { (db) throws(PostgresError) in
            try db.perform(
                "INSERT INTO chapar.nodes (slot, name, lease_until) VALUES (63, 'dead', now() - interval '1 hour')"
            )
        }
        try await give(to: Self.dead, store)
    }

    private func oneRange(_ store: PostgresStore) async throws -> NodeRecovery.Freed {
        try await free(within: .zero, store)
    }

    private func all(_ store: PostgresStore) async throws -> NodeRecovery.Freed {
        try await free(within: .seconds(60), store)
    }

    private func free(within span: Duration, _ store: PostgresStore) async throws -> NodeRecovery.Freed {
        store.makeHealthy()
        return try await NodeRecovery.run(within: span, store.core)
    }

    private func setLease(of name: String, _ span: String, _ store: PostgresStore) async throws {
        try await store.session(on: store.core.keeper) { (db) throws(PostgresError) in
            try db.perform("UPDATE chapar.nodes SET lease_until = now() + interval '\(span)' WHERE name = '\(name)'")
        }
    }

    private func nodes(_ store: PostgresStore) async throws -> Int {
        try await store.count("SELECT count(*) FROM chapar.nodes")
    }

    private func marks(_ store: PostgresStore) async throws -> Int {
        try await store.count("SELECT count(*) FROM chapar.marks WHERE starts_with(name, 'dead')")
    }

    private func claimed(_ store: PostgresStore) async throws -> Int {
        try await store.count("SELECT count(*) FROM chapar.waiting WHERE owner IS NOT NULL")
    }

    /// Keeps what a statement locks until the body is over.
    private func locking(
        _ statement: String,
        _ store: PostgresStore,
        _ body: () async throws -> Void
    ) async throws {
        let other = PostgresConnection(store.options, name: "other")
        try await other.session { (db) throws(PostgresError) in try db.perform("BEGIN; \(statement)") }
        try await body()
        try await other.session { (db) throws(PostgresError) in try db.perform("ROLLBACK") }
        await other.close()
    }

    @Test("A node goes on where another has stopped, until everything is freed and the place with it")
    func ranges() async throws {
        try await withNodes(2) { nodes in
            try await makeDead(nodes)
            var (freed, rounds, isLeft) = (0, 0, true)
            while isLeft, rounds < 1_000 {
                let one = try await oneRange(nodes[rounds % 2])
                #expect(one.deliveries < Self.deliveries / 2)
                #expect(one.deliveries > 0 || freed == Self.deliveries, "pages were looked at twice")
                freed += one.deliveries
                rounds += 1
                isLeft = one.isLeft
            }
            #expect(rounds > 4)
            #expect(freed == Self.deliveries)
            let recovered = DeliveryRow.Flags.recovered.rawValue
            let marked = try await nodes[0].count("SELECT count(*) FROM chapar.waiting WHERE flags = \(recovered)")
            #expect(marked == Self.deliveries)
            #expect(try await claimed(nodes[0]) == 0)
            #expect(try await self.nodes(nodes[0]) == 2)
            #expect(try await marks(nodes[0]) == 0)
        }
    }

    @Test("A transaction frees so many claims at most, however many are in its pages")
    func bounded() async throws {
        try await withNodes(pages: 4_096, claims: 300) { nodes in
            let store = nodes[0]
            try await makeDead(nodes)
            var (counts, isLeft): ([Int], Bool) = ([], true)
            while isLeft, counts.count < 100 {
                let one = try await oneRange(store)
                counts.append(one.deliveries)
                isLeft = one.isLeft
            }
            #expect(counts.allSatisfy { $0 <= 300 }, "\(counts)")
            #expect(counts.reduce(0, +) == Self.deliveries)
            #expect(try await self.nodes(store) == 1)
            #expect(try await marks(store) == 0)
        }
    }

    @Test("A node that ends gives back its claims in ranges of pages, and its place behind the last")
    func leaves() async throws {
        try await withNodes(2) { nodes in
            let (leaving, other) = (nodes[0], nodes[1])
            try await give(to: "\(leaving.core.nodeNumber)", other)
            let locker = PostgresConnection(other.options, name: "locker")
            try await locker.session { (db) throws(PostgresError) in
                try db.perform("BEGIN; SELECT FROM chapar.waiting ORDER BY ctid DESC LIMIT 1 FOR UPDATE")
            }
            let closing = Task { await leaving.close() }
            // Without it the lock is let go all the same, and the expectations below fail.
            try? await eventually("half is given back", within: .seconds(10), every: .milliseconds(20)) {
                try await claimed(other) <= Self.deliveries / 2
            }
            let (left, places) = (try await claimed(other), try await self.nodes(other))
            try await locker.session { (db) throws(PostgresError) in try db.perform("ROLLBACK") }
            await closing.value
            await locker.close()
            #expect(left > 0 && left <= Self.deliveries / 2, "\(left) are not given back before the last range")
            #expect(places == 2)
            #expect(try await claimed(other) == 0)
            #expect(try await self.nodes(other) == 1)
        }
    }

    @Test("A node that comes back keeps what it has, and when it dies again everything is looked at again")
    func comesBack() async throws {
        try await withNodes { nodes in
            let store = nodes[0]
            try await makeDead(nodes)
            let first = try await oneRange(store)
            #expect(first.deliveries > 0 && first.isLeft)
            try await setLease(of: "dead", "1 minute", store)
            let none = try await all(store)
            #expect(none.deliveries == 0 && !none.isLeft)
            #expect(try await self.nodes(store) == 2)
            // It claims again what was freed of the first pages.
            try await give(to: Self.dead, store)
            try await setLease(of: "dead", "-1 minute", store)
            #expect(try await all(store).deliveries == Self.deliveries)
            #expect(try await self.nodes(store) == 1)
            #expect(try await marks(store) == 0)
        }
    }

    @Test("Who has been dead for longest is looked for to the end, also when others die meanwhile")
    func moreDie() async throws {
        try await withNodes { nodes in
            let store = nodes[0]
            try await makeDead(nodes)
            for number in 0..<60 {
                let isLeft = try await oneRange(store).isLeft
                #expect(isLeft)
                if try await store.count("SELECT count(*) FROM chapar.nodes WHERE name = 'dead'") == 0 { break }
                try await store.session(on: store.core.keeper) { (db) throws(PostgresError) in
                    try db.perform(
                        "INSERT INTO chapar.nodes (slot, name, lease_until) VALUES (\(number + 2), 'later', now() - interval '1 second')"
                    )
                }
            }
            #expect(try await claimed(store) == 0)
            #expect(try await store.count("SELECT count(*) FROM chapar.nodes WHERE name = 'dead'") == 0)
            _ = try await all(store)
            #expect(try await self.nodes(store) == 1)
        }
    }

    @Test("A delivery that another session changes at this moment delays no other, and is freed by the next sweep")
    func skips() async throws {
        try await withNodes { nodes in
            let store = nodes[0]
            try await makeDead(nodes)
            try await locking("SELECT FROM chapar.waiting ORDER BY id LIMIT 1 FOR UPDATE", store) {
                let first = try await all(store)
                #expect(first.deliveries == Self.deliveries - 1)
                #expect(!first.isLeft)
                #expect(try await self.nodes(store) == 2)
            }
            #expect(try await all(store).deliveries == 1)
            #expect(try await self.nodes(store) == 1)
        }
    }

    @Test("No node waits for one that stands still during its recovery")
    func standsStill() async throws {
        try await withNodes { nodes in
            let store = nodes[0]
            try await makeDead(nodes)
            try await locking("SELECT FROM chapar.nodes WHERE name = 'dead' FOR UPDATE", store) {
                let none = try await all(store)
                #expect(none.deliveries == 0 && !none.isLeft)
            }
            #expect(try await all(store).deliveries == Self.deliveries)
        }
    }

    @Test("Claims of a node that is gone, and those that this node knows nothing of, are freed up to the last page")
    func strayAndUnknown() async throws {
        try await withNodes { nodes in
            let store = nodes[0]
            try await give(to: "4711", store)
            var orphans = OrphanedClaims()
            var sweeps = 0
            while try await claimed(store) > 0, sweeps < 200 {
                try await orphans.sweep(store.core, every: .zero)
                sweeps += 1
            }
            #expect(sweeps > 8)
            #expect(try await claimed(store) == 0)
            try await give(to: "\(store.core.nodeNumber)", store)
            store.core.unknownClaims.note()
            try await eventually("all are freed", every: .milliseconds(20)) { try await claimed(store) == 0 }
        }
    }

    @Test("A node that was taken for dead has everything under its new number, and gives it back when it ends")
    func newNumber() async throws {
        try await withNodes { nodes in
            let store = nodes[0]
            let former = store.core.nodeNumber
            try await give(to: "\(former)", store)
            try await store.session(on: store.core.keeper) { (db) throws(PostgresError) in
                try db.perform("DELETE FROM chapar.nodes")
            }
            try await eventually("it has a new number") { store.core.nodeNumber != former }
            let number = store.core.nodeNumber
            #expect(number > former)
            func given() async throws -> Int {
                try await store.count("SELECT count(*) FROM chapar.waiting WHERE owner = \(number)")
            }
            try await eventually("its new number has all", within: .seconds(60), every: .milliseconds(50)) {
                try await given() >= Self.deliveries
            }
            #expect(try await given() == Self.deliveries)
            let options = store.options
            await store.close()
            let other = try await PostgresStore.open(options)
            let (claimed, places) = (try await claimed(other), try await self.nodes(other))
            await other.close()
            #expect(claimed == 0 && places == 1)
        }
    }

    @Test("A range reads its own pages alone")
    func plan() async throws {
        try await withNodes { nodes in
            let plan = try await nodes[0].session(on: nodes[0].core.keeper) { (db) throws(PostgresError) in
                try db.perform("ANALYZE chapar.waiting")
                let statement = ClaimedPages.statement(of: .nodes([1]))
                    .replacing("$1", with: "'(8,0)'").replacing("$2", with: "'(12,0)'").replacing("$3", with: "'{1}'")
                let rows = try db.run("EXPLAIN " + statement)
                return (0..<rows.count).compactMap { rows.text($0, 0) }
            }
            #expect(plan.contains { $0.contains("Tid Range Scan on waiting") }, "\(plan.joined(separator: "\n"))")
        }
    }
}
