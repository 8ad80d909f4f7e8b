import ChaparCore
import ChaparQueue

/// A search for the devices that match a query, in steps that each read a bounded number of rows.
///
/// A user or a tag is found by an index; the other conditions are checked on each row.
struct DeviceScan: Sendable {
    /// The result of one step.
    struct Step: Sendable {
        var found: [(number: Int64, device: Device)] = []
        /// The number of the last row that was read: the next step begins after it.
        var last: Int64
        /// Whether no row is left.
        var isOver = false
    }

    private let query: DeviceQuery
    private let rowsPerStep: Int
    private let sql: String

    init(_ query: DeviceQuery, rowsPerStep: Int) {
        self.query = query
        self.rowsPerStep = rowsPerStep
        var fits: [String] = []
        if query.tag != nil, query.user != nil { fits.append("d.user IS ?4") }
        if query.platform != nil { fits.append(Self.runsPlatform) }
        switch query.app {
        case nil: break
        case .default?: fits.append("instr(d.id, '/') = 0")
        case _?: fits.append("substr(d.id, 1, length(?7)) = ?7")
        }
        if query.service != nil {
            fits.append("EXISTS (SELECT 1 FROM device_tokens k WHERE k.device = d.number AND k.service = ?6)")
        }
        let found = fits.isEmpty ? "1" : fits.joined(separator: " AND ")
        let rows =
            if query.tag != nil {
                "device_tags t CROSS JOIN devices d ON d.number = t.device WHERE t.tag = ?3 AND t.device > ?1 ORDER BY t.device"
            } else if query.user != nil {
                "devices d WHERE d.user = ?4 AND d.number > ?1 ORDER BY d.number"
            } else {
                "devices d WHERE d.number > ?1 ORDER BY d.number"
            }
        sql = "SELECT \(DeviceReader.columns), \(found) FROM \(rows) LIMIT ?2"
    }

    /// The condition for a platform, ``ChaparQueue/Device/effectivePlatform``: the given one, else the one that all
    /// tokens of known services share.
    private static let runsPlatform = """
        (d.platform = ?5 OR d.platform IS NULL AND ?5 = (SELECT CASE WHEN min(p) = max(p) THEN min(p) END FROM
        (SELECT substr(service, 1, instr(service, '-') - 1) AS p FROM device_tokens
        WHERE device = d.number AND substr(service, 1, instr(service || '/', '/') - 1) IN (\(knownServices)))))
        """
    private static let knownServices = TokenService.known.map { "'\($0.rawValue)'" }.joined(separator: ", ")

    /// Reads the next rows after a place; stops at the wanted number of devices.
    func step(
        _ connection: OpaquePointer,
        _ reader: DeviceReader,
        after position: Int64,
        wanted: Int
    ) throws(StoreError) -> Step {
        let rows = try SQLStatement(connection, sql)
        rows.bind(1, position)
        rows.bind(2, rowsPerStep)
        if let tag = query.tag { rows.bind(3, tag) }
        if let user = query.user { rows.bind(4, user) }
        if let platform = query.platform { rows.bind(5, platform) }
        if let service = query.service { rows.bind(6, service.rawValue) }
        if let app = query.app, app != .default { rows.bind(7, app.key("")) }
        var step = Step(last: position)
        var looked = 0
        while step.found.count < wanted {
            guard try rows.next() else {
                step.isOver = looked < rowsPerStep
                return step
            }
            looked += 1
            step.last = try rows.integer(0)
            if try rows.optional(DeviceReader.columnCount) ?? 0 != 0 {
                step.found.append(try reader.device(from: rows))
            }
        }
        rows.reset()
        return step
    }
}
