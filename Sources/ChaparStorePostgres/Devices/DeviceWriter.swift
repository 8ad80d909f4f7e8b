internal import ChaparCore
internal import ChaparQueue

/// Writes the changes of a ``DeviceBatch``: one statement for each kind of change, however many devices there are.
struct DeviceWriter {
    private var inserted: [Device] = []
    private var updated: [(number: Int64, device: Device)] = []
    private var deleted: [Int64] = []
    private var removedTokens: [(device: Int64, slot: TokenSlot)] = []
    private var savedTokens: [(device: Int64, token: RegisteredToken)] = []
    private var removedTags: [(device: Int64, tag: String)] = []
    private var addedTags: [(device: Int64, tag: String)] = []
    private var moves: [LabelWriter.Move] = []
    private var labels = LabelWriter()

    /// Writes changes, within the transaction that has locked their devices.
    static func write(_ changes: [DeviceBatch.Change], _ db: isolated PostgresConnection) throws(PostgresError) {
        var writer = DeviceWriter()
        for change in changes { writer.add(change) }
        try writer.write(db)
    }

    private mutating func add(_ change: DeviceBatch.Change) {
        guard let number = change.number, let old = change.old else {
            if let new = change.new { inserted.append(new) }
            return
        }
        guard let new = change.new else {
            deleted.append(number)
            removedTags += old.tags.map { (number, $0) }
            for tag in old.tags { labels.count(-1, AudienceLabel.tag(tag), in: old.app) }
            moves.append(LabelWriter.Move(device: number, app: old.app, old: old.user, isRemoved: true))
            return
        }
        var same = old
        same.tokens = new.tokens
        if same != new { updated.append((number, new)) }
        for token in old.tokens where !new.tokens.contains(where: { $0.slot == token.slot }) {
            removedTokens.append((number, token.slot))
        }
        savedTokens += new.tokens.filter { !old.tokens.contains($0) }.map { (number, $0) }
        if old.user.map(ExactText.init) != new.user.map(ExactText.init) {
            moves.append(LabelWriter.Move(device: number, app: new.app, old: old.user, new: new.user))
        }
        if old.tags != new.tags {
            for tag in old.tags where !new.tags.contains(tag) { labels.count(-1, AudienceLabel.tag(tag), in: new.app) }
            for tag in new.tags where !old.tags.contains(tag) { labels.count(1, AudienceLabel.tag(tag), in: new.app) }
            removedTags += old.tags.filter { !new.tags.contains($0) }.map { (number, $0) }
            addedTags += new.tags.filter { !old.tags.contains($0) }.map { (number, $0) }
        }
    }

    private mutating func write(_ db: isolated PostgresConnection) throws(PostgresError) {
        // Deletions come first: a deleted device may have been registered again, as a new one.
        if !deleted.isEmpty {
            try db.run("DELETE FROM chapar.device_tokens WHERE device = ANY ($1)", [.integers(deleted)])
            try db.run("DELETE FROM chapar.devices WHERE number = ANY ($1)", [.integers(deleted)])
        }
        if !inserted.isEmpty { try insert(db) }
        if !updated.isEmpty { try update(db) }
        if !removedTokens.isEmpty {
            try db.run(
                """
                DELETE FROM chapar.device_tokens t USING unnest($1::bigint[], $2::text[]) AS r(device, slot)
                WHERE t.device BETWEEN r.device AND r.device AND t.slot BETWEEN r.slot AND r.slot
                """,
                [.integers(removedTokens.map(\.device)), .texts(removedTokens.map(\.slot.description))]
            )
        }
        if !savedTokens.isEmpty { try saveTokens(db) }
        if !removedTags.isEmpty {
            try db.run(
                """
                DELETE FROM chapar.device_tags WHERE ctid = ANY (ARRAY(
                    SELECT t.place FROM unnest($1::bigint[], $2::text[]) AS r(device, tag) CROSS JOIN LATERAL (
                        SELECT ctid AS place FROM chapar.device_tags WHERE tag = r.tag AND device = r.device LIMIT 1
                    ) AS t
                ))
                """,
                [.integers(removedTags.map(\.device)), .texts(removedTags.map(\.tag))]
            )
        }
        if !addedTags.isEmpty {
            try db.run(
                """
                INSERT INTO chapar.device_tags (device, tag) SELECT * FROM unnest($1::bigint[], $2::text[])
                ON CONFLICT DO NOTHING
                """,
                [.integers(addedTags.map(\.device)), .texts(addedTags.map(\.tag))]
            )
        }
        try labels.move(moves, db)
        try labels.writeCounts(db)
    }

    /// The columns of devices after the first, as arrays from the second parameter on.
    private static let arrays = """
        $2::text[], $3::text[], $4::text[], $5::text[], $6::text[], $7::text[], $8::bigint[], $9::bigint[], $10::bigint[], $11::text[]
        """
    private static let columns =
        "user_key, platform, tags, locale, version, zone, created, updated, seen, attributes"

    private static func values(_ devices: [Device]) -> [PostgresValue] {
        [
            .texts(devices.map(\.user)), .texts(devices.map(\.platform)),
            .texts(devices.map(\.storedTags)),
            .texts(devices.map(\.locale)), .texts(devices.map(\.appVersion)), .texts(devices.map(\.timeZone)),
            .integers(devices.map(\.createdAt.millisecondsSince1970)),
            .integers(devices.map(\.updatedAt.millisecondsSince1970)),
            .integers(devices.map { $0.lastSeen?.millisecondsSince1970 }),
            .texts(devices.map { $0.attributes.isEmpty ? nil : JSONValue.object($0.attributes).text }),
        ]
    }

    private mutating func insert(_ db: isolated PostgresConnection) throws(PostgresError) {
        // Devices are inserted, and so numbered, in the order of the call.
        let rows = try db.run(
            """
            INSERT INTO chapar.devices (id, \(Self.columns))
            SELECT id, \(Self.columns) FROM unnest($1::text[], \(Self.arrays)) WITH ORDINALITY
            AS n(id, \(Self.columns), place) ORDER BY place RETURNING id, number
            """,
            [.texts(inserted.map(\.id))] + Self.values(inserted)
        )
        var numbers: [String: Int64] = [:]
        for row in 0..<rows.count { if let id = rows.text(row, 0) { numbers[id] = rows.integer(row, 1) } }
        for device in inserted {
            guard let number = numbers[device.id] else { continue }
            savedTokens += device.tokens.map { (number, $0) }
            addedTags += device.tags.map { (number, $0) }
            for tag in device.tags { labels.count(1, AudienceLabel.tag(tag), in: device.app) }
            if let user = device.user {
                moves.append(LabelWriter.Move(device: number, app: device.app, new: user))
            }
        }
    }

    private func update(_ db: isolated PostgresConnection) throws(PostgresError) {
        let assignments = Self.columns.split(separator: ", ").map { "\($0) = n.\($0)" }.joined(separator: ", ")
        try db.run(
            """
            UPDATE chapar.devices d SET \(assignments)
            FROM unnest($1::bigint[], \(Self.arrays)) AS n(number, \(Self.columns)) WHERE d.number BETWEEN n.number AND n.number
            """,
            [.integers(updated.map(\.number))] + Self.values(updated.map(\.device))
        )
    }

    private func saveTokens(_ db: isolated PostgresConnection) throws(PostgresError) {
        let tokens = savedTokens.map(\.token)
        let tombstones = tokens.map(\.tombstone)
        try db.run(
            """
            INSERT INTO chapar.device_tokens (device, slot, token, hash, registered, environment, refusals,
                as_of, invalidated, backend, reason, held)
            SELECT device, slot, token, hash, registered, environment, refusals, as_of, invalidated, backend, reason,
                CASE WHEN as_of IS NOT NULL THEN held END
            FROM unnest($1::bigint[], $2::text[], $3::text[], $4::bigint[], $5::bigint[], $6::text[], $7::text[],
                $8::bigint[], $9::bigint[], $10::text[], $11::text[], $12::bool[])
                AS n(device, slot, token, hash, registered, environment, refusals, as_of, invalidated, backend, reason, held)
            ON CONFLICT (device, slot) DO UPDATE SET (token, hash, registered, environment, refusals,
                as_of, invalidated, backend, reason, held) = ROW (excluded.token, excluded.hash, excluded.registered,
                excluded.environment, excluded.refusals, excluded.as_of, excluded.invalidated, excluded.backend,
                excluded.reason, excluded.held)
            """,
            [
                .integers(savedTokens.map(\.device)), .texts(tokens.map(\.slot.description)),
                .texts(tokens.map(\.token.value)), .integers(tokens.map { TokenHash.of($0.token) }),
                .integers(tokens.map(\.registeredAt.millisecondsSince1970)),
                .texts(tokens.map { $0.environment == .unknown ? nil : $0.environment.rawValue }),
                .texts(tokens.map { BackendRefusal.stored($0.refusals) }),
                .integers(tombstones.map { $0?.asOf.millisecondsSince1970 }),
                .integers(tombstones.map { $0?.at.millisecondsSince1970 }), .texts(tombstones.map { $0?.backend }),
                // A platform's own text may contain NUL, which PostgreSQL's texts cannot.
                .texts(tombstones.map { $0?.reason.replacing("\0", with: "") }),
                .bools(tombstones.map { $0?.isQuarantined ?? false }),
            ]
        )
    }
}
