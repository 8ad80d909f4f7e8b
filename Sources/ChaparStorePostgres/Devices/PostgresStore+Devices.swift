public import Foundation
public import ChaparCore
public import ChaparQueue

/// The device registry: changes share transactions (``DeviceChangeGroups``), under the locks of ``RegistryLocks``.
extension PostgresStore: DeviceStore {
    /// The most attempts at a change that other nodes keep making first.
    private static let mostAttempts = 100

    /// Creates or replaces devices.
    public func put(_ devices: [Device], outbox: Date?) async throws(StoreError) -> [DevicePut] {
        guard !devices.isEmpty else { return [] }
        let results = try await change(
            devices.map(\.id),
            having: devices.flatMap { $0.tokens.map(\.token) },
            outbox: outbox,
            mayRefuse: true
        ) { $0.put(devices) }
        if registryGrowth.add(results.count(where: \.isNew)) { await gatherStatistics() }
        return results
    }

    /// Changes a device; `change` may be called more than once.
    ///
    /// The device's new tokens are known only after `change` has run: if there are any, it runs once more under their
    /// locks.
    public func patch(
        _ id: String,
        outbox: Date?,
        _ change: @escaping @Sendable (inout Device) -> Void
    ) async throws(StoreError) -> Device? {
        var tokens: Set<DeviceToken> = []
        while true {
            let patched = try await self.change([id], having: Array(tokens), outbox: outbox, mayRefuse: true) {
                $0.patch(id, change)
            }
            switch patched {
            case .done(let device): return device
            case .lacks(let missing): tokens.formUnion(missing)
            }
        }
    }

    /// Removes a device.
    public func delete(_ id: String, outbox: Date?) async throws(StoreError) -> Bool {
        try await change([id], outbox: outbox, mayRefuse: true) { $0.delete(id) }
    }

    /// Puts devices into the outbox as if they were new.
    public func backfill(_ ids: [String], to backend: String, at moment: Date) async throws(StoreError) -> Int {
        guard !ids.isEmpty else { return 0 }
        let count = try await transaction(on: registry) { (db) throws(PostgresError) in
            guard try OutboxChangeTable.backlog(db) < self.options.maximumUnplannedChanges else {
                throw .declined(OutboxChangeTable.refusal)
            }
            var found: [String: Device] = [:]
            for stored in try LockedDevices.read(ids, having: [], db) { found[stored.device.id] = stored.device }
            let contents = ids.compactMap { id in
                found[id].map { OutboxChange.Content.introduction($0, backend: backend) }
            }
            try OutboxChangeTable.add(contents, at: moment, db)
            return contents.count
        }
        core.outboxSignals.raise(changes: count > 0)
        return count
    }

    // MARK: Tokens

    /// Removes tokens from their devices.
    public func remove(_ tokens: [DeviceToken], in app: AppName) async throws(StoreError) {
        guard !tokens.isEmpty else { return }
        try await change(having: tokens) { $0.remove(tokens, in: app) }
    }

    /// Records refusals of single backends.
    public func record(_ refusals: [TokenRefusal]) async throws(StoreError) -> [TokenRefusal] {
        guard !refusals.isEmpty else { return [] }
        return try await change(having: refusals.map(\.token)) { $0.record(refusals) }
    }

    /// Marks refused tokens invalid.
    public func invalidate(_ refusals: [TokenRefusal], outbox: Date?) async throws(StoreError) -> [InvalidatedToken] {
        guard !refusals.isEmpty else { return [] }
        return try await change(having: refusals.map(\.token), outbox: outbox) {
            $0.refuse(refusals, isQuarantined: false)
        }
    }

    /// Quarantines refused tokens.
    public func quarantine(_ refusals: [TokenRefusal]) async throws(StoreError) -> Int {
        guard !refusals.isEmpty else { return 0 }
        return try await change(having: refusals.map(\.token)) { $0.refuse(refusals, isQuarantined: true).count }
    }

    /// Removes the refusals of single backends from up to `limit` tokens.
    public func forgetRefusals(limit: Int) async throws(StoreError) -> Int {
        guard limit > 0 else { return 0 }
        for _ in 0..<Self.mostAttempts {
            let (found, changed) = try await transaction(on: registry) { (db) throws(PostgresError) in
                let rows = try db.run(
                    """
                    SELECT device, slot FROM chapar.device_tokens WHERE refusals IS NOT NULL ORDER BY device, slot LIMIT $1
                    """,
                    [.integer(limit)]
                )
                guard rows.count > 0 else { return (0, 0) }
                let devices = rows.integers()
                let slots = (0..<rows.count).map { rows.text($0, 1) }
                try Self.lock(devices, db)
                let changed = try db.run(
                    """
                    UPDATE chapar.device_tokens t SET refusals = NULL FROM unnest($1::bigint[], $2::text[]) AS r(device, slot)
                    WHERE t.device BETWEEN r.device AND r.device AND t.slot BETWEEN r.slot AND r.slot AND refusals IS NOT NULL
                    """,
                    [.integers(devices), .texts(slots)]
                ).changed
                return (rows.count, changed)
            }
            // Nothing changed: another node has removed the same ones, and there may be more. The search is repeated in
            // a new transaction, since locks are taken in order.
            if found == 0 || changed > 0 { return changed }
        }
        return 0
    }

    /// Quarantines tokens that a backend has marked invalid since a moment.
    public func quarantine(tombstonesOf backend: String, since moment: Date) async throws(StoreError) -> Int {
        let since = moment.millisecondsSince1970
        return try await transaction(on: registry) { (db) throws(PostgresError) in
            let devices = try db.run(
                """
                SELECT DISTINCT device FROM chapar.device_tokens
                WHERE NOT held AND backend = $1 AND invalidated >= $2 ORDER BY device
                """,
                [.text(backend), .integer(since)]
            )
            let numbers = devices.integers()
            guard !numbers.isEmpty else { return 0 }
            try Self.lock(numbers, db)
            return try db.run(
                """
                UPDATE chapar.device_tokens SET held = true
                WHERE device = ANY ($3) AND NOT held AND backend = $1 AND invalidated >= $2
                """,
                [.text(backend), .integer(since), .integers(numbers)]
            ).changed
        }
    }

    /// Marks up to `limit` quarantined tokens of a backend invalid.
    public func invalidate(
        quarantinedOf backend: String,
        limit: Int,
        outbox: Date?
    ) async throws(StoreError) -> [InvalidatedToken] {
        try await change(quarantinedOf: backend, limit: limit, outbox: outbox) { token in
            var dead = token
            dead.tombstone?.isQuarantined = false
            return dead
        }.map { token in
            var dead = token
            dead.tombstone.isQuarantined = false
            return dead
        }
    }

    /// Discards up to `limit` quarantined invalidations of a backend.
    public func discard(quarantinedOf backend: String, limit: Int) async throws(StoreError) -> Int {
        try await change(quarantinedOf: backend, limit: limit, outbox: nil, \.discarded).count
    }

    private func change(
        quarantinedOf backend: String,
        limit: Int,
        outbox moment: Date?,
        _ change: @escaping @Sendable (RegisteredToken) -> RegisteredToken
    ) async throws(StoreError) -> [InvalidatedToken] {
        guard limit > 0 else { return [] }
        for _ in 0..<Self.mostAttempts {
            let (found, changed, isNoted) = try await transaction(on: registry) { (db) throws(PostgresError) in
                let rows = try db.run(
                    """
                    SELECT device FROM chapar.device_tokens WHERE held AND backend = $1 ORDER BY device, slot LIMIT $2
                    """,
                    [.text(backend), .integer(limit)]
                )
                guard rows.count > 0 else { return (0, [InvalidatedToken](), false) }
                let numbers = Set(rows.integers())
                var batch = DeviceBatch(try LockedDevices.read(numbers: Array(numbers), db))
                let changed = batch.change(quarantinedOf: backend, limit: limit, change)
                return (rows.count, changed, try Self.write(&batch, outbox: moment, db))
            }
            core.outboxSignals.raise(changes: isNoted)
            // As in ``forgetRefusals(limit:)``.
            if found == 0 || !changed.isEmpty { return changed }
        }
        return []
    }

    // MARK: Changes

    /// Changes the devices with any of these ids or any of these tokens.
    ///
    /// With `outbox`, the time of the changes, they go into the outbox in the same commit. With `mayRefuse` the call
    /// throws when the outbox is full.
    private func change<Value: Sendable>(
        _ ids: [String] = [],
        having tokens: [DeviceToken] = [],
        outbox moment: Date? = nil,
        mayRefuse: Bool = false,
        _ body: @escaping @Sendable (inout DeviceBatch) -> Value
    ) async throws(StoreError) -> Value {
        let result: Result<Value, StoreError> = await withCheckedContinuation { continuation in
            let request = DeviceChangeRequest(ids: ids, tokens: tokens, outbox: moment, mayRefuse: mayRefuse) { batch in
                let value = body(&batch)
                return { continuation.resume(returning: .success(value)) }
            } fail: { error in
                continuation.resume(returning: .failure(error))
            }
            registryWork.deviceChanges.hand(in: request)
        }
        return try result.get()
    }

    /// Writes the changes; returns whether any went into the outbox.
    private static func write(
        _ batch: inout DeviceBatch,
        outbox moment: Date?,
        _ db: isolated PostgresConnection
    ) throws(PostgresError) -> Bool {
        try DeviceWriter.write(batch.changes, db)
        guard let moment else { return false }
        let contents = batch.takeContents()
        try OutboxChangeTable.add(contents, at: moment, db)
        return !contents.isEmpty
    }

    private static func lock(_ numbers: [Int64], _ db: isolated PostgresConnection) throws(PostgresError) {
        try db.run(
            """
            SELECT count(*) FROM (SELECT 1 FROM chapar.devices WHERE number = ANY ($1) ORDER BY number FOR UPDATE) d
            """,
            [.integers(numbers)]
        )
    }
}
