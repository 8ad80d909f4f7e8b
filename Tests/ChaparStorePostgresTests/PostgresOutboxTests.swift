import Foundation
import ChaparCore
import ChaparQueue
import ChaparStoreContract
import ChaparTesting
import Testing

@testable import ChaparStorePostgres

@Suite("The outbox over PostgreSQL", .serialized, .timeLimit(.minutes(2)))
struct PostgresOutboxTests {
    private func device(_ id: String) -> Device {
        let token = RegisteredToken(
            DeviceToken("t-\(id)", service: .iOSAPNs),
            registeredAt: Date(timeIntervalSince1970: 0)
        )
        return Device(id: id, tokens: [token], createdAt: Date(timeIntervalSince1970: 0))
    }

    private func entry(
        _ device: String,
        _ kind: OutboxEntry.Kind = .tags,
        backend: String = "crm",
        body: JSONObject = JSONObject()
    ) -> OutboxEntry {
        OutboxEntry(backend: backend, device: device, kind: kind, body: body, at: .now)
    }

    @Test("The store of several nodes keeps the contract", arguments: OutboxStoreConformance.cases)
    func contract(_ check: OutboxStoreConformanceCase) async throws {
        let options = try await TestServer.shared.options()
        try await check.run { time in
            try await PostgresStore.open(options, time: time)
        } close: { store in
            await (store as? PostgresStore)?.close()
        }
    }

    @Test("A full outbox refuses changes of devices, and nothing else, until some of it is planned")
    func bounded() async throws {
        try await Nodes.use(2) {
            $0.maximumUnplannedChanges = 3
        } _: { nodes in
            let (store, other) = (nodes[0], nodes[1])
            _ = try await store.put([device("a"), device("b")], outbox: .now)
            _ = try await other.backfill(["a"], to: "crm", at: .now)
            func refused(_ body: () async throws -> Void) async {
                do {
                    try await body()
                    Issue.record("the outbox is full")
                } catch StoreError.full(_, let retryAfter) {
                    #expect(retryAfter > .zero)
                } catch {
                    Issue.record("\(error)")
                }
            }
            await refused { _ = try await store.put([self.device("c")], outbox: .now) }
            await refused { _ = try await other.patch("a", outbox: .now) { $0.user = "u" } }
            await refused { _ = try await store.delete("a", outbox: .now) }
            await refused { _ = try await store.backfill(["b"], to: "crm", at: .now) }
            await refused { try await store.enqueue([self.entry("a")]) }
            #expect(try await store.device("c") == nil)
            #expect(try await store.device("a")?.user == nil, "nothing of it was done")
            try await store.enqueue([entry("x")])
            _ = try await store.put([device("quiet")])
            let token = DeviceToken("t-b", service: .iOSAPNs)
            let refusal = TokenRefusal(token, asOf: .now, at: .now, backend: "ios", reason: "Gone")
            #expect(try await store.invalidate([refusal], outbox: .now).count == 1)
            #expect(try await store.unplannedCount(ofDevice: nil) == 4)

            let changes = try await store.unplannedChanges(limit: 2, wait: .zero)
            try await other.record(changes.map { OutboxPlan(change: $0.number, []) })
            _ = try await store.put([device("c")], outbox: .now)
        }
    }

    @Test("Of many changes at once no more are taken than the outbox has room for")
    func boundedAtOnce() async throws {
        try await Nodes.use {
            $0.maximumUnplannedChanges = 20
        } _: { nodes in
            let taken = try await withThrowingTaskGroup(of: Bool.self) { group in
                for number in 0..<100 {
                    group.addTask {
                        do throws(StoreError) {
                            _ = try await nodes[0].put([self.device("d\(number)")], outbox: .now)
                            return true
                        } catch {
                            return false
                        }
                    }
                }
                return try await group.reduce(0) { $0 + ($1 ? 1 : 0) }
            }
            #expect(taken == 20)
            #expect(try await nodes[0].unplannedCount(ofDevice: nil) == 20)
            #expect(try await nodes[0].number("SELECT count(*) FROM chapar.devices") == 20)
        }
    }

    @Test("How much waits is known of what all nodes add and end, also after the sums were drawn")
    func depths() async throws {
        try await Nodes.use(2) { nodes in
            try await withThrowingTaskGroup(of: Void.self) { group in
                for (index, node) in nodes.enumerated() {
                    group.addTask {
                        for number in 0..<150 {
                            try await node.enqueue([
                                self.entry("d\(index)-\(number)"), self.entry("d\(index)-\(number)", backend: "other"),
                            ])
                        }
                        let claims = try await node.claimEntries(
                            of: "crm",
                            limit: 50,
                            lease: .seconds(60),
                            wait: .zero
                        )
                        for claim in claims { try await node.record([OutboxResult(claim, .end)]) }
                    }
                }
                try await group.waitForAll()
            }
            let depths = try await nodes[0].outboxDepths().mapValues(\.waiting)
            #expect(depths == ["crm": 200, "other": 300])
            #expect(try await nodes[0].number("SELECT count(*) FROM chapar.outbox_depths") < 400, "sums were drawn")
            #expect(try await nodes[1].cancelEntries(of: "other", device: nil) == 300)
            #expect(try await nodes[0].outboxDepths().mapValues(\.waiting) == ["crm": 200])
        }
    }

    /// Who has which entry, and what came of each device.
    private actor Tally {
        private(set) var seen: [String: [Int64]] = [:]
        private var inHand: Set<String> = []

        func begin(_ claims: [ClaimedEntry]) {
            for claim in claims {
                let device = claim.operation.device
                #expect(inHand.insert(device).inserted, "\(device) is in two hands")
                #expect(claim.attempt == 1)
                seen[device, default: []].append(claim.operation.body["n"]?.integerValue ?? -1)
            }
        }

        /// Notes claims that may come again.
        func note(_ claims: [ClaimedEntry]) {
            for claim in claims {
                seen[claim.operation.device, default: []].append(claim.operation.body["n"]?.integerValue ?? -1)
            }
        }

        private(set) var finished = 0

        func finish() { finished += 1 }

        func end(_ claims: [ClaimedEntry]) {
            for claim in claims { inHand.remove(claim.operation.device) }
        }
    }

    @Test("Two nodes that claim at once never get the same entry, and each line goes in order, one at a time")
    func claimsOfTwo() async throws {
        try await Nodes.use(2) { nodes in
            let deadlocks = try await nodes.deadlocks()
            let devices = 40
            let perDevice = 5
            for number in 0..<perDevice {
                try await nodes[number % 2].enqueue(
                    (0..<devices).map { self.entry("d\($0)", body: ["n": .integer(Int64(number))]) }
                )
            }
            let tally = Tally()
            try await withThrowingTaskGroup(of: Void.self) { group in
                for index in 0..<6 {
                    let node = nodes[index % 2]
                    group.addTask {
                        while true {
                            let claims = try await node.claimEntries(
                                of: "crm",
                                limit: 7,
                                lease: .seconds(60),
                                wait: .milliseconds(500)
                            )
                            guard !claims.isEmpty else { return }
                            await tally.begin(claims)
                            await tally.end(claims)
                            // One call for each, as workers do it.
                            try await withThrowingTaskGroup(of: Void.self) { group in
                                for claim in claims {
                                    group.addTask { try await node.record([OutboxResult(claim, .end)]) }
                                }
                                try await group.waitForAll()
                            }
                        }
                    }
                }
                try await group.waitForAll()
            }
            let all = await tally.seen
            #expect(all.count == devices)
            #expect(all.values.allSatisfy { $0 == (0..<Int64(perDevice)).map { $0 } })
            #expect(try await nodes[0].outboxDepths().isEmpty)
            #expect(try await nodes.deadlocks() == deadlocks)
        }
    }

    @Test("A change that one node commits is planned by another within its poll, and its entry claimed")
    func acrossNodes() async throws {
        let time = ManualTime()
        try await Nodes.use(2, time: time) {
            $0.pollsOnly = true
        } _: { nodes in
            let planner = Task { try await nodes[1].unplannedChanges(limit: 5, wait: .seconds(30)) }
            let worker = Task {
                try await nodes[1].claimEntries(of: "crm", limit: 5, lease: .seconds(60), wait: .seconds(30))
            }
            // The loop of each node that claims deliveries waits on this clock as well.
            try await eventually("both calls have found nothing and wait") { time.sleeping >= 4 }
            _ = try await nodes[0].put([device("a")], outbox: time.now)
            time.advance(by: OutboxSignals.poll)
            let changes = try await planner.value
            #expect(changes.map(\.content.device) == ["a"])
            try await eventually("the worker has found nothing again and waits") { time.sleeping >= 3 }
            try await nodes[0].record(
                changes.map { OutboxPlan(change: $0.number, [entry("a", .register)]) }
            )
            time.advance(by: OutboxSignals.poll)
            #expect(try await worker.value.map(\.operation.device) == ["a"])
        }
    }

    @Test("Another node's waiting calls are woken by what is announced, before they would look by themselves")
    func announced() async throws {
        // This clock is not moved: no call looks again unless it is woken.
        let time = ManualTime()
        try await Nodes.use(2, time: time) { nodes in
            for node in nodes { node.core.announcer.hasPeers = true }
            let planner = Task { try await nodes[1].unplannedChanges(limit: 5, wait: .seconds(3_600)) }
            let worker = Task {
                try await nodes[1].claimEntries(of: "crm", limit: 5, lease: .seconds(60), wait: .seconds(3_600))
            }
            // The loop of each node that claims deliveries waits on this clock as well.
            try await eventually("both calls have found nothing and wait") { time.sleeping >= 4 }
            _ = try await nodes[0].put([device("a")], outbox: time.now)
            #expect(try await planner.value.map(\.content.device) == ["a"])
            try await nodes[0].enqueue([entry("b")])
            #expect(try await worker.value.map(\.operation.device) == ["b"])
        }
    }

    @Test("Two nodes that plan the same changes add each entry once, in the order of the changes")
    func planners() async throws {
        try await Nodes.use(3) { nodes in
            let deadlocks = try await nodes.deadlocks()
            let rounds = 40
            try await withThrowingTaskGroup(of: Void.self) { group in
                group.addTask {
                    for round in 0..<rounds {
                        _ = try await nodes[2].put([self.device("a"), self.device("b")], outbox: .now)
                        for id in ["a", "b"] {
                            _ = try await nodes[2].patch(id, outbox: .now) { $0.locale = "l\(round)" }
                        }
                    }
                }
                for node in nodes.prefix(2) {
                    group.addTask {
                        while true {
                            let changes = try await node.unplannedChanges(limit: 7, wait: .seconds(3))
                            guard !changes.isEmpty else { return }
                            try await node.record(
                                changes.map { change in
                                    OutboxPlan(
                                        change: change.number,
                                        [self.entry(change.content.device, body: ["n": .integer(change.number)])]
                                    )
                                }
                            )
                        }
                    }
                }
                try await group.waitForAll()
            }
            for id in ["a", "b"] {
                let entries = try await nodes[0].entries(ofDevice: id, limit: 1_000)
                let numbers = entries.compactMap { $0.operation.body["n"]?.integerValue }
                #expect(numbers == numbers.sorted(), "\(id) in order")
                #expect(Set(numbers).count == numbers.count, "\(id), each once")
                #expect(numbers.count >= rounds)
                #expect(entries.count { $0.due != nil } == 1, "one of \(id) can be claimed")
            }
            #expect(try await nodes[0].unplannedCount(ofDevice: nil) == 0)
            #expect(try await nodes.deadlocks() == deadlocks)
        }
    }

    @Test("Lines that nodes add to, end and cancel at once keep one entry that can be claimed")
    func mixed() async throws {
        try await Nodes.use(3) { nodes in
            let deadlocks = try await nodes.deadlocks()
            try await withThrowingTaskGroup(of: Void.self) { group in
                for (index, node) in nodes.enumerated() {
                    group.addTask {
                        for round in 0..<80 {
                            try await node.enqueue((0..<6).map { self.entry("d\(($0 + round) % 9)") })
                            let claims = try await node.claimEntries(
                                of: "crm",
                                limit: 5,
                                lease: .seconds(60),
                                wait: .zero
                            )
                            try await node.record(
                                claims.enumerated().map { place, claim in
                                    OutboxResult(claim, place % 3 == 2 ? .release : .end)
                                }
                            )
                            if round % 20 == 10 + index {
                                _ = try await node.cancelEntries(of: "crm", device: round % 40 < 20 ? "d1" : nil)
                            }
                        }
                    }
                }
                try await group.waitForAll()
            }
            for number in 0..<9 {
                let waiting = try await nodes[0].entries(ofDevice: "d\(number)", limit: 10_000)
                #expect(waiting.isEmpty || waiting[0].due != nil, "the first of d\(number)")
                #expect(waiting.dropFirst().allSatisfy { $0.due == nil }, "the others of d\(number)")
            }
            let waiting = try await nodes[0].number("SELECT count(*) FROM chapar.outbox_entries")
            #expect(try await nodes[1].outboxDepths()["crm"]?.waiting ?? 0 == Int(waiting))
            #expect(try await nodes.deadlocks() == deadlocks)
        }
    }

    @Test("Accepted operations are carried out in order, however often connections are cut")
    func cuts() async throws {
        try await Nodes.use(3) { nodes in
            let (devices, perDevice) = (8, 12)
            let tally = Tally()
            /// As the gateway does it: until it is written.
            @Sendable func insist(_ body: () async throws(StoreError) -> Void) async throws {
                try await eventually("it is written") { (try? await body()) != nil }
            }
            try await withThrowingTaskGroup(of: Void.self) { group in
                group.addTask {
                    var rounds = 0
                    try await eventually("connections were cut in 60 rounds", every: .milliseconds(10)) {
                        _ = try await nodes[2].number(
                            """
                            SELECT count(pg_terminate_backend(pid)) FROM pg_stat_activity
                            WHERE pid <> pg_backend_pid() AND query LIKE '%\(nodes[2].options.schema).outbox%'
                            """
                        )
                        rounds += 1
                        return rounds == 60
                    }
                }
                for device in 0..<devices {
                    group.addTask {
                        for number in 0..<perDevice {
                            // One whose commit is in doubt is there twice.
                            try await insist { () throws(StoreError) in
                                try await nodes[device % 2].enqueue([
                                    self.entry("d\(device)", body: ["n": .integer(Int64(number))])
                                ])
                            }
                        }
                        await tally.finish()
                    }
                }
                for index in 0..<4 {
                    let node = nodes[index % 2]
                    group.addTask {
                        while true {
                            // The lease of a claim that was lost in its commit lapses soon.
                            let claims =
                                (try? await node.claimEntries(
                                    of: "crm",
                                    limit: 3,
                                    lease: .seconds(2),
                                    wait: .milliseconds(100)
                                )) ?? []
                            await tally.note(claims)
                            for claim in claims {
                                try await insist { () throws(StoreError) in
                                    try await node.record([OutboxResult(claim, .end)])
                                }
                            }
                            let isOver = try await nodes[2].number("SELECT count(*) FROM chapar.outbox_entries") == 0
                            if isOver, await tally.finished == devices { return }
                        }
                    }
                }
                try await group.waitForAll()
            }
            let seen = await tally.seen
            for device in 0..<devices {
                let numbers = seen["d\(device)"] ?? []
                #expect(numbers == numbers.sorted(), "d\(device) in order")
                #expect(Set(numbers) == Set((0..<Int64(perDevice)).map { $0 }), "all of d\(device)")
            }
            #expect(try await nodes[2].outboxDepths().isEmpty)
        }
    }

    @Test("A node that ends in good order gives back what it has claimed, and only that")
    func givesBack() async throws {
        try await Nodes.use(2) { nodes in
            try await nodes[0].enqueue([entry("a"), entry("b"), entry("c")])
            func claim(_ node: PostgresStore) async throws -> [ClaimedEntry] {
                try await node.claimEntries(of: "crm", limit: 1, lease: .seconds(600), wait: .zero)
            }
            let (first, second) = (try await claim(nodes[0]), try await claim(nodes[0]))
            try await nodes[0].record(second.map { OutboxResult($0, .retry(at: .now + 600)) })
            let third = try await claim(nodes[1])
            await nodes[0].close()
            let again = try await nodes[1].claimEntries(of: "crm", limit: 9, lease: .seconds(600), wait: .zero)
            #expect(again.map(\.number) == first.map(\.number))
            #expect(again.map(\.attempt) == [2])
            #expect(third.count == 1)
        }
    }

    @Test("Other nodes get a dead node's entries within its lease, and its late answers undo nothing")
    func deadNode() async throws {
        try await Nodes.use(2) {
            $0.nodeLease = .seconds(3)
        } _: { nodes in
            try await nodes[0].enqueue([entry("a"), entry("b"), entry("c")])
            func claim(_ node: PostgresStore, _ limit: Int, wait: Duration = .zero) async throws -> [ClaimedEntry] {
                try await node.claimEntries(of: "crm", limit: limit, lease: .seconds(600), wait: wait)
            }
            let former = try await claim(nodes[0], 2)
            let own = try await claim(nodes[1], 9)
            #expect((former.count, own.count) == (2, 1))
            await nodes[0].pauseKeeper()
            let begin = ContinuousClock.now
            var taken: [ClaimedEntry] = []
            while taken.count < 2, begin.duration(to: .now) < .seconds(20) {
                taken += try await claim(nodes[1], 9, wait: .seconds(1))
            }
            #expect(begin.duration(to: .now) < .seconds(10))
            #expect(Set(taken.map(\.number)) == Set(former.map(\.number)))
            #expect(taken.map(\.attempt) == [2, 2])
            // The first node comes back with its answers. Its sessions were ended, which the first call over one says.
            let late = [OutboxResult(former[0], .retry(at: .now + 600)), OutboxResult(former[1], .release)]
            do throws(StoreError) {
                try await nodes[0].record(late)
            } catch {
                guard case .full = error else { throw error }
                try await nodes[0].record(late)
            }
            #expect(try await claim(nodes[0], 9).isEmpty, "the leases of the node that lives are in force")
            try await nodes[1].record((taken + own).map { OutboxResult($0, .end) })
            #expect(try await nodes[1].outboxDepths().isEmpty)
        }
    }

    @Test("After a failover that forgot a claim, the answers to it undo nothing of another node's")
    func forgottenClaim() async throws {
        try await Nodes.use(2) { nodes in
            try await nodes[0].enqueue([entry("a"), entry("b")])
            func claim(_ node: PostgresStore, wait: Duration = .zero) async throws -> [ClaimedEntry] {
                try await node.claimEntries(of: "crm", limit: 9, lease: .seconds(600), wait: wait)
            }
            let former = try await claim(nodes[0])
            try await nodes[0].session(on: nodes[0].core.keeper) { (db) throws(PostgresError) in
                // The sequence as well gives out again what it gave out.
                try db.perform(
                    """
                    UPDATE chapar.outbox_entries SET owner = NULL, attempts = 0, lease = NULL, due = 0;
                    SELECT setval('chapar.leases', \(former[0].lease), false)
                    """
                )
            }
            let own = try await claim(nodes[1])
            #expect(own.map(\.lease) == former.map(\.lease))
            try await nodes[0].record([
                OutboxResult(former[0], .retry(at: .now + 600)), OutboxResult(former[1], .release),
            ])
            #expect(try await claim(nodes[0]).isEmpty, "the leases of the other node are in force")
            try await nodes[1].record(own.map { OutboxResult($0, .release) })
            // Due by the other node's clock, which may be some milliseconds ahead.
            #expect(try await claim(nodes[0], wait: .seconds(5)).count == 2)
        }
    }

    @Test("A release whose commit is made twice, since its answer was lost, frees no later claim of the same node")
    func releasedTwice() async throws {
        try await Nodes.use(2) { nodes in
            try await nodes[0].enqueue([entry("a")])
            func claim(_ node: PostgresStore, wait: Duration = .zero) async throws -> [ClaimedEntry] {
                try await node.claimEntries(of: "crm", limit: 9, lease: .seconds(600), wait: wait)
            }
            let former = try await claim(nodes[0])
            try await nodes[0].record(former.map { OutboxResult($0, .release) })
            let own = try await claim(nodes[0])
            #expect((former.map(\.attempt), own.map(\.attempt)) == ([1], [1]))
            #expect(own[0].lease > former[0].lease)
            for ending in [OutboxResult.Ending.release, .retry(at: .distantPast), .end] {
                try await nodes[0].record(former.map { OutboxResult($0, ending) })
                #expect(try await claim(nodes[1]).isEmpty, "the later claim is in force")
                #expect(try await nodes[1].outboxDepths()["crm"]?.waiting == 1)
            }
            try await nodes[0].record(own.map { OutboxResult($0, .end) })
            #expect(try await nodes[1].outboxDepths().isEmpty)
        }
    }

    @Test("The events of entries are kept with what became of them, also when the entry is gone")
    func events() async throws {
        try await Nodes.use(2) { nodes in
            try await nodes[0].enqueue([entry("a"), entry("b")])
            let claims = try await nodes[0].claimEntries(of: "crm", limit: 9, lease: .seconds(60), wait: .zero)
            _ = try await nodes[1].cancelEntries(of: "crm", device: "b")
            let results = claims.map { claim in
                OutboxResult(claim, .end, event: Array("{\"d\":\"\(claim.operation.device)\"}".utf8))
            }
            try await nodes[0].record(results)
            let events = try await nodes[1].events(after: 0, limit: 10, wait: .zero)
            #expect(events.map { String(decoding: $0.json, as: UTF8.self) } == ["{\"d\":\"a\"}", "{\"d\":\"b\"}"])
        }
    }

    @Test("A store that closes ends those who wait for work")
    func closing() async throws {
        let time = ManualTime()
        try await Nodes.use(time: time) { nodes in
            let claim = Task {
                try await nodes[0].claimEntries(of: "crm", limit: 1, lease: .seconds(9), wait: .seconds(3_600))
            }
            let look = Task { try await nodes[0].unplannedChanges(limit: 1, wait: .seconds(3_600)) }
            // The loop that claims deliveries waits on this clock as well.
            try await eventually("both calls wait") { time.sleeping >= 3 }
            await nodes[0].close()
            await #expect(throws: StoreError.closed) { try await claim.value }
            await #expect(throws: StoreError.closed) { try await look.value }
        }
    }

    @Test("Removing many goes in steps, and a line that grows meanwhile is claimable at its end")
    func removal() async throws {
        try await Nodes.use(2) { nodes in
            let count = OutboxEntryTable.largestRemoval + 500
            try await nodes[0].enqueue((0..<count).map { _ in entry("a") })
            async let removed = nodes[0].cancelEntries(of: "crm", device: nil)
            try await nodes[1].enqueue([entry("a", .event)])
            let total = try await removed
            #expect(total == count || total == count + 1)
            let left = try await nodes[1].claimEntries(of: "crm", limit: 5, lease: .seconds(9), wait: .zero)
            #expect(left.count == count + 1 - total)
        }
    }

    @Test("Changes are read in parts when they are large")
    func largeChanges() async throws {
        try await Nodes.use { nodes in
            for id in 0..<4 {
                var large = device("d\(id)")
                large.attributes = ["text": .string(String(repeating: "x", count: 2 << 20))]
                _ = try await nodes[0].put([large], outbox: .now)
            }
            var seen: [String] = []
            while true {
                let changes = try await nodes[0].unplannedChanges(limit: 100, wait: .zero)
                guard !changes.isEmpty else { break }
                #expect(changes.count < 4)
                seen += changes.map(\.content.device)
                try await nodes[0].record(changes.map { OutboxPlan(change: $0.number, []) })
            }
            #expect(seen == ["d0", "d1", "d2", "d3"])
        }
    }

    @Test("A claim walks its index also when it was planned while nothing waited")
    func planOfEmptyTable() async throws {
        try await Nodes.use { nodes in
            let connection = nodes[0].outbox
            try await nodes[0].session(on: connection) { (db) throws(PostgresError) in
                try db.perform("VACUUM ANALYZE chapar.outbox_entries")
            }
            for _ in 0..<10 {
                let claims = try await nodes[0].claimEntries(of: "b1", limit: 9, lease: .seconds(9), wait: .zero)
                #expect(claims.isEmpty)
            }
            let plan = try await nodes[0].session(on: connection) { (db) throws(PostgresError) in
                let rows = try db.run(
                    "SELECT name FROM pg_prepared_statements WHERE statement LIKE 'WITH ready%' AND generic_plans > 0"
                )
                guard let name = rows.text(0, 0) else { return ["no plan is kept"] }
                let plan = try db.run("EXPLAIN EXECUTE \(name)('b1', 0, 9, 0, 1)")
                return (0..<plan.count).map { plan.text($0, 0) ?? "" }
            }
            #expect(plan.contains { $0.contains("outbox_entries_due") }, "\(plan.joined(separator: "\n"))")
            #expect(!plan.contains { $0.contains("Seq Scan on") }, "\(plan.joined(separator: "\n"))")
        }
    }

    @Test(
        "Statements of each entry use an index, in tables of some size",
        arguments: [
            """
            SELECT number FROM chapar.outbox_entries WHERE backend = 'b1' AND due <= 50 ORDER BY due, number LIMIT 9
            FOR UPDATE SKIP LOCKED
            """,
            "SELECT due FROM chapar.outbox_entries WHERE backend = 'b1' AND due IS NOT NULL ORDER BY due LIMIT 1",
            """
            SELECT kind FROM unnest('{d5,d6}'::text[], '{b1,b2}'::text[]) AS l(device, backend)
            CROSS JOIN LATERAL (
                SELECT kind FROM chapar.outbox_entries e
                WHERE e.device = l.device AND e.backend = l.backend ORDER BY number DESC LIMIT 1
            ) e
            """,
            "SELECT number FROM chapar.outbox_entries WHERE backend = 'b1' AND number <= 9000 ORDER BY number LIMIT 100",
            "SELECT number FROM chapar.outbox_entries WHERE device = 'd7' ORDER BY number LIMIT 9",
            "SELECT at FROM chapar.outbox_entries WHERE backend = 'b1' ORDER BY number LIMIT 1",
            "DELETE FROM chapar.outbox_entries WHERE number = ANY ('{5,6}') RETURNING device, backend",
            """
            SELECT device FROM unnest('{d5,d6}'::text[]) AS n(device)
            WHERE EXISTS (SELECT FROM chapar.outbox_changes c WHERE c.device = n.device)
            """,
            OutboxChangeTable.span,
        ]
    )
    func plans(sql: String) async throws {
        try await Nodes.use { nodes in
            let plan = try await nodes[0].transaction(on: nodes[0].outbox) { (db) throws(PostgresError) in
                try db.perform(
                    """
                    INSERT INTO chapar.outbox_entries (id, backend, device, kind, at, due)
                    SELECT n, 'b' || n % 4, 'd' || n % 5000, 'tags', 0, CASE WHEN n <= 5000 THEN n END FROM generate_series(1, 20000) n;
                    INSERT INTO chapar.outbox_changes (device, at) SELECT 'd' || n, 0 FROM generate_series(1, 10000) n;
                    ANALYZE chapar.outbox_entries; ANALYZE chapar.outbox_changes
                    """
                )
                let rows = try db.run("EXPLAIN " + sql)
                return (0..<rows.count).map { rows.text($0, 0) ?? "" }
            }
            #expect(!plan.contains { $0.contains("Seq Scan on") }, "\(plan.joined(separator: "\n"))")
        }
    }
}
