internal import Foundation
internal import ChaparCore
internal import ChaparQueue

/// A search for the devices that match a query, in steps that each read a bounded number of rows.
///
/// A user or a tag is found by an index; the other conditions are checked on each row.
struct DeviceScan: Sendable {
    /// The result of one step.
    struct Step: Sendable {
        var found: [StoredDevice]
        /// The number of the last row that was read: the next step begins after it.
        var last: Int64
        /// Whether no row is left.
        var isOver: Bool
    }

    /// The statement of a step.
    let sql: String
    private let rowsPerStep: Int
    /// The query's values, whose parameters follow those of a step.
    private let values: [PostgresValue]

    init(_ query: DeviceQuery, rowsPerStep: Int) {
        self.rowsPerStep = rowsPerStep
        // $1: the number to begin after, $2: the rows to read, $3: the most devices.
        var values: [PostgresValue] = []
        func bind(_ value: PostgresValue) -> String {
            values.append(value)
            return "$\(values.count + 3)"
        }
        var rows = "SELECT number FROM chapar.devices WHERE number > $1 ORDER BY number LIMIT $2"
        var fits: [String] = []
        if let tag = query.tag {
            rows = """
                SELECT device AS number FROM chapar.device_tags WHERE tag = \(bind(.text(tag))) AND device > $1
                ORDER BY device LIMIT $2
                """
            if let user = query.user { fits.append("d.user_key = \(bind(.text(user)))") }
        } else if let user = query.user {
            rows = """
                SELECT number FROM chapar.devices WHERE user_key = \(bind(.text(user))) AND number > $1 ORDER BY number LIMIT $2
                """
        }
        switch query.app {
        case nil: break
        case .default?: fits.append("strpos(d.id, '/') = 0")
        case let app?: fits.append("starts_with(d.id, \(bind(.text(app.key("")))))")
        }
        if let platform = query.platform {
            // `Device.effectivePlatform` as a condition: the given platform, else the one that all tokens of known
            // services share.
            let name = bind(.text(platform))
            let known = bind(.texts(TokenService.known.map(\.rawValue)))
            fits.append(
                """
                (d.platform = \(name) OR d.platform IS NULL AND \(name) = (
                    SELECT CASE WHEN min(p) = max(p) THEN min(p) END
                    FROM (SELECT split_part(slot, '-', 1) AS p FROM chapar.device_tokens
                    WHERE device = d.number AND split_part(slot, '/', 1) = ANY (\(known))) s))
                """
            )
        }
        if let service = query.service {
            fits.append(
                """
                EXISTS (SELECT FROM chapar.device_tokens k
                WHERE k.device = d.number AND k.slot = \(bind(.text(service.rawValue))))
                """
            )
        }
        // `OFFSET 0` makes the server look up each row of the page: under any condition a step reads no other device.
        let condition = fits.isEmpty ? "" : "WHERE " + fits.joined(separator: " AND ")
        sql = """
            WITH page AS MATERIALIZED (\(rows)), fitting AS MATERIALIZED (
                SELECT d.* FROM page CROSS JOIN LATERAL (
                    SELECT * FROM chapar.devices WHERE number = page.number OFFSET 0
                ) d \(condition) ORDER BY d.number LIMIT $3
            )
            SELECT \(DeviceRows.deviceColumns), \(DeviceRows.tokenColumns), b.last, b.count
            FROM (SELECT max(number) AS last, count(*) AS count FROM page) b LEFT JOIN fitting d ON true
            LEFT JOIN chapar.device_tokens t ON t.device = d.number ORDER BY d.number, t.slot
            """
        self.values = values
    }

    /// Returns the parameters of ``sql``.
    func parameters(after position: Int64, wanted: Int) -> [PostgresValue] {
        [.integer(position), .integer(rowsPerStep), .integer(wanted)] + values
    }

    /// Reads the next rows after a place; stops at the wanted number of devices.
    func step(
        after position: Int64,
        wanted: Int,
        _ db: isolated PostgresConnection
    ) throws(PostgresError) -> Step {
        let rows = try db.run(sql, parameters(after: position, wanted: wanted))
        let found = DeviceRows.read(rows)
        if found.count >= wanted, let last = found.last {
            return Step(found: found, last: last.number, isOver: false)
        }
        let columns = DeviceRows.deviceColumnCount + DeviceRows.tokenColumnCount
        let count = rows.integer(0, columns + 1) ?? 0
        return Step(found: found, last: rows.integer(0, columns) ?? position, isOver: count < rowsPerStep)
    }
}

/// The counts of a part of the quarantined tokens.
struct QuarantineCount: Sendable {
    /// The end of a part: the token's place in the index.
    struct Place: Sendable {
        var backend = ""
        var device: Int64 = 0
        var slot = ""
    }

    /// One entry for each backend and reason.
    var parts: [QuarantinedTokens] = []
    /// The place after which the next part begins; nil after the last part.
    var next: Place?

    /// Counts up to `count` tokens after a place.
    init(after place: Place, rows count: Int, _ db: isolated PostgresConnection) throws(PostgresError) {
        let rows = try db.run(
            """
            WITH page AS MATERIALIZED (
                SELECT backend, device, slot, reason, invalidated FROM chapar.device_tokens
                WHERE held AND (backend, device, slot) > ($1, $2, $3) ORDER BY backend, device, slot LIMIT $4
            )
            SELECT backend, reason, count(*), min(invalidated), max(invalidated), (SELECT count(*) FROM page),
                (SELECT slot FROM page ORDER BY backend DESC, device DESC, slot DESC LIMIT 1),
                (SELECT max(device) FROM page WHERE backend = (SELECT max(backend) FROM page))
            FROM page GROUP BY backend, reason ORDER BY backend
            """,
            [.text(place.backend), .integer(place.device), .text(place.slot), .integer(count)]
        )
        for row in 0..<rows.count {
            let number = Int(count: rows.integer(row, 2) ?? 0)
            parts.append(
                QuarantinedTokens(
                    backend: rows.text(row, 0) ?? "",
                    count: number,
                    reasons: [rows.text(row, 1) ?? "": number],
                    oldest: Date(millisecondsSince1970: rows.integer(row, 3) ?? 0),
                    newest: Date(millisecondsSince1970: rows.integer(row, 4) ?? 0)
                )
            )
        }
        guard let last = parts.last, let total = rows.integer(0, 5), total >= count else { return }
        next = Place(backend: last.backend, device: rows.integer(0, 7) ?? 0, slot: rows.text(0, 6) ?? "")
    }
}
