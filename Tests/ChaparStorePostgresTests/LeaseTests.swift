import Foundation
import ChaparCore
import ChaparQueue
import ChaparStoreContract
import ChaparTesting
import Testing

@testable import ChaparStorePostgres

/// Places of nodes, and what becomes of the work of those that lose theirs.
@Suite("A node of a PostgreSQL store has its place under a lease", .serialized, .timeLimit(.minutes(2)))
struct LeaseTests {
    @Test("A dead node's claims are taken over within its lease, and its late answers undo nothing")
    func deadNode() async throws {
        let nodes = try await Nodes.open(2, lease: .seconds(3))
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
        // But "accepted" is true no matter which node reports it.
        try await nodes[0].end([former[0]])
        #expect(try await nodes[1].notification(id)?.counts == [.sending: 1, .queued: 1, .acceptedByPlatform: 1])
        try await nodes[1].end(taken)
        #expect(try await nodes[1].notification(id)?.counts == [.acceptedByPlatform: 2, .queued: 1])
        for node in nodes { await node.close() }
    }

    @Test("A node that starts leaves alone what others had when the database was away for longer than their leases")
    func startAfterOutage() async throws {
        let first = try await Nodes.open(1, lease: .seconds(3))[0]
        try await first.accept(to: [.user("a")])
        let held = try await first.claim(backend: "apns", limit: 1, wait: .zero)
        // It gets its connection again later than the one that starts.
        await first.pauseKeeper()
        func setLease(_ span: String) async throws {
            let changed = try await first.transaction(on: first.core.keeper) { (db) throws(PostgresError) in
                try db.run(
                    "UPDATE chapar.nodes SET lease_until = clock_timestamp() + interval '\(span)' WHERE slot = 0"
                ).changed
            }
            #expect(changed == 1)
        }
        try await setLease("-1 hour")
        let second = try await PostgresStore.open(first.options)
        #expect(try await second.count("SELECT count(*) FROM chapar.waiting WHERE owner > 0") == 1)
        // Now it renews its lease, and ends what it has.
        try await setLease("30 seconds")
        // The second one judges others as soon as it has renewed its own lease for long enough.
        try await eventually("the second node judges", within: .seconds(20), every: .milliseconds(50)) {
            second.core.leaseHealth.mayJudge
        }
        #expect(try await NodeRecovery.run(within: .seconds(3), second.core).deliveries == 0)
        #expect(try await second.claim(backend: "apns", limit: 1, wait: .zero).isEmpty)
        try await first.end(held)
        #expect(try await second.notification(held[0].notificationID)?.counts == [.acceptedByPlatform: 1])
        for node in [first, second] { await node.close() }
    }

    @Test("A node that was taken for dead goes on with what it has under its new number")
    func newNumber() async throws {
        let first = try await Nodes.open(1, lease: .seconds(3))[0]
        try await first.accept(to: [.user("a")])
        let held = try await first.claim(backend: "apns", limit: 1, wait: .zero)
        let before = first.core.nodeNumber
        // Its row alone is gone, as when a claim was on its way while others freed what it had.
        _ = try await first.transaction(on: first.core.keeper) { (db) throws(PostgresError) in
            try db.run("DELETE FROM chapar.nodes")
        }
        func kept() async throws -> Int {
            try await first.count("SELECT count(*) FROM chapar.waiting w JOIN chapar.nodes n ON n.number = w.owner")
        }
        try await eventually("its new number has the claim", within: .seconds(20), every: .milliseconds(50)) {
            try await kept() > 0
        }
        #expect(first.core.nodeNumber > before)
        #expect(try await kept() == 1)
        try await first.end(held)
        #expect(try await first.notification(held[0].notificationID)?.counts == [.acceptedByPlatform: 1])
        await first.close()
    }

    @Test("A node that was taken for dead goes on under a new number")
    func comesBack() async throws {
        let nodes = try await Nodes.open(2, lease: .seconds(3))
        let number = nodes[0].core.nodeNumber
        _ = try await nodes[1].session(on: nodes[1].core.reader) { (db) throws(PostgresError) in
            try db.run("DELETE FROM chapar.nodes WHERE number = $1", [.integer(number)]).count
        }
        try await nodes[0].awaitPlace(after: number)
        #expect(nodes[0].core.nodeNumber > number)
        try await nodes[0].accept(to: [.user("a")])
        #expect(try await nodes[0].claim(backend: "apns", limit: 1, wait: .zero).count == 1)
        for node in nodes { await node.close() }
    }

    @Test(
        "A node that stood still while a newer version changed the tables does not go on, and says why",
        arguments: [true, false]
    )
    func newerMeanwhile(losesPlace: Bool) async throws {
        let node = try await Nodes.open(1, lease: .seconds(3))[0]
        let (number, step) = (node.core.nodeNumber, Schema.steps.count + 1)
        func isRefused() async -> Bool {
            guard let detail = await node.health().detail else { return false }
            return detail.contains("was written by a newer version, whose step \(step) this one does not know")
        }
        try await node.transaction(on: node.core.keeper) { (db) throws(PostgresError) in
            try db.run("INSERT INTO chapar.schema_steps (number, name) VALUES ($1, 'later')", [.integer(step)])
            if losesPlace { try db.run("DELETE FROM chapar.nodes") }
        }
        try await eventually("the node does not go on", within: .seconds(10), every: .milliseconds(50)) {
            if await isRefused() { return true }
            // It has its place still, but the last renewal was long ago.
            if !losesPlace { node.core.leaseHealth.noteRenewal(at: ContinuousClock.now.advanced(by: .seconds(-60))) }
            return false
        }
        #expect(await isRefused())
        #expect(await !node.health().acceptsWork)
        #expect(node.core.nodeNumber == number)
        try await node.transaction(on: node.core.keeper) { (db) throws(PostgresError) in
            try db.run("DELETE FROM chapar.schema_steps WHERE number = $1", [.integer(step)])
        }
        try await eventually("the node goes on again", within: .seconds(20), every: .milliseconds(50)) {
            await !isRefused()
        }
        #expect(await !isRefused())
        await node.close()
    }

    @Test("Each node reads which backends the others have, also of one that goes on under a new number")
    func backends() async throws {
        let nodes = try await Nodes.open(2, lease: .seconds(3))
        try await nodes[0].declare(backends: ["ios", "crm"])
        func known() async throws -> [Set<String>?] { try await nodes[1].nodes().map(\.backends) }
        #expect(try await known() == [["ios", "crm"], nil])
        try await nodes[1].declare(backends: [])
        #expect(try await known() == [["ios", "crm"], []])
        let number = nodes[0].core.nodeNumber
        _ = try await nodes[1].session(on: nodes[1].core.reader) { (db) throws(PostgresError) in
            try db.run("DELETE FROM chapar.nodes WHERE number = $1", [.integer(number)]).count
        }
        try await nodes[0].awaitPlace(after: number)
        #expect(try await known() == [[], ["ios", "crm"]])
        for node in nodes { await node.close() }
    }

    @Test(
        "A node that was taken for dead accepts nothing before it has a new place, and nothing with a number of its old one",
        arguments: [nil, "k"]
    )
    func withoutPlace(key: String?) async throws {
        let nodes = try await Nodes.open(2, lease: .seconds(15))
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
        try await nodes[0].awaitPlace(after: number)
        #expect(nodes[0].core.place.slot != slot)
        #expect(isRefused(await enqueue(samples[1])))
        for table in tables { #expect(try await nodes[1].count("SELECT count(*) FROM chapar.\(table)") == 0) }
        #expect(await enqueue(nodes[0].sample(to: [.user("ada")])) == nil)
        #expect(try await nodes[1].count("SELECT count(*) FROM chapar.waiting") == 1)
        for node in nodes { await node.close() }
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

    @Test(
        "Claims of a removed node are freed at the second look; claims of present nodes are not"
    )
    func strays() async throws {
        try await Nodes.use { nodes in
            let store = nodes[0]
            try await store.accept(to: (0..<3).map { .user("\($0)") })
            let own = try await store.claim(backend: "apns", limit: 1, wait: .zero)
            try await store.session(on: store.core.keeper) { (db) throws(PostgresError) in
                try db.run("UPDATE chapar.waiting SET owner = 4711, lease = 5 WHERE owner IS NULL")
            }
            var orphans = OrphanedClaims()
            try await orphans.sweep(store.core, every: .zero)
            #expect(try await store.claim(backend: "apns", limit: 9, wait: .zero).isEmpty)
            try await orphans.sweep(store.core, every: .zero)
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

    @Test("A busy store does not delay the node's lease")
    func busy() async throws {
        let nodes = try await Nodes.open(2, lease: .seconds(3))
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

    @Test("A node that has joined begins one round of the upkeep, also when that round fails")
    func pacedAfterJoin() async {
        let (joined, ended, time) = (AsyncSignal(), AsyncSignal(), ManualTime())
        let pace = RoundPace(joined)
        joined.signal()
        await pace.wait(atMost: .seconds(5), time)
        // The round has failed: nothing was looked at.
        await withTaskGroup(of: Void.self) { group in
            group.addTask {
                await pace.wait(atMost: .seconds(5), time)
                ended.signal()
            }
            while time.sleeping == 0, ended.mark == .start { await Task.yield() }
            #expect(time.sleeping == 1, "the next round waits for its time")
            time.advance(by: .seconds(5))
        }
    }
}
