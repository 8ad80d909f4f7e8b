extension Schema {
    /// Notifications, their deliveries and their events.
    ///
    /// `waiting`, the table whose rows are inserted, changed and removed, is small: it holds deliveries that have not
    /// ended. Ended ones change only by receipts and erasures, and are removed with the whole partition of their day
    /// (``Partitions``).
    ///
    /// * `nodes`: the running gateways. `slot` determines the node's numbers (``NodeNumbers``); the node is alive until
    ///   `lease_until`, by the database's clock.
    /// * `notes`: messages between nodes (``Announcer``), kept for a minute.
    /// * `locks`: the holders of named locks, for work that one node does at a time (`StateStore.exclusively`), by the
    ///   database's clock.
    /// * `clock.ahead`: how far the database's wall clock is ahead of the steady time, which deadlines use, in
    ///   milliseconds.
    /// * `flows`: the backend, priority and caller by which waiting deliveries are divided. `merged` flows were moved
    ///   to a backend that already has one for the same priority and caller. `moves`: the backend that takes what plans
    ///   give to another one that is gone.
    /// * `notifications.accepted`, `plans`, `content`: parts of the record since the step ``records``; the plans as
    ///   lines, of which `waiting.plan` is an index.
    /// * `waiting.owner`: the node that has claimed it; null while it can be claimed, 0 while it must wait for another
    ///   delivery with its collapse key. `lease`: the number of its last claim, which only grows.
    /// * `waiting.flags`: the bits of ``DeliveryRow/Flags``.
    /// * `results.state`: `DeliveryState.code`. `awaited`: the deliveries for which a receipt is expected, by hashes.
    /// * `events`: the events of one commit, with the number of the first, which is given after the commit: so numbers
    ///   have no gaps, and no commit that took long is skipped. `event_head.last`: the highest number given.
    ///
    /// Times are milliseconds since 1970, on the steady clock except in `nodes`, `notes` and `locks`.
    static let queue = """
        CREATE TABLE chapar.nodes (
            number bigint GENERATED ALWAYS AS IDENTITY PRIMARY KEY, slot bigint NOT NULL UNIQUE, name text NOT NULL,
            started timestamptz NOT NULL DEFAULT now(), lease_until timestamptz NOT NULL
        );
        CREATE TABLE chapar.notes (
            number bigint GENERATED ALWAYS AS IDENTITY PRIMARY KEY, node bigint NOT NULL,
            at timestamptz NOT NULL DEFAULT clock_timestamp(), topic text NOT NULL, body bytea NOT NULL
        );
        CREATE TABLE chapar.locks (name text PRIMARY KEY, holder text NOT NULL, until timestamptz NOT NULL);
        CREATE TABLE chapar.clock (single boolean PRIMARY KEY DEFAULT true CHECK (single), ahead bigint NOT NULL);
        INSERT INTO chapar.clock (ahead) VALUES (0);
        CREATE SEQUENCE chapar.leases INCREMENT BY 1000;
        CREATE TABLE chapar.flows (
            number bigint GENERATED ALWAYS AS IDENTITY PRIMARY KEY, backend text NOT NULL, urgent boolean NOT NULL,
            caller text NOT NULL, merged boolean NOT NULL DEFAULT false
        );
        CREATE UNIQUE INDEX flows_name ON chapar.flows (backend, urgent, caller) WHERE NOT merged;
        CREATE TABLE chapar.moves (backend text PRIMARY KEY, target text NOT NULL);
        CREATE TABLE chapar.notifications (
            id bigint NOT NULL PRIMARY KEY, count integer NOT NULL, caller text NOT NULL, accepted bigint NOT NULL,
            scheduled bigint, expires bigint NOT NULL, collapse_id text, plans text NOT NULL, content bytea NOT NULL
        ) PARTITION BY RANGE (id);
        CREATE TABLE chapar.waiting (
            id bigint NOT NULL PRIMARY KEY, notification bigint NOT NULL, flow bigint NOT NULL, due bigint NOT NULL,
            expires bigint NOT NULL, owner bigint, lease bigint NOT NULL, collapse bigint, attempts integer NOT NULL DEFAULT 0,
            step smallint NOT NULL DEFAULT 0, plan smallint NOT NULL, flags smallint NOT NULL DEFAULT 0,
            recipient text NOT NULL, attempt_log bytea
        ) WITH (
            autovacuum_vacuum_scale_factor = 0.02, autovacuum_vacuum_threshold = 5000, autovacuum_vacuum_cost_delay = 0,
            autovacuum_analyze_scale_factor = 0.2, autovacuum_analyze_threshold = 5000
        );
        CREATE INDEX waiting_due ON chapar.waiting (flow, due, id) WHERE owner IS NULL;
        CREATE INDEX waiting_expires ON chapar.waiting (expires) WHERE owner IS NULL;
        CREATE INDEX waiting_collapse ON chapar.waiting (collapse) WHERE collapse IS NOT NULL;
        CREATE TABLE chapar.results (
            id bigint NOT NULL PRIMARY KEY, notification bigint NOT NULL, flow bigint NOT NULL, changed bigint NOT NULL,
            state smallint NOT NULL, recipient text NOT NULL, attempt_log bytea
        ) PARTITION BY RANGE (id);
        CREATE INDEX results_changed ON chapar.results USING brin (changed);
        CREATE TABLE chapar.awaited (delivery bigint NOT NULL, message bigint NOT NULL, token bigint NOT NULL)
            PARTITION BY RANGE (delivery);
        CREATE INDEX awaited_message ON chapar.awaited (message, token);
        CREATE TABLE chapar.event_head (single boolean PRIMARY KEY DEFAULT true CHECK (single), last bigint NOT NULL);
        INSERT INTO chapar.event_head (last) VALUES (0);
        CREATE SEQUENCE chapar.event_batches;
        CREATE TABLE chapar.events (
            batch bigint NOT NULL DEFAULT nextval('chapar.event_batches'), at bigint NOT NULL, count integer NOT NULL,
            first bigint, texts bytea[] NOT NULL
        ) PARTITION BY RANGE (at);
        CREATE INDEX events_first ON chapar.events (first);
        CREATE INDEX events_new ON chapar.events (batch) WHERE first IS NULL;
        CREATE TABLE chapar.idempotency (
            caller text NOT NULL, key text NOT NULL, fingerprint bytea NOT NULL, answer bytea NOT NULL, keep bigint NOT NULL,
            PRIMARY KEY (caller, key)
        );
        CREATE INDEX idempotency_keep ON chapar.idempotency (keep);
        CREATE TABLE chapar.state (name text PRIMARY KEY, value bytea NOT NULL);
        CREATE TABLE chapar.marks (name text PRIMARY KEY, value bigint NOT NULL);
        """

    /// * `nodes.sessions`: the node's sessions, as ``NodeSessions`` writes them; null behind a pooler.
    /// * `nodes.backends`: the backends of its configuration; null before it has declared them, and for older versions.
    static let nodeSessions = "ALTER TABLE chapar.nodes ADD COLUMN sessions text[], ADD COLUMN backends text[]"

    /// An index for the rows of `awaited` that an erasure removes: rows are inserted about in the order of their
    /// deliveries, so it is small.
    static let awaitedDeliveries =
        "CREATE INDEX awaited_delivery ON chapar.awaited USING brin (delivery) WITH (autosummarize = on)"
}
