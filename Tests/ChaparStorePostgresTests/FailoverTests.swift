import Foundation
import ChaparCore
import ChaparQueue
import ChaparStoreContract
import ChaparTesting
import Testing

@testable import ChaparStorePostgres

/// Commits that a standby lacked when it took over, though a node remembers them.
@Suite("After a failover to a standby that lagged behind", .timeLimit(.minutes(2)))
struct FailoverTests {
    @Test("Gateways whose URL names both servers go on at the standby that was promoted, with all that it has")
    func promotion() async throws {
        let primary = TestServer(["wal_level=replica", "max_wal_senders=4"])
        let standby = TestServer(["standby=\(try await primary.folder())", "hot_standby=on"])
        let folders = [try await primary.folder(), try await standby.folder()]
        let url = "postgres://chapar@/postgres?host=\(folders.joined(separator: ","))&target_session_attrs=read-write"
        var options = try PostgresOptions(url: url)
        options.nodeLease = .seconds(3)
        try await Nodes.use(2, options: options) { nodes in
            for name in ["a", "b", "c"] { try await nodes[0].accept(to: [.user(name)]) }
            let held = try await nodes[0].claim(backend: "apns", limit: 1, wait: .zero)
            #expect(held.count == 1)
            // A look at the standby itself, which takes no changes.
            let alone = try await standby.options("chapar")
            let behind = PostgresConnection(alone, name: "behind")
            func replayed() async throws -> Bool {
                try await behind.session { (db) throws(PostgresError) in
                    let rows = try db.run("SELECT count(*) FILTER (WHERE owner > 0), count(*) FROM chapar.waiting")
                    return rows.integer(0, 0) == 1 && rows.integer(0, 1) == 3
                }
            }
            try await eventually("the standby has all of it", every: .milliseconds(50)) { try await replayed() }
            await behind.close()
            let error = await #expect(throws: StoreError.self) { try await PostgresStore.open(alone) }
            #expect(error.map { "\($0)" }?.contains("write all hosts into store.url") == true)

            try await primary.crash()
            await #expect(throws: StoreError.self) { try await nodes[0].accept(to: [.user("lost")]) }
            try await standby.promote()
            let start = ContinuousClock.now
            try await eventually("the standby takes new work", within: .seconds(40), every: .milliseconds(100)) {
                (try? await nodes[1].accept(to: [.user("d")])) != nil
            }
            try await nodes[0].end(held)
            var claimed: [ClaimedDelivery] = []
            while claimed.count < 3, start.duration(to: .now) < .seconds(60) {
                claimed += (try? await nodes[1].claim(backend: "apns", limit: 9, wait: .seconds(1))) ?? []
            }
            #expect(Set(claimed.map(\.recipient)).isSuperset(of: [.user("d")]) && claimed.count == 3)
            try await nodes[1].end(claimed)
            // The first call over a connection to the server that crashed says so.
            _ = try? await nodes[1].count("SELECT 1")
            #expect(try await nodes[1].count("SELECT count(*) FROM chapar.waiting") == 0)
        }
        try await standby.end()
        try await primary.end()
    }

    @Test("Partitions that are missing are made again")
    func partitions() async throws {
        try await Nodes.use { nodes in
            let store = nodes[0]
            let day = Partitions.day(store.core.now)
            func drop(_ tables: [Partitions.Table]) async throws {
                try await store.session(on: store.core.keeper) { (db) throws(PostgresError) in
                    for table in tables { try db.perform("DROP TABLE chapar.\(table.name(of: day))") }
                }
            }
            try await drop(Partitions.Table.allCases)
            let first = try await store.accept(to: [.user("a")])
            let claims = try await store.claim(backend: "apns", limit: 9, wait: .zero)
            try await drop([.events])
            try await store.end(claims)
            #expect(try await store.notification(first)?.counts == [.acceptedByPlatform: 1])
            let second = try await store.accept(to: [.user("b")])
            try await drop([.events])
            #expect(try await store.cancel(second) { _, _ in [1] }?.cancelled == 1)
            try await drop([.events])
            try await store.publish([[1]])
            #expect(try await store.count("SELECT count(*) FROM chapar.events") == 1)
        }
    }

    @Test("A claim of another node is not ended by who had its lease before, under the same number")
    func leases() async throws {
        try await Nodes.use(2) { nodes in
            let id = try await nodes[0].accept(to: [.user("a")])
            let claims = try await nodes[0].claim(backend: "apns", limit: 9, wait: .zero)
            let other = nodes[1].core.nodeNumber
            try await nodes[0].session(on: nodes[0].core.keeper) { (db) throws(PostgresError) in
                try db.perform("UPDATE chapar.waiting SET owner = \(other)")
            }
            try await nodes[0].record(claims.map { Resolution(of: $0, .end(.failed), event: [1]) })
            #expect(try await nodes[0].notification(id)?.counts == [.sending: 1])
            // "Accepted" is true no matter which node reports it.
            try await nodes[0].end(claims)
            #expect(try await nodes[0].notification(id)?.counts == [.acceptedByPlatform: 1])
        }
    }

    @Test("Nor is it given back by a retry of who had it before")
    func retries() async throws {
        try await Nodes.use(2) { nodes in
            let id = try await nodes[0].accept(to: [.user("a")])
            let claims = try await nodes[0].claim(backend: "apns", limit: 9, wait: .zero)
            let other = nodes[1].core.nodeNumber
            try await nodes[0].session(on: nodes[0].core.keeper) { (db) throws(PostgresError) in
                try db.perform("UPDATE chapar.waiting SET owner = \(other)")
            }
            let later = nodes[0].time.steady + 60
            try await nodes[0].record(claims.map { Resolution(of: $0, .retry(at: later, step: 0)) })
            #expect(try await nodes[0].notification(id)?.counts == [.sending: 1])
        }
    }

    @Test("A flow whose number is another's by now gets a new one")
    func flows() async throws {
        // Long enough that no look of the keeper comes in between.
        try await Nodes.use(1, { $0.nodeLease = .seconds(120) }) { nodes in
            let store = nodes[0]
            try await store.accept(to: [.user("a")])
            try await store.end(try await store.claim(backend: "apns", limit: 9, wait: .zero))
            try await store.session(on: store.core.keeper) { (db) throws(PostgresError) in
                try db.perform("UPDATE chapar.flows SET backend = 'fcm'")
            }
            let core = store.core
            for connection in [core.writer, core.claimer, core.recorder] { connection.interrupt() }
            let new = store.sample(to: [.user("b")])
            try await eventually("it is accepted", every: .milliseconds(50)) { try await isAccepted(new, by: store) }
            let backend = "(SELECT backend FROM chapar.flows WHERE number = flow)"
            #expect(try await store.count("SELECT count(*) FROM chapar.waiting WHERE \(backend) = 'apns'") == 1)
            #expect(await claimPatiently(store, "fcm").isEmpty)
            #expect(await claimPatiently(store, "apns").map(\.id) == [new.id.rawValue])
        }
    }

    /// Claims once more where the first call after the cut gets an error.
    private func claimPatiently(_ store: PostgresStore, _ backend: String) async -> [ClaimedDelivery] {
        for _ in 0..<9 {
            if let claims = try? await store.claim(backend: backend, limit: 9, wait: .zero) { return claims }
        }
        Issue.record("nothing can be claimed")
        return []
    }

    private func isAccepted(_ new: NewNotification, by store: PostgresStore) async throws -> Bool {
        do {
            return try await store.enqueue(EnqueueBatch([new])) == .accepted
        } catch {
            return false
        }
    }

    @Test("max_waiting counts what waits, though the server's statistics are from before")
    func waiting() async throws {
        let server = TestServer(["autovacuum=off"])
        var options = try await server.options()
        options.maximumWaiting = 100_001
        options.nodeLease = .seconds(3)
        try await Nodes.use(1, options: options) { nodes in
            let store = nodes[0]
            try await store.session(on: store.core.writer) { (db) throws(PostgresError) in
                try db.perform(
                    """
                    INSERT INTO chapar.waiting (id, notification, flow, due, expires, lease, plan, recipient)
                    SELECT n, n, 1, 0, 0, 0, 0, 'u:a' FROM generate_series(1, 150000) AS n
                    """,
                    within: .seconds(60)
                )
            }
            store.core.keeper.interrupt()
            try await eventually("the node has counted what waits", every: .milliseconds(50)) {
                store.core.waiting >= 100_000
            }
            let error = await #expect(throws: StoreError.self) { try await store.accept(to: [.user("x")]) }
            #expect(error.map { "\($0)" }?.contains("max_waiting is 100001") == true)
        }
        try await server.end()
    }
}
