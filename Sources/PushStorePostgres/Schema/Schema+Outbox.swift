extension Schema {
    /// Changes of devices that are not planned yet, and what platforms are to be told.
    ///
    /// * `outbox_changes.number`: for the changes of one device the order of the commits.
    /// * `outbox_changes.old`, `new`: the device before and after, as JSON, null where there is none; `backend` is set
    ///   when one backend is to hear of `new` as if it were new.
    /// * `outbox_changes.entry`: an entry, as JSON, that was asked for behind an older change of its device.
    /// * `outbox_changes.skipped`: the backends that must not hear of the change, as lines.
    /// * `outbox_entries.number`: for the entries of one line the order of acceptance. A line is what waits for one
    ///   device at one backend.
    /// * `outbox_entries.due`: when it can be claimed, under a lease when that ends; null while an older one of its
    ///   line waits.
    /// * `outbox_entries.owner`: the node whose worker has it, or had it when its lease ended; null when none has.
    /// * `outbox_depths`: differences whose sum is how many entries wait at a backend. Whoever adds or removes entries
    ///   adds a row, so that nobody waits for anybody; now and then some are replaced by their sum.
    ///
    /// Times are milliseconds since 1970.
    ///
    /// Indexes, besides the keys: `outbox_changes_of_device` for whether a device has changes; `outbox_entries_due` for
    /// claims; `outbox_entries_of_line` for the last and the first of a line, and for what waits for a device;
    /// `outbox_entries_of_backend` for the oldest of a backend and for removing what waits for it;
    /// `outbox_entries_owned` for what a node has.
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

    /// * `outbox_entries.lease`: the number of the last claim, from `leases`; null before the first one. `attempts` say
    ///   less: a release turns them back, so the next claim has the same. Negative while nobody has the entry and it
    ///   waits for as long as the platform asked.
    static let outboxLeases = "ALTER TABLE chapar.outbox_entries ADD COLUMN lease bigint"
}
