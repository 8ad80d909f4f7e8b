internal import ChaparCore
internal import ChaparQueue

/// Writes the labels of users and devices (`AudienceLabel`), and their counts, within a transaction.
///
/// Both a change of a device's user and a change of a user's labels write `device_labels`. They exclude each other by
/// the locks of users (``lock(_:exclusively:_:)``), which are taken after the rows of devices (``RegistryLocks``) and
/// before rows of labels. Counts are written last, in the order of their keys.
struct LabelWriter {
    /// A device whose user changes.
    struct Move: Sendable {
        var device: Int64
        var app: AppName
        /// The former user; nil for a new device, or one without a user.
        var old: String?
        /// The new user; nil without one, and for a device that is removed.
        var new: String?
        /// Whether the device is removed: then its own labels go, too.
        var isRemoved = false
    }

    private static let buckets: UInt64 = 256
    /// The number of rows that a label's count is divided into.
    private static let stripes = 8

    private var deltas = LabelDeltas()

    /// Adds to the count of a label.
    mutating func count(_ number: Int64, _ label: String, in app: AppName) { deltas.add(number, label, in: app) }

    /// Takes the locks of users until the end of the transaction.
    static func lock(
        _ users: some Sequence<String>,
        exclusively: Bool,
        _ db: isolated PostgresConnection
    ) throws(PostgresError) {
        let buckets = Set(users.map { StableHash.of($0) }.map { Int64(($0 ^ $0 >> 32) % Self.buckets) }).sorted()
        guard !buckets.isEmpty else { return }
        let function = exclusively ? "pg_advisory_xact_lock" : "pg_advisory_xact_lock_shared"
        try db.run(
            """
            SELECT \(function)((hashtextextended('chapar.user_labels', 0) & -256) | b) FROM unnest($1::bigint[]) AS b
            """,
            [.integers(buckets)]
        )
    }

    // MARK: Devices

    /// Takes former users' labels from devices, and gives them those of new users; all labels of removed devices go.
    mutating func move(_ moves: [Move], _ db: isolated PostgresConnection) throws(PostgresError) {
        guard !moves.isEmpty else { return }
        try Self.lock(moves.flatMap { [$0.old, $0.new].compactMap { $0 } }, exclusively: false, db)
        let apps = Dictionary(moves.map { ($0.device, $0.app) }) { first, _ in first }
        let removed = moves.filter(\.isRemoved).map(\.device)
        if !removed.isEmpty {
            let rows = try db.run(
                "DELETE FROM chapar.device_labels WHERE device = ANY ($1) RETURNING label, device",
                [.integers(removed)]
            )
            add(-1, rows, apps)
        }
        let former = moves.filter { !$0.isRemoved && $0.old != nil }.map(\.device)
        if !former.isEmpty {
            let rows = try db.run(
                """
                DELETE FROM chapar.device_labels WHERE device = ANY ($1) AND left(label, 1) = ANY ($2)
                RETURNING label, device
                """,
                [.integers(former), .texts(AudienceLabel.inherited.map { String($0) })]
            )
            add(-1, rows, apps)
        }
        let next = moves.compactMap { move in move.new.map { (device: move.device, user: $0) } }
        guard !next.isEmpty else { return }
        let rows = try db.run(
            """
            INSERT INTO chapar.device_labels (label, device)
            SELECT u.label, n.device FROM unnest($1::bigint[], $2::text[]) AS n(device, user_key)
            JOIN chapar.user_labels u ON u.user_key = n.user_key ON CONFLICT DO NOTHING RETURNING label, device
            """,
            [.integers(next.map(\.device)), .texts(next.map(\.user))]
        )
        add(1, rows, apps)
    }

    private mutating func add(_ number: Int64, _ rows: borrowing PostgresRows, _ apps: [Int64: AppName]) {
        for row in 0..<rows.count {
            guard let label = rows.text(row, 0), let app = rows.integer(row, 1).flatMap({ apps[$0] }) else { continue }
            count(number, label, in: app)
        }
    }

    // MARK: Changes of labels

    /// Changes labels; returns the subjects that exist.
    mutating func relabel(
        _ changes: [LabelChange],
        _ db: isolated PostgresConnection
    ) throws(PostgresError) -> Set<LabelChange.Subject> {
        let ids = changes.compactMap { if case .device(let id) = $0.subject { id } else { nil } }
        var known = try changeDevices(ids, changes, db)
        let users = changes.compactMap { if case .user(let user) = $0.subject { user } else { nil } }
        if !users.isEmpty {
            try Self.lock(users, exclusively: true, db)
            try changeUsers(changes, db)
            known.formUnion(users.map { .user($0) })
        }
        return known
    }

    private mutating func changeDevices(
        _ ids: [String],
        _ changes: [LabelChange],
        _ db: isolated PostgresConnection
    ) throws(PostgresError) -> Set<LabelChange.Subject> {
        guard !ids.isEmpty else { return [] }
        let rows = try db.run(
            "SELECT id, number FROM chapar.devices WHERE id = ANY ($1) ORDER BY number FOR UPDATE",
            [.texts(ids)]
        )
        var numbers: [String: Int64] = [:]
        for row in 0..<rows.count { if let id = rows.text(row, 0) { numbers[id] = rows.integer(row, 1) } }
        var apps: [Int64: AppName] = [:]
        var added: [(Int64, String)] = []
        var removed: [(Int64, String)] = []
        for change in changes {
            guard case .device(let id) = change.subject, let number = numbers[id] else { continue }
            apps[number] = AppName(ofDevice: id)
            added += change.added.map { (number, $0) }
            removed += change.removed.map { (number, $0) }
        }
        if !removed.isEmpty {
            let gone = try db.run(
                """
                DELETE FROM chapar.device_labels l USING unnest($1::bigint[], $2::text[]) AS r(device, label)
                WHERE l.label = r.label AND l.device = r.device RETURNING l.label, l.device
                """,
                [.integers(removed.map(\.0)), .texts(removed.map(\.1))]
            )
            add(-1, gone, apps)
        }
        if !added.isEmpty {
            let new = try db.run(
                """
                INSERT INTO chapar.device_labels (device, label) SELECT * FROM unnest($1::bigint[], $2::text[])
                ON CONFLICT DO NOTHING RETURNING label, device
                """,
                [.integers(added.map(\.0)), .texts(added.map(\.1))]
            )
            add(1, new, apps)
        }
        return Set(numbers.keys.map { .device($0) })
    }

    private mutating func changeUsers(
        _ changes: [LabelChange],
        _ db: isolated PostgresConnection
    ) throws(PostgresError) {
        var added: [(user: String, label: String)] = []
        var removed: [(user: String, label: String)] = []
        for change in changes {
            guard case .user(let user) = change.subject else { continue }
            added += change.added.map { (user, $0) }
            removed += change.removed.map { (user, $0) }
        }
        if !removed.isEmpty {
            let gone = try db.run(
                """
                WITH r AS (SELECT * FROM unnest($1::text[], $2::text[]) AS r(user_key, label)),
                gone AS (
                    DELETE FROM chapar.user_labels u USING r WHERE u.user_key = r.user_key AND u.label = r.label
                ), lost AS (
                    DELETE FROM chapar.device_labels l USING r JOIN chapar.devices d ON d.user_key = r.user_key
                    WHERE l.label = r.label AND l.device = d.number RETURNING l.label, d.user_key
                ) SELECT label, user_key, count(*) FROM lost GROUP BY label, user_key
                """,
                [.texts(removed.map(\.user)), .texts(removed.map(\.label))]
            )
            add(-1, ofUsers: gone)
        }
        if !added.isEmpty {
            let new = try db.run(
                """
                WITH r AS (SELECT * FROM unnest($1::text[], $2::text[]) AS r(user_key, label)),
                kept AS (INSERT INTO chapar.user_labels (user_key, label) SELECT * FROM r ON CONFLICT DO NOTHING),
                got AS (
                    INSERT INTO chapar.device_labels (label, device)
                    SELECT r.label, d.number FROM r JOIN chapar.devices d ON d.user_key = r.user_key
                    ON CONFLICT DO NOTHING RETURNING label, device
                ) SELECT g.label, d.user_key, count(*) FROM got g JOIN chapar.devices d ON d.number = g.device
                GROUP BY g.label, d.user_key
                """,
                [.texts(added.map(\.user)), .texts(added.map(\.label))]
            )
            add(1, ofUsers: new)
        }
    }

    private mutating func add(_ sign: Int64, ofUsers rows: borrowing PostgresRows) {
        for row in 0..<rows.count {
            guard let label = rows.text(row, 0), let user = rows.text(row, 1), let number = rows.integer(row, 2) else {
                continue
            }
            count(sign.multiplied(clamping: number), label, in: AppName(ofUser: user))
        }
    }

    // MARK: Counts

    /// Writes the counts: the last statements of a transaction.
    func writeCounts(_ db: isolated PostgresConnection) throws(PostgresError) {
        let changes = deltas.sorted
        guard !changes.isEmpty else { return }
        let stripe = "pg_backend_pid() % \(Self.stripes)"
        let (apps, labels) = (changes.map(\.app.rawValue), changes.map(\.label))
        try db.run(
            """
            INSERT INTO chapar.label_counts AS c (app, label, stripe, devices)
            SELECT app, label, \(stripe), number FROM unnest($1::text[], $2::text[], $3::bigint[])
            WITH ORDINALITY AS n(app, label, number, place) ORDER BY place
            ON CONFLICT (app, label, stripe) DO UPDATE SET devices = c.devices + excluded.devices
            """,
            [.texts(apps), .texts(labels), .integers(changes.map(\.number))]
        )
        guard changes.contains(where: { $0.number < 0 }) else { return }
        try db.run(
            """
            DELETE FROM chapar.label_counts WHERE ctid = ANY (ARRAY(
                SELECT c.place FROM unnest($1::text[], $2::text[]) AS n(app, label) CROSS JOIN LATERAL (
                    SELECT ctid AS place FROM chapar.label_counts
                    WHERE app = n.app AND label = n.label AND stripe = \(stripe) AND devices = 0 LIMIT 1
                ) AS c))
            """,
            [.texts(apps), .texts(labels)]
        )
    }
}
