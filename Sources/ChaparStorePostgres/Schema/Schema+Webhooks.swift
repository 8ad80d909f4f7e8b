extension Schema {
    /// The endpoints of webhooks, and messages that were not delivered at once (``WebhookRows``).
    ///
    /// * `webhooks.settings`, `memory`, `webhook_messages.record`: forms that the gateway defines; no query needs them.
    /// * `webhooks.app`: empty for an endpoint that gets the events of all apps.
    /// * `webhooks.cursor`: the number of the last event that is delivered, kept as a message, or not wanted.
    /// * `webhooks.holder`, `held_until`: the sender that has the lease, and the end of the lease; null without one.
    /// * `webhook_messages.state`: 0 while it is to be sent, 1 once it is given up.
    /// * `webhook_messages.due`: the time of the next attempt, or the time when it was given up.
    ///
    /// Messages hold numbers of events and no content. Times are milliseconds since 1970, of the store's steady clock,
    /// which is set by the database's.
    ///
    /// Gateways of the version before can run beside this step: they send to no endpoint.
    ///
    /// Indexes, besides the keys: `webhook_messages_due` for what is to be sent, `webhook_messages_open` for the order
    /// of open messages.
    static let webhooks = """
        CREATE TABLE chapar.webhooks (
            name text COLLATE "C" PRIMARY KEY, app text NOT NULL, revision bigint NOT NULL, settings bytea NOT NULL,
            cursor bigint NOT NULL, memory bytea NOT NULL, holder text, held_until bigint
        ) WITH (fillfactor = 50, autovacuum_vacuum_scale_factor = 0, autovacuum_vacuum_threshold = 1000);
        CREATE TABLE chapar.webhook_messages (
            webhook text COLLATE "C" NOT NULL, id text COLLATE "C" NOT NULL, number bigint NOT NULL,
            state bigint NOT NULL, due bigint NOT NULL, record bytea NOT NULL, PRIMARY KEY (webhook, id)
        ) WITH (autovacuum_vacuum_scale_factor = 0.02, autovacuum_vacuum_threshold = 1000);
        CREATE INDEX webhook_messages_due ON chapar.webhook_messages (webhook, state, due, number);
        CREATE INDEX webhook_messages_open ON chapar.webhook_messages (webhook, number) WHERE state = 0
        """
}
