import Foundation
import ChaparComposition
import ChaparCore
import ChaparQueue
import ChaparStoreContract
import ChaparTesting
import Synchronization
import Testing

@testable import ChaparStorePostgres

@Suite("Erasing a user in PostgreSQL", .timeLimit(.minutes(1)))
struct ErasureTests {
    @Test("Messages to the user alone are removed, shared ones anonymised, waiting ones cancelled, claimed ones named")
    func parts() async throws {
        let options = try await TestServer.shared.options()
        let store = try await PostgresStore.open(options)
        let (ada, eve) = (Recipient.user("ada"), Recipient.user("eve"))
        let own = try await store.accept(to: [ada], content: "own")
        let shared = try await store.accept(to: [ada, eve])
        try await store.end(try await store.claim(backend: "apns", limit: 9, wait: .zero))
        let waiting = try await store.accept(to: [ada])
        let claimed = try await store.accept(to: [ada], backend: "fcm")
        let held = try await store.claim(backend: "fcm", limit: 9, wait: .zero)
        var traces = UserTraces(user: "ada")
        traces.end = try await store.tracesEnd()
        let later = try await store.accept(to: [ada])
        let sum = Mutex(ErasedDeliveries())
        let told = Mutex(0)
        store.observe { change in told.withLock { $0 += change.ended[.cancelled] ?? 0 } }
        try await store.eraseDeliveries(of: traces) { claim, state in
            Array("\(state.rawValue) \(claim.id)".utf8)
        } state: { removed in
            ("erasure", Array("\(removed.count)".utf8))
        } progress: { part in
            sum.withLock { sum in
                sum.cancelled += part.cancelled
                sum.inFlight += part.inFlight
                sum.removed += part.removed
                sum.anonymised += part.anonymised
                sum.notifications.formUnion(part.notifications)
            }
        }
        let result = sum.withLock { $0 }
        #expect(told.withLock { $0 } == 1)
        #expect((result.cancelled, result.inFlight, result.removed, result.anonymised) == (1, 1, 2, 1))
        #expect(result.notifications == [own.rawValue, waiting.rawValue])
        #expect(try await store.notification(own) == nil)
        #expect(try await store.notification(waiting) == nil)
        #expect(try await store.deliveries(of: shared, after: nil, limit: 9).map(\.recipient).last == eve)
        #expect(try await store.notification(claimed)?.counts == [.sending: 1])
        #expect(try await store.notification(later)?.counts == [.queued: 1])
        #expect(try await store.loadState("erasure") == Array("2".utf8))
        #expect(try await store.stateNames(beginningWith: "era") == ["erasure"])
        // What was claimed does not wait again, and can be erased then.
        try await store.record(held.map { Resolution(of: $0, .release) })
        #expect(try await store.notification(claimed)?.counts == [.cancelled: 1])
        let redacted = try await store.redactEvents { _, json in
            String(decoding: json, as: UTF8.self).hasPrefix("accepted") ? Array("-".utf8) : nil
        }
        #expect(redacted == 5)
        let texts = try await store.events(after: 0, limit: 99, wait: .zero).map {
            String(decoding: $0.json, as: UTF8.self)
        }
        #expect(texts.filter { $0 == "-" }.count == 5)
        #expect(texts.contains("cancelled \(waiting.rawValue)"))
        try await store.clearRemoved()
        let left = try await store.count(
            "SELECT count(*) FROM chapar.notifications WHERE position('own'::bytea IN record) > 0"
        )
        #expect(left == 0)
        for table in [
            "waiting", "devices", "device_tokens", "device_tags", "user_labels", "device_labels", "outbox_changes",
            "outbox_entries", "state",
        ] {
            let cleaned = try await store.count(
                "SELECT count(pg_stat_get_last_vacuum_time('chapar.\(table)'::regclass))"
            )
            #expect(cleaned == 1, "\(table)")
        }
        await store.close()
    }

    @Test("Small blocks of events are read thousands at a time, and large ones by their bytes")
    func blocks() async throws {
        let store = try await PostgresStore.open(try await TestServer.shared.options())
        try await store.accept(to: [.user("ada")])
        _ = try await store.events(after: 0, limit: 9, wait: .seconds(5))
        try await store.session(on: store.core.writer) { (db) throws(PostgresError) in
            try db.perform(
                """
                INSERT INTO chapar.events (at, count, first, texts) SELECT (SELECT max(at) FROM chapar.events), 1, n, ARRAY['x'::bytea]
                FROM generate_series(1000, 5999) AS n;
                INSERT INTO chapar.events (at, count, first, texts)
                SELECT (SELECT max(at) FROM chapar.events), 1, n, ARRAY[(
                    SELECT string_agg(decode(md5(n::text || i::text), 'hex'), '') FROM generate_series(1, 12500) AS i
                )] FROM generate_series(6000, 6019) AS n
                """
            )
        }
        #expect(try await store.eventBlocks(after: 999, upTo: 5_999).count == 4_096)
        let large = try await store.eventBlocks(after: 5_999, upTo: 6_019)
        #expect(large.map(\.first) == [6_000, 6_001, 6_002], "half a megabyte begins three blocks of 200,000 bytes")
        await store.close()
    }

    @Test("A user's expected receipts are found without reading those of all others")
    func receipts() async throws {
        let store = try await PostgresStore.open(try await TestServer.shared.options())
        let own = try await store.accept(to: [.user("ada")])
        let shared = try await store.accept(to: [.user("ada"), .user("eve")])
        try await store.end(try await store.claim(backend: "apns", limit: 9, wait: .zero))
        try await store.session(on: store.core.writer) { (db) throws(PostgresError) in
            try db.perform(
                """
                INSERT INTO chapar.awaited SELECT id, 1, 1 FROM chapar.results;
                INSERT INTO chapar.awaited SELECT \(shared.rawValue) + 100 + n, n, n FROM generate_series(1, 200000) AS n
                """
            )
            try db.perform("VACUUM chapar.awaited")
        }
        func pages() async throws -> Int {
            try await store.session(on: store.core.recorder) { (db) throws(PostgresError) in
                _ = try db.run("SELECT pg_stat_force_next_flush()").count
            }
            return try await store.count(
                """
                SELECT sum(heap_blks_read + heap_blks_hit)::bigint FROM pg_statio_user_tables
                WHERE relid IN (SELECT inhrelid FROM pg_inherits WHERE inhparent = 'chapar.awaited'::regclass)
                """
            )
        }
        let before = try await pages()
        let whole = try await store.count(
            "SELECT relpages FROM pg_class WHERE oid = 'chapar.awaited_d\(Partitions.day(ofNumber: own.rawValue))'::regclass"
        )
        #expect(whole > 1_000)
        try await store.eraseDeliveries(of: UserTraces(user: "ada")) { _, _ in
            []
        } state: { _ in
            ("erasure", [])
        } progress: { _ in
        }
        #expect(try await pages() - before < whole / 2)
        #expect(try await store.count("SELECT count(*) FROM chapar.awaited WHERE message = 1 AND token = 1") == 2)
        await store.close()
    }
}

extension PostgresStore {
    /// Accepts a plain notification.
    @discardableResult
    func accept(
        to recipients: [Recipient],
        backend: String = "apns",
        content: String = "{}",
        caller: String = "shop",
        collapseID: String? = nil,
        life: Double = 3_600
    ) async throws -> NotificationID {
        let new = sample(
            to: recipients,
            backend: backend,
            content: content,
            caller: caller,
            collapseID: collapseID,
            life: life
        )
        #expect(try await enqueue(EnqueueBatch([new])) == .accepted)
        return new.id
    }

    /// A plain notification.
    func sample(
        to recipients: [Recipient],
        backend: String = "apns",
        content: String = "{}",
        caller: String = "shop",
        collapseID: String? = nil,
        life: Double = 3_600
    ) -> NewNotification {
        let id = makeID(recipients: recipients.count)
        return NewNotification(
            id: id,
            notification: PushNotification(title: .plain("Hello"), priority: .high),
            record: NotificationRecord(
                content: Array(content.utf8),
                plans: [DeliveryPlan([backend])],
                acceptedAt: time.steady
            ),
            recipients: recipients,
            caller: caller,
            expiresAt: time.steady + life,
            collapseID: collapseID,
            event: Array("accepted \(id)".utf8)
        )
    }

    /// Ends claims as accepted by the platform.
    func end(_ claims: [ClaimedDelivery]) async throws {
        try await record(
            claims.map {
                Resolution(
                    of: $0,
                    .end(.acceptedByPlatform),
                    attempt: [0x7B, 0x7D],
                    event: Array("ended \($0.id)".utf8)
                )
            }
        )
    }

    /// The number that a statement gives.
    func count(_ statement: String) async throws -> Int {
        try await session(on: core.reader) { (db) throws(PostgresError) in
            Int(try db.run(statement).integer(0, 0) ?? -1)
        }
    }
}
