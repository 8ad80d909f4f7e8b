extension Schema {
    /// The device registry.
    ///
    /// * `devices.number`: the order in which devices were first registered, by which lists are paged.
    /// * `devices.tags`: the tags as lines; `device_tags` has them again, to find devices by one.
    /// * `device_tokens.hash`: of service and token (``TokenHash``), since an index of whole tokens would be as large
    ///   as the table.
    /// * `device_tokens.as_of` and the columns after it: the tombstone, null without one.
    ///
    /// Times are milliseconds since 1970.
    static let devices = """
        CREATE TABLE devices (
            number INTEGER PRIMARY KEY AUTOINCREMENT, id TEXT NOT NULL UNIQUE, user TEXT, platform TEXT, tags TEXT,
            locale TEXT, version TEXT, zone TEXT, created INTEGER NOT NULL, updated INTEGER NOT NULL, seen INTEGER
        );
        CREATE INDEX device_users ON devices (user, number) WHERE user IS NOT NULL;
        CREATE TABLE device_tokens (
            device INTEGER NOT NULL, service TEXT NOT NULL, token TEXT NOT NULL, hash INTEGER NOT NULL,
            registered INTEGER NOT NULL,
            as_of INTEGER, buried INTEGER, backend TEXT, reason TEXT, held INTEGER,
            PRIMARY KEY (device, service)
        ) WITHOUT ROWID;
        CREATE INDEX token_owners ON device_tokens (hash);
        CREATE INDEX tombstones ON device_tokens (backend, held, device, buried) WHERE backend IS NOT NULL;
        CREATE TABLE device_tags (tag TEXT NOT NULL, device INTEGER NOT NULL, PRIMARY KEY (tag, device)) WITHOUT ROWID;
        """

    /// The environments and refusals of single tokens.
    ///
    /// * `environment`: a ``TokenEnvironment``, null for `unknown`.
    /// * `devices.user` is a key (`AppName`) from now on: names with a slash have one more before them.
    /// * `refusals`: the backends that refused the token (``BackendRefusal/stored(_:)``), null without any.
    static let refusals = """
        ALTER TABLE device_tokens ADD COLUMN environment TEXT;
        ALTER TABLE device_tokens ADD COLUMN refusals TEXT;
        CREATE INDEX token_refusals ON device_tokens (device) WHERE refusals IS NOT NULL;
        UPDATE devices SET user = '/' || user WHERE instr(user, '/') > 0;
        """

    /// Tokens of other kinds: `device_tokens.service` is a slot (`TokenSlot`) from now on, such as `ios-apns/voip`.
    ///
    /// The hash is of the service and the token, as before.
    static let tokenKinds = """
        CREATE INDEX token_kinds ON device_tokens (substr(service, instr(service, '/') + 1), device)
        WHERE instr(service, '/') > 0;
        """
}
