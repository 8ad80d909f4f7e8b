import Foundation
import ChaparCore
import ChaparQueue
import ChaparStoreContract
import ChaparTesting
import Testing

@testable import ChaparStorePostgres

/// The server keeps the types of columns; the values in them are any that a hand or a restored dump may have put there.
@Suite("A database whose rows hold what no gateway writes", .serialized, .timeLimit(.minutes(10)))
struct DamagedRowsTests {
    /// Wrong values of the types that the tables use: the first in every run, the others when many damaged stores are
    /// asked for.
    private static let wrong = [
        "smallint": ["32767", "-32768"],
        "integer": ["2147483647", "-2147483648"],
        "bigint": ["9223372036854775807", "-9223372036854775808", "-1"],
        "text": ["'x'", "''"],
        "bytea": [#"'\xff'"#, "''"],
        "text[]": ["ARRAY['x', NULL]", "'{}'"],
    ]

    @Test("A wrong value in any column ends nothing: each question has an answer or an error, and the store closes")
    func values() async throws {
        let server = TestServer.shared
        let preparation = PostgresConnection(try await server.options(), name: "preparation")
        func perform(_ statement: String) async throws {
            try await preparation.session { (db) throws(PostgresError) in try db.perform(statement) }
        }
        func options(_ database: String) async throws -> PostgresOptions {
            try PostgresOptions(url: "postgres://chapar@/\(database)?host=\(try await server.folder())")
        }
        try await perform("CREATE DATABASE whole")
        var filling = StoreFilling()
        filling.patience = .zero
        let store = try await PostgresStore.open(try await options("whole"))
        try await filling.fill(store)
        let columns = try await Self.columns(store)
        await store.close()

        let asksAll = ProcessInfo.processInfo.environment["CHAPAR_DAMAGED_FILES"] != nil
        var planted: Set<String> = []
        for column in columns {
            let values = Self.wrong[column.type] ?? ["NULL"]
            for value in asksAll ? values + ["NULL"] : [values[0]] {
                try await perform("CREATE DATABASE damaged TEMPLATE whole STRATEGY file_copy")
                let damaged = try await options("damaged")
                if try await Self.plant("UPDATE chapar.\(column.table) SET \(column.name) = \(value)", damaged) {
                    planted.insert(column.table)
                    await Self.ask(damaged, filling)
                }
                try await perform("DROP DATABASE damaged WITH (FORCE)")
            }
        }
        await preparation.close()
        let wanted: Set = ["waiting", "notifications", "devices", "events", "state"]
        #expect(planted.isSuperset(of: wanted), "\(planted.sorted())")
    }

    private struct Column {
        var table: String
        var name: String
        var type: String
    }

    /// All columns of all tables that have rows.
    private static func columns(_ store: PostgresStore) async throws -> [Column] {
        try await store.session(on: store.registry) { (db) throws(PostgresError) in
            let rows = try db.run(
                """
                SELECT c.relname::text, a.attname::text, format_type(a.atttypid, NULL) FROM pg_attribute a
                JOIN pg_class c ON c.oid = a.attrelid
                WHERE c.relnamespace = 'chapar'::regnamespace AND c.relkind IN ('r', 'p') AND NOT c.relispartition
                AND a.attnum > 0 AND NOT a.attisdropped AND a.attgenerated = '' ORDER BY 1, a.attnum
                """
            )
            return (0..<rows.count).map { row in
                Column(table: rows.text(row, 0) ?? "", name: rows.text(row, 1) ?? "", type: rows.text(row, 2) ?? "")
            }
        }
    }

    /// Changes all rows of a table; false when its constraints do not let it, or it has none.
    private static func plant(_ sql: String, _ options: PostgresOptions) async throws -> Bool {
        let connection = PostgresConnection(options, name: "damage")
        let changed = try? await connection.session { (db) throws(PostgresError) in try db.run(sql).changed }
        await connection.close()
        return changed ?? 0 > 0
    }

    /// Opens a store, asks it every question and has it take, hand out and record something.
    private static func ask(_ options: PostgresOptions, _ filling: StoreFilling) async {
        guard let store = try? await PostgresStore.open(options, logger: RecordedLog().logger) else { return }
        for question in filling.questions(store) { _ = try? await question() }
        _ = try? await store.claimExpired(limit: 100)
        for backend in ["altcraft", "chabok"] {
            _ = try? await store.claimEntries(of: backend, limit: 5, lease: .seconds(60), wait: .zero)
        }
        for id in filling.notifications.prefix(6) { _ = try? await store.cancel(id) { _, _ in [1] } }
        _ = try? await store.put([Device(id: "d1", user: "u1", createdAt: Date())], outbox: Date())
        _ = try? await store.redactEvents { number, _ in number == 1 ? [2] : nil }
        _ = try? await store.purge(Retention(notifications: Date() + 400 * 86_400, events: Date() + 400 * 86_400))
        _ = try? await store.enqueue(EnqueueBatch([store.sample(to: [.user("ada")])]))
        if let claims = try? await store.claim(backend: "apns", limit: 10, wait: .zero) { try? await store.end(claims) }
        _ = await store.health()
        await store.close()
    }
}
