internal import PushCore

/// The tables, as numbered steps that only ever grow: a released step is never changed, a new one is added below it.
///
/// In the texts of statements the schema is called `chapar`; the connection puts the configured name in its place.
enum Schema {
    /// A step, in its own transaction.
    struct Step: Sendable {
        let name: String
        let statements: String
        /// The number of the step that a program must know to go on beside this one; nil when it must know this one.
        ///
        /// So a change takes two releases: the first adds what is new, by a step that names the one before it, and uses both; the
        /// second removes what is old, by a step that names the first one's, while programs of the first release go on.
        var oldestReader: Int?
    }

    /// So long one may take, such as an index of what is there.
    private static let longestStep = Duration.seconds(3_600)

    /// Every step, in order; its number is its place, from one on.
    static let steps = [
        Step(name: "queue", statements: queue), Step(name: "devices", statements: devices),
        Step(name: "outbox", statements: outbox), Step(name: "quotas", statements: quotas, oldestReader: 3),
        Step(name: "receipts", statements: awaitedDeliveries, oldestReader: 3),
    ]

    /// Makes the schema, where ``isMissing`` says so.
    static let creation = "CREATE SCHEMA IF NOT EXISTS chapar"
    static let isMissing = "SELECT to_regnamespace(rtrim('chapar.', '.')) IS NULL"

    /// Which steps the schema has.
    ///
    /// * `schema_steps.oldest_reader`: the number of the step that a program must know to go on beside this one, null for
    ///   its own.
    static let ledger = """
        CREATE TABLE IF NOT EXISTS chapar.schema_steps (
            number bigint PRIMARY KEY, name text NOT NULL, applied timestamptz NOT NULL DEFAULT now(),
            oldest_reader bigint
        )
        """

    /// The oldest server that has everything that the statements use.
    static let oldestServer = 140_000

    /// Makes the tables or brings them up to date; does nothing when they are.
    ///
    /// - Parameters:
    ///   - connection: Where.
    ///   - options: What it is called in messages.
    ///   - steps: Every step that the program knows; fewer stand for an older program in tests.
    /// - Throws: ``PostgresError/declined(_:)`` when the server is too old, rights are missing, or a newer program has been here
    ///   whose steps are not compatible with this one: nothing is changed.
    static func migrate(
        _ connection: PostgresConnection,
        _ options: PostgresOptions,
        steps: [Step] = Schema.steps
    ) async throws(PostgresError) {
        let count = try await connection.transaction { (db) throws(PostgresError) in
            guard db.serverVersion >= oldestServer else {
                throw .declined(
                    .failed("\(options) is PostgreSQL \(db.serverVersion / 10_000): 14 is the oldest that is supported")
                )
            }
            try prepare(db, options)
            return try appliedSteps(db, options, steps)
        }
        for (place, step) in steps.enumerated().dropFirst(count) {
            try await connection.transaction { (db) throws(PostgresError) in
                try lock(db)
                // Another node may have done it meanwhile.
                guard try appliedSteps(db, options, steps) == place else { return }
                try db.perform("SET LOCAL statement_timeout = 0; " + step.statements, within: longestStep)
                try db.run(
                    "INSERT INTO chapar.schema_steps (number, name, oldest_reader) VALUES ($1, $2, $3)",
                    [.integer(place + 1), .text(step.name), .integer(step.oldestReader.map { Int64($0) })]
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
            if try db.run(isMissing).bool(0, 0) { try db.perform(creation) }
            try db.perform(ledger)
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

    /// How many of the program's steps are there.
    ///
    /// - Throws: ``PostgresError/declined(_:)`` when there are newer ones that the program cannot go on beside.
    static func appliedSteps(
        _ db: isolated PostgresConnection,
        _ options: PostgresOptions,
        _ steps: [Step]
    ) throws(PostgresError) -> Int {
        let rows = try db.run(
            "SELECT max(number), max(coalesce(oldest_reader, number)) FILTER (WHERE number > $1) FROM chapar.schema_steps",
            [.integer(steps.count)]
        )
        let newest = Int(rows.integer(0, 0) ?? 0)
        guard Int(rows.integer(0, 1) ?? 0) <= steps.count else {
            throw .declined(
                .failed(
                    """
                    \(options), schema \(options.schema), was written by a newer version, whose step \(newest) this one does not know: \
                    start that version or a newer one
                    """
                )
            )
        }
        return min(newest, steps.count)
    }
}
