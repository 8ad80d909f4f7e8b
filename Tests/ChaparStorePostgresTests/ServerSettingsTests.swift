import Foundation
import ChaparCore
import ChaparQueue
import ChaparTesting
import Testing

@testable import ChaparStorePostgres

/// Servers that are set up otherwise than usual.
@Suite("PostgreSQL servers with settings of their own", .serialized, .timeLimit(.minutes(2)))
struct ServerSettingsTests {
    @Test(
        "Nodes share work whatever isolation level the server has by default",
        arguments: ["repeatable read", "serializable"]
    )
    func isolation(_ level: String) async throws {
        let server = TestServer(["default_transaction_isolation=\(level)"])
        let options = try await server.options()
        var nodes: [PostgresStore] = []
        for _ in 0..<3 { nodes.append(try await PostgresStore.open(options)) }
        try await NodesTests.shareWork(nodes, each: 100)
        for node in nodes { await node.close() }
        try await server.end()
    }

    /// Another database of the shared server, or another role.
    private func options(_ database: String, _ user: String = "chapar", after statements: [String]) async throws
        -> PostgresOptions
    {
        let server = TestServer.shared
        let connection = PostgresConnection(try await server.options(), name: "preparation")
        try await connection.session { (db) throws(PostgresError) in
            for statement in statements { try db.perform(statement) }
        }
        await connection.close()
        return try PostgresOptions(url: "postgres://\(user)@/\(database)?host=\(try await server.folder())")
    }

    @Test("A database in which most names cannot be written is refused, and an old one there is a failure for doctor")
    func encoding() async throws {
        let make = "CREATE DATABASE latin ENCODING 'LATIN1' LOCALE 'C' TEMPLATE template0"
        let options = try await options("latin", after: [make])
        do {
            await (try await PostgresStore.open(options)).close()
            Issue.record("it was taken")
        } catch {
            #expect(error.description.contains("LATIN1") && error.description.contains("ENCODING 'UTF8'"), "\(error)")
        }
        let look = try await PostgresLook.look(at: options)
        #expect(look.weaknesses.map(\.isFailure) == [true])
        #expect(look.weaknesses.first?.finding.contains("LATIN1") == true)
    }

    @Test("Settings of a role that do harm, and tables that are another's, are found")
    func roles() async throws {
        let shared = try await TestServer.shared.options("weak")
        await (try await PostgresStore.open(shared)).close()
        var options = try await options(
            "postgres",
            "weak",
            after: [
                "CREATE ROLE weak LOGIN CONNECTION LIMIT 12", "ALTER ROLE weak SET synchronous_commit = off",
                "GRANT USAGE ON SCHEMA weak TO weak", "GRANT ALL ON ALL TABLES IN SCHEMA weak TO weak",
            ]
        )
        options.schema = "weak"
        let found = try await PostgresLook.look(at: options).weaknesses
        #expect(found.map(\.isFailure) == [true, false, false])
        for (weakness, words) in zip(
            found,
            ["belong to chapar", "synchronous_commit is off", "may have 12 connections"]
        ) {
            #expect(weakness.finding.contains(words), "\(weakness)")
        }
        #expect(try await PostgresLook.look(at: shared).weaknesses.isEmpty)
    }

    @Test("A role whose sessions may change nothing is found, and opening the store names the setting")
    func readOnly() async throws {
        await (try await PostgresStore.open(try await TestServer.shared.options("readonly"))).close()
        var options = try await options(
            "postgres",
            "reader",
            after: [
                "CREATE ROLE reader LOGIN SUPERUSER", "ALTER ROLE reader SET default_transaction_read_only = on",
            ]
        )
        options.schema = "readonly"
        let found = try await PostgresLook.look(at: options).weaknesses
        #expect(found.map(\.isFailure) == [true])
        #expect(found.first?.finding == "default_transaction_read_only is on: reader may change nothing")
        do {
            await (try await PostgresStore.open(options)).close()
            Issue.record("it was opened")
        } catch {
            guard case .full(let reason, _) = error else { throw error }
            #expect(reason.contains("set default_transaction_read_only to off"), "\(reason)")
        }
    }

    @Test("A node for whose connections there is no room does not start, and says how many it needs")
    func connections() async throws {
        let server = TestServer(["max_connections=20"])
        let options = try await server.options()
        let first = try await PostgresStore.open(options)
        do {
            await (try await PostgresStore.open(options)).close()
            Issue.record("it started without its connections")
        } catch {
            guard case .full(let reason, _) = error else { throw error }
            #expect(reason.contains("of the 12 connections of this gateway"), "\(reason)")
        }
        // It has given back what it had.
        try await first.accept(to: [.user("ada")])
        #expect(try await first.claim(backend: "apns", limit: 1, wait: .seconds(5)).count == 1)
        await first.close()
        try await server.end()
    }
}
