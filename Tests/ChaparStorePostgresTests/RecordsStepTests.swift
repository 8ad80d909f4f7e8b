import Foundation
import ChaparComposition
import ChaparCore
import ChaparQueue
import ChaparTesting
import Synchronization
import Testing

@testable import ChaparStorePostgres

@Suite("The step that makes records of former columns", .timeLimit(.minutes(2)))
struct RecordsStepTests {
    /// A notification as the programs before the step stored it.
    private struct Former {
        var id: NotificationID
        var content: [UInt8]
        var plans: [DeliveryPlan]
        /// The plan of each recipient.
        var planOf: [Int]
        var accepted: Int64
        var scheduled: Int64?

        var record: NotificationRecord {
            NotificationRecord(content: content, plans: plans, acceptedAt: Date(millisecondsSince1970: accepted))
        }
    }

    private static let plain = DeliveryPlan(["apns"])
    private static let rules = [
        DeliveryPlan(["apns", "fcm"], onUnknown: .wait, unknownWait: .milliseconds(1_500), fallbackAfter: .seconds(9)),
        DeliveryPlan(["fcm"], onUnknown: .stop), DeliveryPlan(["hms", "apns"], fallbackAfter: .seconds(60)),
        // Longer than 127 bytes, and of letters that take two bytes each.
        DeliveryPlan(["apns"] + (0..<9).map { "запасной-\($0)" }),
    ]

    /// Notifications of the last hour, in the order of their numbers.
    private static func former(_ now: Int64) -> [Former] {
        func form(
            _ age: Int64,
            content: Int = 2,
            plans: [DeliveryPlan] = [plain],
            planOf: [Int] = [0],
            accepted: Int64? = nil,
            scheduled: Int64? = nil
        ) -> Former {
            let at = now - age * 1_000
            return Former(
                id: NotificationID(firstAt: Date(millisecondsSince1970: at)),
                content: (0..<content).map { UInt8(truncatingIfNeeded: $0) },
                plans: plans,
                planOf: planOf,
                accepted: accepted ?? at,
                scheduled: scheduled
            )
        }
        return [
            form(3_000), form(2_900, content: 0, accepted: 0), form(2_800, content: 127, accepted: -1),
            form(2_700, content: 128, accepted: 1 << 52), form(2_600, content: 16_383),
            form(2_500, content: 16_384), form(2_400, content: 70_000), form(2_300, content: 2_097_151),
            form(2_200, content: 2_097_152), form(2_100, scheduled: now + 3_600_000),
            form(2_000, plans: rules, planOf: [0, 3, 1, 2, 0]), form(1_900, plans: [rules[0]]),
            form(1_800, content: 20_000, plans: [rules[3], plain], planOf: [1, 1, 0]),
        ]
    }

    /// The steps before the one that is tested.
    private static func before() throws -> [Schema.Step] {
        Array(Schema.steps.prefix(try #require(Schema.steps.firstIndex { $0.name == "records" })))
    }

    @Test("Notifications of an older program are the same afterwards, and their bytes those that the program writes")
    func upgrade() async throws {
        let options = try await TestServer.shared.options()
        let connection = PostgresConnection(options, name: "former")
        try await Schema.migrate(connection, options, steps: try Self.before())
        let now = Date.now.millisecondsSince1970
        let former = Self.former(now)
        try await Self.insert(former, now, connection)

        let said = Mutex<[String]>([])
        try await Schema.migrate(connection, options) { line in said.withLock { $0.append(line) } }
        #expect(said.withLock { $0 }.contains { $0.hasPrefix("step 1 of ") && $0.contains(", records, took ") })
        let (records, functions) = try await connection.session { (db) throws(PostgresError) in
            let rows = try db.run("SELECT id, record FROM chapar.notifications ORDER BY id")
            let functions = try db.run(
                "SELECT count(*) FROM pg_proc WHERE pronamespace = '\(options.schema)'::regnamespace"
            )
            return ((0..<rows.count).map { rows.bytes($0, 1) }, functions.integer(0, 0))
        }
        await connection.close()
        #expect(functions == 0, "the step leaves its function")
        try #require(records.count == former.count)
        for (place, one) in former.enumerated() {
            // Not compared in the expectation, which would print megabytes.
            let isEqual = records[place] == one.record.encoded
            #expect(isEqual, "the bytes of \(place)")
        }

        let store = try await PostgresStore.open(options)
        for (place, one) in former.enumerated() {
            let found = try #require(try await store.notification(one.id), "\(place)")
            let isEqual = found.record == one.record
            #expect(isEqual, "the record of \(place)")
            #expect(found.dueAt?.millisecondsSince1970 == one.scheduled)
            #expect(found.caller == "shop")
            #expect(found.counts == [one.scheduled == nil ? .queued : .scheduled: one.planOf.count], "\(place)")
        }
        var claims: [ClaimedDelivery] = []
        for backend in ["apns", "fcm", "hms"] {
            claims += try await store.claim(backend: backend, limit: 100, normal: 100, wait: .zero)
        }
        let due = former.filter { $0.scheduled == nil }
        #expect(Set(claims.map(\.id)) == Set(due.flatMap { one in one.planOf.indices.map { one.id.delivery(at: $0) } }))
        for claim in claims {
            let one = try #require(due.first { $0.id == claim.notificationID })
            #expect(claim.plan == one.plans[one.planOf[Int(claim.id - one.id.rawValue)]], "\(claim.id)")
            let isEqual = claim.head.record == one.record
            #expect(isEqual, "the record of the delivery \(claim.id)")
        }
        let new = try await store.accept(to: [.user("ada")])
        #expect(try await store.notification(new)?.counts == [.queued: 1], "new ones go into the same partition")
        await store.close()
    }

    @Test("A step that does not come to its end leaves the former columns, and takes place at the next start")
    func interrupted() async throws {
        let options = try await TestServer.shared.options()
        let connection = PostgresConnection(options, name: "former")
        let before = try Self.before()
        try await Schema.migrate(connection, options, steps: before)
        let now = Date.now.millisecondsSince1970
        let former = Self.former(now)
        try await Self.insert(former, now, connection)
        let failing = Schema.Step(name: "records", statements: Schema.records + "; SELECT 1 / 0")
        await #expect(throws: PostgresError.self) {
            try await Schema.migrate(connection, options, steps: before + [failing])
        }
        let left = try await connection.session { (db) throws(PostgresError) in
            try db.run("SELECT count(content) + count(plans) + count(accepted) FROM chapar.notifications").integer(0, 0)
        }
        #expect(left == Int64(3 * former.count))
        await connection.close()
        let store = try await PostgresStore.open(options)
        let found = try await store.notification(former[0].id)
        #expect(found?.record == former[0].record)
        await store.close()
    }

    @Test("The step waits for the end of gateways that have the former columns, and these refuse afterwards")
    func besideOlder() async throws {
        let options = try await TestServer.shared.options()
        let connection = PostgresConnection(options, name: "former")
        let before = try Self.before()
        try await Schema.migrate(connection, options, steps: before)
        try await connection.session { (db) throws(PostgresError) in
            try db.perform(
                """
                INSERT INTO chapar.nodes (slot, name, lease_until)
                VALUES (0, 'old-one', clock_timestamp() + interval '1 minute')
                """
            )
        }
        func refusal(_ steps: [Schema.Step]) async -> String {
            do throws(PostgresError) {
                try await Schema.migrate(connection, options, steps: steps)
                return ""
            } catch {
                return error.description
            }
        }
        #expect(await refusal(Schema.steps).contains("stop old-one first"))
        #expect(await refusal(before).isEmpty, "the older program goes on")
        try await connection.session { (db) throws(PostgresError) in try db.perform("DELETE FROM chapar.nodes") }
        #expect(await refusal(Schema.steps).isEmpty)
        #expect(await refusal(before).contains("was written by a newer version"))
        await connection.close()
    }

    @Test("A notification whose record cannot be read is passed over and logged, and the others are claimed")
    func unreadable() async throws {
        let log = RecordedLog()
        let options = try await TestServer.shared.options()
        let first = try await PostgresStore.open(options)
        let (bad, good) = (try await first.accept(to: [.user("ada")]), try await first.accept(to: [.user("eve")]))
        await first.close()
        let store = try await PostgresStore.open(options, logger: log.logger)
        try await store.session(on: store.core.writer) { (db) throws(PostgresError) in
            _ = try db.run(
                "UPDATE chapar.notifications SET record = set_byte(record, 0, 2) WHERE id = $1",
                [.integer(bad.rawValue)]
            )
        }
        #expect(try await store.notification(bad) == nil)
        #expect(log.lines.contains { $0.contains("a notification cannot be read") && $0.contains("\(bad)") })
        let page = try await store.waitingDeliveries(WaitingLook(backend: "apns")) { _ in true }
        #expect(page.found.map(\.notificationID) == [good])
        let claims = try await store.claim(backend: "apns", limit: 9, normal: 9, wait: .zero)
        #expect(claims.map(\.notificationID) == [good])
        let number = "\(bad.rawValue)"
        #expect(log.lines.contains { $0.contains("a waiting delivery cannot be read") && $0.contains(number) })
        await store.close()
    }

    // MARK: Parts

    private static func insert(_ former: [Former], _ now: Int64, _ connection: PostgresConnection) async throws {
        let days = Set(former.map { Partitions.day(ofNumber: $0.id.rawValue) } + [Partitions.day(now)])
        let tables: [Partitions.Table] = [.notifications, .results, .awaited, .events]
        try await Partitions().make(days.sorted(), of: tables, on: connection)
        try await connection.transaction { (db) throws(PostgresError) in
            try db.perform(
                """
                INSERT INTO chapar.flows (backend, urgent, caller) VALUES ('apns', true, 'shop'), ('fcm', true, 'shop'),
                ('hms', true, 'shop')
                """
            )
            for one in former {
                try insert(one, now, db)
            }
        }
    }

    private static func insert(
        _ one: Former,
        _ now: Int64,
        _ db: isolated PostgresConnection
    ) throws(PostgresError) {
        let expires = PostgresValue.integer(now + 86_400_000)
        try db.run(
            """
            INSERT INTO chapar.notifications (id, count, caller, accepted, scheduled, expires, collapse_id, plans, content)
            VALUES ($1, $2, 'shop', $3, $4, $5, NULL, $6, $7)
            """,
            [
                .integer(one.id.rawValue), .integer(one.planOf.count), .integer(one.accepted),
                .integer(one.scheduled), expires, .text(one.plans.map(\.storedForm).joined(separator: "\n")),
                .bytes(one.content),
            ]
        )
        for (place, plan) in one.planOf.enumerated() {
            try db.run(
                """
                INSERT INTO chapar.waiting (id, notification, flow, due, expires, lease, plan, recipient)
                SELECT $1, $2, number, $3, $4, 0, $5, $6 FROM chapar.flows WHERE backend = $7
                """,
                [
                    .integer(one.id.delivery(at: place)), .integer(one.id.rawValue),
                    .integer(one.scheduled ?? now - 1_000), expires, .integer(plan),
                    .text(Recipient.user("u\(place)").storedForm), .text(one.plans[plan].backends[0]),
                ]
            )
        }
    }
}
