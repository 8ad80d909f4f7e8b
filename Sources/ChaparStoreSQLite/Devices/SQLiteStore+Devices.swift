public import Foundation
import GRDB
public import ChaparCore
public import ChaparQueue

/// The device registry: writes go through the writer's thread, in one commit with other commands that wait; reads use
/// connections of their own.
extension SQLiteStore: DeviceStore {
    /// Creates or replaces devices; refused when the disk is nearly full or more is being stored than it can follow.
    public func put(_ devices: [Device], outbox: Date?) async throws(StoreError) -> [DevicePut] {
        try await change(rows: 2 * devices.count, isNew: true, outbox: outbox) { (tables) throws(StoreError) in
            try tables.put(devices)
        }
    }

    /// Changes a device.
    public func patch(
        _ id: String,
        outbox: Date?,
        _ change: @escaping @Sendable (inout Device) -> Void
    ) async throws(StoreError) -> Device? {
        try await self.change(rows: 2, isNew: true, outbox: outbox) { (tables) throws(StoreError) in
            try tables.patch(id, change)
        }
    }

    /// Removes a device.
    public func delete(_ id: String, outbox: Date?) async throws(StoreError) -> Bool {
        try await change(rows: 2, outbox: outbox, mayRefuse: true) { (tables) throws(StoreError) in
            try tables.delete(id)
        }
    }

    /// Puts devices into the outbox as if they were new.
    public func backfill(_ ids: [String], to backend: String, at moment: Date) async throws(StoreError) -> Int {
        guard !ids.isEmpty else { return 0 }
        return try await work(rows: ids.count, isNew: true, refusal: Self.outboxRefusal) {
            (writer) throws(StoreError) in
            try writer.devices.introduce(ids, to: backend, at: moment)
        }
    }

    /// Records refusals of single backends.
    public func record(_ refusals: [TokenRefusal]) async throws(StoreError) -> [TokenRefusal] {
        guard !refusals.isEmpty else { return [] }
        return try await change(rows: refusals.count) { (tables) throws(StoreError) in try tables.refuse(refusals) }
    }

    /// Removes the refusals of single backends from up to `limit` tokens.
    public func forgetRefusals(limit: Int) async throws(StoreError) -> Int {
        try await change(rows: limit) { (tables) throws(StoreError) in try tables.forgetRefusals(limit: limit) }
    }

    /// Removes tokens from their devices.
    public func remove(_ tokens: [DeviceToken], in app: AppName) async throws(StoreError) {
        guard !tokens.isEmpty else { return }
        try await change(rows: tokens.count) { (tables) throws(StoreError) in try tables.remove(tokens, in: app) }
    }

    /// Marks refused tokens invalid.
    public func invalidate(_ refusals: [TokenRefusal], outbox: Date?) async throws(StoreError) -> [InvalidatedToken] {
        guard !refusals.isEmpty else { return [] }
        return try await change(rows: refusals.count, outbox: outbox) { (tables) throws(StoreError) in
            try tables.refuse(refusals, isQuarantined: false)
        }
    }

    /// Quarantines refused tokens.
    public func quarantine(_ refusals: [TokenRefusal]) async throws(StoreError) -> Int {
        guard !refusals.isEmpty else { return 0 }
        return try await change(rows: refusals.count) { (tables) throws(StoreError) in
            try tables.refuse(refusals, isQuarantined: true).count
        }
    }

    /// Quarantines tokens that a backend has marked invalid since a moment.
    public func quarantine(tombstonesOf backend: String, since moment: Date) async throws(StoreError) -> Int {
        let moment = moment.millisecondsSince1970
        return try await change(rows: 100) { (tables) throws(StoreError) in
            try tables.quarantine(tombstonesOf: backend, since: moment)
        }
    }

    /// Marks up to `limit` quarantined tokens of a backend invalid.
    public func invalidate(
        quarantinedOf backend: String,
        limit: Int,
        outbox: Date?
    ) async throws(StoreError) -> [InvalidatedToken] {
        try await change(rows: limit, outbox: outbox) { (tables) throws(StoreError) in
            try tables.invalidate(quarantinedOf: backend, limit: limit)
        }
    }

    /// Discards up to `limit` quarantined invalidations of a backend.
    public func discard(quarantinedOf backend: String, limit: Int) async throws(StoreError) -> Int {
        try await change(rows: limit) { (tables) throws(StoreError) in
            try tables.discard(quarantinedOf: backend, limit: limit)
        }
    }

    /// Returns the devices with these ids, one step of a statement for each.
    public func devices(_ ids: [String]) async throws(StoreError) -> [String: Device] {
        guard !ids.isEmpty else { return [:] }
        return try await readDevices { (_, reader) throws(StoreError) in
            var found: [String: Device] = [:]
            found.reserveCapacity(ids.count)
            for id in ids { if let (_, device) = try reader.device(id) { found[id] = device } }
            return found
        }
    }

    /// Returns the devices of these users.
    public func devices(ofUsers users: [String], limit: Int) async throws(StoreError) -> [Device] {
        try await readDevices { (connection, reader) throws(StoreError) in
            let rows = try SQLStatement(
                connection,
                "SELECT \(DeviceReader.columns) FROM devices d WHERE d.user = ?1 ORDER BY d.number LIMIT ?2"
            )
            var found: [Device] = []
            for user in users where found.count < limit {
                rows.bind(1, user)
                rows.bind(2, limit - found.count)
                while try rows.next() { found.append(try reader.device(from: rows).device) }
            }
            return found
        }
    }

    /// Returns the devices of an app that have a token of a kind.
    public func devices(
        withTokenOf kind: TokenKind,
        in app: AppName,
        limit: Int
    ) async throws(StoreError) -> [Device] {
        try await readDevices { (connection, reader) throws(StoreError) in
            let rows = try SQLStatement(
                connection,
                """
                SELECT \(DeviceReader.columns) FROM device_tokens INDEXED BY token_kinds CROSS JOIN devices d ON d.number = device
                WHERE instr(service, '/') > 0 AND substr(service, instr(service, '/') + 1) = ?1 ORDER BY device
                """
            )
            rows.bind(1, String(TokenSlot(TokenService(rawValue: ""), kind).description.dropFirst()))
            var found: [Device] = []
            while found.count < limit, try rows.next() {
                let device = try reader.device(from: rows).device
                if device.app == app, found.last?.id != device.id { found.append(device) }
            }
            rows.reset()
            return found
        }
    }

    /// Returns a page of the devices that match a query, in as many short reads as it takes.
    public func list(
        _ query: DeviceQuery,
        after cursor: DeviceCursor?,
        limit: Int
    ) async throws(StoreError) -> DevicePage {
        let search = DeviceScan(query, rowsPerStep: rowsPerScan)
        var page = DevicePage([])
        var position = cursor?.rawValue ?? 0
        var last: Int64 = 0
        while true {
            let (start, wanted) = (position, limit + 1 - page.devices.count)
            let step = try await scanDevices { (connection, reader) throws(StoreError) in
                try search.step(connection, reader, after: start, wanted: wanted)
            }
            for (number, device) in step.found {
                guard page.devices.count < limit else {
                    page.next = DeviceCursor(rawValue: last)
                    return page
                }
                page.devices.append(device)
                last = number
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
        try await readDevices { (connection, reader) throws(StoreError) in
            let rows = try SQLStatement(
                connection,
                """
                SELECT \(DeviceReader.columns) FROM device_tokens t CROSS JOIN devices d ON d.number = t.device
                WHERE t.hash = ?1 AND \(DeviceTables.isOfService) AND t.token = ?3
                """
            )
            rows.bind(1, TokenHash.of(token.service.rawValue, token.value))
            rows.bind(2, token.service.rawValue)
            rows.bind(3, token.value)
            while try rows.next() {
                let device = try reader.device(from: rows).device
                if device.app == app {
                    rows.reset()
                    return device
                }
            }
            return nil
        }
    }

    /// Counts the quarantined tokens of each backend, in short reads.
    public func quarantined() async throws(StoreError) -> [QuarantinedTokens] {
        var found: [QuarantinedTokens] = []
        var name = ""
        while let backend = try await backend(withTombstonesAfter: name) {
            name = backend
            var position: Int64? = 0
            while let start = position {
                let step = try await quarantinedStep(of: backend, after: start)
                position = step.next
                for (reason, invalidated) in step.tombstones {
                    if found.last?.backend != backend {
                        found.append(
                            QuarantinedTokens(
                                backend: backend,
                                count: 0,
                                reasons: [:],
                                oldest: invalidated,
                                newest: invalidated
                            )
                        )
                    }
                    let last = found.count - 1
                    found[last].count += 1
                    found[last].reasons[reason, default: 0] += 1
                    found[last].oldest = min(found[last].oldest, invalidated)
                    found[last].newest = max(found[last].newest, invalidated)
                }
            }
        }
        return found
    }

    /// Returns the first backend after another, by name, that has tombstones; nil when there is none.
    private func backend(withTombstonesAfter name: String) async throws(StoreError) -> String? {
        try await scanDevices { (connection, _) throws(StoreError) in
            let rows = try SQLStatement(
                connection,
                "SELECT min(backend) FROM device_tokens INDEXED BY tombstones WHERE backend > ?1"
            )
            rows.bind(1, name)
            defer { rows.reset() }
            return try rows.next() ? try rows.optionalText(0) : nil
        }
    }

    /// Returns some quarantined tokens of the devices after a place, and the place to continue at; those of one device
    /// are in one step.
    private func quarantinedStep(
        of backend: String,
        after position: Int64
    ) async throws(StoreError) -> (tombstones: [(reason: String, invalidated: Date)], next: Int64?) {
        let limit = rowsPerScan
        return try await scanDevices { (connection, _) throws(StoreError) in
            let rows = try SQLStatement(
                connection,
                """
                SELECT device, reason, invalidated FROM device_tokens INDEXED BY tombstones
                WHERE backend = ?1 AND held = 1 AND device > ?2 ORDER BY device
                """
            )
            rows.bind(1, backend)
            rows.bind(2, position)
            var found: [(String, Date)] = []
            var last = position
            while try rows.next() {
                let device = try rows.integer(0)
                if found.count >= limit, device != last {
                    rows.reset()
                    return (found, last)
                }
                found.append((try rows.text(1), try rows.date(2)))
                last = device
            }
            return (found, nil)
        }
    }

    /// Returns a page of the tokens that are quarantined for a backend.
    public func quarantined(
        of backend: String,
        after cursor: DeviceCursor?,
        limit: Int
    ) async throws(StoreError) -> (tokens: [InvalidatedToken], next: DeviceCursor?) {
        try await scanDevices { (connection, _) throws(StoreError) in
            let rows = try SQLStatement(
                connection,
                """
                SELECT \(DeviceReader.tokenColumns), device, d.id, d.user
                FROM device_tokens INDEXED BY tombstones CROSS JOIN devices d ON d.number = device
                WHERE backend = ?1 AND held = 1 AND device > ?2 ORDER BY device
                """
            )
            rows.bind(1, backend)
            rows.bind(2, cursor?.rawValue ?? 0)
            var found: [InvalidatedToken] = []
            var last: Int64 = 0
            while try rows.next() {
                let device = try rows.integer(DeviceReader.tokenColumnCount)
                if found.count >= limit, device != last {
                    rows.reset()
                    return (found, DeviceCursor(rawValue: last))
                }
                let token = try DeviceReader.token(from: rows)
                guard let tombstone = token.tombstone else { continue }
                found.append(
                    InvalidatedToken(
                        device: try rows.text(DeviceReader.tokenColumnCount + 1),
                        user: try rows.optionalText(DeviceReader.tokenColumnCount + 2),
                        token: token.token,
                        kind: token.kind,
                        tombstone: tombstone
                    )
                )
                last = device
            }
            return (found, nil)
        }
    }

    /// Passes a change to the writer.
    ///
    /// New data is refused when the disk is nearly full, or when too much waits to be written. New data, and a change
    /// with `mayRefuse`, is also refused when the outbox is full. With an `outbox` time the changes go into the outbox
    /// in the same commit.
    private func change<Value: Sendable>(
        rows: Int,
        isNew: Bool = false,
        outbox moment: Date? = nil,
        mayRefuse: Bool = false,
        _ body: @escaping @Sendable (DeviceTables) throws(StoreError) -> Value
    ) async throws(StoreError) -> Value {
        let refusal = moment != nil && (isNew || mayRefuse) ? Self.outboxRefusal : nil
        return try await work(rows: rows, isNew: isNew, refusal: refusal) { (writer) throws(StoreError) in
            try writer.devices.change(outbox: moment, body)
        }
    }

    /// Reads as one of a limited number of searches.
    private func scanDevices<Value: Sendable>(
        _ body: @escaping @Sendable (OpaquePointer, DeviceReader) throws(StoreError) -> Value
    ) async throws(StoreError) -> Value {
        try await scan { db in
            guard let connection = db.sqliteConnection else { throw StoreError.closed }
            return try body(connection, try DeviceReader(connection))
        }
    }

    private func readDevices<Value: Sendable>(
        _ body: @escaping @Sendable (OpaquePointer, DeviceReader) throws(StoreError) -> Value
    ) async throws(StoreError) -> Value {
        try await read { db in
            guard let connection = db.sqliteConnection else { throw StoreError.closed }
            return try body(connection, try DeviceReader(connection))
        }
    }
}
