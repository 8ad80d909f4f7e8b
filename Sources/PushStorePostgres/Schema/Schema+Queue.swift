extension Schema {
    /// Notifications, their deliveries, and what is told of them.
    ///
    /// The table in which rows come, change and go, `waiting`, is small: it holds what has not ended. What has ended
    /// never changes but for receipts and erasures, and goes with the whole partition of its day (``Partitions``).
    ///
    /// * `nodes`: the gateways that are running. `slot` says which numbers are the node's (``NodeNumbers``);
    ///   the node is alive until `lease_until`, by the database's clock.
    /// * `notes`: what nodes tell each other (``Announcer``), for a minute.
    /// * `locks`: who does alone what one of them at a time may do (`StateStore.exclusively`), by the database's clock.
    /// * `clock.ahead`: how far the database's wall clock is ahead of the steady time that deadlines go by, in
    ///   milliseconds.
    /// * `flows`: what waits is divided by backend, priority and caller. `merged` flows were handed to a backend that
    ///   has one for the same priority and caller already. `moves`: which backend takes what plans give to another that
    ///   is gone.
    /// * `notifications.plans`: the delivery plans as lines; `waiting.plan` is the place of a delivery's own.
    /// * `waiting.owner`: the node that has claimed it; null while it can be claimed, 0 while it must wait for another
    ///   delivery with its collapse key. `lease`: the number of its last claim, which only grows.
    /// * `waiting.flags`: the bits of ``DeliveryRow/Flags``.
    /// * `results.state`: `DeliveryState.code`. `awaited`: for which deliveries a receipt is expected, by hashes.
    /// * `events`: those of one commit, with the number of the first, which is given after the commit: so numbers have
    ///   no gaps and no commit is skipped that took long. `event_head.last`: the highest number given.
    ///
    /// Times are milliseconds since 1970, steady but for `nodes`, `notes` and `locks`.
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

    /// * `nodes.sessions`: the node's sessions, as ``NodeSessions`` writes them; null where a pooler stands between.
    /// * `nodes.backends`: the backends of its configuration; null while it has said none, and of older versions.
    static let nodeSessions = "ALTER TABLE chapar.nodes ADD COLUMN sessions text[], ADD COLUMN backends text[]"

    /// An index for the rows of `awaited` that an erasure removes: they come about in the order of their deliveries, so
    /// it is small.
    static let awaitedDeliveries =
        "CREATE INDEX awaited_delivery ON chapar.awaited USING brin (delivery) WITH (autosummarize = on)"
}
