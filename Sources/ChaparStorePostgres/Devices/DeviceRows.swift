internal import Foundation
internal import ChaparCore
internal import ChaparQueue

/// A device with its number in the order of registration.
struct StoredDevice: Sendable {
    var number: Int64
    var device: Device
}

/// Reads devices from rows: one row for each token of a device, so that one statement, with one snapshot, returns whole
/// devices.
enum DeviceRows {
    /// The first columns that ``read(_:)`` expects, of a table `d` with the columns of `devices`.
    static let deviceColumns = """
        d.number, d.id, d.user_key, d.platform, d.tags, d.locale, d.version, d.zone, d.created, d.updated, d.seen, d.attributes
        """
    /// The number of ``deviceColumns``.
    static let deviceColumnCount = 12
    /// The columns that ``token(_:_:from:)`` expects, of a table `t`.
    static let tokenColumns = """
        t.slot, t.token, t.registered, t.as_of, t.invalidated, t.backend, t.reason, t.held, t.environment, t.refusals
        """
    /// The number of ``tokenColumns``.
    static let tokenColumnCount = 10

    /// Returns a statement that selects the devices of a table `d`, in an order.
    static func select(from devices: String, order: String = "d.number + 0") -> String {
        """
        SELECT \(deviceColumns), \(tokenColumns) FROM \(devices)
        LEFT JOIN chapar.device_tokens t ON t.device BETWEEN d.number AND d.number ORDER BY \(order), t.slot
        """
    }

    /// Reads the devices of rows with ``deviceColumns`` and ``tokenColumns``; skips rows without a device.
    static func read(_ rows: borrowing PostgresRows) -> [StoredDevice] {
        var found: [StoredDevice] = []
        for row in 0..<rows.count {
            guard let number = rows.integer(row, 0) else { continue }
            if found.last?.number != number {
                found.append(StoredDevice(number: number, device: device(rows, row)))
            }
            if let token = token(rows, row, from: deviceColumnCount) {
                found[found.count - 1].device.tokens.append(token)
            }
        }
        return found
    }

    private static func device(_ rows: borrowing PostgresRows, _ row: Int) -> Device {
        var device = Device(
            id: rows.text(row, 1) ?? "",
            user: rows.text(row, 2),
            platform: rows.text(row, 3),
            locale: rows.text(row, 5),
            appVersion: rows.text(row, 6),
            timeZone: rows.text(row, 7),
            createdAt: Date(millisecondsSince1970: rows.integer(row, 8) ?? 0),
            updatedAt: Date(millisecondsSince1970: rows.integer(row, 9) ?? 0),
            lastSeen: rows.integer(row, 10).map { Date(millisecondsSince1970: $0) }
        )
        if let tags = rows.text(row, 4) { device.tags = Device.tags(stored: tags) }
        if let bytes = rows.bytes(row, 11), case .object(let attributes)? = try? JSONValue(parsing: bytes) {
            device.attributes = attributes
        }
        return device
    }

    /// Reads the token in a row, from a column on; nil when there is none.
    static func token(_ rows: borrowing PostgresRows, _ row: Int, from column: Int) -> RegisteredToken? {
        guard let text = rows.text(row, column) else { return nil }
        func date(_ offset: Int, _ rows: borrowing PostgresRows) -> Date? {
            rows.integer(row, column + offset).map { Date(millisecondsSince1970: $0) }
        }
        let slot = TokenSlot(text) ?? TokenSlot(TokenService(rawValue: text))
        var token = RegisteredToken(
            DeviceToken(rows.text(row, column + 1) ?? "", service: slot.service),
            kind: slot.kind,
            environment: rows.text(row, column + 8).flatMap(TokenEnvironment.init) ?? .unknown,
            registeredAt: date(2, rows) ?? .distantPast
        )
        if let refusals = rows.bytes(row, column + 9) { token.refusals = BackendRefusal.list(stored: refusals) }
        if let asOf = date(3, rows), let at = date(4, rows) {
            token.tombstone = Tombstone(
                asOf: asOf,
                at: at,
                backend: rows.text(row, column + 5) ?? "",
                reason: rows.text(row, column + 6) ?? "",
                isQuarantined: rows.bool(row, column + 7)
            )
        }
        return token
    }
}
