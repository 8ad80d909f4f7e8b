import Foundation
import ChaparComposition
import ChaparCore
import ChaparQueue
import ChaparTesting
import Testing

@testable import ChaparStorePostgres

@Suite("When the database is away", .timeLimit(.minutes(2)), .serialized)
struct OutageTests {
    @Test("A value that the database does not take says nothing about the database")
    func value() async throws {
        try await Nodes.use(1) { nodes in
            for _ in 0..<2 {
                await #expect(throws: StoreError.self) { _ = try await nodes[0].device("a\0b") }
                await #expect(throws: StoreError.self) { _ = try await nodes[0].delete("a\0b") }
            }
            let health = await nodes[0].health()
            #expect(health.acceptsWork, "\(health)")
        }
    }

    @Test("New work is refused with a time to come again, what was sent is not forgotten, and work goes on by itself")
    func outage() async throws {
        let server = TestServer()
        let store = try await PostgresStore.open(try await server.options())
        let before = try await store.accept(to: [.user("a"), .user("b")])
        let held = try await store.claim(backend: "apns", limit: 1, wait: .zero)
        try await server.crash()
        let new = store.sample(to: [.user("c")])
        // The first may have been on its way when the connection broke; then nothing is sent any more.
        var refusals: [StoreError] = []
        for _ in 0..<5 {
            do { _ = try await store.enqueue(EnqueueBatch([new])) } catch { refusals.append(error) }
        }
        #expect(refusals.count == 5)
        for refusal in refusals.dropFirst() {
            guard case .full(let reason, let retryAfter) = refusal else {
                Issue.record("\(refusal)")
                continue
            }
            #expect(reason.contains("cannot be reached"))
            #expect(retryAfter == .seconds(5))
        }
        let health = await store.health()
        #expect(!health.acceptsWork && health.detail?.contains("the database") == true)
        // What a worker has sent meanwhile is written once the database is there again.
        let recording = Task { try await store.end(held) }
        let waiting = Task { try await Self.claimPatiently(store) }
        try await eventually("both calls have lost their connections") {
            store.core.recorder.serverProcess == nil && store.core.claimer.serverProcess == nil
        }
        try await server.restart()
        try await recording.value
        let claimed = try await waiting.value
        #expect(claimed.map(\.recipient) == [.user("b")])
        try await store.end(claimed)
        #expect(try await store.notification(before)?.counts == [.acceptedByPlatform: 2])
        #expect(await store.health().acceptsWork)
        #expect(try await store.enqueue(EnqueueBatch([new])) == .accepted)
        await store.close()
        try await server.end()
    }

    @Test("A read succeeds with its first statement after a restart of the server")
    func firstStatement() async throws {
        let server = TestServer()
        let options = try await server.options()
        let connection = PostgresConnection(options, name: "test", reopens: true)
        let other = PostgresConnection(options, name: "other")
        func number() async throws -> Int64? {
            try await connection.session { (db) throws(PostgresError) in try db.run("SELECT 7::bigint").integer(0, 0) }
        }
        #expect(try await number() == 7)
        try await server.crash()
        try await server.restart()
        #expect(try await number() == 7)
        let process = try #require(connection.serverProcess)
        try await other.session { (db) throws(PostgresError) in try db.run("SELECT pg_terminate_backend(\(process))") }
        try await eventually("the server's process has ended") { kill(Int32(clamping: process), 0) != 0 }
        #expect(try await number() == 7)
        await connection.close()
        await other.close()
        try await server.end()
    }

    @Test("The first change of each kind takes place after a restart of the server, and after the end of its session")
    func firstChanges() async throws {
        let server = TestServer()
        let store = try await PostgresStore.open(try await server.options())
        func change(_ name: String) async throws {
            #expect(try await store.enqueue(EnqueueBatch([store.sample(to: [.user(name)])])) == .accepted)
            let device = Device(id: name, createdAt: Date(timeIntervalSince1970: 1))
            #expect(try await store.put([device], outbox: nil).count == 1)
            #expect(try await store.depths()["apns"] != nil)
        }
        try await change("before")
        try await server.crash()
        try await server.restart()
        try await eventually("the store takes work again") { await store.health().acceptsWork }
        try await change("restarted")
        for connection in [store.core.writer, store.registry, store.core.counter] {
            let process = try #require(connection.serverProcess)
            _ = try await store.number("SELECT pg_terminate_backend(\(process))::int")
            try await eventually("the server's process has ended") { kill(Int32(clamping: process), 0) != 0 }
        }
        try await change("ended")
        await store.close()
        try await server.end()
    }

    @Test("A database that one connection has reached again is not taken for away by another one")
    func reachedAgain() async throws {
        let server = TestServer()
        let options = try await server.options()
        let (tired, fresh) = (PostgresConnection(options, name: "tired"), PostgresConnection(options, name: "fresh"))
        func number(_ connection: PostgresConnection) async throws -> Int64? {
            try await connection.session { (db) throws(PostgresError) in try db.run("SELECT 7::bigint").integer(0, 0) }
        }
        try await server.crash()
        // Until the pause before its next try is 2.4 s at least: those before it are 75 to 125 % of 0.1, 0.2, 0.4, 0.8
        // and 1.6 s.
        let end = ContinuousClock.now + .milliseconds(3_900)
        try await eventually("its pauses are long", every: .milliseconds(10)) {
            await #expect(throws: PostgresError.self) { try await number(tired) }
            return ContinuousClock.now >= end
        }
        try await server.restart()
        #expect(try await number(fresh) == 7)
        #expect(try await number(tired) == 7)
        await tired.close()
        await fresh.close()
        try await server.end()
    }

    @Test("The pause after a refused statement goes on when another connection is opened")
    func refusedStatement() {
        let openings = PostgresOpenings()
        var (refused, away, other) = (
            PostgresBackOff(openings), PostgresBackOff(openings), PostgresBackOff(openings)
        )
        // Until the pauses are some seconds long.
        for _ in 0..<8 {
            refused.fail("takes no changes", isStatement: true)
            away.fail("is away")
        }
        #expect(refused.refusal == "takes no changes")
        #expect(away.refusal == "is away")
        other.succeed()
        #expect(refused.refusal == "takes no changes")
        #expect(away.refusal == nil)
        refused.succeed()
        #expect(refused.refusal == nil)
    }

    /// As a delivery worker does: asks again after an error.
    private static func claimPatiently(_ store: PostgresStore) async throws -> [ClaimedDelivery] {
        var found: [ClaimedDelivery] = []
        try await eventually("there is something to claim", within: .seconds(50), every: .milliseconds(50)) {
            found = (try? await store.claim(backend: "apns", limit: 9, wait: .milliseconds(200))) ?? []
            return !found.isEmpty
        }
        return found
    }

    @Test("Above max_waiting new work is refused until there is less")
    func maximumWaiting() async throws {
        var options = try await TestServer.shared.options()
        options.maximumWaiting = 10
        options.nodeLease = .seconds(3)
        let store = try await PostgresStore.open(options)
        try await store.accept(to: (0..<10).map { .user("\($0)") })
        try await eventually("the node has counted what waits") { store.core.waiting >= 10 }
        let error = await #expect(throws: StoreError.self) { try await store.accept(to: [.user("x")]) }
        guard case .full(let reason, _)? = error else {
            Issue.record("\(String(describing: error))")
            return
        }
        #expect(reason.contains("max_waiting is 10"))
        try await store.end(try await store.claim(backend: "apns", limit: 9, wait: .zero))
        try await eventually("the node has counted what is left") { store.core.waiting <= 1 }
        try await store.accept(to: [.user("x")])
        await store.close()
    }

    @Test("A claim whose answer was lost is made again, and so is what was given out as it was accepted")
    func lostAnswers() async throws {
        let store = try await PostgresStore.open(try await TestServer.shared.options())
        try await store.accept(to: [.user("a")])
        await store.core.claimer.loseNextAnswer()
        await #expect(throws: StoreError.self) { try await store.claim(backend: "apns", limit: 1, wait: .zero) }
        let claimed = try await Self.claimPatiently(store)
        #expect(claimed.map(\.recipient) == [.user("a")])
        #expect(claimed.map(\.isReplay) == [false])
        // While one waits, what is accepted is given to it in the same transaction.
        let waiting = Task { try await store.claim(backend: "apns", limit: 1, wait: .seconds(30)) }
        try await eventually("the call waits") { store.parked() == 1 }
        await store.core.writer.loseNextAnswer()
        let new = store.sample(to: [.user("b")])
        await #expect(throws: StoreError.self) { try await store.enqueue(EnqueueBatch([new])) }
        let second = try await waiting.value
        #expect(second.map(\.recipient) == [.user("b")])
        try await store.end(claimed + second)
        #expect(try await store.count("SELECT count(*) FROM chapar.waiting") == 0)
        await store.close()
    }

    @Test("A sweep for claims whose answers were lost delays no other statement")
    func looks() async throws {
        let store = try await PostgresStore.open(try await TestServer.shared.options())
        let (isBusy, mayEnd) = (AsyncSignal(), DispatchSemaphore(value: 0))
        let busy = Task {
            try await store.core.reader.session { (_) throws(PostgresError) in
                isBusy.signal()
                _ = mayEnd.wait(timeout: .now() + 10)
            }
        }
        await isBusy.wait(after: .start, atMost: .seconds(10), SystemTime())
        store.core.unknownClaims.note()
        let begin = ContinuousClock.now
        for name in ["a", "b"] {
            try await store.accept(to: [.user(name)])
            try await store.end(try await store.claim(backend: "apns", limit: 9, wait: .seconds(5)))
        }
        #expect(begin.duration(to: .now) < .seconds(8))
        mayEnd.signal()
        try await busy.value
        #expect(try await store.count("SELECT count(*) FROM chapar.results") == 2)
        await store.close()
    }

    @Test("A claim whose answer is still being read is not freed")
    func answersOnTheirWay() async throws {
        let store = try await PostgresStore.open(try await TestServer.shared.options())
        try await store.accept(to: [.user("a")])
        let core = store.core
        let number = core.nodeNumber
        let (isCommitted, mayArrive) = (AsyncSignal(), DispatchSemaphore(value: 0))
        let claiming = Task {
            try await core.claimer.single(
                "UPDATE chapar.waiting AS w SET owner = $1, lease = 7 RETURNING \(DeliveryRow.columns)",
                [.integer(number)]
            ) { (rows) throws(PostgresError) in
                isCommitted.signal()
                _ = mayArrive.wait(timeout: .now() + 10)
                core.inHand.add(DeliveryRow.all(rows))
            }
        }
        await isCommitted.wait(after: .start, atMost: .seconds(10), SystemTime())
        let reader = try #require(core.reader.serverProcess)
        let microseconds = "(extract(epoch FROM clock_timestamp()) * 1000000)::bigint"
        let before = try await store.number("SELECT \(microseconds)")
        core.unknownClaims.note()
        try await eventually("the search has read the claim") {
            try await store.number(
                """
                SELECT count(*) FROM pg_stat_activity WHERE pid = \(reader) AND state = 'idle' AND query = 'COMMIT'
                    AND extract(epoch FROM query_start) * 1000000 > \(before)
                """
            ) == 1
        }
        mayArrive.signal()
        try await claiming.value
        // A claim without an answer, which the search that comes next frees: the one before is over then.
        try await store.accept(to: [.user("b")])
        try await store.session(on: core.keeper) { (db) throws(PostgresError) in
            try db.perform("UPDATE chapar.waiting SET owner = \(number), lease = 8 WHERE lease <> 7")
        }
        core.unknownClaims.note()
        try await eventually("the claim without an answer is freed") {
            try await store.count("SELECT count(*) FROM chapar.waiting WHERE lease = 8 AND owner IS NULL") == 1
        }
        #expect(try await store.count("SELECT count(*) FROM chapar.waiting WHERE owner = \(number) AND lease = 7") == 1)
        await store.close()
    }

    @Test("A claim whose notification could not be read has no owner, and is made again")
    func unreadHeads() async throws {
        let options = try await TestServer.shared.options()
        let accepting = try await PostgresStore.open(options)
        try await accepting.accept(to: [.user("a")])
        let claiming = try await PostgresStore.open(options)
        func rename(_ name: String, to other: String) async throws {
            try await accepting.session(on: accepting.core.keeper) { (db) throws(PostgresError) in
                try db.perform("ALTER TABLE chapar.\(name) RENAME TO \(other)")
            }
        }
        try await rename("notifications", to: "hidden")
        await #expect(throws: StoreError.self) { try await claiming.claim(backend: "apns", limit: 1, wait: .zero) }
        try await rename("hidden", to: "notifications")
        let claimed = try await Self.claimPatiently(claiming)
        #expect(claimed.map(\.recipient) == [.user("a")])
        #expect(claimed.map(\.isReplay) == [false])
        try await claiming.end(claimed)
        for store in [accepting, claiming] { await store.close() }
    }

    @Test("A database that cannot be used is named in a sentence with the fix")
    func mistakes() async throws {
        func sentence(_ change: (inout PostgresOptions) throws -> Void = { _ in }, url: String? = nil) async throws
            -> String
        {
            var options = try await TestServer.shared.options()
            if let url { options = try PostgresOptions(url: url) }
            try change(&options)
            do {
                let store = try await PostgresStore.open(options)
                await store.close()
                return "opened"
            } catch {
                return "\(error)"
            }
        }
        let nowhere = try await sentence(url: "postgres://chapar@127.0.0.1:1/chapar")
        #expect(nowhere.hasPrefix("the database cannot be reached: ") && nowhere.contains("Connection refused"))
        let folder = try await TestServer.shared.options().parameters["host"] ?? ""
        #expect(
            try await sentence(url: "postgres://chapar@/none?host=\(folder)").contains(
                "database \"none\" does not exist: make it (createdb)"
            )
        )
        #expect(
            try await sentence(url: "postgres://stranger@/postgres?host=\(folder)").contains(
                "role \"stranger\" does not exist: make it (createuser)"
            )
        )
        let quoted = try await sentence { $0.schema = "two words" }
        #expect(quoted.contains("\"two words\" is not a name that needs no quotes"))
        // A user without rights.
        let admin = PostgresConnection(try await TestServer.shared.options(), name: "admin")
        try await admin.session { (db) throws(PostgresError) in
            try db.perform("CREATE ROLE nobody LOGIN; REVOKE CREATE ON DATABASE postgres FROM PUBLIC")
        }
        let rights = try await sentence { options in
            options = try PostgresOptions(url: "postgres://nobody@/postgres?host=\(folder)")
            options.schema = "of_nobody"
        }
        #expect(rights.contains("permission denied"))
        #expect(rights.contains("CREATE SCHEMA of_nobody AUTHORIZATION nobody"))
        // A schema from the future: nothing is changed.
        var options = try await TestServer.shared.options()
        let store = try await PostgresStore.open(options)
        await store.close()
        let foreign = try await sentence {
            $0 = try PostgresOptions(url: "postgres://nobody@/postgres?host=\(folder)")
            $0.schema = options.schema
        }
        #expect(foreign.contains("permission denied"))
        #expect(foreign.contains("let the schema and its tables belong to the user of store.url"))
        do throws(PostgresError) {
            try await Schema.migrate(admin, options, oldestServer: 990_000)
            Issue.record("a server that is too old was taken")
        } catch {
            #expect(error.description.contains("99 is the oldest that is supported, upgrade the server"))
        }
        let number = Schema.steps.count + 1
        let schema = options.schema
        try await admin.session { (db) throws(PostgresError) in
            try db.perform("INSERT INTO \(schema).schema_steps (number, name) VALUES (\(number), 'later')")
        }
        let future = try await sentence { $0 = options }
        #expect(future.contains("was written by a newer version, whose step \(number) this one does not know"))
        #expect(try await PostgresLook.look(at: options).isNewer)
        options.schema = "not_there"
        let look = try await PostgresLook.look(at: options)
        #expect(look.isSupported && !look.isNewer && look.mayChange && look.missingSteps == Schema.steps.count)
        await admin.close()
    }

    @Test("A password is used wherever it stands, and a wrong one is named in a sentence without it")
    func passwords() async throws {
        let rules = FileManager.default.temporaryDirectory.appending(path: "chapar-hba-\(UUID().uuidString)")
        try Data("local all chapar trust\nlocal all all scram-sha-256\n".utf8).write(to: rules)
        try FileManager.default.setAttributes([.posixPermissions: 0o644], ofItemAtPath: rules.path)
        defer { try? FileManager.default.removeItem(at: rules) }
        let server = TestServer(["hba_file=\(rules.path)"])
        let options = try await server.options()
        let folder = try await server.folder()
        let admin = PostgresConnection(options, name: "admin")
        try await admin.session { (db) throws(PostgresError) in
            try db.perform(
                "CREATE ROLE shop LOGIN PASSWORD 'hush'; GRANT CREATE ON DATABASE postgres TO shop"
            )
        }
        await admin.close()
        let address = "@/postgres?host=\(folder)"
        for options in [
            try PostgresOptions(url: "postgres://shop:hush\(address)"),
            try PostgresOptions(url: "postgres://shop\(address)", password: Secret("hush")),
        ] {
            let store = try await PostgresStore.open(options)
            #expect(await store.health().acceptsWork)
            await store.close()
        }
        for (password, words) in [("wrong-one", "password authentication failed"), (nil, "no password supplied")] {
            let wrong = try PostgresOptions(url: "postgres://shop\(address)", password: password.map { Secret($0) })
            let error = await #expect(throws: StoreError.self) { try await PostgresStore.open(wrong) }
            let sentence = error.map { "\($0)" } ?? ""
            #expect(sentence.contains(words) && sentence.contains("give the user of store.url its password"))
            #expect(!sentence.contains("wrong-one"))
        }
        try await server.end()
    }

    @Test(
        "A URL that is not to be used is refused with what to write, and never repeats the password",
        arguments: [
            ("mysql://a@b/c", "must begin with postgres://"), ("postgres://a:hush@b", "names no database"),
            ("postgres://a:hush@b/c?options=-csearch_path", "?options= is not known here"),
            ("postgres://a:hush@b:port/c", "names a port that is no number"),
            ("postgres://a:p@hush@b/c", "has an @ that ends no user or password"),
            ("postgres://a:1/hush@b/c", "has an @ that ends no user or password"),
            ("postgres://a:p/x?hush=1@b/c", "has a keyword that is not known: encode"),
            ("postgres://a@b%40hush/c", "names a host that is none"), ("postgres://a:hush@b:0/c", "from 1 to 65535"),
            ("postgres://a:hush@b/c?channel_binding=on", "?channel_binding= is none of disable, prefer, require"),
            ("postgres://a:hush@b/c?connect_timeout=soon", "?connect_timeout= is no whole number"),
        ]
    )
    func urls(_ url: String, _ words: String) throws {
        let error = try #require(throws: PostgresOptions.Mistake.self) { try PostgresOptions(url: url) }
        #expect(error.description.contains(words))
        #expect(!error.description.contains("hush"))
    }

    @Test("Off this machine the server's name is checked, and what is shown has no password")
    func defaults() throws {
        let far = try PostgresOptions(url: "postgres://chapar:hush@db.example.org/chapar")
        #expect(far.parameters["sslmode"] == "verify-full")
        #expect(far.parameters["password"] == nil)
        #expect("\(far)" == "postgres://chapar@db.example.org/chapar")
        for host in ["127.0.0.1.example.org", "127.example.org", "localhost.example.org", "localhost,db.example.org"] {
            let far = try PostgresOptions(url: "postgres://chapar@\(host)/chapar")
            #expect(far.parameters["sslmode"] == "verify-full", "\(host)")
        }
        let near = try PostgresOptions(url: "postgres://chapar@127.0.0.1/chapar")
        #expect(near.parameters["sslmode"] == nil)
        let said = try PostgresOptions(url: "postgres://chapar@db.example.org/chapar?sslmode=require")
        #expect(said.parameters["sslmode"] == "require")
        // As libpq finds a host: an address goes before its name, and the environment counts for what is not said.
        #expect(PostgresOptions.isLocal(["host": "db.example.org", "hostaddr": "127.0.0.1"], [:]))
        #expect(!PostgresOptions.isLocal(["host": "db.example.org,localhost", "hostaddr": ",127.0.0.1"], [:]))
        #expect(PostgresOptions.isLocal([:], [:]))
        #expect(!PostgresOptions.isLocal([:], ["PGHOST": "db.example.org"]))
        #expect(!PostgresOptions.isLocal(["host": "/run/postgresql"], ["PGHOSTADDR": "192.0.2.1"]))
    }
}
