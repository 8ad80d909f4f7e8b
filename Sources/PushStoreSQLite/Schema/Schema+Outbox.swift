extension Schema {
    /// Changes of devices that are not planned yet, and how many operations wait at each backend.
    ///
    /// * `outbox_changes.number`: the order of the commits.
    /// * `outbox_changes.old`, `new`: the device before and after, as JSON, null where there is none; `backend` is set when
    ///   one backend is to hear of `new` as if it were new.
    /// * `outbox_changes.operation`: an operation, as JSON, that was asked for behind an older change of its device; then
    ///   `backend`, `old` and `new` are null.
    /// * `outbox_changes.skipped`: the backends that must not hear of the change, as lines.
    /// * `operation_depths`: how many rows of `operations` each backend has.
    /// * `tombstones_since`: finds those that a backend caused lately without a look at all of them.
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
