import Foundation
import ChaparCore
import ChaparQueue

/// Reads devices of one connection; used by one thread at a time.
///
/// One statement is run for each device: finding 500 devices that way costs less than building a statement for 500.
final class DeviceReader {
    /// The columns of ``device(from:)``, in order.
    static let columns =
        "d.number, d.id, d.user, d.platform, d.tags, d.locale, d.version, d.zone, d.created, d.updated, d.seen, d.attributes"
    /// The number of ``columns``.
    static let columnCount: Int32 = 12
    /// The columns of ``token(from:at:)``, in order.
    static let tokenColumns =
        "service, token, registered, as_of, invalidated, backend, reason, held, environment, refusals"
    /// The number of ``tokenColumns``.
    static let tokenColumnCount: Int32 = 10

    private let byID: SQLStatement
    private let tokens: SQLStatement

    init(_ connection: OpaquePointer) throws(StoreError) {
        byID = try SQLStatement(connection, "SELECT \(Self.columns) FROM devices d WHERE d.id = ?1")
        tokens = try SQLStatement(
            connection,
            "SELECT \(Self.tokenColumns) FROM device_tokens WHERE device = ?1 ORDER BY service"
        )
    }

    /// Returns a device with its number in the order of registration; nil when there is none.
    func device(_ id: String) throws(StoreError) -> (number: Int64, device: Device)? {
        byID.bind(1, id)
        guard try byID.next() else { return nil }
        defer { byID.reset() }
        return try device(from: byID)
    }

    /// Returns the device in the current row of a statement that selects ``columns``.
    func device(from row: SQLStatement) throws(StoreError) -> (number: Int64, device: Device) {
        let number = try row.integer(0)
        var device = Device(
            id: try row.text(1),
            user: try row.optionalText(2),
            platform: try row.optionalText(3),
            locale: try row.optionalText(5),
            appVersion: try row.optionalText(6),
            timeZone: try row.optionalText(7),
            createdAt: try row.date(8),
            updatedAt: try row.date(9),
            lastSeen: try row.optionalDate(10)
        )
        if let tags = try row.optionalText(4) { device.tags = Device.tags(stored: tags) }
        if !row.isNull(11) {
            guard case .object(let attributes)? = try? JSONValue(parsing: try row.bytes(11)) else {
                throw row.damage(11, "a JSON object")
            }
            device.attributes = attributes
        }
        tokens.bind(1, number)
        while try tokens.next() { device.tokens.append(try Self.token(from: tokens)) }
        return (number, device)
    }

    /// Returns the token in the current row of a statement that selects ``tokenColumns`` from a column on.
    static func token(from row: SQLStatement, at column: Int32 = 0) throws(StoreError) -> RegisteredToken {
        let text = try row.text(column)
        let slot = TokenSlot(text) ?? TokenSlot(TokenService(rawValue: text))
        return RegisteredToken(
            DeviceToken(try row.text(column + 1), service: slot.service),
            kind: slot.kind,
            environment: try row.optionalText(column + 8).flatMap(TokenEnvironment.init) ?? .unknown,
            registeredAt: try row.date(column + 2),
            tombstone: row.isNull(column + 3)
                ? nil
                : Tombstone(
                    asOf: try row.date(column + 3),
                    at: try row.date(column + 4),
                    backend: try row.text(column + 5),
                    reason: try row.text(column + 6),
                    isQuarantined: try row.integer(column + 7) != 0
                ),
            refusals: row.isNull(column + 9) ? [] : BackendRefusal.list(stored: try row.bytes(column + 9))
        )
    }
}

extension SQLStatement {
    /// Binds a copy of a text, or null.
    func bind(_ index: Int32, _ text: String?) {
        if let text { bind(index, text) } else { bindNull(index) }
    }
}
