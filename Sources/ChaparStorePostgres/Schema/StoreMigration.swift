package import ChaparCore
package import ChaparQueue

/// The steps that a database's tables lack.
package enum StoreMigration {
    /// Returns the steps that an opening would apply; changes nothing.
    ///
    /// - Throws: `StoreError.newer` when an incompatible newer version has changed the tables.
    package static func plan(_ options: PostgresOptions) async throws(StoreError) -> [MigrationStep] {
        try await PostgresConnection.use(options, name: "migration") { (connection) async throws(PostgresError) in
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
                    statements: options.inSchema(step.statements),
                    isCompatible: step.oldestReader.map { $0 <= place } ?? false
                )
            }
            let ledger = MigrationStep(name: "0 schema", statements: options.inSchema(missing.joined(separator: ";\n")))
            return (missing.isEmpty ? [] : [ledger]) + steps
        }
    }

    /// Applies the missing steps, as an opening does, and reports the progress.
    package static func apply(
        _ options: PostgresOptions,
        report: @Sendable (String) -> Void = { _ in }
    ) async throws(StoreError) {
        try await PostgresConnection.use(options, name: "migration") { (connection) async throws(PostgresError) in
            try await Schema.migrate(connection, options, report: report)
        }
    }
}
