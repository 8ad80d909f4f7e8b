internal import Foundation
public import ChaparCore
public import ChaparQueue

/// Reads of the registry, over a connection of their own: reads and changes do not wait for each other.
extension PostgresStore {
    /// Returns the devices with these ids.
    public func devices(_ ids: [String]) async throws(StoreError) -> [String: Device] {
        guard !ids.isEmpty else { return [:] }
        let found = try await session(on: registryReader) { (db) throws(PostgresError) in
            DeviceRows.read(try db.run(DeviceSelect.byID, [.texts(ids)]))
        }
        return Dictionary(found.map { ($0.device.id, $0.device) }) { first, _ in first }
    }

    /// Returns the devices of these users.
    public func devices(ofUsers users: [String], limit: Int) async throws(StoreError) -> [Device] {
        var seen: Set<ExactText> = []
        let names = users.filter { seen.insert(ExactText($0)).inserted }
        guard !names.isEmpty, limit > 0 else { return [] }
        return try await session(on: registryReader) { (db) throws(PostgresError) in
            DeviceRows.read(try db.run(DeviceSelect.ofUsers, [.texts(names), .integer(limit)])).map(\.device)
        }
    }

    /// Returns the devices of an app that have a token of a kind.
    public func devices(
        withTokenOf kind: TokenKind,
        in app: AppName,
        limit: Int
    ) async throws(StoreError) -> [Device] {
        guard limit > 0 else { return [] }
        let name = String(TokenSlot(TokenService(rawValue: ""), kind).description.dropFirst())
        let prefix = app == .default ? "" : app.key("")
        return try await session(on: registryReader) { (db) throws(PostgresError) in
            DeviceRows.read(
                try db.run(DeviceSelect.ofKind, [.text(name), .integer(limit), .text(prefix)])
            ).map(\.device)
        }
    }

    /// Returns a page of the devices that match a query, in as many short reads as it takes.
    public func list(
        _ query: DeviceQuery,
        after cursor: DeviceCursor?,
        limit: Int
    ) async throws(StoreError) -> DevicePage {
        let scan = DeviceScan(query, rowsPerStep: options.rowsPerScan)
        var page = DevicePage([])
        var position = cursor?.rawValue ?? 0
        var last: Int64 = 0
        while true {
            let (start, wanted) = (position, limit + 1 - page.devices.count)
            let step = try await session(on: registryReader) { (db) throws(PostgresError) in
                try scan.step(after: start, wanted: wanted, db)
            }
            for found in step.found {
                guard page.devices.count < limit else {
                    page.next = DeviceCursor(rawValue: last)
                    return page
                }
                page.devices.append(found.device)
                last = found.number
            }
            position = step.last
            if step.isOver { return page }
            if Task.isCancelled {
                page.next = DeviceCursor(rawValue: position)
                return page
            }
        }
    }

    /// Returns the device of an app that has a token.
    public func device(having token: DeviceToken, in app: AppName) async throws(StoreError) -> Device? {
        let found = try await session(on: registryReader) { (db) throws(PostgresError) in
            DeviceRows.read(try db.run(DeviceSelect.havingToken, [.integer(TokenHash.of(token)), .text(token.value)]))
        }
        return found.first { $0.device.app == app && $0.device.tokens.contains { $0.token == token } }?.device
    }

    // MARK: Quarantined tokens

    /// Counts the quarantined tokens of each backend, in short reads on the server.
    public func quarantined() async throws(StoreError) -> [QuarantinedTokens] {
        var found: [String: QuarantinedTokens] = [:]
        var place: QuarantineCount.Place? = QuarantineCount.Place()
        while let start = place {
            let count = try await session(on: registryReader) { (db) throws(PostgresError) in
                try QuarantineCount(after: start, rows: self.options.rowsPerScan * 10, db)
            }
            place = count.next
            for part in count.parts {
                guard var sum = found[part.backend] else {
                    found[part.backend] = part
                    continue
                }
                sum.count += part.count
                sum.reasons.merge(part.reasons) { $0 + $1 }
                sum.oldest = min(sum.oldest, part.oldest)
                sum.newest = max(sum.newest, part.newest)
                found[part.backend] = sum
            }
        }
        return found.values.sorted { $0.backend < $1.backend }
    }

    /// Returns a page of the tokens that are quarantined for a backend.
    public func quarantined(
        of backend: String,
        after cursor: DeviceCursor?,
        limit: Int
    ) async throws(StoreError) -> (tokens: [InvalidatedToken], next: DeviceCursor?) {
        try await session(on: registryReader) { (db) throws(PostgresError) in
            let rows = try db.run(
                """
                WITH page AS MATERIALIZED (
                    SELECT device FROM chapar.device_tokens WHERE held AND backend = $1 AND device > $2 ORDER BY device LIMIT $3
                )
                SELECT \(DeviceRows.tokenColumns), t.device, d.id, d.user_key, EXISTS (
                    SELECT FROM chapar.device_tokens m WHERE m.held AND m.backend = $1 AND m.device > (SELECT max(device) FROM page)
                )
                FROM chapar.device_tokens t JOIN chapar.devices d ON d.number = t.device
                WHERE t.held AND t.backend = $1 AND t.device > $2 AND t.device <= (SELECT max(device) FROM page)
                ORDER BY t.device, t.slot
                """,
                [.text(backend), .integer(cursor?.rawValue ?? 0), .integer(max(1, limit))]
            )
            let rest = DeviceRows.tokenColumnCount
            var found: [InvalidatedToken] = []
            var next: DeviceCursor?
            for row in 0..<rows.count {
                guard let token = DeviceRows.token(rows, row, from: 0), let tombstone = token.tombstone else {
                    continue
                }
                if rows.bool(row, rest + 3) { next = rows.integer(row, rest).map { DeviceCursor(rawValue: $0) } }
                found.append(
                    InvalidatedToken(
                        device: rows.text(row, rest + 1) ?? "",
                        user: rows.text(row, rest + 2),
                        token: token.token,
                        kind: token.kind,
                        tombstone: tombstone
                    )
                )
            }
            return (found, next)
        }
    }
}

/// The statements that read devices.
enum DeviceSelect {
    /// $1: the ids.
    static let byID = DeviceRows.select(from: "(SELECT * FROM chapar.devices WHERE id = ANY ($1)) d")

    /// $1: the users, in order, each once; $2: the most devices.
    static let ofUsers = DeviceRows.select(
        from: """
            (SELECT f.*, u.place FROM unnest($1::text[]) WITH ORDINALITY AS u(name, place) CROSS JOIN LATERAL (
                SELECT * FROM chapar.devices WHERE user_key = u.name ORDER BY number LIMIT $2
            ) f ORDER BY u.place, f.number LIMIT $2) d
            """,
        order: "d.place, d.number"
    )

    /// $1: the kind, as it stands in a slot; $2: the most devices; $3: the prefix of the app's ids, empty for the
    /// default app.
    static let ofKind = DeviceRows.select(
        from: """
            (SELECT f.* FROM (
                SELECT DISTINCT k.device FROM chapar.device_tokens k JOIN chapar.devices o ON o.number = k.device
                WHERE strpos(k.slot, '/') > 0 AND substr(k.slot, strpos(k.slot, '/') + 1) = $1
                AND CASE WHEN $3 = '' THEN strpos(o.id, '/') = 0 ELSE starts_with(o.id, $3) END
                ORDER BY k.device LIMIT $2
            ) k JOIN chapar.devices f ON f.number = k.device) d
            """
    )

    /// $1: the hash of the token, $2: the token.
    static let havingToken = DeviceRows.select(
        from: """
            (SELECT * FROM chapar.devices
            WHERE number IN (SELECT device FROM chapar.device_tokens WHERE hash = $1 AND token = $2)) d
            """
    )
}
