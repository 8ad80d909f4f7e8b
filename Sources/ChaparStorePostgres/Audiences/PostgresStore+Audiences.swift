package import ChaparCore
package import ChaparQueue

/// The audiences: reads are short statements over the connection for reads of the registry, changes of labels are
/// transactions over the one for changes.
extension PostgresStore: AudienceStore {
    /// Returns the highest number of a device.
    package func lastDeviceNumber() async throws(StoreError) -> Int64 {
        try await session(on: registryReader) { (db) throws(PostgresError) in
            try db.run("SELECT coalesce(max(number), 0) FROM chapar.devices").integer(0, 0) ?? 0
        }
    }

    /// Chooses the sources by the counts of labels.
    package func plan(_ audience: Audience) async throws(StoreError) -> AudiencePlan {
        let labels = audience.rule.countedLabels(in: audience.app)
        guard !labels.isEmpty else { return AudiencePlan(audience, counts: [:]) }
        let counts = try await session(on: registryReader) { (db) throws(PostgresError) in
            let rows = try db.run(
                """
                SELECT label, sum(devices)::bigint FROM chapar.label_counts WHERE app = $1 AND label = ANY ($2)
                GROUP BY label
                """,
                [.text(audience.app.rawValue), .texts(labels)]
            )
            var counts: [String: Int64] = [:]
            for row in 0..<rows.count { if let label = rows.text(row, 0) { counts[label] = rows.integer(row, 1) } }
            return counts
        }
        return AudiencePlan(audience, counts: counts)
    }

    /// Evaluates the devices of a range of numbers, in one statement with one snapshot.
    package func window(
        _ plan: AudiencePlan,
        after start: Int64,
        through end: Int64,
        limit: Int
    ) async throws(StoreError) -> AudienceWindow {
        guard start < end else { return AudienceWindow(cursor: end) }
        let search = WindowSearch(plan)
        return try await session(on: registryReader) { (db) throws(PostgresError) in
            let candidates = try search.candidates(after: start, through: end, limit: limit, db)
            return plan.evaluate(candidates, limit: limit, through: end)
        }
    }

    /// Returns devices as audiences see them.
    package func subjects(_ ids: [String]) async throws(StoreError) -> [String: AudienceSubject] {
        guard !ids.isEmpty else { return [:] }
        let found = try await session(on: registryReader) { (db) throws(PostgresError) in
            WindowSearch.candidates(try db.run(WindowSearch.byID, [.texts(ids)])).subjects
        }
        return Dictionary(found.map { ($0.device.id, $0) }) { first, _ in first }
    }

    /// Returns the labels of a user.
    package func labels(ofUser user: String) async throws(StoreError) -> [String] {
        try await session(on: registryReader) { (db) throws(PostgresError) in
            let rows = try db.run(
                "SELECT label FROM chapar.user_labels WHERE user_key = $1 ORDER BY label",
                [.text(user)]
            )
            return (0..<rows.count).compactMap { rows.text($0, 0) }
        }
    }

    /// Changes labels in one commit.
    package func relabel(_ changes: [LabelChange]) async throws(StoreError) -> Set<LabelChange.Subject> {
        guard !changes.isEmpty else { return [] }
        return try await transaction(on: registry) { (db) throws(PostgresError) in
            var writer = LabelWriter()
            let known = try writer.relabel(changes, db)
            try writer.writeCounts(db)
            return known
        }
    }

    /// Returns subjects with a label.
    package func members(of label: String, after id: String?, limit: Int) async throws(StoreError) -> [String] {
        try await session(on: registryReader) { (db) throws(PostgresError) in
            let rows = try db.run(
                AudienceLabel.isOfDevice(label)
                    ? """
                    SELECT d.id FROM chapar.device_labels l JOIN chapar.devices d ON d.number = l.device
                    WHERE l.label = $1 AND d.id > $2 ORDER BY d.id LIMIT $3
                    """
                    : """
                    SELECT user_key FROM chapar.user_labels WHERE label = $1 AND user_key > $2 ORDER BY user_key LIMIT $3
                    """,
                [.text(label), .text(id ?? ""), .integer(limit)]
            )
            return (0..<rows.count).compactMap { rows.text($0, 0) }
        }
    }

    /// Returns the counts of an app's labels.
    package func labelCounts(
        in app: AppName,
        after label: String?,
        limit: Int
    ) async throws(StoreError) -> [LabelCount] {
        try await session(on: registryReader) { (db) throws(PostgresError) in
            let rows = try db.run(
                """
                SELECT label, sum(devices)::bigint FROM chapar.label_counts WHERE app = $1 AND label > $2
                GROUP BY label HAVING sum(devices) > 0 ORDER BY label LIMIT $3
                """,
                [.text(app.rawValue), .text(label ?? ""), .integer(limit)]
            )
            return (0..<rows.count).compactMap { row in
                rows.text(row, 0).map { LabelCount($0, devices: rows.integer(row, 1) ?? 0) }
            }
        }
    }
}

/// The statement that reads the candidates of a window.
///
/// Each source repeats the bounds. The server does not pass a lower bound from one side of a join to the other: without
/// the repetition a window would read the whole rest of each source.
struct WindowSearch: Sendable {
    /// The statement; $1 and $2: the bounds, $3: the most candidates.
    let sql: String
    private let values: [PostgresValue]

    init(_ plan: AudiencePlan) {
        var values: [PostgresValue] = []
        func bind(_ text: String) -> String {
            values.append(.text(text))
            return "$\(values.count + 3)"
        }
        let sources = plan.sources.map { sources in
            sources.map { source in
                switch source {
                case .tag(let tag):
                    "SELECT device FROM chapar.device_tags WHERE tag = \(bind(tag)) AND device > $1 AND device <= $2"
                case .label(let label):
                    "SELECT device FROM chapar.device_labels WHERE label = \(bind(label)) AND device > $1 AND device <= $2"
                }
            }
        }
        let candidates =
            sources.map { "SELECT device FROM (\($0.joined(separator: " UNION "))) u ORDER BY device LIMIT $3" }
            ?? "SELECT number AS device FROM chapar.devices WHERE number > $1 AND number <= $2 ORDER BY number LIMIT $3"
        sql = Self.select(candidates)
        self.values = values
    }

    /// The statement for devices by ids; $1: the ids.
    static let byID = select("SELECT number AS device FROM chapar.devices WHERE id = ANY ($1)")

    private static func select(_ candidates: String) -> String {
        """
        WITH c AS MATERIALIZED (\(candidates))
        SELECT \(DeviceRows.deviceColumns), \(DeviceRows.tokenColumns), s.read, s.last, l.labels
        FROM (SELECT count(*) AS read, max(device) AS last FROM c) s LEFT JOIN c ON true
        LEFT JOIN LATERAL (SELECT * FROM chapar.devices WHERE number = c.device OFFSET 0) d ON true
        LEFT JOIN LATERAL (
            SELECT string_agg(label, chr(10)) AS labels FROM chapar.device_labels
            WHERE device BETWEEN c.device AND c.device
        ) l ON true
        LEFT JOIN chapar.device_tokens t ON t.device BETWEEN d.number AND d.number ORDER BY d.number, t.slot
        """
    }

    func candidates(
        after start: Int64,
        through end: Int64,
        limit: Int,
        _ db: isolated PostgresConnection
    ) throws(PostgresError) -> AudienceCandidates {
        Self.candidates(try db.run(sql, [.integer(start), .integer(end), .integer(limit)] + values))
    }

    static func candidates(_ rows: borrowing PostgresRows) -> AudienceCandidates {
        let column = DeviceRows.deviceColumnCount + DeviceRows.tokenColumnCount
        var found = AudienceCandidates()
        var labels: [Int64: [String]] = [:]
        for row in 0..<rows.count {
            if row == 0 {
                found.read = Int(count: rows.integer(row, column) ?? 0)
                found.last = rows.integer(row, column + 1) ?? 0
            }
            guard let number = rows.integer(row, 0), labels[number] == nil else { continue }
            labels[number] = rows.text(row, column + 2)?.split(separator: "\n").map(String.init) ?? []
        }
        found.subjects = DeviceRows.read(rows).map { stored in
            AudienceSubject(number: stored.number, device: stored.device, labels: labels[stored.number] ?? [])
        }
        return found
    }
}
