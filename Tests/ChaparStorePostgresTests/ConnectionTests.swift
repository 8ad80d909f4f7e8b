import Foundation
import ChaparCore
import ChaparTesting
import Testing

@testable import ChaparStorePostgres

@Suite("A connection to PostgreSQL", .timeLimit(.minutes(1)))
struct ConnectionTests {
    @Test(
        "The time is the database's, also where it was asked for before the database was and this machine's clock is ahead"
    )
    func time() {
        let time = DatabaseTime()
        let own = time.steady
        time.set(wall: own.addingTimeInterval(-60), ahead: 0, at: .now)
        #expect(abs(time.steady.timeIntervalSince(own.addingTimeInterval(-60))) < 5)
        // But it does not go back when the database's clock is read a little earlier.
        let before = time.steady
        time.set(wall: before.addingTimeInterval(-1), ahead: 0, at: .now)
        #expect(time.steady >= before)
        // Nor does it stand still for an hour.
        time.set(wall: before.addingTimeInterval(-3_600), ahead: 0, at: .now)
        #expect(abs(time.steady.timeIntervalSince(before) + 3_600) < 5)
    }

    @Test("Every kind of value comes back as it went")
    func values() async throws {
        let connection = PostgresConnection(try await TestServer.shared.options(), name: "test")
        let found = try await connection.session { (db) throws(PostgresError) in
            let rows = try db.run(
                """
                SELECT $1::bigint, $2::bigint IS NULL, $3::bool, $4::text, $5::bytea, $6::text IS NULL,
                array_length($7::bigint[], 1), ($8::text[])[2], ($9::bytea[])[1], cardinality($10::bigint[]), ($11::bool[])[2],
                ($7::bigint[])[2] IS NULL
                """,
                [
                    .integer(-5), .integer(nil), .bool(true), .text("ü\"'"), .bytes([0, 255]), .text(nil),
                    .integers([1, nil, 3]), .texts(["a", ""]), .byteArrays([[7, 0]]), .integers([]),
                    .bools([true, false]),
                ]
            )
            return [
                "\(rows.integer(0, 0) ?? 0)", "\(rows.bool(0, 1))", "\(rows.bool(0, 2))", rows.text(0, 3) ?? "-",
                "\(rows.bytes(0, 4) ?? [])", "\(rows.bool(0, 5))", "\(rows.integer(0, 6) ?? 0)", rows.text(0, 7) ?? "-",
                "\(rows.bytes(0, 8) ?? [])", "\(rows.integer(0, 9) ?? -1)", "\(rows.bool(0, 10))",
                "\(rows.bool(0, 11))",
            ]
        }
        #expect(found == ["-5", "true", "true", "ü\"'", "[0, 255]", "true", "3", "", "[7, 0]", "0", "false", "true"])
        await connection.close()
        await #expect(throws: PostgresError.closed) {
            try await connection.session { (_) throws(PostgresError) in }
        }
    }

    @Test("A refused statement takes the transaction back, and the connection goes on")
    func refusal() async throws {
        let connection = PostgresConnection(try await TestServer.shared.options(), name: "test")
        let error = await #expect(throws: PostgresError.self) {
            try await connection.transaction { (db) throws(PostgresError) in
                try db.perform("CREATE TABLE taken_back (a int)")
                try db.run("SELECT 1 / $1", [.integer(0)])
            }
        }
        #expect(error == .refused(code: "22012", "division by zero"))
        let tables = try await connection.session { (db) throws(PostgresError) in
            try db.run("SELECT count(*) FROM pg_tables WHERE tablename = 'taken_back'").integer(0, 0)
        }
        #expect(tables == 0)
        await connection.close()
    }

    @Test("A server that takes no changes any more, as after a failover, is left for a new connection")
    func readOnly() async throws {
        let options = try await TestServer.shared.options()
        let connection = PostgresConnection(options, name: "test")
        func process() async throws -> Int64? {
            try await connection.session { (db) throws(PostgresError) in
                try db.run("SELECT pg_backend_pid()::bigint").integer(0, 0)
            }
        }
        let former = try await process()
        try await connection.session { (db) throws(PostgresError) in
            try db.perform("CREATE SCHEMA \(options.schema); SET default_transaction_read_only = on")
        }
        let error = await #expect(throws: PostgresError.self) {
            try await connection.transaction { (db) throws(PostgresError) in
                try db.perform("CREATE TABLE \(options.schema).changes (number int)")
            }
        }
        #expect(error?.isOutage == true && error?.description.contains("target_session_attrs=read-write") == true)
        await #expect(throws: PostgresError.self, "it is not asked all the time") { try await process() }
        try await eventually("the server may be asked again", every: .milliseconds(20)) {
            (try? await process()) != nil
        }
        #expect(try await process() != former)
        try await connection.transaction { (db) throws(PostgresError) in
            try db.perform("CREATE TABLE \(options.schema).changes (number int)")
        }
        await connection.close()
    }

    @Test("A statement without an answer is given up at its deadline")
    func deadline() async throws {
        var options = try await TestServer.shared.options()
        options.statementTimeout = .milliseconds(300)
        let connection = PostgresConnection(options, name: "test")
        let error = await #expect(throws: PostgresError.self) {
            try await connection.session { (db) throws(PostgresError) in try db.perform("SELECT pg_sleep(30)") }
        }
        #expect(error == .broken("no answer within 0.3 seconds"))
        // The server is told a tenth less, which on a busy machine must be more than a moment.
        options.statementTimeout = .seconds(4)
        let patient = PostgresConnection(options, name: "patient")
        let inTransaction = await #expect(throws: PostgresError.self) {
            try await patient.transaction { (db) throws(PostgresError) in try db.run("SELECT pg_sleep(30)") }
        }
        #expect(inTransaction == .refused(code: "57014", "canceling statement due to statement timeout"))
        await patient.close()
        await connection.close()
    }

    @Test("A statement that is given up ends in the server as well, and lets its locks go")
    func cancellation() async throws {
        var options = try await TestServer.shared.options()
        let other = PostgresConnection(options, name: "other")
        options.statementTimeout = .seconds(1)
        let connection = PostgresConnection(options, name: "test")
        await #expect(throws: PostgresError.broken("no answer within 1.0 seconds")) {
            try await connection.session { (db) throws(PostgresError) in
                try db.perform("SELECT pg_advisory_lock(471100), pg_sleep(300)")
            }
        }
        try await eventually("the lock is free", within: .seconds(20), every: .milliseconds(50)) {
            try await lock(471_100, over: other)
        }
        await connection.close()
        await other.close()
    }

    /// Whether a lock was free a moment ago.
    private func lock(_ number: Int, over connection: PostgresConnection) async throws -> Bool {
        try await connection.transaction { (db) throws(PostgresError) in
            try db.run("SELECT pg_try_advisory_xact_lock($1)", [.integer(number)]).bool(0, 0)
        }
    }

    @Test("A commit that waits for a standby goes on when it is given up: no reader sees what the standby lacks")
    func commit() async throws {
        let server = TestServer()
        var options = try await server.options()
        let other = PostgresConnection(options, name: "other")
        try await other.session { (db) throws(PostgresError) in
            try db.perform("CREATE TABLE public.written (id bigint)")
            try db.perform("ALTER SYSTEM SET synchronous_standby_names = 'nobody'")
            try db.perform("SELECT pg_reload_conf()")
        }
        options.statementTimeout = .seconds(1)
        let connection = PostgresConnection(options, name: "test")
        // The server is told to reload, and does it soon.
        while try await connection.session({ (db) throws(PostgresError) in
            try db.run("SHOW synchronous_standby_names").text(0, 0)
        }) != "nobody" {}
        let insertion = "INSERT INTO public.written VALUES ($1)"
        await #expect(throws: PostgresError.broken("no answer within 1.0 seconds")) {
            try await connection.transaction { (db) throws(PostgresError) in
                _ = try db.run(insertion, [.integer(1)]).changed
            }
        }
        await #expect(throws: PostgresError.broken("no answer within 1.0 seconds")) {
            try await connection.single(insertion, [.integer(2)]) { (_) throws(PostgresError) in }
        }
        // A statement that is given up after them, and that the server has ended: it would have ended them before.
        await #expect(throws: PostgresError.broken("no answer within 1.0 seconds")) {
            try await connection.session { (db) throws(PostgresError) in
                try db.perform("SELECT pg_advisory_lock(471102), pg_sleep(300)")
            }
        }
        try await eventually("the later statement is ended", within: .seconds(20), every: .milliseconds(50)) {
            try await lock(471_102, over: other)
        }
        let seen = try await other.session { (db) throws(PostgresError) in
            try db.run("SELECT count(*) FROM public.written").integer(0, 0)
        }
        #expect(seen == 0)
        await connection.close()
        await other.close()
        try await server.end()
    }

    @Test("A transaction whose process stands still is ended, and lets its locks go")
    func idle() async throws {
        var options = try await TestServer.shared.options()
        let other = PostgresConnection(options, name: "other")
        options.statementTimeout = .seconds(1)
        let connection = PostgresConnection(options, name: "test")
        let (isHeld, mayGoOn) = (AsyncSignal(), DispatchSemaphore(value: 0))
        let holding = Task {
            try await connection.transaction { (db) throws(PostgresError) in
                _ = try db.run("SELECT pg_advisory_xact_lock(471101)").count
                isHeld.signal()
                _ = mayGoOn.wait(timeout: .now() + 20)
                _ = try db.run("SELECT 1").count
            }
        }
        await isHeld.wait(after: .start, atMost: .seconds(10), SystemTime())
        try await eventually("the lock is free", within: .seconds(15), every: .milliseconds(50)) {
            try await lock(471_101, over: other)
        }
        mayGoOn.signal()
        let error = await #expect(throws: PostgresError.self) { try await holding.value }
        #expect(error?.isOutage == true, "\(String(describing: error))")
        await connection.close()
        await other.close()
    }
}
