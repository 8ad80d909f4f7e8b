internal import Foundation
public import ChaparCore

/// The state of a database before a gateway uses it, for `chapar doctor`.
public struct PostgresLook: Sendable, Hashable {
    /// The oldest supported version of PostgreSQL: older ones get no fixes from their makers any more.
    public static let oldestVersion = 15

    /// The server's version, such as `15.18`.
    public var version: String
    /// Whether this program supports the server's version.
    public var isSupported: Bool
    /// The number of schema steps that this program would apply at its start.
    public var missingSteps: Int
    /// Whether a newer version of the program has changed the schema so that this one cannot run beside it.
    public var isNewer: Bool
    /// Whether the role may create what is missing.
    public var mayChange: Bool
    /// The gateways that are alive, by their names.
    public var nodes: [String]
    /// The oldest snapshot, which keeps dead rows from being removed, of a session, a prepared transaction, a
    /// replication slot or a standby; nil when there is none.
    public var oldestSnapshot: Snapshot?
    /// The settings of the database or the role that do harm.
    public var weaknesses: [Weakness] = []

    /// A setting that does harm, as a gateway's log and `chapar doctor` report it.
    public struct Weakness: Sendable, Hashable {
        /// The setting and its effect, as a sentence without a full stop.
        public var finding: String
        /// The fix.
        public var fix: String
        /// Whether something fails because of it.
        public var isFailure = false
    }

    /// A snapshot and its holder.
    public struct Snapshot: Sendable, Hashable {
        /// The session, prepared transaction, replication slot or standby that holds it.
        public var holder: String
        /// The time for which it has been held.
        public var age: Duration
    }

    /// Inspects a database; changes nothing.
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
            newest = Int(count: ledger.integer(0, 0) ?? 0)
            needed = Int(count: ledger.integer(0, 1) ?? 0)
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
        return PostgresLook(
            version: "\(server / 10_000).\(server % 10_000)",
            isSupported: server >= Schema.oldestServer,
            missingSteps: max(0, Schema.steps.count - newest),
            isNewer: needed > Schema.steps.count,
            mayChange: mayChange,
            nodes: nodes,
            oldestSnapshot: try oldestSnapshot(db, hasEvents: newest > 0),
            weaknesses: try weaknesses(nodes: nodes.count, db)
        )
    }

    /// The number of connections that a gateway opens, including one for the erasure of a user.
    static let connectionsOfNode: Int64 = 13

    /// Reads the settings that do harm to this number of gateways.
    static func weaknesses(nodes: Int, _ db: isolated PostgresConnection) throws(PostgresError) -> [Weakness] {
        let rows = try db.run(
            """
            SELECT current_setting('server_encoding'), current_setting('synchronous_commit'),
                (SELECT string_agg(DISTINCT tableowner, ', ') FROM pg_tables
                    WHERE schemaname = rtrim('chapar.', '.') AND NOT pg_has_role(tableowner, 'USAGE')),
                current_setting('max_connections')::bigint - current_setting('superuser_reserved_connections')::bigint
                    - coalesce(current_setting('reserved_connections', true), '0')::bigint,
                current_user::text,
                (SELECT nullif(rolconnlimit, -1)::bigint FROM pg_roles WHERE rolname = current_user),
                pg_is_in_recovery(), current_setting('default_transaction_read_only') = 'on'
            """
        )
        var found: [Weakness] = []
        let user = rows.text(0, 4) ?? "the user"
        if let encoding = rows.text(0, 0), encoding != Schema.encoding {
            found.append(
                Weakness(
                    finding: "the database has the encoding \(encoding): ids and tags in other scripts are refused",
                    fix:
                        "Make one with ENCODING '\(Schema.encoding)' (createdb -E UTF8 -T template0) and copy the store into it.",
                    isFailure: true
                )
            )
        }
        if let owners = rows.text(0, 2) {
            found.append(
                Weakness(
                    finding: "tables of the schema belong to \(owners): \(user) may not make those of the days to come",
                    fix: "Let the owner run REASSIGN OWNED, or ALTER TABLE … OWNER TO \(user) for each table.",
                    isFailure: true
                )
            )
        }
        if rows.bool(0, 6) {
            found.append(
                Weakness(
                    finding: "the server is a standby, which takes no changes",
                    fix: "Write all hosts into store.url, with target_session_attrs=read-write.",
                    isFailure: true
                )
            )
        } else if rows.bool(0, 7) {
            found.append(
                Weakness(
                    finding: "default_transaction_read_only is on: \(user) may change nothing",
                    fix: """
                        Set it to off for the role, the database and the server: ALTER ROLE \(user) SET default_transaction_read_only = off.
                        """,
                    isFailure: true
                )
            )
        }
        if rows.text(0, 1) == "off" {
            found.append(
                Weakness(
                    finding: "synchronous_commit is off: a crash of the server loses what was accepted last",
                    fix: "Set it to on for the role and the database: ALTER ROLE \(user) RESET synchronous_commit."
                )
            )
        }
        let (room, needed) = (
            min(rows.integer(0, 3) ?? .max, rows.integer(0, 5) ?? .max),
            connectionsOfNode.multiplied(clamping: Int64(max(1, nodes)))
        )
        if room < needed {
            found.append(
                Weakness(
                    finding:
                        "\(user) may have \(room) connections, and \(max(1, nodes)) gateways need \(needed), \(connectionsOfNode) each",
                    fix:
                        "Raise max_connections or the role's CONNECTION LIMIT, or put a pooler between, with pooled: true."
                )
            )
        }
        return found
    }

    /// Returns the oldest snapshot that keeps dead rows of this database: sessions in others do not.
    static func oldestSnapshot(
        _ db: isolated PostgresConnection,
        hasEvents: Bool
    ) throws(PostgresError) -> Snapshot? {
        let holders = try db.run(
            """
            SELECT holder, seconds::bigint, oldest::text FROM (
                SELECT format('session %s of %s (%s)', pid, coalesce(usename, '?'), application_name) AS holder,
                    greatest(age(backend_xmin), age(backend_xid)) AS behind,
                    extract(epoch FROM clock_timestamp() - xact_start) AS seconds, NULL::xid AS oldest
                FROM pg_stat_activity WHERE datname = current_database() AND pid <> pg_backend_pid()
                    AND xact_start IS NOT NULL
                UNION ALL
                SELECT format('prepared transaction %s', gid), age(transaction),
                    extract(epoch FROM clock_timestamp() - prepared), NULL
                FROM pg_prepared_xacts WHERE database = current_database()
                UNION ALL
                SELECT format('replication slot %s', slot_name), age(xmin), NULL, xmin FROM pg_replication_slots
                UNION ALL
                SELECT format('standby %s (%s)', pid, application_name), age(backend_xmin), NULL, backend_xmin
                FROM pg_stat_replication
            ) AS h WHERE behind IS NOT NULL ORDER BY behind DESC LIMIT 1
            """
        )
        guard holders.count > 0 else { return nil }
        var seconds = holders.integer(0, 1)
        if seconds == nil, hasEvents, let oldest = holders.text(0, 2) { seconds = try Self.seconds(since: oldest, db) }
        return Snapshot(holder: holders.text(0, 0) ?? "", age: .seconds(seconds ?? 0))
    }

    /// Returns how many seconds ago a transaction was, by the first event numbered since; nil when there is none.
    private static func seconds(since transaction: String, _ db: isolated PostgresConnection) throws(PostgresError)
        -> Int64?
    {
        let ends = try db.run("SELECT min(first), max(first) FROM chapar.events")
        guard var low = ends.integer(0, 0), var high = ends.integer(0, 1) else { return nil }
        var found: Int64?
        while low <= high {
            let middle = low.adding(clamping: high.subtracting(clamping: low) / 2)
            let rows = try db.run(
                """
                SELECT first, age(xmin) <= age($2::xid),
                    (extract(epoch FROM clock_timestamp()))::bigint - ((SELECT ahead FROM chapar.clock) + at) / 1000
                FROM chapar.events WHERE first >= $1 ORDER BY first LIMIT 1
                """,
                [.integer(middle), .text(transaction)]
            )
            if rows.bool(0, 1) {
                found = rows.integer(0, 2)
                high = middle.subtracting(clamping: 1)
            } else {
                low = (rows.integer(0, 0) ?? high).adding(clamping: 1)
            }
        }
        return found
    }
}
