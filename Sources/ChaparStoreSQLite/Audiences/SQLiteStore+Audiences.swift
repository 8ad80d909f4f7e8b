package import ChaparCore
package import ChaparQueue
import GRDB

/// The audiences: reads use connections of their own, changes of labels go through the writer's thread.
extension SQLiteStore: AudienceStore {
    /// Returns the highest number of a device.
    package func lastDeviceNumber() async throws(StoreError) -> Int64 {
        try await readLabels { (connection) throws(StoreError) in
            let rows = try SQLStatement(connection, "SELECT coalesce(max(number), 0) FROM devices")
            defer { rows.reset() }
            return try rows.next() ? try rows.integer(0) : 0
        }
    }

    /// Chooses the sources by the counts of labels.
    package func plan(_ audience: Audience) async throws(StoreError) -> AudiencePlan {
        let labels = audience.rule.countedLabels(in: audience.app)
        guard !labels.isEmpty else { return AudiencePlan(audience, counts: [:]) }
        return try await readLabels { (connection) throws(StoreError) in
            let rows = try SQLStatement(connection, "SELECT devices FROM label_counts WHERE app = ?1 AND label = ?2")
            rows.bind(1, audience.app.rawValue)
            var counts: [String: Int64] = [:]
            for label in labels {
                rows.bind(2, label)
                if try rows.next() { counts[label] = try rows.integer(0) }
                rows.reset()
            }
            return AudiencePlan(audience, counts: counts)
        }
    }

    /// Evaluates the devices of a range of numbers, in one snapshot.
    package func window(
        _ plan: AudiencePlan,
        after start: Int64,
        through end: Int64,
        limit: Int
    ) async throws(StoreError) -> AudienceWindow {
        guard start < end else { return AudienceWindow(cursor: end) }
        let search = WindowSearch(plan)
        let mark = core.subjects.mark
        let window = try await scan { db in
            guard let connection = db.sqliteConnection else { throw StoreError.closed }
            let candidates = try search.candidates(connection, after: start, through: end, limit: limit)
            return plan.evaluate(candidates, limit: limit, through: end)
        }
        if plan.isForSends { core.subjects.keep(window.devices, readAfter: mark) }
        return window
    }

    /// Returns devices as audiences see them: from memory those that a window has read and that have not changed since.
    package func subjects(_ ids: [String]) async throws(StoreError) -> [String: AudienceSubject] {
        let known = core.subjects.take(ids)
        let missing = known.isEmpty ? ids : ids.filter { known[$0] == nil }
        guard !missing.isEmpty else { return known }
        return try await readLabels { (connection) throws(StoreError) in
            let reader = try SubjectReader(connection)
            var found = known
            for id in missing { if let subject = try reader.subject(id) { found[id] = subject } }
            return found
        }
    }

    /// Returns the labels of a user.
    package func labels(ofUser user: String) async throws(StoreError) -> [String] {
        try await readLabels { (connection) throws(StoreError) in
            let rows = try SQLStatement(connection, "SELECT label FROM user_labels WHERE user = ?1 ORDER BY label")
            rows.bind(1, user)
            var found: [String] = []
            while try rows.next() { found.append(try rows.text(0)) }
            return found
        }
    }

    /// Changes labels in one commit.
    package func relabel(_ changes: [LabelChange]) async throws(StoreError) -> Set<LabelChange.Subject> {
        guard !changes.isEmpty else { return [] }
        let isNew = changes.contains { !$0.added.isEmpty }
        return try await work(rows: 2 * changes.count, isNew: isNew) { (writer) throws(StoreError) in
            try writer.devices.change(outbox: nil) { (tables) throws(StoreError) in
                try tables.labels.relabel(changes)
            }
        }
    }

    /// Returns subjects with a label.
    package func members(of label: String, after id: String?, limit: Int) async throws(StoreError) -> [String] {
        try await readLabels { (connection) throws(StoreError) in
            // Sorted by id, though the index has a label's devices in the order of numbers: a page begins after an id,
            // and the number of a device that is gone is not known.
            let rows = try SQLStatement(
                connection,
                AudienceLabel.isOfDevice(label)
                    ? """
                    SELECT d.id FROM device_labels l CROSS JOIN devices d ON d.number = l.device
                    WHERE l.label = ?1 AND d.id > ?2 ORDER BY d.id LIMIT ?3
                    """ : "SELECT user FROM user_labels WHERE label = ?1 AND user > ?2 ORDER BY user LIMIT ?3"
            )
            rows.bind(1, label)
            rows.bind(2, id ?? "")
            rows.bind(3, limit)
            var found: [String] = []
            while try rows.next() { found.append(try rows.text(0)) }
            return found
        }
    }

    /// Returns the counts of an app's labels.
    package func labelCounts(
        in app: AppName,
        after label: String?,
        limit: Int
    ) async throws(StoreError) -> [LabelCount] {
        try await readLabels { (connection) throws(StoreError) in
            let rows = try SQLStatement(
                connection,
                """
                SELECT label, devices FROM label_counts
                WHERE app = ?1 AND label > ?2 AND devices > 0 ORDER BY label LIMIT ?3
                """
            )
            rows.bind(1, app.rawValue)
            rows.bind(2, label ?? "")
            rows.bind(3, limit)
            var found: [LabelCount] = []
            while try rows.next() { found.append(LabelCount(try rows.text(0), devices: try rows.integer(1))) }
            return found
        }
    }

    private func readLabels<Value: Sendable>(
        _ body: @escaping @Sendable (OpaquePointer) throws(StoreError) -> Value
    ) async throws(StoreError) -> Value {
        try await read { db in
            guard let connection = db.sqliteConnection else { throw StoreError.closed }
            return try body(connection)
        }
    }
}

/// Reads devices with their labels; used by one thread at a time.
private struct SubjectReader {
    private let reader: DeviceReader
    private let labels: SQLStatement

    init(_ connection: OpaquePointer) throws(StoreError) {
        reader = try DeviceReader(connection)
        labels = try SQLStatement(connection, "SELECT label FROM device_labels WHERE device = ?1")
    }

    func subject(_ id: String) throws(StoreError) -> AudienceSubject? {
        guard let (number, device) = try reader.device(id) else { return nil }
        return try subject(number, device)
    }

    /// Returns the subject in the current row of a statement that selects ``DeviceReader/columns``.
    func subject(from row: SQLStatement) throws(StoreError) -> AudienceSubject {
        let (number, device) = try reader.device(from: row)
        return try subject(number, device)
    }

    private func subject(_ number: Int64, _ device: Device) throws(StoreError) -> AudienceSubject {
        labels.bind(1, number)
        var found: [String] = []
        while try labels.next() { found.append(try labels.text(0)) }
        return AudienceSubject(number: number, device: device, labels: found)
    }
}

/// The statement that reads the candidates of a window.
///
/// Each source has the bounds of the window, so that it is a range of its index. Sources of one range each are merged
/// in the order of numbers without a temporary table.
private struct WindowSearch: Sendable {
    private let sql: String
    private let values: [String]

    init(_ plan: AudiencePlan) {
        var values: [String] = []
        let bounds = "device > ?1 AND device <= ?2"
        let sources = plan.sources.map { sources in
            sources.map { source in
                switch source {
                case .tag(let tag):
                    values.append(tag)
                    return "SELECT device FROM device_tags WHERE tag = ?\(values.count + 3) AND \(bounds)"
                case .label(let label):
                    values.append(label)
                    return "SELECT device FROM device_labels WHERE label = ?\(values.count + 3) AND \(bounds)"
                }
            }
        }
        if let sources {
            sql = """
                SELECT \(DeviceReader.columns), c.device FROM (
                    \(sources.joined(separator: " UNION ")) ORDER BY device LIMIT ?3
                ) c LEFT JOIN devices d ON d.number = c.device
                """
        } else {
            sql = """
                SELECT \(DeviceReader.columns), d.number FROM devices d WHERE d.number > ?1 AND d.number <= ?2 ORDER BY d.number LIMIT ?3
                """
        }
        self.values = values
    }

    func candidates(
        _ connection: OpaquePointer,
        after start: Int64,
        through end: Int64,
        limit: Int
    ) throws(StoreError) -> AudienceCandidates {
        let rows = try SQLStatement(connection, sql)
        let reader = try SubjectReader(connection)
        rows.bind(1, start)
        rows.bind(2, end)
        rows.bind(3, limit)
        for (place, value) in values.enumerated() { rows.bind(Int32(clamping: place + 4), value) }
        var found = AudienceCandidates()
        while try rows.next() {
            found.read += 1
            found.last = try rows.integer(DeviceReader.columnCount)
            if !rows.isNull(0) { found.subjects.append(try reader.subject(from: rows)) }
        }
        return found
    }
}
