-- What the program of commit cfc026a, which knew three steps of the schema, had in its database after a message, a device and its
-- registrations: `pg_dump --schema=chapar --inserts --no-owner`, without settings, comments and what backends keep.
CREATE SCHEMA chapar;
CREATE TABLE chapar.awaited (
    delivery bigint NOT NULL,
    message bigint NOT NULL,
    token bigint NOT NULL
)
PARTITION BY RANGE (delivery);
CREATE TABLE chapar.awaited_d20781 (
    delivery bigint NOT NULL,
    message bigint NOT NULL,
    token bigint NOT NULL
);
CREATE TABLE chapar.awaited_d20782 (
    delivery bigint NOT NULL,
    message bigint NOT NULL,
    token bigint NOT NULL
);
CREATE TABLE chapar.awaited_d20783 (
    delivery bigint NOT NULL,
    message bigint NOT NULL,
    token bigint NOT NULL
);
CREATE TABLE chapar.clock (
    single boolean DEFAULT true NOT NULL,
    ahead bigint NOT NULL,
    CONSTRAINT clock_single_check CHECK (single)
);
CREATE TABLE chapar.device_tags (
    tag text NOT NULL COLLATE pg_catalog."C",
    device bigint NOT NULL
);
CREATE TABLE chapar.device_tokens (
    device bigint NOT NULL,
    slot text NOT NULL COLLATE pg_catalog."C",
    token text NOT NULL COLLATE pg_catalog."C",
    hash bigint NOT NULL,
    registered bigint NOT NULL,
    environment text,
    refusals text,
    as_of bigint,
    invalidated bigint,
    backend text COLLATE pg_catalog."C",
    reason text,
    held boolean
);
CREATE TABLE chapar.devices (
    number bigint NOT NULL,
    id text NOT NULL COLLATE pg_catalog."C",
    user_key text COLLATE pg_catalog."C",
    platform text,
    tags text,
    locale text,
    version text,
    zone text,
    created bigint NOT NULL,
    updated bigint NOT NULL,
    seen bigint,
    attributes text
)
WITH (fillfactor='90');
ALTER TABLE chapar.devices ALTER COLUMN number ADD GENERATED ALWAYS AS IDENTITY (
    SEQUENCE NAME chapar.devices_number_seq
    START WITH 1
    INCREMENT BY 1
    NO MINVALUE
    NO MAXVALUE
    CACHE 1
);
CREATE SEQUENCE chapar.event_batches
    START WITH 1
    INCREMENT BY 1
    NO MINVALUE
    NO MAXVALUE
    CACHE 1;
CREATE TABLE chapar.event_head (
    single boolean DEFAULT true NOT NULL,
    last bigint NOT NULL,
    CONSTRAINT event_head_single_check CHECK (single)
);
CREATE TABLE chapar.events (
    batch bigint DEFAULT nextval('chapar.event_batches'::regclass) NOT NULL,
    at bigint NOT NULL,
    count integer NOT NULL,
    first bigint,
    texts bytea[] NOT NULL
)
PARTITION BY RANGE (at);
CREATE TABLE chapar.events_d20781 (
    batch bigint DEFAULT nextval('chapar.event_batches'::regclass) NOT NULL,
    at bigint NOT NULL,
    count integer NOT NULL,
    first bigint,
    texts bytea[] NOT NULL
);
CREATE TABLE chapar.events_d20782 (
    batch bigint DEFAULT nextval('chapar.event_batches'::regclass) NOT NULL,
    at bigint NOT NULL,
    count integer NOT NULL,
    first bigint,
    texts bytea[] NOT NULL
);
CREATE TABLE chapar.events_d20783 (
    batch bigint DEFAULT nextval('chapar.event_batches'::regclass) NOT NULL,
    at bigint NOT NULL,
    count integer NOT NULL,
    first bigint,
    texts bytea[] NOT NULL
);
CREATE TABLE chapar.flows (
    number bigint NOT NULL,
    backend text NOT NULL,
    urgent boolean NOT NULL,
    caller text NOT NULL,
    merged boolean DEFAULT false NOT NULL
);
ALTER TABLE chapar.flows ALTER COLUMN number ADD GENERATED ALWAYS AS IDENTITY (
    SEQUENCE NAME chapar.flows_number_seq
    START WITH 1
    INCREMENT BY 1
    NO MINVALUE
    NO MAXVALUE
    CACHE 1
);
CREATE TABLE chapar.idempotency (
    caller text NOT NULL,
    key text NOT NULL,
    fingerprint bytea NOT NULL,
    answer bytea NOT NULL,
    keep bigint NOT NULL
);
CREATE SEQUENCE chapar.leases
    START WITH 1
    INCREMENT BY 1000
    NO MINVALUE
    NO MAXVALUE
    CACHE 1;
CREATE TABLE chapar.locks (
    name text NOT NULL,
    holder text NOT NULL,
    until timestamp with time zone NOT NULL
);
CREATE TABLE chapar.marks (
    name text NOT NULL,
    value bigint NOT NULL
);
CREATE TABLE chapar.moves (
    backend text NOT NULL,
    target text NOT NULL
);
CREATE TABLE chapar.nodes (
    number bigint NOT NULL,
    slot bigint NOT NULL,
    name text NOT NULL,
    started timestamp with time zone DEFAULT now() NOT NULL,
    lease_until timestamp with time zone NOT NULL
);
ALTER TABLE chapar.nodes ALTER COLUMN number ADD GENERATED ALWAYS AS IDENTITY (
    SEQUENCE NAME chapar.nodes_number_seq
    START WITH 1
    INCREMENT BY 1
    NO MINVALUE
    NO MAXVALUE
    CACHE 1
);
CREATE TABLE chapar.notes (
    number bigint NOT NULL,
    node bigint NOT NULL,
    at timestamp with time zone DEFAULT clock_timestamp() NOT NULL,
    topic text NOT NULL,
    body bytea NOT NULL
);
ALTER TABLE chapar.notes ALTER COLUMN number ADD GENERATED ALWAYS AS IDENTITY (
    SEQUENCE NAME chapar.notes_number_seq
    START WITH 1
    INCREMENT BY 1
    NO MINVALUE
    NO MAXVALUE
    CACHE 1
);
CREATE TABLE chapar.notifications (
    id bigint NOT NULL,
    count integer NOT NULL,
    caller text NOT NULL,
    accepted bigint NOT NULL,
    scheduled bigint,
    expires bigint NOT NULL,
    collapse_id text,
    plans text NOT NULL,
    content bytea NOT NULL
)
PARTITION BY RANGE (id);
CREATE TABLE chapar.notifications_d20781 (
    id bigint NOT NULL,
    count integer NOT NULL,
    caller text NOT NULL,
    accepted bigint NOT NULL,
    scheduled bigint,
    expires bigint NOT NULL,
    collapse_id text,
    plans text NOT NULL,
    content bytea NOT NULL
);
CREATE TABLE chapar.notifications_d20782 (
    id bigint NOT NULL,
    count integer NOT NULL,
    caller text NOT NULL,
    accepted bigint NOT NULL,
    scheduled bigint,
    expires bigint NOT NULL,
    collapse_id text,
    plans text NOT NULL,
    content bytea NOT NULL
);
CREATE TABLE chapar.notifications_d20783 (
    id bigint NOT NULL,
    count integer NOT NULL,
    caller text NOT NULL,
    accepted bigint NOT NULL,
    scheduled bigint,
    expires bigint NOT NULL,
    collapse_id text,
    plans text NOT NULL,
    content bytea NOT NULL
);
CREATE TABLE chapar.outbox_changes (
    number bigint NOT NULL,
    device text NOT NULL COLLATE pg_catalog."C",
    at bigint NOT NULL,
    backend text,
    old text,
    new text,
    entry text,
    skipped text
)
WITH (autovacuum_vacuum_scale_factor='0.02', autovacuum_vacuum_threshold='1000');
ALTER TABLE chapar.outbox_changes ALTER COLUMN number ADD GENERATED ALWAYS AS IDENTITY (
    SEQUENCE NAME chapar.outbox_changes_number_seq
    START WITH 1
    INCREMENT BY 1
    NO MINVALUE
    NO MAXVALUE
    CACHE 1
);
CREATE TABLE chapar.outbox_depths (
    number bigint NOT NULL,
    backend text NOT NULL COLLATE pg_catalog."C",
    waiting bigint NOT NULL
)
WITH (autovacuum_vacuum_scale_factor='0', autovacuum_vacuum_threshold='1000');
ALTER TABLE chapar.outbox_depths ALTER COLUMN number ADD GENERATED ALWAYS AS IDENTITY (
    SEQUENCE NAME chapar.outbox_depths_number_seq
    START WITH 1
    INCREMENT BY 1
    NO MINVALUE
    NO MAXVALUE
    CACHE 1
);
CREATE TABLE chapar.outbox_entries (
    number bigint NOT NULL,
    id text NOT NULL,
    backend text NOT NULL COLLATE pg_catalog."C",
    device text NOT NULL COLLATE pg_catalog."C",
    user_key text,
    kind text NOT NULL,
    body text,
    at bigint NOT NULL,
    attempts bigint DEFAULT 0 NOT NULL,
    due bigint,
    owner bigint
)
WITH (autovacuum_vacuum_scale_factor='0.02', autovacuum_vacuum_threshold='1000');
ALTER TABLE chapar.outbox_entries ALTER COLUMN number ADD GENERATED ALWAYS AS IDENTITY (
    SEQUENCE NAME chapar.outbox_entries_number_seq
    START WITH 1
    INCREMENT BY 1
    NO MINVALUE
    NO MAXVALUE
    CACHE 1
);
CREATE TABLE chapar.results (
    id bigint NOT NULL,
    notification bigint NOT NULL,
    flow bigint NOT NULL,
    changed bigint NOT NULL,
    state smallint NOT NULL,
    recipient text NOT NULL,
    attempt_log bytea
)
PARTITION BY RANGE (id);
CREATE TABLE chapar.results_d20781 (
    id bigint NOT NULL,
    notification bigint NOT NULL,
    flow bigint NOT NULL,
    changed bigint NOT NULL,
    state smallint NOT NULL,
    recipient text NOT NULL,
    attempt_log bytea
);
CREATE TABLE chapar.results_d20782 (
    id bigint NOT NULL,
    notification bigint NOT NULL,
    flow bigint NOT NULL,
    changed bigint NOT NULL,
    state smallint NOT NULL,
    recipient text NOT NULL,
    attempt_log bytea
);
CREATE TABLE chapar.results_d20783 (
    id bigint NOT NULL,
    notification bigint NOT NULL,
    flow bigint NOT NULL,
    changed bigint NOT NULL,
    state smallint NOT NULL,
    recipient text NOT NULL,
    attempt_log bytea
);
CREATE TABLE chapar.schema_steps (
    number bigint NOT NULL,
    name text NOT NULL,
    applied timestamp with time zone DEFAULT now() NOT NULL,
    oldest_reader bigint
);
CREATE TABLE chapar.state (
    name text NOT NULL,
    value bytea NOT NULL
);
CREATE TABLE chapar.waiting (
    id bigint NOT NULL,
    notification bigint NOT NULL,
    flow bigint NOT NULL,
    due bigint NOT NULL,
    expires bigint NOT NULL,
    owner bigint,
    lease bigint NOT NULL,
    collapse bigint,
    attempts integer DEFAULT 0 NOT NULL,
    step smallint DEFAULT 0 NOT NULL,
    plan smallint NOT NULL,
    flags smallint DEFAULT 0 NOT NULL,
    recipient text NOT NULL,
    attempt_log bytea
)
WITH (autovacuum_vacuum_scale_factor='0.02', autovacuum_vacuum_threshold='5000', autovacuum_vacuum_cost_delay='0', autovacuum_analyze_scale_factor='0.2', autovacuum_analyze_threshold='5000');
ALTER TABLE ONLY chapar.awaited ATTACH PARTITION chapar.awaited_d20781 FOR VALUES FROM ('191703180902400000') TO ('191884374835200000');
ALTER TABLE ONLY chapar.awaited ATTACH PARTITION chapar.awaited_d20782 FOR VALUES FROM ('191884374835200000') TO ('192065568768000000');
ALTER TABLE ONLY chapar.awaited ATTACH PARTITION chapar.awaited_d20783 FOR VALUES FROM ('192065568768000000') TO ('192246762700800000');
ALTER TABLE ONLY chapar.events ATTACH PARTITION chapar.events_d20781 FOR VALUES FROM ('1795478400000') TO ('1795564800000');
ALTER TABLE ONLY chapar.events ATTACH PARTITION chapar.events_d20782 FOR VALUES FROM ('1795564800000') TO ('1795651200000');
ALTER TABLE ONLY chapar.events ATTACH PARTITION chapar.events_d20783 FOR VALUES FROM ('1795651200000') TO ('1795737600000');
ALTER TABLE ONLY chapar.notifications ATTACH PARTITION chapar.notifications_d20781 FOR VALUES FROM ('191703180902400000') TO ('191884374835200000');
ALTER TABLE ONLY chapar.notifications ATTACH PARTITION chapar.notifications_d20782 FOR VALUES FROM ('191884374835200000') TO ('192065568768000000');
ALTER TABLE ONLY chapar.notifications ATTACH PARTITION chapar.notifications_d20783 FOR VALUES FROM ('192065568768000000') TO ('192246762700800000');
ALTER TABLE ONLY chapar.results ATTACH PARTITION chapar.results_d20781 FOR VALUES FROM ('191703180902400000') TO ('191884374835200000');
ALTER TABLE ONLY chapar.results ATTACH PARTITION chapar.results_d20782 FOR VALUES FROM ('191884374835200000') TO ('192065568768000000');
ALTER TABLE ONLY chapar.results ATTACH PARTITION chapar.results_d20783 FOR VALUES FROM ('192065568768000000') TO ('192246762700800000');
INSERT INTO chapar.clock VALUES (true, 0);
INSERT INTO chapar.device_tokens VALUES (1, 'ios-apns', 'ab00000000000000000000000000000000000000000000000000000000000009', 8779272143245389036, 1795489382889, NULL, NULL, NULL, NULL, NULL, NULL, NULL);
INSERT INTO chapar.devices OVERRIDING SYSTEM VALUE VALUES (1, 'd1', 'ada', NULL, NULL, NULL, NULL, NULL, 1795489382889, 1795489382889, NULL, NULL);
INSERT INTO chapar.event_head VALUES (true, 10);
INSERT INTO chapar.events_d20781 VALUES (1, 1795489382870, 1, 1, '{"\\x7b2274797065223a226e6f74696669636174696f6e2e6163636570746564222c226174223a22323032362d31312d32345430333a30333a30322e3835395a222c226e6f74696669636174696f6e223a2230354139355a36575030303030222c227374617465223a22717565756564222c22726563697069656e7473223a312c226261636b656e64223a22696f73222c227469746c65223a224f6c64227d"}');
INSERT INTO chapar.events_d20781 VALUES (2, 1795489382903, 1, 2, '{"\\x7b2274797065223a2264656c69766572792e61636365707465645f62795f706c6174666f726d222c226174223a22323032362d31312d32345430333a30333a30322e3930325a222c226e6f74696669636174696f6e223a2230354139355a36575030303030222c2264656c6976657279223a302c22726563697069656e74223a22696f732d61706e733a61623030303030303030303030303030303030303030303030303030303030303030303030303030303030303030303030303030303030303030303030303031222c226261636b656e64223a22696f73222c227374617465223a2261636365707465645f62795f706c6174666f726d222c22617474656d7074223a7b226174223a22323032362d31312d32345430333a30333a30322e3930325a222c226261636b656e64223a22696f73222c226f7574636f6d65223a226163636570746564222c22737461747573223a3230302c22706c6174666f726d5f6964223a2236396137623233302d656633632d383062302d383261392d323566396239363030303030227d7d"}');
INSERT INTO chapar.events_d20781 VALUES (3, 1795489382956, 1, 3, '{"\\x7b2274797065223a226261636b656e642e6e6f74696365222c226174223a22323032362d31312d32345430333a30333a30322e3935365a222c226261636b656e64223a22636861626f6b222c226c6576656c223a22696e666f222c226e616d65223a22636f6e6e656374696f6e222c226d657373616765223a22546865206c696e6b20746f20436861626f6b20697320434f4e4e454354494e472e222c2264657461696c223a7b226f6c64223a2d322c226e6577223a2d317d7d"}');
INSERT INTO chapar.events_d20781 VALUES (4, 1795489382960, 1, 4, '{"\\x7b2274797065223a226f7065726174696f6e2e646f6e65222c226174223a22323032362d31312d32345430333a30333a30322e3936305a222c226f7065726174696f6e223a2232306363336166312d313063622d343132342d393837642d653837303261316133613566222c226b696e64223a227265676973746572222c226261636b656e64223a2263616d706169676e73222c22646576696365223a226431222c2275736572223a22616461222c22617474656d7074223a312c2264657461696c223a7b22706c6174666f726d5f6964223a2262323462633265302d666535332d346534612d623966662d356236613230616464333933227d7d"}');
INSERT INTO chapar.events_d20781 VALUES (5, 1795489382979, 2, 5, '{"\\x7b2274797065223a226261636b656e642e6e6f74696365222c226174223a22323032362d31312d32345430333a30333a30322e3937395a222c226261636b656e64223a22636861626f6b222c226c6576656c223a22696e666f222c226e616d65223a2272656163686162696c697479222c226d657373616765223a22436861626f6b2063616e20626520726561636865642e227d","\\x7b2274797065223a226261636b656e642e6e6f74696365222c226174223a22323032362d31312d32345430333a30333a30322e3937395a222c226261636b656e64223a22636861626f6b222c226c6576656c223a22696e666f222c226e616d65223a22636f6e6e656374696f6e222c226d657373616765223a22546865206c696e6b20746f20436861626f6b20697320434f4e4e45435445442e222c2264657461696c223a7b226f6c64223a2d312c226e6577223a307d7d"}');
INSERT INTO chapar.events_d20781 VALUES (6, 1795489382997, 1, 7, '{"\\x7b2274797065223a226261636b656e642e6e6f74696365222c226174223a22323032362d31312d32345430333a30333a30322e3938395a222c226261636b656e64223a22636861626f6b222c226c6576656c223a22696e666f222c226e616d65223a2272656769737465726564222c226d657373616765223a2241206465766963652069732072656769737465726564207769746820436861626f6b2e222c2264657461696c223a7b22696e7374616c6c6174696f6e223a226932222c2275736572223a22616461227d7d"}');
INSERT INTO chapar.events_d20781 VALUES (7, 1795489383002, 1, 8, '{"\\x7b2274797065223a226261636b656e642e6e6f74696365222c226174223a22323032362d31312d32345430333a30333a30332e3030315a222c226261636b656e64223a2263726d222c226c6576656c223a22696e666f222c226e616d65223a227075736850726f76696465725365742829222c22646576696365223a226431222c226d657373616765223a22707573682070726f7669646572207365743a20696f732d61706e732e20746f6b656e3a20616230303030e280a630303039222c2264657461696c223a7b2270726f7669646572223a22696f732d61706e73222c22746f6b656e223a22616230303030e280a630303039222c22636f6465223a3230317d7d"}');
INSERT INTO chapar.events_d20781 VALUES (8, 1795489383009, 2, 9, '{"\\x7b2274797065223a226f7065726174696f6e2e646f6e65222c226174223a22323032362d31312d32345430333a30333a30322e3938395a222c226f7065726174696f6e223a2237343264393034362d326336342d346138652d393731352d376332653962663462653631222c226b696e64223a227265676973746572222c226261636b656e64223a22636861626f6b222c22646576696365223a226431222c2275736572223a22616461222c22617474656d7074223a312c2264657461696c223a7b22706c6174666f726d5f6964223a226932227d7d","\\x7b2274797065223a226f7065726174696f6e2e646f6e65222c226174223a22323032362d31312d32345430333a30333a30332e3030335a222c226f7065726174696f6e223a2238343565373937642d623439622d343865342d393861332d336161623362616138663263222c226b696e64223a227265676973746572222c226261636b656e64223a2263726d222c22646576696365223a226431222c2275736572223a22616461222c22617474656d7074223a312c2264657461696c223a7b22706c6174666f726d5f6964223a22616230303030e280a630303039227d7d"}');
INSERT INTO chapar.flows OVERRIDING SYSTEM VALUE VALUES (1, 'ios', true, '', false);
INSERT INTO chapar.marks VALUES ('kept_notifications', 1794884583801);
INSERT INTO chapar.marks VALUES ('kept_events', 1795402983801);
INSERT INTO chapar.nodes OVERRIDING SYSTEM VALUE VALUES (1, 0, 'vm', '2026-11-24 03:03:02.538384+00', '2026-11-24 03:03:06.728694+00');
INSERT INTO chapar.notifications_d20781 VALUES (191726213627117568, 1, '', 1795489382859, NULL, 1795575782859, NULL, 'ios', '\x7b22636f6e74656e74223a7b227469746c65223a224f6c64227d7d');
INSERT INTO chapar.outbox_depths OVERRIDING SYSTEM VALUE VALUES (1, 'campaigns', 1);
INSERT INTO chapar.outbox_depths OVERRIDING SYSTEM VALUE VALUES (2, 'chabok', 1);
INSERT INTO chapar.outbox_depths OVERRIDING SYSTEM VALUE VALUES (3, 'crm', 1);
INSERT INTO chapar.outbox_depths OVERRIDING SYSTEM VALUE VALUES (4, 'idpush', 1);
INSERT INTO chapar.outbox_depths OVERRIDING SYSTEM VALUE VALUES (5, 'campaigns', -1);
INSERT INTO chapar.outbox_depths OVERRIDING SYSTEM VALUE VALUES (6, 'chabok', -1);
INSERT INTO chapar.outbox_depths OVERRIDING SYSTEM VALUE VALUES (7, 'crm', -1);
INSERT INTO chapar.outbox_entries OVERRIDING SYSTEM VALUE VALUES (2, 'FDAB3C89-8575-49B7-839C-DE1980DA6C06', 'idpush', 'd1', 'ada', 'register', NULL, 1795489382889, 1, 1795489562926, 1);
INSERT INTO chapar.results_d20781 VALUES (191726213627117568, 191726213627117568, 1, 1795489382903, 1, 'ios-apns:ab00000000000000000000000000000000000000000000000000000000000001', '\x7b226174223a22323032362d31312d32345430333a30333a30322e3930325a222c226261636b656e64223a22696f73222c226f7574636f6d65223a226163636570746564222c22737461747573223a3230302c22706c6174666f726d5f6964223a2236396137623233302d656633632d383062302d383261392d323566396239363030303030227d');
INSERT INTO chapar.schema_steps VALUES (1, 'queue', '2026-11-24 03:03:02.243104+00', NULL);
INSERT INTO chapar.schema_steps VALUES (2, 'devices', '2026-11-24 03:03:02.384681+00', NULL);
INSERT INTO chapar.schema_steps VALUES (3, 'outbox', '2026-11-24 03:03:02.468836+00', NULL);
INSERT INTO chapar.state VALUES ('gateway.instance', '\x37363133323439363138333334393930353132');
SELECT pg_catalog.setval('chapar.devices_number_seq', 1, true);
SELECT pg_catalog.setval('chapar.event_batches', 8, true);
SELECT pg_catalog.setval('chapar.flows_number_seq', 1, true);
SELECT pg_catalog.setval('chapar.leases', 1, true);
SELECT pg_catalog.setval('chapar.nodes_number_seq', 1, true);
SELECT pg_catalog.setval('chapar.notes_number_seq', 1, false);
SELECT pg_catalog.setval('chapar.outbox_changes_number_seq', 1, true);
SELECT pg_catalog.setval('chapar.outbox_depths_number_seq', 7, true);
SELECT pg_catalog.setval('chapar.outbox_entries_number_seq', 4, true);
ALTER TABLE ONLY chapar.clock
    ADD CONSTRAINT clock_pkey PRIMARY KEY (single);
ALTER TABLE ONLY chapar.device_tags
    ADD CONSTRAINT device_tags_pkey PRIMARY KEY (tag, device);
ALTER TABLE ONLY chapar.device_tokens
    ADD CONSTRAINT device_tokens_pkey PRIMARY KEY (device, slot);
ALTER TABLE ONLY chapar.devices
    ADD CONSTRAINT devices_id_key UNIQUE (id);
ALTER TABLE ONLY chapar.devices
    ADD CONSTRAINT devices_pkey PRIMARY KEY (number);
ALTER TABLE ONLY chapar.event_head
    ADD CONSTRAINT event_head_pkey PRIMARY KEY (single);
ALTER TABLE ONLY chapar.flows
    ADD CONSTRAINT flows_pkey PRIMARY KEY (number);
ALTER TABLE ONLY chapar.idempotency
    ADD CONSTRAINT idempotency_pkey PRIMARY KEY (caller, key);
ALTER TABLE ONLY chapar.locks
    ADD CONSTRAINT locks_pkey PRIMARY KEY (name);
ALTER TABLE ONLY chapar.marks
    ADD CONSTRAINT marks_pkey PRIMARY KEY (name);
ALTER TABLE ONLY chapar.moves
    ADD CONSTRAINT moves_pkey PRIMARY KEY (backend);
ALTER TABLE ONLY chapar.nodes
    ADD CONSTRAINT nodes_pkey PRIMARY KEY (number);
ALTER TABLE ONLY chapar.nodes
    ADD CONSTRAINT nodes_slot_key UNIQUE (slot);
ALTER TABLE ONLY chapar.notes
    ADD CONSTRAINT notes_pkey PRIMARY KEY (number);
ALTER TABLE ONLY chapar.notifications
    ADD CONSTRAINT notifications_pkey PRIMARY KEY (id);
ALTER TABLE ONLY chapar.notifications_d20781
    ADD CONSTRAINT notifications_d20781_pkey PRIMARY KEY (id);
ALTER TABLE ONLY chapar.notifications_d20782
    ADD CONSTRAINT notifications_d20782_pkey PRIMARY KEY (id);
ALTER TABLE ONLY chapar.notifications_d20783
    ADD CONSTRAINT notifications_d20783_pkey PRIMARY KEY (id);
ALTER TABLE ONLY chapar.outbox_changes
    ADD CONSTRAINT outbox_changes_pkey PRIMARY KEY (number);
ALTER TABLE ONLY chapar.outbox_depths
    ADD CONSTRAINT outbox_depths_pkey PRIMARY KEY (number);
ALTER TABLE ONLY chapar.outbox_entries
    ADD CONSTRAINT outbox_entries_pkey PRIMARY KEY (number);
ALTER TABLE ONLY chapar.results
    ADD CONSTRAINT results_pkey PRIMARY KEY (id);
ALTER TABLE ONLY chapar.results_d20781
    ADD CONSTRAINT results_d20781_pkey PRIMARY KEY (id);
ALTER TABLE ONLY chapar.results_d20782
    ADD CONSTRAINT results_d20782_pkey PRIMARY KEY (id);
ALTER TABLE ONLY chapar.results_d20783
    ADD CONSTRAINT results_d20783_pkey PRIMARY KEY (id);
ALTER TABLE ONLY chapar.schema_steps
    ADD CONSTRAINT schema_steps_pkey PRIMARY KEY (number);
ALTER TABLE ONLY chapar.state
    ADD CONSTRAINT state_pkey PRIMARY KEY (name);
ALTER TABLE ONLY chapar.waiting
    ADD CONSTRAINT waiting_pkey PRIMARY KEY (id);
CREATE INDEX awaited_message ON ONLY chapar.awaited USING btree (message, token);
CREATE INDEX awaited_d20781_message_token_idx ON chapar.awaited_d20781 USING btree (message, token);
CREATE INDEX awaited_d20782_message_token_idx ON chapar.awaited_d20782 USING btree (message, token);
CREATE INDEX awaited_d20783_message_token_idx ON chapar.awaited_d20783 USING btree (message, token);
CREATE INDEX device_users ON chapar.devices USING btree (user_key, number) WHERE (user_key IS NOT NULL);
CREATE INDEX events_new ON ONLY chapar.events USING btree (batch) WHERE (first IS NULL);
CREATE INDEX events_d20781_batch_idx ON chapar.events_d20781 USING btree (batch) WHERE (first IS NULL);
CREATE INDEX events_first ON ONLY chapar.events USING btree (first);
CREATE INDEX events_d20781_first_idx ON chapar.events_d20781 USING btree (first);
CREATE INDEX events_d20782_batch_idx ON chapar.events_d20782 USING btree (batch) WHERE (first IS NULL);
CREATE INDEX events_d20782_first_idx ON chapar.events_d20782 USING btree (first);
CREATE INDEX events_d20783_batch_idx ON chapar.events_d20783 USING btree (batch) WHERE (first IS NULL);
CREATE INDEX events_d20783_first_idx ON chapar.events_d20783 USING btree (first);
CREATE UNIQUE INDEX flows_name ON chapar.flows USING btree (backend, urgent, caller) WHERE (NOT merged);
CREATE INDEX idempotency_keep ON chapar.idempotency USING btree (keep);
CREATE INDEX invalidated_tokens ON chapar.device_tokens USING btree (backend, invalidated) WHERE (NOT held);
CREATE INDEX outbox_changes_of_device ON chapar.outbox_changes USING btree (device);
CREATE INDEX outbox_entries_due ON chapar.outbox_entries USING btree (backend, due, number) WHERE (due IS NOT NULL);
CREATE INDEX outbox_entries_of_backend ON chapar.outbox_entries USING btree (backend, number);
CREATE INDEX outbox_entries_of_line ON chapar.outbox_entries USING btree (device, backend, number);
CREATE INDEX outbox_entries_owned ON chapar.outbox_entries USING btree (owner) WHERE (owner IS NOT NULL);
CREATE INDEX quarantined_tokens ON chapar.device_tokens USING btree (backend, device, slot) WHERE held;
CREATE INDEX refused_tokens ON chapar.device_tokens USING btree (device) WHERE (refusals IS NOT NULL);
CREATE INDEX results_changed ON ONLY chapar.results USING brin (changed);
CREATE INDEX results_d20781_changed_idx ON chapar.results_d20781 USING brin (changed);
CREATE INDEX results_d20782_changed_idx ON chapar.results_d20782 USING brin (changed);
CREATE INDEX results_d20783_changed_idx ON chapar.results_d20783 USING brin (changed);
CREATE INDEX token_kinds ON chapar.device_tokens USING btree (substr(slot, (strpos(slot, '/'::text) + 1)), device) WHERE (strpos(slot, '/'::text) > 0);
CREATE INDEX token_owners ON chapar.device_tokens USING btree (hash);
CREATE INDEX waiting_collapse ON chapar.waiting USING btree (collapse) WHERE (collapse IS NOT NULL);
CREATE INDEX waiting_due ON chapar.waiting USING btree (flow, due, id) WHERE (owner IS NULL);
CREATE INDEX waiting_expires ON chapar.waiting USING btree (expires) WHERE (owner IS NULL);
ALTER INDEX chapar.awaited_message ATTACH PARTITION chapar.awaited_d20781_message_token_idx;
ALTER INDEX chapar.awaited_message ATTACH PARTITION chapar.awaited_d20782_message_token_idx;
ALTER INDEX chapar.awaited_message ATTACH PARTITION chapar.awaited_d20783_message_token_idx;
ALTER INDEX chapar.events_new ATTACH PARTITION chapar.events_d20781_batch_idx;
ALTER INDEX chapar.events_first ATTACH PARTITION chapar.events_d20781_first_idx;
ALTER INDEX chapar.events_new ATTACH PARTITION chapar.events_d20782_batch_idx;
ALTER INDEX chapar.events_first ATTACH PARTITION chapar.events_d20782_first_idx;
ALTER INDEX chapar.events_new ATTACH PARTITION chapar.events_d20783_batch_idx;
ALTER INDEX chapar.events_first ATTACH PARTITION chapar.events_d20783_first_idx;
ALTER INDEX chapar.notifications_pkey ATTACH PARTITION chapar.notifications_d20781_pkey;
ALTER INDEX chapar.notifications_pkey ATTACH PARTITION chapar.notifications_d20782_pkey;
ALTER INDEX chapar.notifications_pkey ATTACH PARTITION chapar.notifications_d20783_pkey;
ALTER INDEX chapar.results_changed ATTACH PARTITION chapar.results_d20781_changed_idx;
ALTER INDEX chapar.results_pkey ATTACH PARTITION chapar.results_d20781_pkey;
ALTER INDEX chapar.results_changed ATTACH PARTITION chapar.results_d20782_changed_idx;
ALTER INDEX chapar.results_pkey ATTACH PARTITION chapar.results_d20782_pkey;
ALTER INDEX chapar.results_changed ATTACH PARTITION chapar.results_d20783_changed_idx;
ALTER INDEX chapar.results_pkey ATTACH PARTITION chapar.results_d20783_pkey;
