import ChaparCore
import ChaparQueue
import ChaparTesting
import Synchronization
import Testing

@testable import ChaparStorePostgres

@Suite("PostgreSQL counts of what waits", .serialized, .timeLimit(.minutes(2)))
struct DepthTests {
    @Test("Calls that come while a count is under way get that one, and other reads do not wait for it")
    func shared() async throws {
        try await Nodes.use { nodes in
            let store = nodes[0]
            try await store.accept(to: [.user("ada")])
            let other = PostgresConnection(store.options, name: "other")
            try await other.session { (db) throws(PostgresError) in
                try db.perform("BEGIN; LOCK TABLE chapar.waiting IN ACCESS EXCLUSIVE MODE")
            }
            try await withThrowingTaskGroup(of: [String: QueueDepth].self) { group in
                for _ in 0..<5 { group.addTask { try await store.depths() } }
                // A count that takes less is not kept.
                try await eventually("a count has waited for the table for long", every: .milliseconds(20)) {
                    try await other.session { (db) throws(PostgresError) in
                        try db.run(
                            """
                            SELECT EXISTS (
                                SELECT FROM pg_locks WHERE NOT granted AND relation = 'chapar.waiting'::regclass
                                AND waitstart < clock_timestamp() - interval '200 milliseconds'
                            )
                            """
                        )
                        .bool(0, 0)
                    }
                }
                try await store.session(on: store.core.reader) { (db) throws(PostgresError) in
                    #expect(try db.run("SELECT 1").integer(0, 0) == 1)
                }
                try await other.session { (db) throws(PostgresError) in try db.perform("COMMIT") }
                for try await depths in group { #expect(depths["apns"]?.waiting == 1) }
            }
            await other.close()
            // A second one would have been quick, and so not kept.
            #expect(store.core.counts.withLock { $0.isKept })
        }
    }

    @Test("A count that took too long is ended, and not tried again at once")
    func slow() async throws {
        try await Nodes.use(1, { $0.statementTimeout = .seconds(5) }) { nodes in
            let store = nodes[0]
            try await store.accept(to: [.user("ada")])
            #expect(try await store.depths()["apns"]?.waiting == 1)
            store.core.counts.withLock { $0.forget() }
            let other = PostgresConnection(store.options, name: "other")
            try await other.session { (db) throws(PostgresError) in
                try db.perform("BEGIN; LOCK TABLE chapar.waiting IN ACCESS EXCLUSIVE MODE")
            }
            await #expect(throws: StoreError.self) { try await store.depths() }
            try await other.session { (db) throws(PostgresError) in try db.perform("ROLLBACK") }
            await other.close()
            #expect(store.core.counts.withLock { $0.isKept })
            await #expect(throws: StoreError.self) { try await store.depths() }
            store.core.counts.withLock { $0.forget() }
            #expect(try await store.depths()["apns"]?.waiting == 1)
        }
    }

    @Test("A count of many pages is right at each moment, while rows move from one to another")
    func ranges() async throws {
        try await Nodes.use(1, { $0.pagesPerScan = 2 }) { nodes in
            let store = nodes[0]
            let all = 2_000
            for _ in 0..<4 { try await store.accept(to: (0..<all / 4).map { .user("\($0)") }) }
            let pages = try await store.count("SELECT pg_relation_size('chapar.waiting') / 8192")
            #expect(pages > 8)
            let moving = Task {
                while !Task.isCancelled {
                    let claims = try await store.claim(backend: "apns", limit: 100, wait: .zero)
                    try await store.record(claims.map { Resolution(of: $0, .release) }) { _, _, _ in [] }
                }
            }
            var counts: Set<Int> = []
            var claimed: Set<Int> = []
            var rounds = 0
            while rounds < 40 || claimed.count < 2 {
                rounds += 1
                store.core.counts.withLock { $0.forget() }
                let depth = try #require(try await store.depths()["apns"])
                counts.insert(depth.waiting + depth.claimed)
                claimed.insert(depth.claimed)
            }
            moving.cancel()
            try await moving.value
            #expect(counts == [all])
            #expect(claimed == [0, 100])
            #expect(try await store.depths()["apns"]?.oldestDue != nil)
        }
    }

    @Test("A move to another backend is counted on the connection of counts, for which no outcome waits")
    func moved() async throws {
        try await Nodes.use { nodes in
            let store = nodes[0]
            try await store.accept(to: [.user("ada")], backend: "old")
            await store.core.counter.close()
            await #expect(throws: StoreError.closed) { try await store.move(backend: "old", to: "new") }
        }
    }

    @Test("Waiting deliveries keep to the limit within a tenth, over all nodes and from the first minute on")
    func bound() async throws {
        let bound = 110_000
        try await Nodes.use(2) {
            $0.maximumWaiting = bound
            $0.nodeLease = .seconds(3)
        } _: { nodes in
            let accepted = Accepted()
            try await withThrowingTaskGroup(of: Void.self) { group in
                for node in nodes {
                    group.addTask {
                        while accepted.count.withLock({ $0 }) < bound * 3 / 2 {
                            let new = node.sample(to: (0..<1_000).map { .user("\($0)") }, backend: "away")
                            do throws(StoreError) {
                                _ = try await node.enqueue(EnqueueBatch([new]))
                                accepted.count.withLock { $0 += 1_000 }
                            } catch {
                                guard case .full = error else { throw error }
                                return
                            }
                        }
                    }
                }
                try await group.waitForAll()
            }
            #expect(
                (bound * 9 / 10...bound * 11 / 10).contains(accepted.count.withLock { $0 }),
                "\(accepted.count.withLock { $0 })"
            )
        }
    }
}

/// The notifications that all nodes have accepted.
private final class Accepted: Sendable {
    let count = Mutex(0)
}
