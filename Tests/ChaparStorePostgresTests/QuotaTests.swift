import Foundation
import ChaparCore
import ChaparQueue
import ChaparTesting
import Testing

@testable import ChaparStorePostgres

/// Quotas that several gateways share.
@Suite("A quota in PostgreSQL", .serialized, .timeLimit(.minutes(2)))
struct QuotaTests {
    @Test("Two nodes that ask as fast as they can get what one bucket allows, and each of it")
    func bound() async throws {
        try await Nodes.use(2) { nodes in
            let pacing = Pacing(perSecond: 5_000, burst: .milliseconds(200), urgentShare: 0.05)
            let begin = ContinuousClock.now
            let sent = try await withThrowingTaskGroup(of: (node: Int, count: Int).self) { group in
                for place in 0..<4 {
                    let node = nodes[place / 2]
                    group.addTask {
                        var dice = Dice(seed: place)
                        var count = 0
                        var unused = 0
                        while begin.duration(to: .now) < .seconds(2) {
                            let wanted = Int.random(in: 1...512, using: &dice)
                            let urgent = Int.random(in: 0...20, using: &dice)
                            let request = QuotaRequest(pacing: pacing, wanted: wanted, urgent: urgent, unused: unused)
                            let grant = try await node.reserve(request, of: "a")
                            // Now and then some of it is given back.
                            unused = Int.random(in: 0..<8, using: &dice) == 0 ? grant.granted / 2 : 0
                            count += grant.granted - unused
                        }
                        return (place / 2, count)
                    }
                }
                return try await group.reduce(into: [0, 0]) { $0[$1.node] += $1.count }
            }
            let span = begin.duration(to: .now).inSeconds
            let total = Double(sent[0] + sent[1])
            #expect(total <= 1_000 + 250 + 5_000 * span * 1.02)
            #expect(total >= 5_000 * span * 0.9)
            #expect(sent.allSatisfy { Double($0) > total / 5 }, "\(sent)")
        }
    }

    @Test("It says what the bucket says that it is kept for, request by request")
    func arithmetic() async throws {
        let time = ManualTime()
        try await Nodes.use(2, time: time) { nodes in
            var dice = Dice(seed: 7)
            for number in 0..<6 {
                let pacing = Pacing(
                    perSecond: [0.3, 50, 8_333.3][number % 3],
                    burst: .milliseconds([0, 100, 10_000][(number + 1) % 3]),
                    rampUp: .seconds(number % 2 * 7),
                    urgentShare: number < 3 ? 0 : 0.1
                )
                var level = QuotaLevel(filledAt: time.steady)
                for step in 0..<60 {
                    let request = QuotaRequest(
                        pacing: pacing,
                        wanted: Int.random(in: 0...600, using: &dice),
                        urgent: Int.random(in: 0...30, using: &dice),
                        unused: Int.random(in: 0...3, using: &dice),
                        spent: Int.random(in: 0...3, using: &dice)
                    )
                    let grant = try await nodes[step % 2].reserve(request, of: "\(number)")
                    let expected = level.reserve(request, at: time.steady)
                    #expect((grant.granted, grant.normal) == (expected.granted, expected.normal), "\(request)")
                    #expect(abs(grant.rate - expected.rate) <= expected.rate * 1e-5)
                    time.advance(by: .microseconds(Int.random(in: 0...400_000, using: &dice)))
                }
            }
        }
    }

    @Test("A row that says nothing any more is removed, and one in use is not")
    func removal() async throws {
        let time = ManualTime()
        try await Nodes.use(time: time) { nodes in
            let pacing = Pacing(perSecond: 10)
            _ = try await nodes[0].reserve(QuotaRequest(pacing: pacing, wanted: 1), of: "old")
            time.advance(by: .seconds(4 * 86_400))
            _ = try await nodes[0].reserve(QuotaRequest(pacing: pacing, wanted: 1), of: "new")
            let ever = time.now.addingTimeInterval(-1_000 * 86_400)
            _ = try await nodes[0].purge(Retention(notifications: ever, events: ever))
            #expect(try await nodes[0].number("SELECT count(*) FROM chapar.quotas") == 1)
        }
    }

    @Test("Without the database nothing is granted, and with it again what the quota has")
    func outage() async throws {
        let server = TestServer()
        let store = try await PostgresStore.open(try await server.options())
        let request = QuotaRequest(pacing: Pacing(perSecond: 0.01, burst: .seconds(1_000)), wanted: 6)
        #expect(try await store.reserve(request, of: "a").granted == 6)
        // A crash may lose what was reserved in its last moments, since no commit is waited for; one that is waited for
        // takes those before it along.
        try await store.accept(to: [.user("a")])
        try await server.crash()
        for _ in 0..<5 {
            let begin = ContinuousClock.now
            await #expect(throws: StoreError.self) { try await store.reserve(request, of: "a") }
            #expect(begin.duration(to: .now) < .seconds(1))
        }
        try await server.restart()
        var granted: Int?
        try await eventually("the quota can be asked again", every: .milliseconds(50)) {
            granted = try? await store.reserve(request, of: "a").granted
            return granted != nil
        }
        #expect(granted == 4)
        await store.close()
        try await server.end()
    }

    @Test("A node that disappears in the middle of a reservation keeps the others waiting for a moment only")
    func gone() async throws {
        try await Nodes.use(2) { nodes in
            let request = QuotaRequest(pacing: Pacing(perSecond: 10, burst: .seconds(10)), wanted: 1)
            _ = try await nodes[0].reserve(request, of: "a")
            let dead = nodes[0].quotas
            try await dead.session { (db) throws(PostgresError) in
                try db.perform((["BEGIN"] + QuotaTable.settings).joined(separator: "; "))
                try db.run("SELECT FROM chapar.quotas WHERE name = 'a' FOR UPDATE")
            }
            let begin = ContinuousClock.now
            #expect(try await nodes[1].reserve(request, of: "a").granted == 1)
            #expect(begin.duration(to: .now) > .milliseconds(500), "the row was locked")
            #expect(begin.duration(to: .now) < .seconds(4))
        }
    }

    @Test("A program that knows no quotas goes on beside one that does")
    func older() async throws {
        let options = try await TestServer.shared.options()
        let connection = PostgresConnection(options, name: "older")
        let place = try #require(Schema.steps.firstIndex { $0.name == "quotas" })
        try await Schema.migrate(connection, options, steps: Array(Schema.steps[...place]))
        try await Schema.migrate(connection, options, steps: Array(Schema.steps[..<place]))
        await connection.close()
    }
}
