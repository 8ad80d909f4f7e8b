extension Schema {
    /// Unplanned changes of devices, and the entries for platforms.
    ///
    /// * `outbox_changes.number`: for the changes of one device the order of the commits.
    /// * `outbox_changes.old`, `new`: the device before and after, as JSON, null where there is none; `backend` is set
    ///   when one backend is to get `new` as if it were new.
    /// * `outbox_changes.entry`: an entry, as JSON, that was added behind an older change of its device.
    /// * `outbox_changes.skipped`: the backends that must not get the change, as lines.
    /// * `outbox_entries.number`: for the entries of one line the order of acceptance. A line is the entries that wait
    ///   for one device at one backend.
    /// * `outbox_entries.due`: when it can be claimed, or when its lease ends; null while an older one of its line
    ///   waits.
    /// * `outbox_entries.owner`: the node whose worker has it, or had it when its lease ended; null when none has.
    /// * `outbox_depths`: differences whose sum is the number of entries that wait at a backend. A transaction that
    ///   adds or removes entries adds a row, so that none waits for another; from time to time some rows are replaced
    ///   by their sum.
    ///
    /// Times are milliseconds since 1970.
    ///
    /// Indexes, besides the keys: `outbox_changes_of_device` for whether a device has changes; `outbox_entries_due` for
    /// claims; `outbox_entries_of_line` for the last and the first of a line, and for the entries of a device;
    /// `outbox_entries_of_backend` for the oldest entry of a backend and for removing its entries;
    /// `outbox_entries_owned` for the entries that a node has.
    static let outbox = """
        CREATE TABLE chapar.outbox_changes (
            number bigint GENERATED ALWAYS AS IDENTITY PRIMARY KEY, device text COLLATE "C" NOT NULL, at bigint NOT NULL,
            backend text, old text, new text, entry text, skipped text
        ) WITH (autovacuum_vacuum_scale_factor = 0.02, autovacuum_vacuum_threshold = 1000);
        CREATE INDEX outbox_changes_of_device ON chapar.outbox_changes (device);
        CREATE TABLE chapar.outbox_entries (
            number bigint GENERATED ALWAYS AS IDENTITY PRIMARY KEY, id text NOT NULL, backend text COLLATE "C" NOT NULL,
            device text COLLATE "C" NOT NULL, user_key text, kind text NOT NULL, body text, at bigint NOT NULL,
            attempts bigint NOT NULL DEFAULT 0, due bigint, owner bigint
        ) WITH (autovacuum_vacuum_scale_factor = 0.02, autovacuum_vacuum_threshold = 1000);
        CREATE INDEX outbox_entries_due ON chapar.outbox_entries (backend, due, number) WHERE due IS NOT NULL;
        CREATE INDEX outbox_entries_of_line ON chapar.outbox_entries (device, backend, number);
        CREATE INDEX outbox_entries_of_backend ON chapar.outbox_entries (backend, number);
        CREATE INDEX outbox_entries_owned ON chapar.outbox_entries (owner) WHERE owner IS NOT NULL;
        CREATE TABLE chapar.outbox_depths (
            number bigint GENERATED ALWAYS AS IDENTITY PRIMARY KEY, backend text COLLATE "C" NOT NULL, waiting bigint NOT NULL
        ) WITH (autovacuum_vacuum_scale_factor = 0, autovacuum_vacuum_threshold = 1000)
        """

    /// * `outbox_entries.lease`: the number of the last claim, from `leases`; null before the first one. `attempts`
    ///   cannot replace it: a release lowers them, so the next claim has the same. Negative while the entry is
    ///   unclaimed and waits because the platform asked for it.
    static let outboxLeases = "ALTER TABLE chapar.outbox_entries ADD COLUMN lease bigint"
}
