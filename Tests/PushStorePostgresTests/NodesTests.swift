import Foundation
import PushComposition
import PushCore
import PushQueue
import PushTesting
import Synchronization
import Testing

@testable import PushStorePostgres

/// Several gateways on one database.
@Suite("Several nodes share a PostgreSQL store", .serialized, .timeLimit(.minutes(2)))
struct NodesTests {
    private func nodes(_ count: Int, lease: Duration = .seconds(15)) async throws -> [PostgresStore] {
        var options = try await TestServer.shared.options()
        options.nodeLease = lease
        var nodes: [PostgresStore] = []
        for number in 0..<count {
            options.nodeName = "node-\(number)"
            nodes.append(try await PostgresStore.open(options))
        }
        return nodes
    }

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

    @Test("What any accepts, one claims, once; numbers never meet")
    func sharedWork() async throws {
        let nodes = try await nodes(3)
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

    @Test("Looks for claims whose answers were lost free none that somebody has")
    func looks() async throws {
        let nodes = try await nodes(2)
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

    @Test("What one node accepts wakes a call that waits on another, long before that would look")
    func wakes() async throws {
        let nodes = try await nodes(2, lease: .seconds(3))
        while !nodes[0].core.announcer.hasPeers { try await Task.sleep(for: .milliseconds(20)) }
        var spans: [Duration] = []
        for number in 0..<9 {
            let waiting = Task { try await nodes[1].claim(backend: "apns", limit: 1, wait: .seconds(20)) }
            try await Task.sleep(for: .milliseconds(20))
            let begin = ContinuousClock.now
            try await nodes[0].accept(to: [.user("\(number)")])
            try await nodes[1].end(try await waiting.value)
            spans.append(begin.duration(to: .now))
        }
        #expect(spans.sorted()[4] < .milliseconds(300), "\(spans)")
        for node in nodes { await node.close() }
    }

    @Test("What a node tells, each other one hears once, in order", arguments: [false, true])
    func notes(pollsOnly: Bool) async throws {
        var options = try await TestServer.shared.options()
        options.nodeLease = .seconds(3)
        options.pollsOnly = pollsOnly
        var nodes: [PostgresStore] = []
        let heard = Heard()
        for number in 0..<3 {
            options.nodeName = "node-\(number)"
            let node = try await PostgresStore.open(options)
            node.hear { note in heard.notes.withLock { $0[number, default: []].append(note.topic) } }
            nodes.append(node)
        }
        #expect(try await nodes[1].nodes().map(\.name) == ["node-0", "node-1", "node-2"])
        #expect(try await nodes[1].nodes().map(\.isSelf) == [false, true, false])
        for node in nodes { while !node.core.announcer.hasPeers { try await Task.sleep(for: .milliseconds(20)) } }
        for number in 0..<20 {
            nodes[0].tell(NodeNote(topic: "a\(number)", body: [1]))
            if number % 7 == 0 { try await Task.sleep(for: .milliseconds(70)) }
        }
        nodes[2].tell(NodeNote(topic: "b", body: []))
        let begin = ContinuousClock.now
        while heard.notes.withLock({ ($0[1]?.count ?? 0) < 21 || ($0[2]?.count ?? 0) < 20 }),
            begin.duration(to: .now) < .seconds(10)
        {
            try await Task.sleep(for: .milliseconds(20))
        }
        try await Task.sleep(for: .milliseconds(1_200))
        let all = heard.notes.withLock { $0 }
        #expect(all[0] == ["b"])
        #expect(all[1]?.filter { $0 != "b" } == (0..<20).map { "a\($0)" })
        #expect(all[1]?.count == 21)
        #expect(all[2] == (0..<20).map { "a\($0)" })
        for node in nodes { await node.close() }
        #expect(all.count == 3)
    }

    @Test("What one node at a time may do is done by one at a time, and a dead holder is passed over")
    func exclusively() async throws {
        let nodes = try await nodes(3)
        try await nodes[0].saveState("sum", [0])
        try await withThrowingTaskGroup(of: Void.self) { group in
            for node in nodes {
                for _ in 0..<5 {
                    group.addTask {
                        try await node.exclusively("token") {
                            let before = (try? await node.loadState("sum")) ?? []
                            try? await Task.sleep(for: .milliseconds(3))
                            try? await node.saveState("sum", [before[0] + 1])
                        }
                    }
                }
            }
            try await group.waitForAll()
        }
        #expect(try await nodes[0].loadState("sum") == [15])
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

    @Test(
        "What is claimed in the name of a node that is gone is freed at the second look; of what nodes have nothing is"
    )
    func strays() async throws {
        try await Nodes.use { nodes in
            let store = nodes[0]
            try await store.accept(to: (0..<3).map { .user("\($0)") })
            let own = try await store.claim(backend: "apns", limit: 1, wait: .zero)
            try await store.session(on: store.core.keeper) { (db) throws(PostgresError) in
                try db.run("UPDATE chapar.waiting SET owner = 4711, lease = 5 WHERE owner IS NULL")
            }
            var strays = StrayClaims()
            try await strays.look(store.core, every: .zero)
            #expect(try await store.claim(backend: "apns", limit: 9, wait: .zero).isEmpty)
            try await strays.look(store.core, every: .zero)
            var found: [ClaimedDelivery] = []
            while found.count < 2 {
                try Task.checkCancellation()
                found += try await store.claim(backend: "apns", limit: 9, wait: .seconds(5))
            }
            #expect(found.count == 2 && found.allSatisfy(\.isRecovered))
            try await store.end(own + found)
            #expect(try await store.count("SELECT count(*) FROM chapar.waiting") == 0)
        }
    }

    @Test("A place is found among as many dead nodes as there can be, and what one of them had is freed")
    func placesOfTheDead() async throws {
        let options = try await TestServer.shared.options()
        let first = try await PostgresStore.open(options)
        try await first.accept(to: [.user("ada")])
        try await first.session(on: first.core.keeper) { (db) throws(PostgresError) in
            try db.perform(
                """
                INSERT INTO chapar.nodes (slot, name, lease_until)
                SELECT s, 'dead', now() - interval '1 hour' * s FROM generate_series(0, \(NodeNumbers.slots - 1)) AS s
                WHERE s NOT IN (SELECT slot FROM chapar.nodes);
                UPDATE chapar.waiting SET owner = (SELECT number FROM chapar.nodes ORDER BY lease_until LIMIT 1)
                """
            )
        }
        let other = try await PostgresStore.open(options)
        let found = try await other.claim(backend: "apns", limit: 9, wait: .seconds(5))
        #expect(found.map(\.recipient) == [.user("ada")])
        try await other.end(found)
        await other.close()
        await first.close()
    }

    @Test("Claims that fit into no waiting call go to the next ones")
    func leftOver() async throws {
        try await Nodes.use { nodes in
            let store = nodes[0]
            func take() async throws -> [ClaimedDelivery] {
                try await store.claim(backend: "apns", limit: 10, normal: 5, wait: .seconds(3))
            }
            async let one = take()
            async let two = take()
            try await Task.sleep(for: .milliseconds(300))
            var batch = EnqueueBatch([])
            for priority in [PushNotification.Priority.high, .normal] {
                var new = store.sample(to: (0..<10).map { .user("\(priority) \($0)") })
                new.notification.priority = priority
                batch.notifications.append(new)
            }
            #expect(try await store.enqueue(batch) == .accepted)
            var found = try await one + two
            for _ in 0..<5 where found.count < 20 { found += try await take() }
            #expect(Set(found.map(\.id)).count == 20)
            try await store.end(found)
        }
    }

    @Test("A key that several nodes get at the same time is accepted by one")
    func idempotency() async throws {
        let nodes = try await nodes(3)
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

    @Test("A node that starts leaves alone what others had when the database was away for longer than their leases")
    func startAfterOutage() async throws {
        let first = try await nodes(1, lease: .seconds(3))[0]
        try await first.accept(to: [.user("a")])
        let held = try await first.claim(backend: "apns", limit: 1, wait: .zero)
        let late = try await first.transaction(on: first.core.keeper) { (db) throws(PostgresError) in
            try db.run("UPDATE chapar.nodes SET lease_until = clock_timestamp() - interval '1 hour'").changed
        }
        #expect(late == 1)
        let second = try await PostgresStore.open(first.options)
        #expect(try await second.count("SELECT count(*) FROM chapar.waiting WHERE owner > 0") == 1)
        // The first renews its lease in time, and ends what it has.
        try await Task.sleep(for: .seconds(5))
        #expect(try await second.claim(backend: "apns", limit: 1, wait: .zero).isEmpty)
        try await first.end(held)
        #expect(try await second.notification(held[0].notificationID)?.counts == [.acceptedByPlatform: 1])
        for node in [first, second] { await node.close() }
    }

    @Test("A node that was taken for dead goes on with what it has under its new number")
    func newNumber() async throws {
        let first = try await nodes(1, lease: .seconds(3))[0]
        try await first.accept(to: [.user("a")])
        let held = try await first.claim(backend: "apns", limit: 1, wait: .zero)
        let before = first.core.nodeNumber
        // Its row alone is gone, as when a claim was on its way while others freed what it had.
        _ = try await first.transaction(on: first.core.keeper) { (db) throws(PostgresError) in
            try db.run("DELETE FROM chapar.nodes")
        }
        while first.core.nodeNumber == before { try await Task.sleep(for: .milliseconds(50)) }
        #expect(
            try await first.count("SELECT count(*) FROM chapar.waiting w JOIN chapar.nodes n ON n.number = w.owner")
                == 1
        )
        try await first.end(held)
        #expect(try await first.notification(held[0].notificationID)?.counts == [.acceptedByPlatform: 1])
        await first.close()
    }

    @Test("Numbering events looks at those without a number alone, however many there are")
    func numbering() async throws {
        let store = try await nodes(1)[0]
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

    @Test("What a dead node had claimed is taken over within its lease, and its late answers undo nothing")
    func deadNode() async throws {
        let nodes = try await nodes(2, lease: .seconds(3))
        try await nodes[0].accept(to: [.user("a"), .user("b"), .user("c")])
        let former = try await nodes[0].claim(backend: "apns", limit: 9, wait: .zero)
        #expect(former.count == 3)
        await nodes[0].pauseKeeper()
        let begin = ContinuousClock.now
        var taken: [ClaimedDelivery] = []
        while taken.count < 2, begin.duration(to: .now) < .seconds(20) {
            taken += try await nodes[1].claim(backend: "apns", limit: 2 - taken.count, wait: .seconds(1))
        }
        #expect(begin.duration(to: .now) < .seconds(8))
        #expect(taken.map(\.isRecovered) == [true, true])
        #expect(taken.map(\.isReplay) == [true, true])
        #expect(zip(taken, former).allSatisfy { $0.lease > $1.lease })
        // The first node comes back with its answers.
        try await nodes[0].record(former.map { Resolution(of: $0, .end(.failed), attempt: [49], event: [1]) })
        let id = former[0].notificationID
        #expect(try await nodes[1].notification(id)?.counts == [.sending: 2, .queued: 1])
        try await nodes[0].record([Resolution(of: former[1], .retry(at: nodes[0].time.steady + 99, step: 0))])
        #expect(try await nodes[1].notification(id)?.counts == [.sending: 2, .queued: 1])
        // But that the platform has it is true whoever says so.
        try await nodes[0].end([former[0]])
        #expect(try await nodes[1].notification(id)?.counts == [.sending: 1, .queued: 1, .acceptedByPlatform: 1])
        try await nodes[1].end(taken)
        #expect(try await nodes[1].notification(id)?.counts == [.acceptedByPlatform: 2, .queued: 1])
        for node in nodes { await node.close() }
    }

    @Test("Requests that come while a transaction is under way share the next one")
    func groups() async throws {
        let nodes = try await nodes(1)
        try await withThrowingTaskGroup(of: Void.self) { group in
            for number in 0..<400 { group.addTask { try await nodes[0].accept(to: [.user("\(number)")]) } }
            try await group.waitForAll()
        }
        #expect(try await nodes[0].count("SELECT count(*) FROM chapar.notifications") == 400)
        let commits = try await nodes[0].count("SELECT count(DISTINCT xmin::text) FROM chapar.notifications")
        #expect(commits <= 100, "\(commits)")
        for node in nodes { await node.close() }
    }

    @Test("What keeps the store busy does not hold up the node's lease")
    func busy() async throws {
        let nodes = try await nodes(2, lease: .seconds(3))
        let number = nodes[0].core.nodeNumber
        try await nodes[0].accept(to: [.user("a")])
        #expect(try await nodes[0].claim(backend: "apns", limit: 1, wait: .zero).count == 1)
        try await nodes[0].core.keeper.session { (db) throws(PostgresError) in try db.perform("SELECT pg_sleep(8)") }
        #expect(nodes[0].core.nodeNumber == number)
        #expect(try await nodes[1].count("SELECT count(*) FROM chapar.waiting WHERE owner = \(number)") == 1)
        for node in nodes { await node.close() }
    }

    @Test("A node may judge others when it has renewed its own lease for a whole one without a gap, and a moment ago")
    func health() {
        let now = ContinuousClock.now
        let health = LeaseHealth(lease: .seconds(9))
        health.noteRenewal(at: now)
        health.noteGap(at: now)
        for second in [3, 6, 9] { health.noteRenewal(at: now + .seconds(second)) }
        #expect(!health.mayJudge(at: now + .seconds(9)))
        #expect(health.mayJudge(at: now + .seconds(10)))
        #expect(!health.mayJudge(at: now + .seconds(15)), "it has stood still")
        health.noteRenewal(at: now + .seconds(16))
        #expect(!health.mayJudge(at: now + .seconds(17)), "and the others may have with it")
        for second in [19, 22, 25] { health.noteRenewal(at: now + .seconds(second)) }
        #expect(health.mayJudge(at: now + .seconds(26)))
        #expect(LeaseHealth(lease: .seconds(3_600)).pause == .seconds(5))
    }

    @Test("A commit tells at most once, nobody tells more often than each 50 ms, and a lone node tells nothing")
    func notifications() async throws {
        let options = try await TestServer.shared.options()
        let listener = PostgresConnection(options, name: "listener")
        func heard(for span: Duration) async throws -> [String] {
            var heard: [String] = []
            let end = ContinuousClock.now + span
            while ContinuousClock.now < end {
                heard += try await listener.session { (db) throws(PostgresError) in
                    try db.notifications(within: .milliseconds(100))
                }
            }
            return heard
        }
        try await Nodes.use(1, options: options) { nodes in
            try await listener.session { (db) throws(PostgresError) in try db.perform("LISTEN \"chapar.work\"") }
            try await nodes[0].accept(to: [.user("a")])
            #expect(try await heard(for: .seconds(1)).isEmpty)
            let other = try await PostgresStore.open(options)
            nodes[0].core.announcer.hasPeers = true
            async let texts = heard(for: .seconds(2))
            let start = ContinuousClock.now
            var commits = 0
            while start.duration(to: .now) < .seconds(1) {
                try await nodes[0].accept(to: [.user("b")], backend: commits % 2 == 0 ? "apns" : "fcm")
                commits += 1
            }
            let count = try await texts.count
            #expect(count > 2 && count <= 1_000 / 50 + 2, "\(count) of \(commits) commits")
            await other.close()
        }
        await listener.close()
        #expect(Announcer.messages(["e", "wapns", "wfcm"]) == ["e\nwapns\nwfcm"])
        let long = (0..<200).map { "w\($0)" + String(repeating: "x", count: 100) }
        let messages = Announcer.messages(long)
        #expect(messages.count == 4 && messages.allSatisfy { $0.utf8.count < 8_000 })
        #expect(messages.flatMap { $0.split(separator: "\n").map(String.init) } == long)
    }

    @Test("A node looks for what a dead one leaves as soon as its lease ends")
    func pauses() {
        let now = ContinuousClock.now
        func pause(_ end: Double?) -> Duration {
            Keeper.pause(.seconds(5), until: end.map { now + .seconds($0) }, at: now)
        }
        #expect(pause(nil) == .seconds(5))
        #expect(pause(11) == .seconds(5))
        #expect(pause(2) == .milliseconds(2_050))
        #expect(pause(-3) == .seconds(1))
    }

    @Test("A node that was taken for dead goes on under a new number")
    func comesBack() async throws {
        let nodes = try await nodes(2, lease: .seconds(3))
        let number = nodes[0].core.nodeNumber
        _ = try await nodes[1].session(on: nodes[1].core.reader) { (db) throws(PostgresError) in
            try db.run("DELETE FROM chapar.nodes WHERE number = $1", [.integer(number)]).count
        }
        let begin = ContinuousClock.now
        while nodes[0].core.nodeNumber == number, begin.duration(to: .now) < .seconds(10) {
            try await Task.sleep(for: .milliseconds(50))
        }
        #expect(nodes[0].core.nodeNumber > number)
        try await nodes[0].accept(to: [.user("a")])
        #expect(try await nodes[0].claim(backend: "apns", limit: 1, wait: .zero).count == 1)
        for node in nodes { await node.close() }
    }

    @Test(
        "A node that was taken for dead accepts nothing before it has a new place, and nothing with a number of its old one",
        arguments: [nil, "k"]
    )
    func withoutPlace(key: String?) async throws {
        let nodes = try await nodes(2, lease: .seconds(15))
        func enqueue(_ new: NewNotification) async -> StoreError? {
            var batch = EnqueueBatch([new])
            batch.idempotency = key.map { key in
                IdempotencyEntry(caller: "", key: key, fingerprint: [1], answer: [2], keepUntil: new.expiresAt)
            }
            do throws(StoreError) {
                _ = try await nodes[0].enqueue(batch)
                return nil
            } catch {
                return error
            }
        }
        func isRefused(_ error: StoreError?) -> Bool {
            guard case .full(let reason, _) = error else { return false }
            return reason.contains("took this one for dead")
        }
        let (number, slot) = nodes[0].core.place
        let samples = ["late", "early"].map { nodes[0].sample(to: [.user($0)]) }
        // Another has taken the place.
        _ = try await nodes[1].session(on: nodes[1].core.reader) { (db) throws(PostgresError) in
            try db.run(
                "UPDATE chapar.nodes SET number = DEFAULT, name = 'other', lease_until = now() + interval '1 hour' WHERE number = $1",
                [.integer(number)]
            ).count
        }
        let tables = ["waiting", "notifications", "events", "idempotency"]
        #expect(isRefused(await enqueue(samples[0])))
        for table in tables { #expect(try await nodes[1].count("SELECT count(*) FROM chapar.\(table)") == 0) }
        let begin = ContinuousClock.now
        while nodes[0].core.nodeNumber == number, begin.duration(to: .now) < .seconds(30) {
            try await Task.sleep(for: .milliseconds(50))
        }
        #expect(nodes[0].core.place.slot != slot)
        #expect(isRefused(await enqueue(samples[1])))
        for table in tables { #expect(try await nodes[1].count("SELECT count(*) FROM chapar.\(table)") == 0) }
        #expect(await enqueue(nodes[0].sample(to: [.user("ada")])) == nil)
        #expect(try await nodes[1].count("SELECT count(*) FROM chapar.waiting") == 1)
        for node in nodes { await node.close() }
    }

    @Test("A transaction that commits late, with an earlier place in the sequence, is not skipped by a reader")
    func lateCommit() async throws {
        let nodes = try await nodes(2)
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
        let nodes = try await nodes(2)
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
        let nodes = try await nodes(3)
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
                        tally.inFlight.withLock { inFlight in
                            inFlight.now += claims.count
                            inFlight.most = max(inFlight.most, inFlight.now)
                        }
                        try await Task.sleep(for: .milliseconds(2))
                        tally.inFlight.withLock { $0.now -= claims.count }
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

private final class Heard: Sendable {
    let notes = Mutex<[Int: [String]]>([:])
}

/// What the tasks of a test count together.
private final class Tally: Sendable {
    let claimed = Mutex<[Int64]>([])
    let inFlight = Mutex((now: 0, most: 0))
    let isDone = Atomic(false)
}
