import Foundation
import PushCore
import PushQueue

/// Reads devices of one connection; used by one thread at a time.
///
/// One statement is run for each device: finding 500 devices that way costs less than building a statement for 500.
final class DeviceReader {
    /// The columns of ``device(from:)``, in order.
    static let columns =
        "d.number, d.id, d.user, d.platform, d.tags, d.locale, d.version, d.zone, d.created, d.updated, d.seen, d.attributes"
    /// How many these are.
    static let columnCount: Int32 = 12
    /// The columns of ``token(from:at:)``, in order.
    static let tokenColumns =
        "service, token, registered, as_of, invalidated, backend, reason, held, environment, refusals"
    /// How many these are.
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

    /// A device with its number in the order of registration; nil when there is none.
    func device(_ id: String) throws(StoreError) -> (number: Int64, device: Device)? {
        byID.bind(1, id)
        guard try byID.next() else { return nil }
        defer { byID.reset() }
        return try device(from: byID)
    }

    /// The device in the row at hand of a statement that selects ``columns``.
    func device(from row: SQLStatement) throws(StoreError) -> (number: Int64, device: Device) {
        let number = row.integer(0)
        var device = Device(
            id: row.text(1),
            user: row.optionalText(2),
            platform: row.optionalText(3),
            locale: row.optionalText(5),
            appVersion: row.optionalText(6),
            timeZone: row.optionalText(7),
            createdAt: Date(millisecondsSince1970: row.integer(8)),
            updatedAt: Date(millisecondsSince1970: row.integer(9)),
            lastSeen: row.optional(10).map { Date(millisecondsSince1970: $0) }
        )
        if let tags = row.optionalText(4) { device.tags = tags.split(separator: "\n").map(String.init) }
        if !row.isNull(11), case .object(let attributes)? = try? JSONValue(parsing: row.bytes(11)) {
            device.attributes = attributes
        }
        tokens.bind(1, number)
        while try tokens.next() { device.tokens.append(Self.token(from: tokens)) }
        return (number, device)
    }

    /// The token in the row at hand of a statement that selects ``tokenColumns`` from a column on.
    static func token(from row: SQLStatement, at column: Int32 = 0) -> RegisteredToken {
        let text = row.text(column)
        let slot = TokenSlot(text) ?? TokenSlot(TokenService(rawValue: text))
        return RegisteredToken(
            DeviceToken(row.text(column + 1), service: slot.service),
            kind: slot.kind,
            environment: row.optionalText(column + 8).flatMap(TokenEnvironment.init) ?? .unknown,
            registeredAt: Date(millisecondsSince1970: row.integer(column + 2)),
            tombstone: row.isNull(column + 3)
                ? nil
                : Tombstone(
                    asOf: Date(millisecondsSince1970: row.integer(column + 3)),
                    at: Date(millisecondsSince1970: row.integer(column + 4)),
                    backend: row.text(column + 5),
                    reason: row.text(column + 6),
                    isHeld: row.integer(column + 7) != 0
                ),
            refusals: row.isNull(column + 9) ? [] : BackendRefusal.list(stored: row.bytes(column + 9))
        )
    }
}

extension SQLStatement {
    /// A text; nil for null.
    func optionalText(_ column: Int32) -> String? { isNull(column) ? nil : text(column) }

    /// Binds a copy of a text, or null.
    func bind(_ index: Int32, _ text: String?) {
        if let text { bind(index, text) } else { bindNull(index) }
    }
}
