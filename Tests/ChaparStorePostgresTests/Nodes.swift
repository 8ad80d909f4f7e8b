import ChaparCore
import ChaparTesting

@testable import ChaparStorePostgres

/// Several stores on one schema, as several gateways have them.
enum Nodes {
    /// Opens some, called node-0 and on.
    static func open(_ count: Int, lease: Duration = .seconds(15)) async throws -> [PostgresStore] {
        var options = try await TestServer.shared.options()
        options.nodeLease = lease
        var nodes: [PostgresStore] = []
        for number in 0..<count {
            options.nodeName = "node-\(number)"
            nodes.append(try await PostgresStore.open(options))
        }
        return nodes
    }

    static func use(
        _ count: Int = 1,
        time: (any TimeSource)? = nil,
        _ change: (inout PostgresOptions) -> Void = { _ in },
        _ body: ([PostgresStore]) async throws -> Void
    ) async throws {
        var options = try await TestServer.shared.options()
        change(&options)
        try await use(count, time: time, options: options, body)
    }

    static func use(
        _ count: Int,
        time: (any TimeSource)? = nil,
        options: PostgresOptions,
        _ body: ([PostgresStore]) async throws -> Void
    ) async throws {
        var nodes: [PostgresStore] = []
        for _ in 0..<count { nodes.append(try await PostgresStore.open(options, time: time)) }
        do {
            try await body(nodes)
        } catch {
            for node in nodes { await node.close() }
            throw error
        }
        for node in nodes { await node.close() }
    }
}

extension PostgresStore {
    /// Lets a node judge others, as if it had renewed its lease for long.
    func makeHealthy() {
        let now = ContinuousClock.now
        core.leaseHealth.noteRenewal(at: now)
        core.leaseHealth.noteGap(at: now - options.nodeLease * 2)
    }

    /// How many calls wait at a backend whose last look found nothing.
    ///
    /// They are taken and put back, so nothing may be accepted at this moment.
    func parked(_ backend: String = "apns") -> Int {
        var tickets: [ClaimTicket] = []
        while let ticket = core.claimWaiters.takeParked(backend, isUrgent: true) { tickets.append(ticket) }
        core.claimWaiters.putBack(tickets, isParked: true, now: core.now)
        // The loop may have found no call at this moment, and would wait for the next one.
        core.claimWaiters.signal.signal()
        return tickets.count
    }

    /// Waits until a node that has lost its place has another, in a transaction that has ended.
    func awaitPlace(after former: Int64) async throws {
        try await eventually("the node has a new place", every: .milliseconds(50)) {
            let current = core.nodeNumber
            guard current != former else { return false }
            return try await number("SELECT count(*) FROM chapar.nodes WHERE number = \(current)") == 1
        }
    }

    /// A number out of the database.
    func number(_ query: String) async throws -> Int64 {
        try await session(on: registryReader) { (db) throws(PostgresError) in try db.run(query).integer(0, 0) ?? -1 }
    }
}

extension [PostgresStore] {
    /// How often transactions of the nodes waited for each other in a circle.
    func deadlocks() async throws -> Int64 {
        for node in self {
            for connection in [node.registry, node.outbox] {
                try await node.session(on: connection) { (db) throws(PostgresError) in
                    // Else the server says what it had counted up to a second ago.
                    try db.run("SELECT pg_stat_force_next_flush()")
                }
            }
        }
        return try await self[0].number("SELECT deadlocks FROM pg_stat_database WHERE datname = current_database()")
    }
}
