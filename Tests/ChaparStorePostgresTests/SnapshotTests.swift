import CChaparPostgres
import Foundation
import ChaparCore
import ChaparQueue
import ChaparTesting
import Testing

@testable import ChaparStorePostgres

/// Who keeps dead rows of the database, as `chapar doctor` names it.
@Suite("The oldest snapshot in PostgreSQL", .serialized, .timeLimit(.minutes(1)))
struct SnapshotTests {
    /// On a server of its own, where no other session has a transaction open.
    private func withServer(_ body: (PostgresOptions, _ other: PostgresOptions) async throws -> Void) async throws {
        let server = TestServer(["max_prepared_transactions=5"])
        let options = try await server.options()
        let folder = try await server.folder()
        try await perform(options, "CREATE DATABASE other")
        do {
            try await body(options, try PostgresOptions(url: "postgres://chapar@/other?host=\(folder)"))
        } catch {
            try await server.end()
            throw error
        }
        try await server.end()
    }

    private func perform(_ options: PostgresOptions, _ statements: String) async throws {
        try await PostgresConnection.use(options, name: "test") { (connection) async throws(PostgresError) in
            try await connection.session { (db) throws(PostgresError) in try db.perform(statements) }
        }
    }

    /// Whom a look names while a transaction with these statements is open.
    private func holder(_ options: PostgresOptions, during statements: String, in place: PostgresOptions) async throws
        -> String?
    {
        let connection = PostgresConnection(place, name: "holder")
        let (isOpen, mayEnd) = (AsyncSignal(), DispatchSemaphore(value: 0))
        let holding = Task {
            try await connection.transaction { (db) throws(PostgresError) in
                try db.perform(statements)
                isOpen.signal()
                mayEnd.wait()
            }
        }
        await isOpen.wait(after: .start, atMost: .seconds(10), SystemTime())
        let found = try await PostgresLook.look(at: options).oldestSnapshot?.holder
        mayEnd.signal()
        try await holding.value
        await connection.close()
        return found
    }

    @Test("A store says how long a snapshot has been held that keeps its dead rows, and how many there are")
    func health() async throws {
        let server = TestServer()
        let options = try await server.options()
        let store = try await PostgresStore.open(options)
        let holder = PostgresConnection(options, name: "holder")
        try await holder.session { (db) throws(PostgresError) in
            try db.perform("BEGIN; SET TRANSACTION ISOLATION LEVEL REPEATABLE READ")
            try db.run("SELECT count(*) FROM pg_class")
            try db.perform("SELECT pg_sleep(1.1)")
        }
        try await Keeper(store.core).readOldestSnapshot()
        #expect(await store.health().oldestSnapshot ?? .zero >= .seconds(1))
        try await holder.session { (db) throws(PostgresError) in try db.perform("COMMIT") }
        try await Keeper(store.core).readOldestSnapshot()
        #expect(await store.health().oldestSnapshot ?? .zero < .seconds(1))
        try await eventually("the store knows its dead rows", within: .seconds(20), every: .milliseconds(100)) {
            await store.health().deadRows != nil
        }
        await holder.close()
        await store.close()
        try await server.end()
    }

    @Test("A session that holds a snapshot in this database is named, and one in another database is not")
    func sessions() async throws {
        try await withServer { options, other in
            let reads = "SET TRANSACTION ISOLATION LEVEL REPEATABLE READ; SELECT count(*) FROM pg_class"
            let writes = "CREATE TABLE written (id bigint)"
            #expect(try await PostgresLook.look(at: options).oldestSnapshot == nil)
            for statements in [reads, writes] {
                #expect(try await holder(options, during: statements, in: other) == nil)
                let name = try await holder(options, during: statements, in: options)
                #expect(name?.hasPrefix("session ") == true && name?.hasSuffix(" of chapar (chapar)") == true)
            }
            #expect(try await PostgresLook.look(at: options).oldestSnapshot == nil)
        }
    }

    @Test("A prepared transaction of this database is named, and one of another database is not")
    func preparedTransactions() async throws {
        try await withServer { options, other in
            try await perform(other, "BEGIN; CREATE TABLE x (id bigint); PREPARE TRANSACTION 'elsewhere'")
            #expect(try await PostgresLook.look(at: options).oldestSnapshot == nil)
            try await perform(options, "BEGIN; CREATE TABLE x (id bigint); PREPARE TRANSACTION 'here'")
            #expect(try await PostgresLook.look(at: options).oldestSnapshot?.holder == "prepared transaction here")
            try await perform(options, "ROLLBACK PREPARED 'here'")
            #expect(try await PostgresLook.look(at: options).oldestSnapshot == nil)
        }
    }

    @Test("A standby's snapshot is named, with its slot where it has one, and is as old as the events since")
    func standbys() async throws {
        try await withServer { options, _ in
            let store = try await PostgresStore.open(options)
            let now = store.core.now
            try await store.core.partitions.make([Partitions.day(now) - 1], on: store.core.keeper)
            var transaction: Int64 = 0
            for place in 0..<40 {
                if place == 10 {
                    transaction = Int64(try await store.count("SELECT pg_current_xact_id()::text::bigint"))
                }
                try await store.core.keeper.transaction { (db) throws(PostgresError) in
                    let at = now - Int64(4_000 - 100 * place) * 1_000
                    try EventLog.append([[1], [2], [3]], now: at, db)
                }
                _ = try await EventLog.number(on: store.core.keeper)
            }
            try await perform(options, "SELECT pg_create_physical_replication_slot('standby_1', true)")
            #expect(try await PostgresLook.look(at: options).oldestSnapshot == nil, "a slot without a snapshot")
            for slot in [nil, "standby_1"] {
                let standby = try Standby(options, slot: slot)
                try standby.hold(transaction)
                var found: PostgresLook.Snapshot?
                let begin = ContinuousClock.now
                while found == nil, begin.duration(to: .now) < .seconds(10) {
                    found = try await PostgresLook.look(at: options).oldestSnapshot
                }
                let name = try #require(found?.holder)
                #expect(slot.map { name == "replication slot \($0)" } ?? name.hasPrefix("standby "), "\(name)")
                let age = try #require(found?.age)
                #expect(age >= .seconds(3_000) && age < .seconds(3_030), "\(age)")
                standby.end()
                while slot == nil, try await PostgresLook.look(at: options).oldestSnapshot != nil {}
            }
            // It stays when the standby is away.
            #expect(try await PostgresLook.look(at: options).oldestSnapshot?.holder == "replication slot standby_1")
            await store.close()
        }
    }
}

/// The messages of a standby with `hot_standby_feedback` to its server, without a standby.
private final class Standby {
    private let connection: OpaquePointer?

    struct Trouble: Error {
        let message: String
    }

    init(_ options: PostgresOptions, slot: String?) throws {
        let host = options.parameters["host"] ?? ""
        connection = PQconnectdb("host=\(host) user=chapar dbname=postgres replication=true application_name=away")
        let system = PQexec(connection, "IDENTIFY_SYSTEM")
        let position = PQgetvalue(system, 0, 2).map { String(cString: $0) } ?? "0/0"
        PQclear(system)
        let result = PQexec(connection, "START_REPLICATION \(slot.map { "SLOT \($0) " } ?? "")PHYSICAL \(position)")
        defer { PQclear(result) }
        guard PQresultStatus(result) == PGRES_COPY_BOTH else {
            throw Trouble(message: String(cString: PQerrorMessage(connection)))
        }
    }

    /// Says that it needs what a transaction saw: PostgreSQL's "hot standby feedback message".
    func hold(_ transaction: Int64) throws {
        var message: [UInt8] = Array("h".utf8)
        func append(_ value: some FixedWidthInteger) {
            withUnsafeBytes(of: value.bigEndian) { message.append(contentsOf: $0) }
        }
        append(Int64(0))
        append(UInt32(truncatingIfNeeded: transaction))
        append(UInt32(truncatingIfNeeded: transaction >> 32))
        append(UInt32(0))
        append(UInt32(0))
        let isSent = message.withUnsafeBytes { bytes in
            PQputCopyData(connection, bytes.bindMemory(to: CChar.self).baseAddress, Int32(bytes.count)) == 1
        }
        guard isSent, PQflush(connection) == 0 else {
            throw Trouble(message: String(cString: PQerrorMessage(connection)))
        }
    }

    func end() { PQfinish(connection) }
}
