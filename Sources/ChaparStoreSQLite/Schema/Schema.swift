import Foundation
import GRDB
import ChaparCore
import ChaparQueue

/// The tables, as named steps: a released step is never changed, a new one is added below it.
enum Schema {
    /// Every step, in order.
    static var migrator: DatabaseMigrator {
        var migrator = DatabaseMigrator()
        migrator.registerMigration("1 deliveries") { try $0.execute(sql: deliveries) }
        migrator.registerMigration("2 devices") { try $0.execute(sql: devices) }
        migrator.registerMigration("3 deliveries in hand") { try $0.execute(sql: deliveriesInHand) }
        migrator.registerMigration("4 receipts") { try $0.execute(sql: receipts) }
        migrator.registerMigration("5 operations") { try $0.execute(sql: operations) }
        migrator.registerMigration("6 arrivals") { try $0.execute(sql: arrivals) }
        migrator.registerMigration("7 flows") { try $0.execute(sql: flows) }
        migrator.registerMigration("8 archive") { try $0.execute(sql: archive) }
        migrator.registerMigration("9 outbox") { try $0.execute(sql: outbox) }
        migrator.registerMigration("10 refusals") { try $0.execute(sql: refusals) }
        migrator.registerMigration("11 token kinds") { try $0.execute(sql: tokenKinds) }
        migrator.registerMigration("12 column names") { try $0.execute(sql: columnNames) }
        migrator.registerMigration("13 outbox entries") { try $0.execute(sql: outboxEntries) }
        migrator.registerMigration(recordsStep) { try RecordsStep.run($0) }
        migrator.registerMigration(searchStep) { try addSearch($0) }
        migrator.registerMigration("16 audiences") { try $0.execute(sql: audiences) }
        migrator.registerMigration(webhooksStep) { try $0.execute(sql: webhooks) }
        migrator.registerMigration("18 campaigns") { try $0.execute(sql: campaigns) }
        migrator.registerMigration("19 series") { try $0.execute(sql: series) }
        migrator.registerMigration("20 dead ends") { try $0.execute(sql: deadEnds) }
        return migrator
    }

    /// Brings a file's tables up to date, and reports the number of rows and the time of each step; reports nothing for
    /// a new file.
    static func migrate(_ pool: DatabasePool, _ path: String, _ report: (String) -> Void) throws {
        let migrator = migrator
        let (applied, rows) = try pool.writeWithoutTransaction { db in
            try SchemaCheck.run(db)
            let applied = try migrator.appliedIdentifiers(db)
            let isCurrent = applied.isEmpty || migrator.migrations.allSatisfy(applied.contains)
            return (applied, isCurrent ? "" : try countRows(db, applied))
        }
        let missing = migrator.migrations.filter { !applied.contains($0) }
        guard !applied.isEmpty, !missing.isEmpty else { return try migrator.migrate(pool) }
        report("the store \(path) is brought up to date in \(missing.count) steps: \(rows)")
        let start = ContinuousClock.now
        for (index, step) in missing.enumerated() {
            let before = ContinuousClock.now
            try migrator.migrate(pool, upTo: step)
            report(MigrationStep.told(step, index + 1, of: missing.count, after: before.duration(to: .now)))
        }
        report("the store is up to date after \(MigrationStep.seconds(start.duration(to: .now)))")
    }

    /// Returns how many rows the large tables have.
    private static func countRows(_ db: Database, _ steps: Set<String>) throws -> String {
        try [("deliveries", "deliveries"), ("devices", "devices"), (entryTable(steps), "outbox entries")]
            .filter { try db.tableExists($0.0) }
            .map { "\(try db.number("SELECT count(*) FROM \($0.0)") ?? 0) \($0.1)" }
            .joined(separator: ", ")
    }

    /// Refuses a file that a newer version of the program has changed: this one would misread it.
    ///
    /// Nothing is written: a pool would already write when it opens.
    static func refuseNewer(_ path: String) throws {
        guard FileManager.default.fileExists(atPath: path) else { return }
        do {
            try refuseNewer(path, readonly: true)
        } catch let error as DatabaseError where error.extendedResultCode == .SQLITE_READONLY_ROLLBACK {
            // A crash while the file was made left a rollback journal, which only a connection that may write undoes.
            try refuseNewer(path, readonly: false)
        }
    }

    private static func refuseNewer(_ path: String, readonly: Bool) throws {
        var configuration = Configuration()
        configuration.readonly = readonly
        let file = try DatabaseQueue(path: path, configuration: configuration)
        defer { try? file.close() }
        try file.read { try refuseNewer($0, path: path) }
    }

    static func refuseNewer(_ db: Database, path: String) throws {
        guard try migrator.hasBeenSuperseded(db) else { return }
        let applied = try migrator.appliedIdentifiers(db)
        // A newer version adds steps and keeps all: where one is lacking, its name was damaged.
        if !applied.isDisjoint(with: migrator.migrations) { try SchemaCheck.requireSteps(applied) }
        let unknown = applied.subtracting(migrator.migrations).sorted()
        let version = try db.value(named: versionName)
        let writer = version.map { "version \(String(decoding: $0, as: UTF8.self))" } ?? "a newer version"
        throw StoreError.newer(
            """
            the store \(path) was written by \(writer), whose tables this version does not know \
            (\(unknown.joined(separator: ", "))): start that version or a newer one, or restore a copy from before the upgrade
            """
        )
    }

    /// Saves the version of the program that opened the file last.
    static func note(version: String?, _ db: Database) throws {
        guard let version else { return }
        try db.execute(
            sql: "INSERT OR REPLACE INTO state (name, value) VALUES (?, ?)",
            arguments: [versionName, Data(version.utf8)]
        )
    }

    static let versionName = "store.version"

    /// The deliveries as the first version had them; ``RecordsStep/deliveries`` is their current form.
    ///
    /// The row with the notification's own number also has what all of them share.
    ///
    /// * `state`: 0 while it waits or is claimed, else the final state (``DeliveryState/code``).
    /// * `replay`: bits, ``replay`` and ``cancelled``.
    /// * `mark`: 0 while it has not come back from a claim, 1 when its last owner died without recording a result,
    ///   ``handedOut`` when it was claimed as it was inserted, else the number of the lease under which it came back.
    /// * `head`: the notification's number, null in the row of that number.
    /// * `plan`: in the row of the notification's number, the plan that all share; in another row, a plan that differs.
    /// * `collapse`: a hash of recipient and collapse id; the row of the notification has the id itself in
    ///   `collapse_id`.
    ///
    /// Times are milliseconds since 1970.
    private static let deliveries = """
        CREATE TABLE lanes (number INTEGER PRIMARY KEY, name TEXT NOT NULL UNIQUE);
        CREATE TABLE deliveries (
            id INTEGER PRIMARY KEY,
            state INTEGER NOT NULL, lane INTEGER NOT NULL, due INTEGER NOT NULL, expires INTEGER NOT NULL,
            step INTEGER NOT NULL, attempts INTEGER NOT NULL, replay INTEGER NOT NULL, mark INTEGER NOT NULL,
            changed INTEGER NOT NULL, head INTEGER, collapse INTEGER, recipient TEXT NOT NULL, story TEXT,
            count INTEGER, accepted INTEGER, scheduled INTEGER, plan TEXT, caller TEXT, collapse_id TEXT, content BLOB
        );
        CREATE INDEX waiting ON deliveries (lane, due, id, expires) WHERE state = 0;
        CREATE INDEX collapsing ON deliveries (collapse) WHERE state = 0 AND collapse IS NOT NULL;
        CREATE TABLE leases (number INTEGER PRIMARY KEY, deliveries BLOB NOT NULL);
        CREATE TABLE events (
            first INTEGER PRIMARY KEY, count INTEGER NOT NULL, at INTEGER NOT NULL, packed BLOB NOT NULL
        );
        CREATE TABLE idempotency (
            caller TEXT NOT NULL, key TEXT NOT NULL, fingerprint BLOB NOT NULL, answer BLOB NOT NULL,
            keep INTEGER NOT NULL,
            PRIMARY KEY (caller, key)
        ) WITHOUT ROWID;
        CREATE INDEX forgetting ON idempotency (keep);
        CREATE TABLE state (name TEXT PRIMARY KEY, value BLOB NOT NULL) WITHOUT ROWID;
        CREATE TABLE marks (name TEXT PRIMARY KEY, value INTEGER NOT NULL) WITHOUT ROWID;
        """

    /// The `mark` of a delivery that was claimed as it was inserted: it is on the list of a lease until it comes back.
    static let handedOut: Int64 = 2

    /// The bit of `replay` for deliveries of which an attempt may have been delivered.
    static let replay: Int64 = 1
    /// The bit of `replay` for deliveries that were cancelled while claimed, and so are not retried.
    static let cancelled: Int64 = 2

    /// Removes deliveries that never waited from the index of waiting ones, and gives each row space to grow.
    ///
    /// * `room`: padding, which the first attempt takes over, so that the row need not be moved (``RowPadding``). Null
    ///   in older rows.
    private static let deliveriesInHand = """
        DROP INDEX waiting;
        CREATE INDEX waiting ON deliveries (lane, due, id, expires) WHERE state = 0 AND mark <> 2;
        ALTER TABLE deliveries ADD COLUMN room BLOB;
        """

    /// The flows, which divide waiting deliveries by backend, priority and caller (``Flow``); `deliveries.flow` (first
    /// `lane`) is the number of the flow.
    ///
    /// * `ended`: the order in which deliveries became final, by which they are purged.
    /// * `moves`: the backend that takes what plans give to another one that is gone.
    private static let flows = """
        CREATE TABLE flows (number INTEGER PRIMARY KEY, backend TEXT NOT NULL, urgent INTEGER NOT NULL, caller TEXT NOT NULL);
        INSERT INTO flows (number, backend, urgent, caller) SELECT number, name, 0, '' FROM lanes;
        DROP TABLE lanes;
        CREATE TABLE moves (backend TEXT PRIMARY KEY, target TEXT NOT NULL) WITHOUT ROWID;
        CREATE INDEX ended ON deliveries (changed) WHERE state > 0;
        """

    /// Deliveries that ended without ever having a row (``Archive``).
    ///
    /// * `first`, `last`: the lowest and the highest number in the block.
    /// * `at`: when they ended; blocks are numbered in that order.
    private static let archive = """
        CREATE TABLE archive (
            number INTEGER PRIMARY KEY, first INTEGER NOT NULL, last INTEGER NOT NULL, at INTEGER NOT NULL,
            packed BLOB NOT NULL
        );
        CREATE INDEX archived ON archive (last, first);
        """

    /// New deliveries that have no row in `deliveries` yet, those of a commit together (``StagedRows``).
    private static let arrivals = "CREATE TABLE arrivals (number INTEGER PRIMARY KEY, packed BLOB NOT NULL);"

    /// The column names that the code uses, where the steps above show former ones.
    ///
    /// No row is changed.
    private static let columnNames = """
        ALTER TABLE deliveries RENAME COLUMN lane TO flow;
        ALTER TABLE deliveries RENAME COLUMN story TO attempt_log;
        ALTER TABLE deliveries RENAME COLUMN room TO padding;
        ALTER TABLE device_tokens RENAME COLUMN buried TO invalidated;
        """
}
