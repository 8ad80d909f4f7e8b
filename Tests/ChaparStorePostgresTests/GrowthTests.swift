import Foundation
import ChaparComposition
import ChaparCore
import ChaparQueue
import ChaparStoreContract
import ChaparTesting
import Testing

@testable import ChaparStorePostgres

/// Each statement has a plan that was made while its tables were empty, and runs where they are large.
///
/// 60,000 rows a table, or what `CHAPAR_GROWTH_ROWS` says (`make verify-long PARTS=growth` says a million).
@Suite("PostgreSQL statements cost by what they give, not by what is there", .serialized, .timeLimit(.minutes(20)))
struct GrowthTests {
    private static let rows = ProcessInfo.processInfo.environment["CHAPAR_GROWTH_ROWS"].flatMap { Int($0) } ?? 60_000
    private static let argument = 1_000
    /// The most rows that the steps of a plan may read or make together for an argument of ``argument`` elements.
    private static let bound = 30_000.0
    /// The most pages that they may read: a look-up by an index reads about four, and a row is in several indexes.
    private static let mostPages = 60_000.0

    /// Statements that read a table from its beginning to its end, in ranges or up to a bound, and why they may.
    private static let exempt = [
        "pg_relation_size('": "reads no row",
        "ctid >= $1::tid": "a range of pages",
        "ctid >= $2::tid": "a range of pages",
        "WITH looked AS MATERIALIZED": "20,000 rows at a time: erasures, and a caller's cancellation",
        "awaited WHERE delivery = ANY": "whole blocks, by the index of an erasure",
    ]

    @Test("With a thousand elements in its argument no statement reads more than a small multiple of that")
    func plans() async throws {
        let server = TestServer(StatementLog.settings)
        var options = try await server.options()
        options.maximumUnplannedChanges = .max
        options.nodeLease = .seconds(60)
        var log = try await StatementLog(of: server)
        try await Nodes.use(1, options: options) { nodes in
            let store = nodes[0]
            var filling = StoreFilling()
            try await filling.fill(store)
            _ = try await filling.answers(store)
            try await GrowthWork(store, count: 2, name: "few").run()
            try await grow(store)
            _ = try await store.events(after: 0, limit: 1, wait: .zero)
            let before = try log.entries().map(\.statement)
            try await GrowthWork(store, count: Self.argument, name: "many").run()
            let after = try log.entries()
            var worst: [String: StatementLog.Entry] = [:]
            for entry in after where entry.rows > worst[entry.statement]?.rows ?? -1 { worst[entry.statement] = entry }
            #expect(worst.count > 80, "the work runs the store's statements: \(worst.count)")
            for entry in after where entry.pages > Self.mostPages {
                if Self.exempt.keys.contains(where: { entry.statement.contains($0) }) { continue }
                Issue.record("\(Int(entry.pages)) pages\n\(entry.statement)\n\(entry.plan)")
            }
            for entry in worst.values.sorted(by: { $0.rows > $1.rows }) where entry.rows > Self.bound {
                if Self.exempt.keys.contains(where: { entry.statement.contains($0) }) { continue }
                Issue.record("\(Int(entry.rows)) rows\n\(entry.statement)\n\(entry.plan)")
            }
            let missing = Set(before).subtracting(after.map(\.statement)).filter {
                $0.contains("chapar.") || $0.contains(options.schema)
            }
            if ProcessInfo.processInfo.environment["CHAPAR_GROWTH_LIST"] != nil {
                for statement in missing.sorted() { print("NOT RUN:\n\(statement)") }
            }
        }
        try await server.end()
    }

    /// Makes all tables large without a word to the server's statistics.
    private func grow(_ store: PostgresStore) async throws {
        for _ in 0..<Self.rows / 1_000 {
            try await store.accept(to: (0..<1_000).map { .user("\($0)") })
            try await store.accept(to: (0..<1_000).map { .user("\($0)") }, backend: "old")
        }
        let (rows, now) = (Self.rows, store.core.now)
        var patient = store.options
        patient.statementTimeout = .seconds(900)  // A million rows of each table take minutes.
        let filler = PostgresConnection(patient, name: "filler")
        try await filler.session { (db) throws(PostgresError) in
            try db.perform(
                """
                WITH gone AS (
                    DELETE FROM chapar.waiting w USING chapar.flows f WHERE f.number = w.flow AND f.backend = 'old' RETURNING w.*
                ), ended AS (
                    INSERT INTO chapar.results (id, notification, flow, changed, state, recipient, attempt_log)
                    SELECT id, notification, flow, \(now), \(DeliveryState.acceptedByPlatform.code), recipient, '{}' FROM gone
                )
                INSERT INTO chapar.awaited (delivery, message, token) SELECT id, id, id FROM gone;
                INSERT INTO chapar.devices (id, user_key, platform, tags, created, updated)
                SELECT 'g' || g, 'u' || g, 'ios', 'red', 0, 0 FROM generate_series(1, \(rows)) AS g;
                INSERT INTO chapar.device_tokens (device, slot, token, hash, registered, refusals, as_of, invalidated, backend, reason, held)
                SELECT number, 'ios-apns', id, number, 0, CASE WHEN number % 3 = 0 THEN 'fcm 1 Unregistered' END,
                    CASE WHEN number % 3 = 1 THEN 1 END, CASE WHEN number % 3 = 1 THEN 1 END,
                    CASE WHEN number % 3 = 1 THEN 'grown' END, CASE WHEN number % 3 = 1 THEN 'x' END,
                    CASE WHEN number % 3 = 1 THEN number % 2 = 0 END
                FROM chapar.devices WHERE id LIKE 'g%';
                INSERT INTO chapar.device_tags (tag, device) SELECT 'red', number FROM chapar.devices WHERE id LIKE 'g%';
                -- And devices behind those that the work makes.
                INSERT INTO chapar.device_tags (tag, device) SELECT 'red', 1000000000 + g FROM generate_series(1, \(rows)) AS g;
                INSERT INTO chapar.outbox_entries (id, backend, device, kind, at, due)
                SELECT gen_random_uuid()::text, 'altcraft', 'g' || g, 'tags', 0, 0 FROM generate_series(1, \(rows)) AS g;
                INSERT INTO chapar.outbox_changes (device, at) SELECT 'g' || g, 0 FROM generate_series(1, \(rows)) AS g;
                INSERT INTO chapar.outbox_depths (backend, waiting) SELECT 'altcraft', 1 FROM generate_series(1, 1000);
                INSERT INTO chapar.idempotency (caller, key, fingerprint, answer, keep)
                SELECT 'shop', side || g, 'x', 'x', \(now) + 3600000
                FROM generate_series(1, \(rows)) AS g, unnest(ARRAY['a', 'z']) AS side;
                INSERT INTO chapar.events (at, count, texts)
                SELECT \(now), 1, ARRAY['x'::bytea] FROM generate_series(1, \(rows))
                """
            )
        }
        await filler.close()
    }
}

/// Every call of a store, with so many elements where it takes more than one.
struct GrowthWork {
    let store: PostgresStore
    let count: Int
    let name: String

    init(_ store: PostgresStore, count: Int, name: String) {
        (self.store, self.count, self.name) = (store, count, name)
    }

    func run() async throws {
        try await deliver()
        try await replace()
        try await decide()
        try await escalate()
        try await withdraw()
        try await free()
        try await read()
        try await register()
        try await refuse()
        try await tell()
        try await useAbilities()
    }

    var people: [Recipient] { (0..<count).map { .user("\(name)-\($0)") } }

    func claim(_ backend: String) async throws -> [ClaimedDelivery] {
        var found: [ClaimedDelivery] = []
        while found.count < count {
            let more = try await store.claim(backend: backend, limit: count - found.count, wait: .seconds(5))
            guard !more.isEmpty else { break }
            found += more
        }
        return found
    }

    func resolve(_ claims: [ClaimedDelivery], _ transition: Resolution.Transition) async throws {
        try await store.record(
            claims.map { claim in
                Resolution(
                    of: claim,
                    transition,
                    attempt: Array(#"{"platform_id":"m\#(claim.id)"}"#.utf8),
                    event: [1],
                    receipt: transition == .release
                        ? nil : ReceiptAddress(backend: "apns", platformID: "m\(claim.id)", token: nil)
                )
            }
        )
    }

    /// Plain ends, and receipts for them.
    private func deliver() async throws {
        try await store.accept(to: people)
        let claims = try await claim("apns")
        try await resolve(claims, .end(.acceptedByPlatform))
        let receipts = claims.map { claim in
            ReceiptEntry(
                ReceiptAddress(backend: "apns", platformID: "m\(claim.id)", token: nil),
                state: .delivered,
                logEntry: [0x7B, 0x7D]
            ) { _ in [1] }
        }
        _ = try await store.record(receipts)
        // Once more, so that the keys are found.
        for _ in 0..<2 {
            let now = store.time.steady
            try await withThrowingTaskGroup(of: Void.self) { group in
                for number in 0..<count {
                    group.addTask {
                        var batch = EnqueueBatch([store.sample(to: [.user("k\(number)")])])
                        batch.idempotency = IdempotencyEntry(
                            caller: "shop",
                            key: "\(name)-\(number)",
                            fingerprint: [1],
                            answer: [2],
                            keepUntil: now + 3_600
                        )
                        _ = try await store.enqueue(batch)
                    }
                }
                try await group.waitForAll()
            }
        }
    }

    /// Deliveries that replace others, that wait for a claimed one, and that end with others behind them.
    private func replace() async throws {
        try await store.accept(to: people, backend: "c", collapseID: "news")
        try await store.accept(to: people, backend: "c", collapseID: "news")
        let claims = try await claim("c")
        try await store.accept(to: people, backend: "c", collapseID: "news")
        try await resolve(claims, .end(.acceptedByPlatform))
        try await resolve(try await claim("c"), .release)
        try await resolve(try await claim("c"), .end(.failed))
    }

    /// Retries, releases, and what is decided about what waits.
    private func decide() async throws {
        let claims = try await claim("apns")
        try await resolve(Array(claims.prefix(count / 2)), .retry(at: store.time.steady + 600, step: 0))
        try await resolve(Array(claims.dropFirst(count / 2)), .release)
        _ = try await store.makeRetriesDue(of: "apns")
        let page = try await store.waitingDeliveries(WaitingLook(backend: "apns", limit: count)) { _ in true }
        _ = try await store.settle(
            page.found.map { Resolution(of: $0, .end(.failed), event: [1]) },
            of: "apns"
        ) { _, _, _ in [1] }
        _ = try await store.claimExpired(limit: count)
    }

    /// Deliveries that wait for reports before another backend takes over: reports that end them, and others.
    private func escalate() async throws {
        var new = store.sample(to: people, backend: "e")
        new.record.plans[0] = DeliveryPlan(["e", "sms"])
        new.record.plans[0].escalation = Escalation(step: 1, after: .seconds(120), unless: .opened)
        _ = try await store.enqueue(EnqueueBatch([new]))
        let claims = try await claim("e")
        try await store.record(
            claims.map { claim in
                Resolution(
                    of: claim,
                    .retry(at: store.time.steady + 120, step: 1),
                    attempt: Array(
                        #"{"at":"1","backend":"e","outcome":"accepted","platform_id":"e\#(claim.id)"}"#.utf8
                    ),
                    mayHaveBeenSent: true,
                    event: [1],
                    receipt: ReceiptAddress(backend: "e", platformID: "e\(claim.id)", token: nil)
                )
            }
        )
        for state in [DeliveryState.delivered, .opened] {
            let reports = claims.map { claim in
                ReceiptEntry(
                    ReceiptAddress(backend: "e", platformID: "e\(claim.id)", token: nil),
                    state: state,
                    logEntry: Array(#"{"outcome":"receipt","reason":"\#(state.rawValue)"}"#.utf8)
                ) { _ in [1] }
            }
            _ = try await store.record(reports)
        }
    }

    private func withdraw() async throws {
        let id = try await store.accept(to: people, backend: "w")
        _ = try await store.cancel(id) { _, _ in [1] }
        let claimed = try await store.accept(to: people, backend: "w")
        let claims = try await claim("w")
        _ = try await store.cancel(claimed) { _, _ in [1] }
        try await resolve(claims, .release)
        try await store.accept(to: people, backend: "w", caller: "leaving \(name)")
        _ = try await store.cancel(caller: "leaving \(name)", from: nil) { _, _ in [1] }
        try await store.accept(to: people, backend: "w-\(name)")
        _ = try await store.move(backend: "w-\(name)", to: "v")
        var traces = UserTraces(user: "\(name)-0")
        traces.end = try await store.tracesEnd()
        try await store.eraseDeliveries(of: traces) { _, _ in
            [1]
        } state: { _ in
            (name: "erasure", value: [1])
        } progress: { _ in
        }
    }

    /// Frees claims: those made ahead, and those in ranges of pages.
    private func free() async throws {
        let core = store.core
        let claims = try await claim("apns")
        core.claimWaiters.keep(
            claims.map { Claim(delivery: $0, flow: 1, due: 0, isUrgent: true, collapse: nil) },
            of: "apns"
        )
        try await core.releasePrefetched(all: true)
        _ = try await claim("apns")
        let (number, options) = (core.nodeNumber, core.options)
        try await core.keeper.transaction { (db) throws(PostgresError) in
            _ = try ClaimedPages.give(at: 0, options, of: [number], to: number, db)
            let claimed = try ClaimedPages(at: 0, pages: 16, of: .nodes([number]), db)
            _ = try claimed.free(claimed.leases, db)
            _ = try ClaimedPages.give(at: 0, options, of: [number], db)
        }
    }

    private func read() async throws {
        let id = try await store.accept(to: people, backend: "r")
        _ = try await store.notification(id)
        _ = try await store.deliveries(of: id, after: nil, limit: count)
        let last = try await store.lastEvent()
        _ = try await store.events(after: max(0, last - Int64(count)), limit: count, wait: .zero)
        try await store.publish((0..<count).map { _ in [1] })
        try await store.saveState("s", [1])
        _ = try await store.loadState("s")
        _ = try await store.exclusively("s") { true }
        _ = try await store.nodes()
        _ = try await store.depths()
        _ = await store.health()
    }

    private var now: Date { Date(timeIntervalSince1970: 1_800_000_000) }

    private func register() async throws {
        var devices = (0..<count).map { number in
            Device(
                id: "\(name)-\(number)",
                user: "\(name)-\(number)",
                tokens: [
                    RegisteredToken(DeviceToken("\(name)-\(number)", service: .iOSAPNs), registeredAt: now),
                    RegisteredToken(DeviceToken("f\(name)-\(number)", service: .androidFirebase), registeredAt: now),
                ],
                tags: ["red", "t\(number)"],
                createdAt: now
            )
        }
        _ = try await store.put(devices, outbox: now)
        for place in devices.indices {
            devices[place].locale = "fa"
            devices[place].tags = ["blue"]
            devices[place].tokens.removeLast()
        }
        _ = try await store.put(devices, outbox: now)
        _ = try await store.patch("\(name)-0", outbox: now) { $0.locale = "en" }
        let ids = devices.map(\.id)
        _ = try await store.devices(ids)
        _ = try await store.devices(ofUsers: ids, limit: count)
        _ = try await store.list(DeviceQuery(), after: nil, limit: count)
        _ = try await store.list(DeviceQuery(tag: "red"), after: nil, limit: count)
        _ = try await store.list(DeviceQuery(user: "\(name)-0"), after: nil, limit: count)
        _ = try await store.device(having: DeviceToken("\(name)-0", service: .iOSAPNs))
        _ = try await store.backfill(ids, to: "chabok", at: now)
    }

    private func refuse() async throws {
        func refusals(_ backend: String, isCertain: Bool = true) -> [TokenRefusal] {
            (0..<count).map { number in
                TokenRefusal(
                    DeviceToken("\(name)-\(number)", service: .iOSAPNs),
                    asOf: now + 1,
                    at: now + 2,
                    backend: backend,
                    reason: "Unregistered",
                    isCertain: isCertain,
                    alternatives: isCertain ? [] : ["fcm"],
                    isLast: isCertain
                )
            }
        }
        _ = try await store.record(refusals("apns", isCertain: false))
        _ = try await store.forgetRefusals(limit: count)
        _ = try await store.invalidate(refusals("apns"), outbox: now)
        _ = try await store.quarantine(tombstonesOf: "apns", since: now)
        _ = try await store.quarantined(of: "apns", after: nil, limit: count)
        _ = try await store.invalidate(quarantinedOf: "apns", limit: count, outbox: now)
        _ = try await store.quarantine(tombstonesOf: "apns", since: now)
        _ = try await store.discard(quarantinedOf: "apns", limit: count)
        try await store.remove((0..<count).map { DeviceToken("\(name)-\($0)", service: .iOSAPNs) }, in: .default)
        _ = try await store.delete("\(name)-0", outbox: now)
    }

    private func tell() async throws {
        let entries = (0..<count).map {
            OutboxEntry(backend: "told", device: "\(name)-told-\($0)", kind: .tags, at: now)
        }
        try await store.enqueue(entries)
        try await store.enqueue(
            entries.map { OutboxEntry(backend: $0.backend, device: $0.device, kind: .remove, at: now) }
        )
        func claims() async throws -> [ClaimedEntry] {
            try await store.claimEntries(of: "told", limit: count, lease: .seconds(600), wait: .seconds(5))
        }
        try await store.record(try await claims().map { OutboxResult($0, .release) })
        let retried = try await claims()
        try await store.record(retried.map { OutboxResult($0, .retry(at: store.time.steady + 600)) })
        _ = try await store.makeRetriesDue(ofEntriesAt: "told")
        try await store.record(try await claims().map { OutboxResult($0, .end, event: [1]) })
        _ = try await store.entries(ofDevice: "\(name)-told-0", limit: 10)
        _ = try await store.cancelEntries(of: "told", device: "\(name)-told-1")
        _ = try await store.outboxDepths()
        let changes = try await store.unplannedChanges(limit: count, wait: .zero)
        try await store.record(
            changes.map { change in
                OutboxPlan(
                    change: change.number,
                    [OutboxEntry(backend: "told", device: "\(name)-p\(change.number)", kind: .register, at: now)]
                )
            }
        )
        _ = try await store.unplannedCount(ofDevice: nil)
        _ = try await store.unplannedCount(ofDevice: "\(name)-0")
    }
}
