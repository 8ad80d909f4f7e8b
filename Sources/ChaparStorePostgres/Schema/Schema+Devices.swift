extension Schema {
    /// The device registry.
    ///
    /// * `devices.number`: the order in which devices were first registered, by which lists are paged.
    /// * `devices.user_key`: the user's key (`AppName`).
    /// * `devices.tags`: the tags as lines; `device_tags` has them again, to find devices by one.
    /// * `devices.attributes`: a JSON object, null without any.
    /// * `device_tokens.slot`: a service and a kind (`TokenSlot`).
    /// * `device_tokens.hash`: of service and token (`TokenHash`), since a token may be longer than what an index
    ///   takes.
    /// * `device_tokens.refusals`: as `BackendRefusal.stored(_:)` writes them, null without any.
    /// * `device_tokens.as_of` and the columns after it: the tombstone, null without one.
    ///
    /// Times are milliseconds since 1970. Searched texts have the collation "C": they are equal when their bytes are.
    ///
    /// Indexes, besides the keys: `device_users` for the devices of a user; `token_owners` for the devices that have a
    /// token; `quarantined_tokens` for quarantined tokens, by backend and in pages; `invalidated_tokens` for tokens
    /// that a backend has recently invalidated; `refused_tokens` for the tokens with refusals, which are few;
    /// `token_kinds` for the devices that have a token of a kind.
    static let devices = """
        CREATE TABLE chapar.devices (
            number bigint GENERATED ALWAYS AS IDENTITY PRIMARY KEY, id text COLLATE "C" NOT NULL UNIQUE,
            user_key text COLLATE "C", platform text, tags text, locale text, version text, zone text,
            created bigint NOT NULL, updated bigint NOT NULL, seen bigint, attributes text
        ) WITH (fillfactor = 90);
        CREATE INDEX device_users ON chapar.devices (user_key, number) WHERE user_key IS NOT NULL;
        CREATE TABLE chapar.device_tokens (
            device bigint NOT NULL, slot text COLLATE "C" NOT NULL, token text COLLATE "C" NOT NULL, hash bigint NOT NULL,
            registered bigint NOT NULL, environment text, refusals text,
            as_of bigint, invalidated bigint, backend text COLLATE "C", reason text, held boolean,
            PRIMARY KEY (device, slot)
        );
        CREATE INDEX token_owners ON chapar.device_tokens (hash);
        CREATE INDEX quarantined_tokens ON chapar.device_tokens (backend, device, slot) WHERE held;
        CREATE INDEX invalidated_tokens ON chapar.device_tokens (backend, invalidated) WHERE NOT held;
        CREATE INDEX refused_tokens ON chapar.device_tokens (device) WHERE refusals IS NOT NULL;
        CREATE INDEX token_kinds ON chapar.device_tokens ((substr(slot, strpos(slot, '/') + 1)), device)
            WHERE strpos(slot, '/') > 0;
        CREATE TABLE chapar.device_tags (tag text COLLATE "C", device bigint, PRIMARY KEY (tag, device))
        """
}
