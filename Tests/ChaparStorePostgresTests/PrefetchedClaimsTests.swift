import Foundation
import ChaparComposition
import ChaparCore
import ChaparQueue
import ChaparTesting
import Testing

@testable import ChaparStorePostgres

@Suite("Deliveries that are kept for the calls to come")
struct PrefetchedClaimsTests {
    private let start = ContinuousClock.now

    static func claims(_ numbers: ClosedRange<Int64>, urgent: Set<Int64> = []) -> [Claim] {
        numbers.map { number in
            let new = NewNotification(
                id: NotificationID(rawValue: number),
                notification: PushNotification(title: "t"),
                record: NotificationRecord(
                    content: [],
                    plans: [DeliveryPlan(["apns"])],
                    acceptedAt: Date(millisecondsSince1970: 0)
                ),
                recipients: [.user("u")],
                caller: "",
                expiresAt: Date(millisecondsSince1970: 1),
                event: []
            )
            let delivery = ClaimedDelivery(
                id: number,
                head: NotificationHead(new).heads[0],
                recipient: .user("u"),
                caller: "",
                lease: 1
            )
            return Claim(delivery: delivery, flow: 1, due: number, isUrgent: urgent.contains(number), collapse: nil)
        }
    }

    private func numbers(_ claims: [Claim]) -> [Int64] { claims.map(\.delivery.id) }

    @Test("There is room for what is taken in a quarter of a second, and none where that is little")
    func room() {
        var prefetched = PrefetchedClaims()
        prefetched.noteTaken(PrefetchedClaims.least - 1, at: start)
        #expect(prefetched.room(at: start) == 0)
        prefetched.noteTaken(101, at: start)
        #expect(prefetched.room(at: start) == 600)
        prefetched.keep(Self.claims(1...200), at: start)
        #expect(prefetched.room(at: start) == 400)
        // The pace of the span before counts, an older one does not.
        #expect(prefetched.room(at: start + PrefetchedClaims.span * 1.2) == 400)
        #expect(prefetched.room(at: start + PrefetchedClaims.span * 3) == 0)
        prefetched.noteTaken(1_000_000, at: start + PrefetchedClaims.span * 3)
        #expect(prefetched.room(at: start + PrefetchedClaims.span * 3) == PrefetchedClaims.largest - 200)
    }

    @Test("Urgent ones are taken first, then the oldest, of normal priority no more than asked for")
    func take() {
        var prefetched = PrefetchedClaims()
        prefetched.keep(Self.claims(1...6, urgent: [4, 6]))
        #expect(numbers(prefetched.take(1, normal: 1)) == [4])
        #expect(numbers(prefetched.take(3, normal: 1)) == [6, 1])
        #expect(numbers(prefetched.take(9, normal: 0)) == [])
        #expect(numbers(prefetched.take(2, normal: 9)) == [2, 3])
        #expect(numbers(prefetched.take(9, normal: 9)) == [5])
        #expect(prefetched.count == 0)
    }

    @Test("Claims that are not taken for a second go back")
    func overdue() {
        var prefetched = PrefetchedClaims()
        prefetched.keep(Self.claims(1...2), at: start)
        prefetched.keep(Self.claims(3...4), at: start + .milliseconds(900))
        #expect(prefetched.takeOverdue(at: start + .milliseconds(999)).isEmpty)
        #expect(numbers(prefetched.takeOverdue(at: start + .seconds(1))) == [1, 2, 3, 4])
        #expect(prefetched.count == 0)
    }
}

/// The same with a database: the first calls show how fast a backend takes.
@Suite("PostgreSQL deliveries that are kept for the calls to come", .serialized, .timeLimit(.minutes(2)))
struct KeptClaimsTests {
    private static let pace = PrefetchedClaims.least

    /// Lets calls of a store take enough that deliveries are prefetched.
    private func hurry(_ store: PostgresStore) async throws {
        while store.core.claimWaiters.room("apns") < Self.pace {
            try await store.accept(to: (0..<2 * Self.pace).map { .user("first \($0)") })
            var ended = 0
            while ended < 2 * Self.pace {
                try Task.checkCancellation()  // A cancelled call gives nothing.
                let claims = try await store.claim(backend: "apns", limit: 2 * Self.pace, wait: .zero)
                try await store.end(claims)
                ended += claims.count
            }
        }
    }

    /// Prefetches this many deliveries.
    private func keep(_ count: Int, _ store: PostgresStore) async throws -> NotificationID {
        while true {
            try await hurry(store)
            let id = try await store.accept(to: (0..<count).map { .user("\($0)") })
            if try await owned(store) == count { return id }
            // The machine was too busy for the pace to be kept.
            try await store.end(try await store.claim(backend: "apns", limit: count, wait: .seconds(5)))
        }
    }

    private func owned(_ store: PostgresStore) async throws -> Int {
        try await store.count("SELECT count(*) FROM chapar.waiting WHERE owner IS NOT NULL")
    }

    /// How many rows claims have written.
    private func changed(_ store: PostgresStore) async throws -> Int {
        try await store.session(on: store.core.claimer) { (db) throws(PostgresError) in
            try db.run("SELECT pg_stat_force_next_flush()")
        }
        return try await store.count(
            "SELECT n_tup_upd FROM pg_stat_user_tables WHERE schemaname = '\(store.options.schema)' AND relname = 'waiting'"
        )
    }

    @Test("The next calls get what was accepted meanwhile, and no row is written once more for that")
    func calls() async throws {
        try await Nodes.use { nodes in
            let store = nodes[0]
            _ = try await keep(20, store)
            try #require(try await owned(store) == 20)
            let before = try await changed(store)
            var found: [ClaimedDelivery] = []
            for _ in 0..<2 {
                found += try await store.claim(backend: "apns", limit: 10, wait: .seconds(5))
            }
            #expect(found.map(\.recipient) == (0..<20).map { .user("\($0)") })
            #expect(try await changed(store) == before)
            try await store.end(found)
            #expect(try await store.count("SELECT count(*) FROM chapar.waiting") == 0)
        }
    }

    @Test("So with an idempotency key, and not where it was used before")
    func key() async throws {
        try await Nodes.use { nodes in
            let store = nodes[0]
            try await hurry(store)
            for isFirst in [true, false] {
                var batch = EnqueueBatch([store.sample(to: [.user("ada")])])
                batch.idempotency = IdempotencyEntry(
                    caller: "",
                    key: "k",
                    fingerprint: [1],
                    answer: [2],
                    keepUntil: store.time.steady + 60
                )
                let result = try await store.enqueue(batch)
                #expect(result == (isFirst ? .accepted : .replayed(answer: [2])))
            }
            #expect(try await owned(store) == 1)
            let claims = try await store.claim(backend: "apns", limit: 9, wait: .seconds(5))
            #expect(claims.map(\.recipient) == [.user("ada")])
            try await store.end(claims)
        }
    }

    @Test("Prefetched claims that no worker takes are released, and another node gets them as not sent")
    func givenBack() async throws {
        try await Nodes.use(2) { nodes in
            _ = try await keep(20, nodes[0])
            #expect(try await owned(nodes[0]) == 20)
            var found: [ClaimedDelivery] = []
            while found.count < 20 {
                try Task.checkCancellation()
                found += try await nodes[1].claim(backend: "apns", limit: 20, wait: .seconds(10))
            }
            #expect(Set(found.map(\.recipient)) == Set((0..<20).map { .user("\($0)") }))
            #expect(found.allSatisfy { !$0.isRecovered && !$0.isReplay })
            try await nodes[1].end(found)
            #expect(try await nodes[0].claim(backend: "apns", limit: 20, wait: .zero).isEmpty)
        }
    }

    @Test("A cancelled one ends with its attempt, however long no worker takes it")
    func cancelled() async throws {
        try await Nodes.use { nodes in
            let store = nodes[0]
            let id = try await keep(2, store)
            let result = try await store.cancel(id) { _, _ in [] }
            #expect(result?.inFlight == 2)
            // As it is done each time when they were kept for too long.
            for _ in 0..<2 {
                try await store.core.releasePrefetched(all: true)
                #expect(try await owned(store) == 2)
            }
            let claims = try await store.claim(backend: "apns", limit: 9, wait: .seconds(5))
            #expect(claims.count == 2 && claims.allSatisfy(\.isCancelled))
            try await store.record(claims.map { Resolution(of: $0, .release) }) { _, _, _ in [] }
            #expect(try await store.notification(id)?.counts == [.cancelled: 2])
        }
    }

    @Test("A node that closes gives them back as what was not sent")
    func close() async throws {
        try await Nodes.use(2) { nodes in
            _ = try await keep(20, nodes[0])
            await nodes[0].close()
            #expect(try await owned(nodes[1]) == 0)
            let found = try await nodes[1].claim(backend: "apns", limit: 20, wait: .seconds(10))
            #expect(found.count == 20 && found.allSatisfy { !$0.isRecovered && !$0.isReplay })
            try await nodes[1].end(found)
        }
    }

    @Test("Claims that go back during an outage are free for others as soon as it ends")
    func givenBackLater() async throws {
        try await Nodes.use { nodes in
            let store = nodes[0]
            try await store.accept(to: [.user("a")], backend: "apns")
            try await store.accept(to: [.user("b")], backend: "fcm")
            var held: [String: [Claim]] = [:]
            for backend in ["apns", "fcm"] {
                held[backend] = try await store.claim(backend: backend, limit: 1, wait: .seconds(5)).map {
                    Claim(delivery: $0, flow: 1, due: 0, isUrgent: true, collapse: nil)
                }
            }
            // No statement can be done.
            let other = PostgresConnection(store.options, name: "other")
            try await other.session { (db) throws(PostgresError) in
                try db.perform("ALTER TABLE chapar.waiting RENAME TO hidden")
            }
            for (backend, claims) in held { store.core.claimWaiters.keep(claims, of: backend) }
            await #expect(throws: PostgresError.self) { try await store.core.releasePrefetched(all: true) }
            try await other.session { (db) throws(PostgresError) in
                try db.perform("ALTER TABLE chapar.hidden RENAME TO waiting")
            }
            await other.close()
            for backend in ["apns", "fcm"] {
                let claims = try await store.claim(backend: backend, limit: 1, wait: .seconds(20))
                #expect(claims.count == 1)
                try await store.end(claims)
            }
        }
    }

    @Test("While what a worker took is ended the next deliveries are claimed, one and no more, the oldest first")
    func ahead() async throws {
        try await Nodes.use { nodes in
            let store = nodes[0]
            let all = 8 * Self.pace
            let start = store.time.steady
            let new = (0..<all).map { number in
                var new = store.sample(to: [.user("\(number)")])
                // Against their order in the table.
                new.record.acceptedAt = start - Double(number) / 500
                return new
            }
            #expect(try await store.enqueue(EnqueueBatch(new)) == .accepted)
            var found: [ClaimedDelivery] = []
            var wasAhead = false
            while found.count < all {
                try Task.checkCancellation()
                let claims = try await store.claim(backend: "apns", limit: Self.pace, wait: .seconds(5))
                found += claims
                let isOldestFirst = zip(claims, claims.dropFirst()).allSatisfy { $0.id > $1.id }
                #expect(isOldestFirst)
                // The last is not looked for in vain: then nothing is ahead.
                try? await eventually("prefetched", within: PrefetchedClaims.span, every: .milliseconds(1)) {
                    store.core.claimWaiters.kept("apns") > 0
                }
                try await store.end(claims)
                let ahead = store.core.claimWaiters.kept("apns")
                #expect(ahead <= Self.pace)
                wasAhead = wasAhead || ahead > 0
            }
            #expect(wasAhead)
            #expect(Set(found.map(\.id)).count == all)
            #expect(try await store.count("SELECT count(*) FROM chapar.waiting") == 0)
        }
    }

    @Test("Deliveries in the table are claimed while others are prefetched")
    func backlog() async throws {
        try await Nodes.use { nodes in
            let store = nodes[0]
            try await hurry(store)
            // More than there is room for: the rest is in the table.
            let first = try await store.accept(to: (0..<3 * Self.pace).map { .user("\($0)") })
            #expect(try await owned(store) < 3 * Self.pace)
            var left = 3 * Self.pace
            for _ in 0..<80 where left > 0 {
                let claims = try await store.claim(backend: "apns", limit: 100, wait: .seconds(5))
                left -= claims.count { $0.notificationID == first }
                try await store.end(claims)
                // So much comes meanwhile.
                try await store.accept(to: (0..<100).map { .user("later \($0)") })
            }
            #expect(left == 0)
        }
    }
}
