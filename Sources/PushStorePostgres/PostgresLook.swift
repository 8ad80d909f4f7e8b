internal import Foundation
public import PushCore

/// What a database looks like before a gateway uses it: for `chapar doctor`.
public struct PostgresLook: Sendable, Hashable {
    /// The server's version, such as `15.18`.
    public var version: String
    /// Whether the server is one that this program supports.
    public var isSupported: Bool
    /// Steps of the schema that this program would apply at its start.
    public var missingSteps: Int
    /// Whether a newer version of the program has been here that this one cannot go on beside.
    public var isNewer: Bool
    /// Whether what is missing may be made.
    public var mayChange: Bool
    /// The gateways that are alive, by their names.
    public var nodes: [String]
    /// The session or slot that holds the oldest snapshot, which keeps dead rows from being cleaned up; nil when there is none.
    public var oldestSnapshot: Snapshot?

    /// A snapshot that somebody holds.
    public struct Snapshot: Sendable, Hashable {
        /// Whose it is.
        public var holder: String
        /// For how long.
        public var age: Duration
    }

    /// Looks at a database; changes nothing.
    ///
    /// - Throws: `StoreError` when it cannot be reached.
    public static func look(at options: PostgresOptions) async throws(StoreError) -> PostgresLook {
        try await PostgresConnection.use(options, name: "look") { (connection) async throws(PostgresError) in
            try await connection.session { (db) throws(PostgresError) in try read(db) }
        }
    }

    private static func read(_ db: isolated PostgresConnection) throws(PostgresError) -> PostgresLook {
        let server = db.serverVersion
        let hasTables = try !db.run("SELECT to_regclass('chapar.schema_steps') IS NULL").bool(0, 0)
        var (newest, needed, nodes): (Int, Int, [String]) = (0, 0, [])
        if hasTables {
            let ledger = try db.run(
                "SELECT max(number), max(coalesce(oldest_reader, number)) FILTER (WHERE number > $1) FROM chapar.schema_steps",
                [.integer(Schema.steps.count)]
            )
            newest = Int(ledger.integer(0, 0) ?? 0)
            needed = Int(ledger.integer(0, 1) ?? 0)
            if newest > 0 {
                let rows = try db.run(
                    "SELECT name FROM chapar.nodes WHERE lease_until > clock_timestamp() ORDER BY name"
                )
                nodes = (0..<rows.count).compactMap { rows.text($0, 0) }
            }
        }
        let mayChange = try db.run(
            """
            SELECT CASE WHEN to_regnamespace(rtrim('chapar.', '.')) IS NULL
                THEN has_database_privilege(current_database(), 'CREATE')
                ELSE has_schema_privilege(rtrim('chapar.', '.'), 'CREATE') END
            """
        ).bool(0, 0)
        let holders = try db.run(
            """
            SELECT holder, seconds::bigint FROM (
                SELECT format('session %s of %s (%s)', pid, coalesce(usename, '?'), application_name) AS holder,
                    age(backend_xmin) AS behind, extract(epoch FROM clock_timestamp() - xact_start) AS seconds
                FROM pg_stat_activity WHERE backend_xmin IS NOT NULL AND pid <> pg_backend_pid() AND xact_start IS NOT NULL
                UNION ALL
                SELECT format('prepared transaction %s', gid), age(transaction),
                    extract(epoch FROM clock_timestamp() - prepared) FROM pg_prepared_xacts
            ) AS h ORDER BY behind DESC LIMIT 1
            """
        )
        return PostgresLook(
            version: "\(server / 10_000).\(server % 10_000)",
            isSupported: server >= Schema.oldestServer,
            missingSteps: max(0, Schema.steps.count - newest),
            isNewer: needed > Schema.steps.count,
            mayChange: mayChange,
            nodes: nodes,
            oldestSnapshot: holders.count == 0
                ? nil
                : Snapshot(holder: holders.text(0, 0) ?? "", age: .seconds(holders.integer(0, 1) ?? 0))
        )
    }
}
