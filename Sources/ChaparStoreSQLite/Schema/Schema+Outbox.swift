extension Schema {
    /// The renaming of the table of entries to the name that the code uses, with its indexes and what counts its rows;
    /// ``operations`` and ``outbox`` show the former names.
    ///
    /// * `outbox_entries`: formerly `operations`. No row is changed.
    /// * `outbox_entries_of_line`: a line is what waits for one device at one backend.
    /// * `outbox_depths`: formerly `operation_depths`.
    /// * `outbox_changes.entry`: formerly `operation`.
    static let outboxEntries = """
        DROP TRIGGER operation_added;
        DROP TRIGGER operation_removed;
        DROP INDEX operations_due;
        DROP INDEX operation_lines;
        DROP INDEX operations_of;
        DROP INDEX operations_leased;
        DROP INDEX operations_oldest;
        ALTER TABLE operations RENAME TO outbox_entries;
        ALTER TABLE operation_depths RENAME TO outbox_depths;
        ALTER TABLE outbox_changes RENAME COLUMN operation TO entry;
        CREATE INDEX outbox_entries_due ON outbox_entries (backend, due, number) WHERE due IS NOT NULL;
        CREATE INDEX outbox_entries_of_line ON outbox_entries (backend, device, number);
        CREATE INDEX outbox_entries_of_device ON outbox_entries (device, number);
        CREATE INDEX outbox_entries_leased ON outbox_entries (number) WHERE leased = 1;
        CREATE INDEX outbox_entries_oldest ON outbox_entries (backend, number);
        CREATE TRIGGER outbox_entry_added AFTER INSERT ON outbox_entries BEGIN
            INSERT INTO outbox_depths VALUES (new.backend, 1) ON CONFLICT (backend) DO UPDATE SET waiting = waiting + 1;
        END;
        CREATE TRIGGER outbox_entry_removed AFTER DELETE ON outbox_entries BEGIN
            UPDATE outbox_depths SET waiting = waiting - 1 WHERE backend = old.backend;
            DELETE FROM outbox_depths WHERE backend = old.backend AND waiting <= 0;
        END;
        """

    /// Returns the name of the table of entries in a file with these steps.
    static func entryTable(_ steps: Set<String>) -> String {
        steps.contains("13 outbox entries") ? "outbox_entries" : "operations"
    }

    /// Unplanned changes of devices, and the number of operations that wait at each backend.
    ///
    /// * `outbox_changes.number`: the order of the commits.
    /// * `outbox_changes.old`, `new`: the device before and after, as JSON, null where there is none; `backend` is set
    ///   when one backend is to get `new` as if it were new.
    /// * `outbox_changes.operation`: an operation, as JSON, that was added behind an older change of its device; then
    ///   `backend`, `old` and `new` are null.
    /// * `outbox_changes.skipped`: the backends that must not get the change, as lines.
    /// * `operation_depths`: the number of rows of `operations` for each backend.
    /// * `tombstones_since`: finds tombstones that a backend recently caused without reading all of them.
    static let outbox = """
        CREATE TABLE outbox_changes (
            number INTEGER PRIMARY KEY AUTOINCREMENT, device TEXT NOT NULL, at INTEGER NOT NULL,
            backend TEXT, old TEXT, new TEXT, operation TEXT, skipped TEXT
        );
        CREATE INDEX outbox_devices ON outbox_changes (device);
        CREATE INDEX tombstones_since ON device_tokens (backend, buried) WHERE held = 0;
        CREATE INDEX operations_oldest ON operations (backend, number);
        CREATE TABLE operation_depths (backend TEXT PRIMARY KEY, waiting INTEGER NOT NULL) WITHOUT ROWID;
        INSERT INTO operation_depths SELECT backend, count(*) FROM operations GROUP BY backend;
        CREATE TRIGGER operation_added AFTER INSERT ON operations BEGIN
            INSERT INTO operation_depths VALUES (new.backend, 1) ON CONFLICT (backend) DO UPDATE SET waiting = waiting + 1;
        END;
        CREATE TRIGGER operation_removed AFTER DELETE ON operations BEGIN
            UPDATE operation_depths SET waiting = waiting - 1 WHERE backend = old.backend;
            DELETE FROM operation_depths WHERE backend = old.backend AND waiting <= 0;
        END;
        """
}
