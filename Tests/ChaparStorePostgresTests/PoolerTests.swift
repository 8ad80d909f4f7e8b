import Foundation
import ChaparCore
import ChaparQueue
import ChaparStoreContract
import ChaparTesting
import Testing

@testable import ChaparStorePostgres

/// Behind PgBouncer in transaction mode, which gives a connection to the server to each open transaction: three for
/// all.
@Suite(
    "The PostgreSQL store behind PgBouncer",
    .serialized,
    .timeLimit(.minutes(2)),
    .enabled(if: TestServer.hasPooler, "PgBouncer is not installed: make test-deps")
)
struct PoolerTests {
    private static let server = TestServer(["pool=3"])

    private func options() async throws -> PostgresOptions {
        var options = try await Self.server.options(isPooled: true)
        options.preparesStatements = false
        options.pollsOnly = true
        options.cheapScan = .seconds(10)
        return options
    }

    private func use(_ count: Int, _ body: ([PostgresStore]) async throws -> Void) async throws {
        try await Nodes.use(count, options: try await options(), body)
    }

    @Test("It keeps the contract of notifications", arguments: StoreConformance.cases)
    func notifications(_ check: StoreConformanceCase) async throws {
        let options = try await options()
        try await check.run { time in try await PostgresStore.open(options, time: time) }
    }

    @Test("It keeps the contract of devices, each call to another node", arguments: DeviceStoreConformance.cases)
    func devices(_ check: DeviceStoreConformanceCase) async throws {
        try await use(2) { try await check.run(AlternatingStore($0)) }
    }

    @Test("It keeps the contract of the outbox", arguments: OutboxStoreConformance.cases)
    func outbox(_ check: OutboxStoreConformanceCase) async throws {
        let options = try await options()
        try await check.run { time in
            try await PostgresStore.open(options, time: time)
        } close: { store in
            await (store as? PostgresStore)?.close()
        }
    }

    @Test("Two nodes share what either accepts, over three connections to the server")
    func sharedWork() async throws {
        try await use(2) { nodes in
            try await NodesTests.shareWork(nodes, each: 300)
            let sessions = try await nodes[0].count(
                "SELECT count(*) FROM pg_stat_activity WHERE backend_type = 'client backend' AND usename = 'chapar'"
            )
            #expect(sessions <= 3)
        }
    }

    @Test("A store that prepares statements or listens is why there is a setting: without it it fails here")
    func withoutSetting() async throws {
        var options = try await options()
        options.preparesStatements = true
        options.pollsOnly = false
        let failure = await #expect(throws: (any Error).self) {
            var nodes: [PostgresStore] = []
            do {
                for _ in 0..<2 { nodes.append(try await PostgresStore.open(options)) }
                for number in 0..<50 {
                    _ = try await nodes[number % 2].put([Device(id: "d\(number)", createdAt: .now)], outbox: nil)
                }
            } catch {
                for node in nodes { await node.close() }
                throw error
            }
            for node in nodes { await node.close() }
        }
        #expect("\(failure as Any)".contains("prepared statement"))
    }
}
