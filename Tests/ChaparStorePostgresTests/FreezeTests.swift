import Foundation
import ChaparCore
import ChaparQueue
import ChaparTesting
import Testing

@testable import ChaparStorePostgres

/// A node that stands still between two statements of a transaction: its process is stopped, or its network is cut.
@Suite("A PostgreSQL node that stands still holds up no other one for long", .serialized, .timeLimit(.minutes(3)))
struct FreezeTests {
    private static let lease = Duration.seconds(3)

    /// The lock that the node holds when it stops.
    enum Place: String, CaseIterable, Sendable {
        case collapseID, idempotencyKey, device, outboxEntry, nodes

        private static func lock(_ device: String, _ store: PostgresStore, _ db: isolated PostgresConnection)
            throws(PostgresError)
        {
            var locks = RegistryLocks(store.options)
            locks.add(devices: [device])
            try locks.take(db)
        }

        /// Locks it, and stands still within the transaction until it may go on.
        func hold(_ store: PostgresStore, _ isHeld: AsyncSignal, until mayGoOn: DispatchSemaphore) async throws {
            let (core, place, new) = (store.core, self, store.sample(to: [.user("ada")], collapseID: "order"))
            let connection =
                switch place {
                case .collapseID, .idempotencyKey: core.writer
                case .device: store.registry
                case .outboxEntry: store.outbox
                case .nodes: core.renewer
                }
            try await connection.transaction { (db) throws(PostgresError) in
                switch place {
                case .collapseID: try CollapseBatch.lock(CollapseBatch.batches([new]), of: store.options.schema, db)
                case .idempotencyKey:
                    try db.run("INSERT INTO chapar.idempotency VALUES ('shop', 'k', 'x', 'x', 0)")
                case .device, .outboxEntry: try Self.lock("d", store, db)
                case .nodes: try db.run("SELECT pg_advisory_xact_lock(hashtextextended('chapar.nodes', 0))")
                }
                isHeld.signal()
                _ = mayGoOn.wait(timeout: .now() + 30)
            }
        }

        /// Makes the call of another node that needs the same lock.
        func use(_ store: PostgresStore) async throws {
            switch self {
            case .collapseID: try await store.accept(to: [.user("ada")], collapseID: "order")
            case .idempotencyKey:
                let new = store.sample(to: [.user("ada")])
                var batch = EnqueueBatch([new])
                batch.idempotency = IdempotencyEntry(
                    caller: "shop",
                    key: "k",
                    fingerprint: [1],
                    answer: [2],
                    keepUntil: new.expiresAt
                )
                _ = try await store.enqueue(batch)
            case .device: _ = try await store.put([Device(id: "d", createdAt: .now)])
            case .outboxEntry:
                try await store.enqueue([OutboxEntry(backend: "crm", device: "d", kind: .tags, at: .now)])
            case .nodes: await (try await PostgresStore.open(store.options)).close()
            }
        }
    }

    @Test("The longest wait of another one is below its lease", arguments: Place.allCases)
    func locks(_ place: Place) async throws {
        try await Nodes.use(2) {
            $0.nodeLease = Self.lease
        } _: { nodes in
            let (isHeld, mayGoOn) = (AsyncSignal(), DispatchSemaphore(value: 0))
            let held = Task { try await place.hold(nodes[0], isHeld, until: mayGoOn) }
            await isHeld.wait(after: .start, atMost: .seconds(10), SystemTime())
            let begin = ContinuousClock.now
            var longest = Duration.zero
            try await eventually("it has stood still for two leases", every: .milliseconds(20)) {
                let before = ContinuousClock.now
                try await place.use(nodes[1])
                longest = max(longest, before.duration(to: .now))
                return begin.duration(to: .now) >= Self.lease * 2
            }
            mayGoOn.signal()
            #expect(longest < Self.lease, "\(longest)")
            await #expect(throws: PostgresError.self, "the server has ended the session") { try await held.value }
        }
    }

    @Test("The sessions of a node that is taken for dead are ended, whatever they do, and no other ones")
    func sessions() async throws {
        let nodes = try await Nodes.open(2, lease: Self.lease)
        let own = try #require(nodes[1].core.reader.serverProcess)
        // A node that died long ago, and a number of a process that is another's by now.
        try await nodes[1].session(on: nodes[1].core.keeper) { (db) throws(PostgresError) in
            try db.perform(
                """
                INSERT INTO chapar.nodes (slot, name, lease_until, sessions)
                VALUES (63, 'old', now() - interval '1 hour', ARRAY['\(own) 1'])
                """
            )
        }
        let new = nodes[0].sample(to: [.user("ada")], collapseID: "order")
        let schema = nodes[0].options.schema
        let isHeld = AsyncSignal()
        let held = Task {
            try await nodes[0].core.writer.transaction { (db) throws(PostgresError) in
                try CollapseBatch.lock(CollapseBatch.batches([new]), of: schema, db)
                isHeld.signal()
                try db.perform("SELECT pg_sleep(25)")
            }
        }
        await isHeld.wait(after: .start, atMost: .seconds(10), SystemTime())
        await nodes[0].pauseKeeper()
        let begin = ContinuousClock.now
        try await nodes[1].accept(to: [.user("ada")], collapseID: "order")
        #expect(begin.duration(to: .now) < .seconds(10), "\(begin.duration(to: .now))")
        await #expect(throws: PostgresError.self) { try await held.value }
        try await eventually("the place of the one that died long ago is given up", every: .milliseconds(50)) {
            try await nodes[1].count("SELECT count(*) FROM chapar.nodes WHERE name = 'old'") == 0
        }
        #expect(nodes[1].core.reader.serverProcess == own)
        for node in nodes { await node.close() }
    }

    @Test("A process that stands still while the server sends it an answer loses its session and its locks")
    func answer() async throws {
        let port = try TestServer.freePort()
        let server = TestServer(["port=\(port)"])
        _ = try await server.folder()
        var options = try PostgresOptions(url: "postgres://chapar@127.0.0.1:\(port)/postgres")
        options.nodeLease = Self.lease
        let (frozen, other) = (PostgresConnection(options, name: "frozen"), PostgresConnection(options, name: "other"))
        try await other.session { (db) throws(PostgresError) in
            try db.perform("CREATE TABLE big AS SELECT repeat('x', 1000) AS text FROM generate_series(1, 50000)")
        }
        // Sent, with a lock on each row, and not read: as if the process had been stopped.
        try await frozen.sendUnread("BEGIN; SELECT text FROM big FOR UPDATE")
        let process = try #require(frozen.serverProcess)
        try await eventually("the server waits for it to read the answer") {
            try await other.session { (db) throws(PostgresError) in
                try db.run(
                    "SELECT EXISTS (SELECT FROM pg_stat_activity WHERE pid = \(process) AND wait_event = 'ClientWrite')"
                )
                .bool(0, 0)
            }
        }
        let begin = ContinuousClock.now
        try await other.session { (db) throws(PostgresError) in try db.perform("UPDATE big SET text = ''") }
        #expect(begin.duration(to: .now) < Self.lease, "\(begin.duration(to: .now))")
        await frozen.close()
        await other.close()
        try await server.end()
    }

    @Test("Stores of two schemas have no lock in common")
    func schemas() async throws {
        try await Nodes.use { one in
            try await Nodes.use { other in
                let (isHeld, mayGoOn) = (AsyncSignal(), DispatchSemaphore(value: 0))
                let held = Task { try await Place.collapseID.hold(one[0], isHeld, until: mayGoOn) }
                await isHeld.wait(after: .start, atMost: .seconds(10), SystemTime())
                let begin = ContinuousClock.now
                try await Place.collapseID.use(other[0])
                #expect(begin.duration(to: .now) < .seconds(1))
                mayGoOn.signal()
                try await held.value
            }
        }
    }
}
