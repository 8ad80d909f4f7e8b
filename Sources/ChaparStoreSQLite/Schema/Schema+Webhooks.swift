extension Schema {
    /// The name of the step that adds ``webhooks``.
    static let webhooksStep = "17 webhooks"

    /// The endpoints of webhooks, and messages that were not delivered at once (``WebhookTable``).
    ///
    /// * `webhooks.settings`, `memory`, `webhook_messages.record`: forms that the gateway defines; no query needs them.
    /// * `webhooks.app`: empty for an endpoint that gets the events of all apps.
    /// * `webhooks.cursor`: the number of the last event that is delivered, kept as a message, or not wanted.
    /// * `webhooks.holder`, `held_until`: the sender that has the lease, and the end of the lease; null without one.
    /// * `webhook_messages.state`: 0 while it is to be sent, 1 once it is given up.
    /// * `webhook_messages.due`: the time of the next attempt, or the time when it was given up.
    ///
    /// Messages hold numbers of events and no content. Times are milliseconds since 1970, of the steady clock.
    static let webhooks = """
        CREATE TABLE webhooks (
            name TEXT PRIMARY KEY NOT NULL, app TEXT NOT NULL, revision INTEGER NOT NULL, settings BLOB NOT NULL,
            cursor INTEGER NOT NULL, memory BLOB NOT NULL, holder TEXT, held_until INTEGER
        ) STRICT, WITHOUT ROWID;
        CREATE TABLE webhook_messages (
            webhook TEXT NOT NULL, id TEXT NOT NULL, number INTEGER NOT NULL, state INTEGER NOT NULL,
            due INTEGER NOT NULL, record BLOB NOT NULL, PRIMARY KEY (webhook, id)
        ) STRICT, WITHOUT ROWID;
        CREATE INDEX webhook_messages_due ON webhook_messages (webhook, state, due, number);
        CREATE INDEX webhook_messages_open ON webhook_messages (webhook, number) WHERE state = 0;
        """
}
