import ChaparCore
import ChaparQueue
import ChaparTesting
import Testing

@testable import ChaparStorePostgres

/// The server's clock, as a role sees it for which another function of that name comes first.
private struct SteppedClock {
    private let name: String
    private let connection: PostgresConnection
    /// Options of stores that go by it.
    let options: PostgresOptions

    init(lease: Duration) async throws {
        let options = try await TestServer.shared.options()
        name = "clock_of_\(options.schema)"
        connection = PostgresConnection(options, name: "clock")
        let name = name
        try await connection.session { (db) throws(PostgresError) in
            try db.perform(
                """
                CREATE SCHEMA \(name);
                CREATE TABLE \(name).step (seconds float8);
                INSERT INTO \(name).step VALUES (0);
                CREATE FUNCTION \(name).clock_timestamp() RETURNS timestamptz LANGUAGE sql VOLATILE AS
                    'SELECT pg_catalog.clock_timestamp() + make_interval(secs => seconds) FROM \(name).step';
                CREATE ROLE \(name) LOGIN SUPERUSER;
                ALTER ROLE \(name) SET search_path = \(name), pg_catalog
                """
            )
        }
        var stepped = try await TestServer.shared.options(options.schema, user: name)
        stepped.nodeLease = lease
        self.options = stepped
    }

    /// Sets it by so many seconds.
    func step(_ seconds: Int) async throws {
        try await connection.session { [name] (db) throws(PostgresError) in
            try db.perform("UPDATE \(name).step SET seconds = seconds + \(seconds)")
        }
    }

    func close() async { await connection.close() }
}

@Suite("Readings of the server's clock")
struct ClockWatchTests {
    private let now = ContinuousClock.now

    private func judge(
        _ watch: inout ClockWatch,
        _ jump: Int64,
        isFirst: Bool = false,
        noted: Int64 = 0,
        isMoving: Bool = false,
        after seconds: Int = 0
    ) -> ClockWatch.Verdict {
        watch.judge(
            jump: jump,
            ahead: 500,
            isFirst: isFirst,
            noted: noted,
            isMoving: isMoving,
            patience: .seconds(15),
            at: now + .seconds(seconds)
        )
    }

    @Test("One node moves the time of day for all, by a step that is no inaccuracy")
    func first() {
        var watch = ClockWatch()
        #expect(judge(&watch, 999, isFirst: true) == .follow)
        #expect(judge(&watch, -60_000, isFirst: true) == .shift(to: -59_500))
        #expect(judge(&watch, 1_000, isFirst: true) == .shift(to: 1_500))
    }

    @Test(
        "A node that took a step for the time follows what another has noted; where it judges it goes by its own reading"
    )
    func noted() {
        var watch = ClockWatch()
        #expect(judge(&watch, -3_600_000, noted: 3_600_000) == .follow)
        #expect(judge(&watch, -3_600_000, isFirst: true, noted: 3_600_000) == .shift(to: -3_599_500))
        // Another step that no node has noted is waited for.
        #expect(judge(&watch, -3_600_000, noted: -5_000) == .wait)
    }

    @Test("The others wait for it, but not for longer than it can take: then their own clocks have stood still")
    func others() {
        var watch = ClockWatch()
        #expect(judge(&watch, 3_600_000) == .wait)
        #expect(judge(&watch, 3_600_000, after: 14) == .wait)
        #expect(judge(&watch, 3_600_000, after: 15) == .follow)
        // What came after that is waited for anew.
        #expect(judge(&watch, -5_000, after: 20) == .wait)
        #expect(judge(&watch, 3, after: 30) == .follow)
        #expect(judge(&watch, -5_000, after: 40) == .wait)
        // A second step is judged when the first has been moved.
        #expect(judge(&watch, -5_000, isMoving: true, after: 70) == .wait)
        #expect(judge(&watch, -5_000, after: 84) == .wait)
        #expect(judge(&watch, -5_000, after: 85) == .follow)
    }
}

@Suite("When the clock of PostgreSQL's server is set", .serialized, .timeLimit(.minutes(2)))
struct ServerClockTests {
    @Test("No node is taken for dead for that, and dead ones are afterwards", arguments: [3_600, -3_600])
    func judges(_ step: Int) async throws {
        let clock = try await SteppedClock(lease: .seconds(3))
        try await Nodes.use(4, options: clock.options) { nodes in
            try await nodes[0].accept(to: (0..<4).map { .user("\($0)") })
            var held: [ClaimedDelivery] = []
            for node in nodes { held += try await node.claim(backend: "apns", limit: 1, wait: .seconds(5)) }
            try #require(held.count == 4)
            let numbers = nodes.map(\.core.nodeNumber)
            func owners() async throws -> Set<Int64> {
                try await nodes[0].session(on: nodes[0].core.reader) { (db) throws(PostgresError) in
                    let rows = try db.run("SELECT owner FROM chapar.waiting WHERE owner IS NOT NULL")
                    return Set((0..<rows.count).compactMap { rows.integer($0, 0) })
                }
            }
            // When one is taken for dead, the others judge.
            await nodes[3].pauseKeeper()
            try await eventually("one is taken for dead", every: .milliseconds(50)) {
                try await !owners().contains(numbers[3])
            }
            try await clock.step(step)
            // Each renews its lease three times in this time, and no node's steady time is moved.
            let (start, times) = (ContinuousClock.now, nodes.map(\.core.now))
            var careful: Set<Int64> = []
            try await eventually("two leases are over", every: .milliseconds(100)) {
                for (node, before) in zip(nodes.prefix(3), times) {
                    let apart = node.core.now - before - start.duration(to: .now).inMilliseconds
                    #expect(abs(apart) < 5_000)
                    if !node.core.leaseHealth.mayJudge { careful.insert(node.core.nodeNumber) }
                }
                return start.duration(to: .now) >= .seconds(6)
            }
            #expect(careful.isSuperset(of: numbers.prefix(3)), "leases of before say nothing")
            #expect(nodes.prefix(3).map(\.core.nodeNumber) == Array(numbers.prefix(3)))
            #expect(try await owners() == Set(numbers.prefix(3)))
            await nodes[2].pauseKeeper()
            try await eventually("another one is taken for dead", every: .milliseconds(50)) {
                try await !owners().contains(numbers[2])
            }
            #expect(try await owners() == Set(numbers.prefix(2)))
        }
        await clock.close()
    }

    @Test("A node that died before the clock was set back is taken over soon, also the one that would judge")
    func deadBefore() async throws {
        let clock = try await SteppedClock(lease: .seconds(3))
        try await Nodes.use(3, options: clock.options) { nodes in
            try await nodes[0].accept(to: [.user("ada")])
            #expect(try await nodes[0].claim(backend: "apns", limit: 1, wait: .seconds(5)).count == 1)
            await nodes[0].pauseKeeper()
            try await clock.step(-3_600)
            let claims = try await nodes[1].claim(backend: "apns", limit: 1, wait: .seconds(60))
            #expect(claims.count == 1 && claims.allSatisfy(\.isRecovered))
            try await nodes[1].end(claims)
        }
        await clock.close()
    }

    /// Waits until a node has renewed its lease: what is done now comes before its next reading of the clock.
    private static func awaitRenewal(of node: PostgresStore) async throws {
        let number = node.core.nodeNumber
        func lease() async throws -> Int64 {
            try await node.number(
                "SELECT (extract(epoch FROM lease_until) * 1000)::bigint FROM chapar.nodes WHERE number = \(number)"
            )
        }
        let before = try await lease()
        try await eventually("the node has renewed its lease", every: .milliseconds(10)) { try await lease() != before }
        try await awaitReading(by: node)
    }

    /// Waits until a node has read the clock, which it does right after a renewal and before a pause.
    private static func awaitReading(by node: PostgresStore) async throws {
        let process = try #require(node.core.renewer.serverProcess)
        try await eventually("the connection for the lease and the clock has nothing to do", every: .milliseconds(10)) {
            try await node.number(
                """
                SELECT count(*) FROM pg_stat_activity WHERE pid = \(process) AND state = 'idle'
                    AND state_change < pg_catalog.clock_timestamp() - interval '200 milliseconds'
                """
            ) == 1
        }
    }

    @Test("A node that starts before any node has noted it waits for that", arguments: [3_600, -3_600])
    func startsBetween(_ step: Int) async throws {
        let clock = try await SteppedClock(lease: .seconds(6))
        try await Nodes.use(1, options: clock.options) { nodes in
            try await Self.awaitRenewal(of: nodes[0])
            try await clock.step(step)
            let new = try await PostgresStore.open(clock.options)
            #expect(abs(new.core.now - nodes[0].core.now) < 5_000)
            await new.close()
        }
        await clock.close()
    }

    @Test("One that has lost its place before any node has noted it waits for that as well")
    func losesPlace() async throws {
        let clock = try await SteppedClock(lease: .seconds(6))
        try await Nodes.use(2, options: clock.options) { nodes in
            // Of two that were opened one behind the other the first renews first, each time.
            let number = nodes[0].core.nodeNumber
            try await Self.awaitRenewal(of: nodes[1])
            let (start, time) = (ContinuousClock.now, nodes[0].core.now)
            try await clock.step(3_600)
            _ = try await nodes[1].session(on: nodes[1].core.reader) { (db) throws(PostgresError) in
                try db.run("DELETE FROM chapar.nodes WHERE number = $1", [.integer(number)]).count
            }
            try await eventually("it has a new number") { nodes[0].core.nodeNumber != number }
            try await Self.awaitReading(by: nodes[0])
            for node in nodes { #expect(abs(node.core.now - time - start.duration(to: .now).inMilliseconds) < 5_000) }
        }
        await clock.close()
    }

    @Test("One that starts behind dead ones waits for them for a moment only")
    func startsAlone() async throws {
        let clock = try await SteppedClock(lease: .seconds(3))
        let dead = try await PostgresStore.open(clock.options)
        await dead.pauseKeeper()
        try await clock.step(60)
        let start = ContinuousClock.now
        let new = try await PostgresStore.open(clock.options)
        #expect(start.duration(to: .now) < .seconds(10))
        for node in [new, dead] { await node.close() }
        await clock.close()
    }

    @Test("So at the moment of it, when the node that judges has not seen it yet")
    func unseen() async throws {
        let clock = try await SteppedClock(lease: .seconds(60))
        try await Nodes.use(2, options: clock.options) { nodes in
            try await nodes[0].accept(to: [.user("ada")])
            #expect(try await nodes[0].claim(backend: "apns", limit: 1, wait: .seconds(5)).count == 1)
            try await clock.step(3_600)
            nodes[1].makeHealthy()
            #expect(try await NodeRecovery.run(within: .zero, nodes[1].core).deliveries == 0)
            #expect(nodes[1].core.leaseHealth.mayJudge, "that was the reason")
            #expect(try await nodes[1].count("SELECT count(*) FROM chapar.nodes") == 2)
        }
        await clock.close()
    }
}
