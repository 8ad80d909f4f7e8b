import Foundation
import ChaparCore
import ChaparQueue
import ChaparTesting
import Synchronization
import Testing

@testable import ChaparStorePostgres

@Suite("Migrations are shown first, and take two releases", .timeLimit(.minutes(2)))
struct MigrationTests {
    private static let compatible = Schema.Step(
        name: "nicknames",
        statements: "ALTER TABLE chapar.devices ADD COLUMN nickname text",
        oldestReader: Schema.steps.count
    )
    private static let incompatible = Schema.Step(
        name: "no flags",
        statements: "ALTER TABLE chapar.waiting DROP COLUMN flags"
    )

    @Test("A plan says what is missing with its statements, and changes nothing")
    func plan() async throws {
        let options = try await TestServer.shared.options()
        let plan = try await StoreMigration.plan(options)
        #expect(plan.map(\.name) == ["0 schema"] + Schema.steps.enumerated().map { "\($0 + 1) \($1.name)" })
        #expect(plan[0].statements?.contains("CREATE SCHEMA IF NOT EXISTS \(options.schema);") == true)
        #expect(plan[1].statements?.contains("CREATE TABLE \(options.schema).waiting") == true)
        #expect(try await PostgresLook.look(at: options).missingSteps == Schema.steps.count, "nothing was changed")
        try await StoreMigration.apply(options)
        #expect(try await StoreMigration.plan(options).isEmpty)
        let store = try await PostgresStore.open(options)
        await store.close()
    }

    @Test(
        "A database of an earlier program is brought up to date, and goes on where it was",
        arguments: 3..<Schema.steps.count
    )
    func earlier(_ known: Int) async throws {
        let options = try await TestServer.shared.options()
        let file = URL(filePath: #filePath).deletingLastPathComponent().appending(path: "Schemas/3-outbox.sql")
        let dump = try String(contentsOf: file, encoding: .utf8)
            .replacing("CREATE SCHEMA chapar;", with: "CREATE SCHEMA \(options.schema);")
        let connection = PostgresConnection(options, name: "dump")
        try await connection.session { (db) throws(PostgresError) in try db.perform(dump, within: .seconds(60)) }
        // From the dump of one that is three steps old to each that came after it.
        try await Schema.migrate(connection, options, steps: Array(Schema.steps.prefix(known)))
        await connection.close()
        let missing = Schema.steps.count - known
        #expect(try await PostgresLook.look(at: options).missingSteps == missing)
        let said = Mutex<[String]>([])
        try await StoreMigration.apply(options) { line in said.withLock { $0.append(line) } }
        let lines = said.withLock { $0 }
        #expect(lines.count == missing + 2, "\(lines)")
        #expect(
            lines.first?.contains("in \(missing) steps: about 0 deliveries that wait, about") == true,
            "\(lines)"
        )
        #expect(
            lines.dropFirst().first?.hasPrefix("step 1 of \(missing), \(Schema.steps[known].name), took ") == true,
            "\(lines)"
        )
        let store = try await PostgresStore.open(options)
        #expect(try await StoreMigration.plan(options).isEmpty)
        let id = NotificationID(rawValue: 191_726_213_627_117_568)
        #expect(try await store.notification(id)?.counts == [.acceptedByPlatform: 1])
        #expect(try await store.deliveries(of: id, after: nil, limit: 9).first?.attemptLog.isEmpty == false)
        #expect(try await store.device("d1")?.user == "ada")
        #expect(try await store.outboxDepths()["idpush"]?.waiting == 1)
        #expect(try await store.lastEvent() == 10)
        let bounds = try await store.count(
            "SELECT count(*) FROM chapar.marks m WHERE m.value = (SELECT max(changed) + 1 FROM chapar.results) AND starts_with(m.name, 'ended_d')"
        )
        #expect(bounds == 1, "until when its day is kept")
        let new = try await store.accept(to: [.user("ada")])
        #expect(new.rawValue > id.rawValue)
        try await store.record(
            try await store.claim(backend: "apns", limit: 1, wait: .zero).map { Resolution(of: $0, .end(.failed)) }
        ) { _, _, _ in [] }
        #expect(try await store.notification(new)?.counts == [.failed: 1])
        await store.close()
    }

    @Test("A step that older gateways cannot go on beside waits until none is running")
    func running() async throws {
        var options = try await TestServer.shared.options()
        options.nodeName = "old-one"
        let old = try await PostgresStore.open(options)
        let connection = PostgresConnection(options, name: "migration")
        let steps = Schema.steps + [Self.incompatible]
        do {
            try await Schema.migrate(connection, options, steps: steps)
            Issue.record("it was applied beside a running gateway")
        } catch {
            #expect(error.description.contains("stop old-one first"), "\(error)")
        }
        #expect(try await old.count("SELECT count(*) FROM chapar.schema_steps") == Schema.steps.count)
        try await Schema.migrate(connection, options, steps: Schema.steps + [Self.compatible])
        await old.close()
        await connection.close()

        let other = try await TestServer.shared.options()
        await (try await PostgresStore.open(other)).close()
        let alone = PostgresConnection(other, name: "migration")
        try await Schema.migrate(alone, other, steps: steps)
        await alone.close()
    }

    @Test("A step gives way to a long use of its table, so that no statement waits behind it, and runs afterwards")
    func givesWay() async throws {
        let options = try await TestServer.shared.options()
        let place = try #require(Schema.steps.firstIndex { $0.name == "outbox leases" })
        try await Self.migrate(options, Array(Schema.steps.prefix(place)))
        let (reader, other) = (PostgresConnection(options, name: "dump"), PostgresConnection(options, name: "other"))
        func count(_ table: String) async throws -> Int64? {
            try await other.session { (db) throws(PostgresError) in
                try db.run("SELECT count(*) FROM chapar.\(table)").integer(0, 0)
            }
        }
        try await reader.session { (db) throws(PostgresError) in
            try db.perform("BEGIN; SELECT count(*) FROM chapar.outbox_entries")
        }
        async let migration: Void = Self.migrate(options, Schema.steps)
        do {
            try await eventually("a later one has waited until the step gave way", every: .milliseconds(100)) {
                let before = ContinuousClock.now
                _ = try await count("outbox_entries")
                let span = before.duration(to: .now)
                #expect(span < .seconds(8), "who comes later waits behind the step")
                return span > .seconds(1)
            }
        } catch {
            await reader.close()  // Else the step would wait for it for ever.
            throw error
        }
        #expect(try await count("schema_steps") == Int64(place))
        try await reader.session { (db) throws(PostgresError) in try db.perform("COMMIT") }
        try await migration
        #expect(try await count("schema_steps") == Int64(Schema.steps.count))
        for connection in [reader, other] { await connection.close() }
    }

    @Test("An older program goes on beside a newer schema whose steps are compatible with it")
    func compatible() async throws {
        let options = try await TestServer.shared.options()
        try await Self.migrate(options, Schema.steps + [Self.compatible])
        let store = try await PostgresStore.open(options)
        _ = try await store.put([Device(id: "d", createdAt: .now)], outbox: nil)
        #expect(try await store.device("d") != nil)
        await store.close()
        #expect(try await StoreMigration.plan(options).isEmpty)
        let look = try await PostgresLook.look(at: options)
        #expect(!look.isNewer && look.missingSteps == 0)
    }

    @Test("Beside one whose steps are not compatible with it it refuses before it writes")
    func incompatible() async throws {
        let options = try await TestServer.shared.options()
        try await Self.migrate(options, Schema.steps + [Self.compatible, Self.incompatible])
        let older = try await Self.sentence { try await Self.migrate(options, Schema.steps) }
        let newest = Schema.steps.count + 2
        #expect(older?.contains("was written by a newer version, whose step \(newest) this one does not know") == true)
        #expect(try await Self.sentence { _ = try await PostgresStore.open(options) } == older)
        #expect(try await Self.sentence { _ = try await StoreMigration.plan(options) } == older)
        await #expect(throws: StoreError.newer(older ?? "")) { try await PostgresStore.open(options) }
        #expect(try await PostgresLook.look(at: options).isNewer)
        let connection = PostgresConnection(options, name: "look")
        let nodes = try await connection.session { (db) throws(PostgresError) in
            try db.run("SELECT count(*) FROM chapar.nodes").integer(0, 0)
        }
        #expect(nodes == 0, "nothing was written")
        await connection.close()
        // The second release knows the first one's step and goes on beside a third one's.
        let second = Schema.Step(name: "later", statements: "SELECT 1", oldestReader: newest)
        try await Self.migrate(options, Schema.steps + [Self.compatible, Self.incompatible, second])
        try await Self.migrate(options, Schema.steps + [Self.compatible, Self.incompatible])
        #expect(try await Self.sentence { try await Self.migrate(options, Schema.steps + [Self.compatible]) } != nil)
    }

    private static func migrate(_ options: PostgresOptions, _ steps: [Schema.Step]) async throws {
        let connection = PostgresConnection(options, name: "migration")
        do {
            try await Schema.migrate(connection, options, steps: steps)
        } catch {
            await connection.close()
            throw error
        }
        await connection.close()
    }

    private static func sentence(_ body: () async throws -> Void) async throws -> String? {
        do {
            try await body()
            return nil
        } catch let error as PostgresError {
            return error.description
        } catch let error as StoreError {
            return error.description
        }
    }
}
