import Foundation
import ChaparComposition
import ChaparCore
import ChaparQueue
import ChaparStoreContract
import ChaparTesting
import Synchronization
import Testing

@testable import ChaparStorePostgres

/// Several gateways on one database.
@Suite("Several nodes share a PostgreSQL store", .serialized, .timeLimit(.minutes(2)))
struct NodesTests {
    @Test("Nodes that start together make the tables once")
    func startTogether() async throws {
        let options = try await TestServer.shared.options()
        let nodes = try await withThrowingTaskGroup(of: PostgresStore.self) { group in
            for _ in 0..<6 { group.addTask { try await PostgresStore.open(options) } }
            return try await group.reduce(into: []) { $0.append($1) }
        }
        #expect(Set(nodes.map(\.core.nodeNumber)).count == 6)
        #expect(try await nodes[0].count("SELECT count(*) FROM chapar.schema_steps") == Schema.steps.count)
        for node in nodes { await node.close() }
    }

    @Test("Each accepted delivery is claimed once, by one node; numbers are unique")
    func sharedWork() async throws {
        let nodes = try await Nodes.open(3)
        try await Self.shareWork(nodes, each: 300)
        for node in nodes { await node.close() }
    }

    @Test("A reading of the flows that began before one was made does not hide it")
    func flows() async throws {
        try await Nodes.use { nodes in
            let core = nodes[0].core
            let reading = Task {
                while !Task.isCancelled {
                    try await core.reader.session { (db) throws(PostgresError) in try core.flows.read(db) }
                }
            }
            for number in 0..<400 {
                let flow = Flow(backend: "b\(number)", isUrgent: true, caller: "shop")
                try await core.flows.make([flow], on: core.writer)
                await core.reader.pass()
                #expect(core.flows.number(of: flow) != nil)
            }
            reading.cancel()
            try await reading.value
        }
    }

    @Test("Sweeps for claims whose answers were lost free none that has an owner")
    func looks() async throws {
        let nodes = try await Nodes.open(2)
        let looking = Task {
            while !Task.isCancelled {
                for node in nodes { node.core.unknownClaims.note() }
                await Task.yield()
            }
        }
        try await Self.shareWork(nodes, each: 300)
        looking.cancel()
        await looking.value
        for node in nodes { await node.close() }
    }

    /// Lets nodes accept and claim at the same time, each so many deliveries, and looks at what became of all.
    static func shareWork(_ nodes: [PostgresStore], each: Int) async throws {
        let all = nodes.count * each
        let tally = Tally()
        try await withThrowingTaskGroup(of: Void.self) { group in
            for node in nodes {
                for _ in 0..<4 {
                    group.addTask {
                        for number in 0..<each / 4 { try await node.accept(to: [.user("\(number)")]) }
                    }
                    group.addTask {
                        while tally.claimed.withLock({ $0.count }) < all {
                            try Task.checkCancellation()  // A cancelled call gives nothing.
                            let claims = try await node.claim(backend: "apns", limit: 7, wait: .milliseconds(100))
                            try await node.end(claims)
                            tally.claimed.withLock { $0 += claims.map(\.id) }
                        }
                    }
                }
            }
            try await group.waitForAll()
        }
        let claimed = tally.claimed.withLock { $0 }
        #expect(claimed.count == all)
        #expect(Set(claimed).count == all)
        #expect(try await nodes[0].count("SELECT count(*) FROM chapar.waiting") == 0)
        // Accepted and ended, each told once by every node, in the same order.
        let events = try await nodes[0].events(after: 0, limit: 10_000, wait: .zero)
        #expect(events.map(\.number) == Array(1...Int64(2 * all)))
        #expect(Set(events.map(\.json)).count == 2 * all)
        for node in nodes.dropFirst() { #expect(try await node.events(after: 0, limit: 10_000, wait: .zero) == events) }
    }

    @Test("Exclusive work is done by one node at a time, and a dead holder is passed over")
    func exclusively() async throws {
        let nodes = try await Nodes.open(3)
        try await nodes[0].saveState("sum", [0])
        let tally = Tally()
        try await withThrowingTaskGroup(of: Void.self) { group in
            for node in nodes {
                for _ in 0..<5 {
                    group.addTask {
                        try await node.exclusively("token") {
                            tally.begin(1)
                            let before = (try? await node.loadState("sum")) ?? []
                            try? await node.saveState("sum", [before[0] + 1])
                            tally.end(1)
                        }
                    }
                }
            }
            try await group.waitForAll()
        }
        #expect(try await nodes[0].loadState("sum") == [15])
        #expect(tally.inFlight.withLock { $0.most } == 1)
        _ = try await nodes[0].session(on: nodes[0].core.reader) { (db) throws(PostgresError) in
            try db.run("INSERT INTO chapar.locks VALUES ('token', 'dead', clock_timestamp() + interval '1 second')")
                .changed
        }
        let begin = ContinuousClock.now
        let isDone = try await nodes[1].exclusively("token") { true }
        #expect(isDone)
        #expect(begin.duration(to: .now) > .milliseconds(700))
        #expect(try await nodes[0].count("SELECT count(*) FROM chapar.locks") == 0)
        for node in nodes { await node.close() }
    }

    @Test("A value that nodes make where there is none is made by one, and is the same to all")
    func makeOnce() async throws {
        try await Nodes.use(3) { nodes in
            for round in 0..<10 {
                let values = try await withThrowingTaskGroup(of: [UInt8].self) { group in
                    for (place, node) in nodes.enumerated() {
                        group.addTask {
                            try await node.loadState("test.made-\(round)", where: { $0.count == 1 }) { [UInt8(place)] }
                        }
                    }
                    return try await group.reduce(into: []) { $0.append($1) }
                }
                #expect(Set(values).count == 1, "\(values)")
            }
            try await nodes[0].saveState("test.unusable", [1, 2])
            #expect(try await nodes[1].loadState("test.unusable", where: { $0.count == 1 }) { [7] } == [7])
            #expect(try await nodes[2].loadState("test.unusable") == [7])
        }
    }

    @Test("Claims that fit into no waiting call go to the next ones")
    func leftOver() async throws {
        try await Nodes.use(2) { nodes in
            // Another node accepts it: so nothing is handed over to the calls, and one look is for both.
            let (store, other) = (nodes[0], nodes[1])
            func take() async throws -> [ClaimedDelivery] {
                try await store.claim(backend: "apns", limit: 10, normal: 5, wait: .seconds(3))
            }
            func accept(_ count: Int, _ node: PostgresStore) async throws {
                var batch = EnqueueBatch([])
                for priority in [PushNotification.Priority.high, .normal] {
                    var new = node.sample(to: (0..<count).map { .user("\(priority) \($0)") })
                    new.notification.priority = priority
                    batch.notifications.append(new)
                }
                #expect(try await node.enqueue(batch) == .accepted)
            }
            // It knows both flows.
            try await accept(1, store)
            var own: [ClaimedDelivery] = []
            while own.count < 2 { own += try await take() }
            try await store.end(own)
            async let one = take()
            async let two = take()
            try await eventually("both calls wait") { store.parked() == 2 }
            try await accept(10, other)
            var found = try await one + two
            for _ in 0..<5 where found.count < 20 { found += try await take() }
            #expect(Set(found.map(\.id)).count == 20)
            try await store.end(found)
        }
    }

    @Test("A key that several nodes get at the same time is accepted by one")
    func idempotency() async throws {
        let nodes = try await Nodes.open(3)
        for round in 0..<20 {
            let results = try await withThrowingTaskGroup(of: EnqueueResult.self) { group in
                for node in nodes {
                    group.addTask {
                        let new = node.sample(to: [.user("a")])
                        let entry = IdempotencyEntry(
                            caller: "shop",
                            key: "k\(round)",
                            fingerprint: [1],
                            answer: [7],
                            keepUntil: node.time.steady + 86_400
                        )
                        return try await node.enqueue(EnqueueBatch([new], idempotency: entry))
                    }
                }
                return try await group.reduce(into: []) { $0.append($1) }
            }
            #expect(results.filter { $0 == .accepted }.count == 1)
            #expect(results.filter { $0 == .replayed(answer: [7]) }.count == 2)
        }
        #expect(try await nodes[0].count("SELECT count(*) FROM chapar.waiting") == 20)
        for node in nodes { await node.close() }
    }

    @Test("Numbering events looks at those without a number alone, however many there are")
    func numbering() async throws {
        let store = try await Nodes.open(1)[0]
        let plan = try await store.transaction(on: store.core.keeper) { (db) throws(PostgresError) in
            try db.perform(
                """
                INSERT INTO chapar.events (at, count, first, texts)
                SELECT \(store.core.now), 1, n, '{e}' FROM generate_series(1, 50000) n;
                INSERT INTO chapar.events (at, count, texts) SELECT \(store.core.now), 1, '{e}' FROM generate_series(1, 5) n;
                ANALYZE chapar.events
                """
            )
            let sql = EventLog.numbering.replacing("$1", with: "0").replacing("$2", with: "1000")
                .replacing("$3", with: "0")
            let rows = try db.run("EXPLAIN " + sql)
            return (0..<rows.count).map { rows.text($0, 0) ?? "" }
        }
        let table = "events_d\(Partitions.day(store.core.now)) "
        #expect(!plan.contains { $0.contains("Seq Scan on " + table) }, "\(plan.joined(separator: "\n"))")
        await store.close()
    }

    @Test("Of events in large blocks no more blocks are read than hold what is asked for")
    func reading() async throws {
        let store = try await Nodes.open(1)[0]
        try await store.session(on: store.core.keeper) { (db) throws(PostgresError) in
            try db.perform(
                """
                INSERT INTO chapar.events (at, count, first, texts)
                SELECT \(store.core.now), 100, n, array_fill('e'::bytea, ARRAY[100]) FROM generate_series(1, 29901, 100) n
                """
            )
        }
        func blocks(from number: Int64, _ limit: Int) async throws -> [Int64?] {
            try await store.session(on: store.core.reader) { (db) throws(PostgresError) in
                let rows = try db.run(EventLog.reading, [.integer(number), .integer(limit)])
                return (0..<rows.count).map { rows.integer($0, 0) }
            }
        }
        #expect(try await blocks(from: 1_101, 100) == [1_101])
        #expect(try await blocks(from: 1_150, 256) == [1_101, 1_201, 1_301, 1_401])
        #expect(try await blocks(from: 29_990, 256) == [29_901])
        let found = try await EventLog.read(after: 1_149, limit: 256, on: store.core.reader)
        #expect(found.map(\.number) == Array(Int64(1_150)...1_405))
        await store.close()
    }

    @Test("Requests that come while a transaction is under way share the next one")
    func groups() async throws {
        let nodes = try await Nodes.open(1)
        try await withThrowingTaskGroup(of: Void.self) { group in
            for number in 0..<400 { group.addTask { try await nodes[0].accept(to: [.user("\(number)")]) } }
            try await group.waitForAll()
        }
        #expect(try await nodes[0].count("SELECT count(*) FROM chapar.notifications") == 400)
        let commits = try await nodes[0].count("SELECT count(DISTINCT xmin::text) FROM chapar.notifications")
        #expect(commits <= 100, "\(commits)")
        for node in nodes { await node.close() }
    }

    @Test("A transaction that commits late, with an earlier place in the sequence, is not skipped by a reader")
    func lateCommit() async throws {
        let nodes = try await Nodes.open(2)
        let options = nodes[0].options
        let late = PostgresConnection(options, name: "late")
        let (isOpen, mayCommit) = (AsyncSignal(), DispatchSemaphore(value: 0))
        let now = nodes[0].core.now
        let holding = Task {
            try await late.transaction { (db) throws(PostgresError) in
                try EventLog.append([Array("late".utf8)], now: now, db)
                isOpen.signal()
                mayCommit.wait()
            }
        }
        await isOpen.wait(after: .start, atMost: .seconds(10), SystemTime())
        try await nodes[1].publish([Array("early".utf8)])
        let first = try await nodes[0].events(after: 0, limit: 9, wait: .seconds(5))
        #expect(first.map { String(decoding: $0.json, as: UTF8.self) } == ["early"])
        mayCommit.signal()
        try await holding.value
        let second = try await nodes[1].events(after: first[0].number, limit: 9, wait: .seconds(5))
        #expect(second.map { String(decoding: $0.json, as: UTF8.self) } == ["late"])
        #expect(second.map(\.number) == [2])
        await late.close()
        for node in nodes { await node.close() }
    }

    @Test("A cancellation reaches what another node holds")
    func cancelElsewhere() async throws {
        let nodes = try await Nodes.open(2)
        let id = try await nodes[0].accept(to: [.user("a"), .user("b")])
        let claims = try await nodes[0].claim(backend: "apns", limit: 1, wait: .zero)
        let cancellation = try await nodes[1].cancel(id) { _, _ in [1] }
        #expect(cancellation == Cancellation(cancelled: 1, tooLate: 0, inFlight: 1))
        try await nodes[0].record(claims.map { Resolution(of: $0, .retry(at: nodes[0].time.steady, step: 0)) })
        #expect(try await nodes[1].notification(id)?.counts == [.cancelled: 2])
        for node in nodes { await node.close() }
    }

    @Test("Nodes that replace each other's messages by one collapse id leave one, and never send two at once")
    func collapseAcross() async throws {
        let nodes = try await Nodes.open(3)
        let tally = Tally()
        try await withThrowingTaskGroup(of: Void.self) { group in
            group.addTask {
                try await withThrowingTaskGroup(of: Void.self) { senders in
                    for node in nodes {
                        senders.addTask {
                            for _ in 0..<40 { try await node.accept(to: [.user("a")], collapseID: "order") }
                        }
                    }
                    try await senders.waitForAll()
                }
                tally.isDone.store(true, ordering: .releasing)
            }
            for node in nodes {
                group.addTask {
                    var idle = 0
                    while idle < 3 {
                        let claims = try await node.claim(backend: "apns", limit: 5, wait: .milliseconds(50))
                        if claims.isEmpty {
                            if tally.isDone.load(ordering: .acquiring) { idle += 1 }
                            continue
                        }
                        tally.begin(claims.count)
                        for other in nodes {
                            let more = try await other.claim(backend: "apns", limit: 5, wait: .zero)
                            #expect(more.isEmpty, "one is claimed before the one before it has ended")
                            if !more.isEmpty { try await other.end(more) }
                        }
                        tally.end(claims.count)
                        try await node.end(claims)
                    }
                }
            }
            try await group.waitForAll()
        }
        #expect(tally.inFlight.withLock { $0.most } == 1)
        #expect(try await nodes[0].count("SELECT count(*) FROM chapar.waiting") == 0)
        #expect(try await nodes[0].count("SELECT count(*) FROM chapar.results") == 120)
        for node in nodes { await node.close() }
    }
}

/// The counts that the tasks of a test share.
private final class Tally: Sendable {
    let claimed = Mutex<[Int64]>([])
    let inFlight = Mutex((now: 0, most: 0))
    let isDone = Atomic(false)

    func begin(_ count: Int) {
        inFlight.withLock { inFlight in
            inFlight.now += count
            inFlight.most = max(inFlight.most, inFlight.now)
        }
    }

    func end(_ count: Int) { inFlight.withLock { $0.now -= count } }
}
