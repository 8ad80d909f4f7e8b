internal import ChaparCore
internal import ChaparQueue

/// The tables, as numbered steps: a released step is never changed, a new one is added below it.
///
/// Statements call the schema `chapar`; the connection puts the configured name in its place.
enum Schema {
    /// A step, in its own transaction.
    struct Step: Sendable {
        let name: String
        let statements: String
        /// The number of the step that a program must know to keep running beside this one; nil when it must know this
        /// one.
        ///
        /// So a change takes two releases. The first adds the new form, in a step that names the one before it, and
        /// uses both forms. The second removes the old form, in a step that names the first release's step, while
        /// programs of the first release keep running.
        var oldestReader: Int?
    }

    /// The longest time that a step may take, such as making an index on existing rows.
    private static let longestStep = Duration.seconds(3_600)
    /// The longest time that a step waits for a lock on a table, since later statements wait behind it; then the step
    /// is rolled back and tried again.
    private static let longestLockWait = Duration.seconds(2)
    private static let retryPause = Duration.seconds(1)
    /// The longest time that a step is tried again.
    private static let patience = Duration.seconds(60)

    /// Every step, in order; its number is its place, from one on.
    static let steps = [
        Step(name: "queue", statements: queue), Step(name: "devices", statements: devices),
        Step(name: "outbox", statements: outbox), Step(name: "quotas", statements: quotas, oldestReader: 3),
        Step(name: "late ends", statements: lateEnds),
        Step(name: "receipts", statements: awaitedDeliveries, oldestReader: 5),
        Step(name: "outbox leases", statements: outboxLeases, oldestReader: 5),
        Step(name: "node sessions", statements: nodeSessions, oldestReader: 5),
        Step(name: "records", statements: records),
        Step(name: "search", statements: search),
        Step(name: "audiences", statements: audiences),
        Step(name: "webhooks", statements: webhooks),
        Step(name: "campaigns", statements: campaigns),
        Step(name: "series", statements: series, oldestReader: 13),
    ]

    /// The statement that creates the schema, for a database where ``isMissing`` is true.
    static let creation = "CREATE SCHEMA IF NOT EXISTS chapar"
    static let isMissing = "SELECT to_regnamespace(rtrim('chapar.', '.')) IS NULL"

    /// The table of the steps that the schema has.
    ///
    /// * `schema_steps.oldest_reader`: the number of the step that a program must know to keep running beside this one,
    ///   null for its own.
    static let ledger = """
        CREATE TABLE IF NOT EXISTS chapar.schema_steps (
            number bigint PRIMARY KEY, name text NOT NULL, applied timestamptz NOT NULL DEFAULT now(),
            oldest_reader bigint
        )
        """

    /// The oldest supported server, as libpq numbers them.
    static let oldestServer = PostgresLook.oldestVersion * 10_000

    /// Creates the tables or applies the steps that they lack.
    ///
    /// - Parameters:
    ///   - connection: The connection to the database.
    ///   - options: The options, which messages name.
    ///   - steps: Every step that the program knows; tests pass fewer for an older program.
    ///   - oldestServer: The oldest supported server, as libpq numbers them.
    ///   - report: Gets the number of rows and the time of each step; is not called for a new schema.
    /// - Throws: ``PostgresError/declined(_:)`` when the server is too old, rights are missing, or a newer program has
    ///   applied steps that are not compatible with this one: nothing is changed.
    static func migrate(
        _ connection: PostgresConnection,
        _ options: PostgresOptions,
        steps: [Step] = Schema.steps,
        oldestServer: Int = Schema.oldestServer,
        report: (String) -> Void = { _ in }
    ) async throws(PostgresError) {
        let count = try await connection.transaction { (db) throws(PostgresError) in
            guard db.serverVersion >= oldestServer else {
                throw .declined(
                    .failed(
                        """
                        \(options) is PostgreSQL \(db.serverVersion / 10_000): \(oldestServer / 10_000) is the oldest that is supported, \
                        upgrade the server
                        """
                    )
                )
            }
            try prepare(db, options)
            return try appliedSteps(db, options, steps)
        }
        let (isTold, missing, start) = (count > 0 && count < steps.count, steps.count - count, ContinuousClock.now)
        if isTold {
            let rows = try await connection.session { (db) throws(PostgresError) in try estimateRows(db) }
            report("the schema \(options.schema) of \(options) is brought up to date in \(missing) steps: \(rows)")
        }
        for (place, step) in steps.enumerated().dropFirst(count) {
            let before = ContinuousClock.now
            while try await !apply(place, of: steps, known: count, connection, options) {
                guard before.duration(to: .now) < patience else {
                    throw .declined(
                        .failed(
                            """
                            \(options), schema \(options.schema): the step \(place + 1) \(step.name) finds its tables in use all the time: \
                            end what reads or changes them for long, such as pg_dump, and start again
                            """
                        )
                    )
                }
                do { try await Task.sleep(for: retryPause) } catch { throw .closed }
            }
            guard isTold else { continue }
            report(MigrationStep.told(step.name, place + 1 - count, of: missing, after: before.duration(to: .now)))
        }
        if isTold { report("the schema is up to date after \(MigrationStep.seconds(start.duration(to: .now)))") }
    }

    /// Applies a step, unless another node has.
    ///
    /// - Returns: False when it gave way to others, and is to be tried again.
    private static func apply(
        _ place: Int,
        of steps: [Step],
        known: Int,
        _ connection: PostgresConnection,
        _ options: PostgresOptions
    ) async throws(PostgresError) -> Bool {
        let step = steps[place]
        do throws(PostgresError) {
            try await connection.transaction { (db) throws(PostgresError) in
                // Another node may be applying it, or has done it meanwhile.
                try db.perform("SET LOCAL statement_timeout = 0; \(turn)", within: longestStep)
                guard try appliedSteps(db, options, steps) == place else { return }
                if place > 0 { try refuseBesideOlder(step, place + 1, known, db, options) }
                try db.perform(
                    "SET LOCAL lock_timeout = \(longestLockWait.inMilliseconds); \(step.statements)",
                    within: longestStep
                )
                try db.run(
                    "INSERT INTO chapar.schema_steps (number, name, oldest_reader) VALUES ($1, $2, $3)",
                    [.integer(place + 1), .text(step.name), .integer(step.oldestReader.map { Int64($0) })]
                )
            }
            return true
        } catch {
            guard error.isConflict else { throw error }
            return false
        }
    }

    /// Returns about how many rows the large tables have, by the server's statistics.
    private static func estimateRows(_ db: isolated PostgresConnection) throws(PostgresError) -> String {
        let tables = [
            ("waiting", "deliveries that wait"), ("devices", "devices"), ("outbox_entries", "outbox entries"),
            ("notifications", "notifications"),
        ]
        var parts: [String] = []
        for (table, name) in tables {
            // A partitioned table has no rows of its own.
            let rows = try db.run(
                """
                SELECT sum(greatest(reltuples, 0)::bigint)::bigint FROM pg_class
                WHERE relkind = 'r' AND (
                    oid = to_regclass('chapar.\(table)')
                    OR oid IN (SELECT inhrelid FROM pg_inherits WHERE inhparent = to_regclass('chapar.\(table)'))
                )
                """
            )
            if let count = rows.integer(0, 0) { parts.append("about \(count) \(name)") }
        }
        return parts.joined(separator: ", ")
    }

    /// The lock by which nodes that start together take turns.
    private static let turn = "SELECT pg_advisory_xact_lock(hashtextextended('chapar.schema_steps', 0))"

    private static func lock(_ db: isolated PostgresConnection) throws(PostgresError) { try db.run(turn) }

    /// Refuses a step while gateways are running that know only `known` steps and cannot keep running beside it.
    private static func refuseBesideOlder(
        _ step: Step,
        _ number: Int,
        _ known: Int,
        _ db: isolated PostgresConnection,
        _ options: PostgresOptions
    ) throws(PostgresError) {
        guard step.oldestReader ?? number > known else { return }
        let rows = try db.run("SELECT name FROM chapar.nodes WHERE lease_until > clock_timestamp() ORDER BY name")
        let names = (0..<rows.count).compactMap { rows.text($0, 0) }
        guard !names.isEmpty else { return }
        throw .declined(
            .failed(
                """
                \(options), schema \(options.schema), needs the step \(number) \(step.name), beside which older gateways cannot go on: \
                stop \(names.joined(separator: ", ")) first; one that was killed counts until its lease ends
                """
            )
        )
    }

    /// The encoding of a database for a new schema: any other refuses names in most scripts.
    static let encoding = "UTF8"

    private static func refuseEncoding(
        _ db: isolated PostgresConnection,
        _ options: PostgresOptions
    ) throws(PostgresError) {
        let found = try db.run("SELECT current_setting('server_encoding')").text(0, 0) ?? ""
        guard found != encoding else { return }
        throw .declined(
            .failed(
                """
                \(options) has the encoding \(found), in which names of most scripts cannot be written: make a database with \
                ENCODING '\(encoding)', such as by createdb -E UTF8 -T template0
                """
            )
        )
    }

    private static func prepare(_ db: isolated PostgresConnection, _ options: PostgresOptions) throws(PostgresError) {
        // Checks first: a role that may not create a schema can still use one that exists.
        guard try db.run("SELECT to_regclass('chapar.schema_steps') IS NULL").bool(0, 0) else { return }
        try lock(db)
        do throws(PostgresError) {
            // `IF NOT EXISTS` requires the right to create schemas even where the schema exists.
            if try db.run(isMissing).bool(0, 0) {
                try refuseEncoding(db, options)
                try db.perform(creation)
            }
            try db.perform(ledger)
        } catch {
            guard case .refused(PostgresError.rights, let message) = error else { throw error }
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

    /// Returns how many of the program's steps the schema has.
    ///
    /// - Throws: ``PostgresError/declined(_:)`` when there are newer ones that the program cannot run beside.
    static func appliedSteps(
        _ db: isolated PostgresConnection,
        _ options: PostgresOptions,
        _ steps: [Step]
    ) throws(PostgresError) -> Int {
        let rows = try db.run(
            "SELECT max(number), max(coalesce(oldest_reader, number)) FILTER (WHERE number > $1) FROM chapar.schema_steps",
            [.integer(steps.count)]
        )
        let newest = Int(count: rows.integer(0, 0) ?? 0)
        guard Int(count: rows.integer(0, 1) ?? 0) <= steps.count else {
            throw .declined(
                .newer(
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
