internal import PushCore

/// The tables, as numbered steps that only ever grow: a released step is never changed, a new one is added below it.
///
/// In the texts of statements the schema is called `chapar`; the connection puts the configured name in its place.
enum Schema {
    /// A step, in its own transaction.
    struct Step: Sendable {
        let name: String
        let statements: String
    }

    /// Every step, in order; its number is its place, from one on.
    static let steps = [
        Step(name: "queue", statements: queue), Step(name: "devices", statements: devices),
        Step(name: "outbox", statements: outbox),
    ]

    /// The oldest server that has everything that the statements use.
    static let oldestServer = 140_000

    /// Makes the tables or brings them up to date; does nothing when they are.
    ///
    /// - Throws: ``PostgresError/declined(_:)`` when the server is too old, rights are missing, or a newer program has been here: nothing is changed.
    static func migrate(_ connection: PostgresConnection, _ options: PostgresOptions) async throws(PostgresError) {
        let count = try await connection.transaction { (db) throws(PostgresError) in
            guard db.serverVersion >= oldestServer else {
                throw .declined(
                    .failed("\(options) is PostgreSQL \(db.serverVersion / 10_000): 14 is the oldest that is supported")
                )
            }
            try prepare(db, options)
            return try appliedSteps(db, options)
        }
        for (place, step) in steps.enumerated().dropFirst(count) {
            try await connection.transaction { (db) throws(PostgresError) in
                try lock(db)
                // Another node may have done it meanwhile.
                guard try appliedSteps(db, options) == place else { return }
                try db.perform(step.statements)
                try db.run(
                    "INSERT INTO chapar.schema_steps (number, name) VALUES ($1, $2)",
                    [.integer(place + 1), .text(step.name)]
                )
            }
        }
    }

    /// Nodes that start together take turns.
    private static func lock(_ db: isolated PostgresConnection) throws(PostgresError) {
        try db.run("SELECT pg_advisory_xact_lock(hashtextextended('chapar.schema_steps', 0))")
    }

    private static func prepare(_ db: isolated PostgresConnection, _ options: PostgresOptions) throws(PostgresError) {
        // Looks first: who may not make a schema can still use one that somebody else has made.
        guard try db.run("SELECT to_regclass('chapar.schema_steps') IS NULL").bool(0, 0) else { return }
        try lock(db)
        do throws(PostgresError) {
            // `IF NOT EXISTS` asks for the right to make schemas even where there is one.
            if try db.run("SELECT to_regnamespace(rtrim('chapar.', '.')) IS NULL").bool(0, 0) {
                try db.perform("CREATE SCHEMA IF NOT EXISTS chapar")
            }
            try db.perform(
                """
                CREATE TABLE IF NOT EXISTS chapar.schema_steps (
                    number bigint PRIMARY KEY, name text NOT NULL, applied timestamptz NOT NULL DEFAULT now()
                )
                """
            )
        } catch {
            guard case .refused(code: "42501", let message) = error else { throw error }
            throw .declined(
                .failed(
                    """
                    \(options): \(message): let the database's owner run CREATE SCHEMA \(options.schema) AUTHORIZATION \
                    \(options.user ?? "the user of the URL")
                    """
                )
            )
        }
    }

    private static func appliedSteps(
        _ db: isolated PostgresConnection,
        _ options: PostgresOptions
    ) throws(PostgresError) -> Int {
        let rows = try db.run("SELECT count(*), max(number) FROM chapar.schema_steps")
        let newest = Int(rows.integer(0, 1) ?? 0)
        guard newest <= steps.count else {
            throw .declined(
                .failed(
                    """
                    \(options), schema \(options.schema), was written by a newer version, whose step \(newest) this one does not know: \
                    start that version or a newer one
                    """
                )
            )
        }
        return newest
    }
}
