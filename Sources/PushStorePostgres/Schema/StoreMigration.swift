package import PushCore
package import PushQueue

/// The steps that a database's tables lack.
package enum StoreMigration {
    /// What an opening would do; nothing is changed.
    ///
    /// - Throws: `StoreError.failed` when an incompatible newer version has been here.
    package static func plan(_ options: PostgresOptions) async throws(StoreError) -> [MigrationStep] {
        try await use(options) { (connection) async throws(PostgresError) in
            let (missing, count) = try await connection.session { (db) throws(PostgresError) -> ([String], Int) in
                guard try db.run("SELECT to_regclass('chapar.schema_steps') IS NULL").bool(0, 0) else {
                    return ([], try Schema.appliedSteps(db, options, Schema.steps))
                }
                return (
                    try db.run(Schema.isMissing).bool(0, 0) ? [Schema.creation, Schema.ledger] : [Schema.ledger], 0
                )
            }
            let steps = Schema.steps.enumerated().dropFirst(count).map { place, step in
                MigrationStep(
                    name: "\(place + 1) \(step.name)",
                    statements: shown(step.statements, options),
                    isCompatible: step.oldestReader.map { $0 <= place } ?? false
                )
            }
            let ledger = MigrationStep(name: "0 schema", statements: shown(missing.joined(separator: ";\n"), options))
            return (missing.isEmpty ? [] : [ledger]) + steps
        }
    }

    /// Brings the tables up to date, as an opening does.
    package static func apply(_ options: PostgresOptions) async throws(StoreError) {
        try await use(options) { (connection) async throws(PostgresError) in
            try await Schema.migrate(connection, options)
        }
    }

    /// Statements as the connection sends them, with the configured schema.
    private static func shown(_ statements: String, _ options: PostgresOptions) -> String {
        statements.replacing("chapar.", with: options.schema + ".")
            .replacing("SCHEMA IF NOT EXISTS chapar", with: "SCHEMA IF NOT EXISTS \(options.schema)")
    }

    private static func use<Value: Sendable>(
        _ options: PostgresOptions,
        _ body: @Sendable (PostgresConnection) async throws(PostgresError) -> Value
    ) async throws(StoreError) -> Value {
        let connection = PostgresConnection(options, name: "migration")
        let result: Result<Value, PostgresError>
        do throws(PostgresError) {
            result = .success(try await body(connection))
        } catch {
            result = .failure(error)
        }
        await connection.close()
        do {
            return try result.get()
        } catch {
            throw error.openingError
        }
    }
}
