package import Foundation
package import ChaparCore
package import ChaparQueue

/// The device registry and the outbox of the database, over the connection.
extension MemoryStore: DeviceStore {
    private var devices: MemoryDeviceStore { database.devices }

    package func put(_ devices: [Device], outbox: Date?) async throws(StoreError) -> [DevicePut] {
        try await calling { () throws(StoreError) in try await self.devices.put(devices, outbox: outbox) }
    }

    package func patch(
        _ id: String,
        outbox: Date?,
        _ change: @escaping @Sendable (inout Device) -> Void
    ) async throws(StoreError) -> Device? {
        try await calling { () throws(StoreError) in try await devices.patch(id, outbox: outbox, change) }
    }

    package func delete(_ id: String, outbox: Date?) async throws(StoreError) -> Bool {
        try await calling { () throws(StoreError) in try await devices.delete(id, outbox: outbox) }
    }

    package func backfill(_ ids: [String], to backend: String, at moment: Date) async throws(StoreError) -> Int {
        try await calling { () throws(StoreError) in try await devices.backfill(ids, to: backend, at: moment) }
    }

    package func devices(_ ids: [String]) async throws(StoreError) -> [String: Device] {
        try await calling { () throws(StoreError) in try await devices.devices(ids) }
    }

    package func devices(ofUsers users: [String], limit: Int) async throws(StoreError) -> [Device] {
        try await calling { () throws(StoreError) in try await devices.devices(ofUsers: users, limit: limit) }
    }

    package func devices(withTokenOf kind: TokenKind, in app: AppName, limit: Int) async throws(StoreError) -> [Device]
    {
        try await calling { () throws(StoreError) in try await devices.devices(withTokenOf: kind, in: app, limit: limit)
        }
    }

    package func list(_ query: DeviceQuery, after cursor: DeviceCursor?, limit: Int) async throws(StoreError)
        -> DevicePage
    {
        try await calling { () throws(StoreError) in try await devices.list(query, after: cursor, limit: limit) }
    }

    package func device(having token: DeviceToken, in app: AppName) async throws(StoreError) -> Device? {
        try await calling { () throws(StoreError) in try await devices.device(having: token, in: app) }
    }

    package func record(_ refusals: [TokenRefusal]) async throws(StoreError) -> [TokenRefusal] {
        try await calling { () throws(StoreError) in try await devices.record(refusals) }
    }

    package func forgetRefusals(limit: Int) async throws(StoreError) -> Int {
        try await calling { () throws(StoreError) in try await devices.forgetRefusals(limit: limit) }
    }

    package func remove(_ tokens: [DeviceToken], in app: AppName) async throws(StoreError) {
        try await calling { () throws(StoreError) in try await devices.remove(tokens, in: app) }
    }

    package func invalidate(_ refusals: [TokenRefusal], outbox: Date?) async throws(StoreError) -> [InvalidatedToken] {
        try await calling { () throws(StoreError) in try await devices.invalidate(refusals, outbox: outbox) }
    }

    package func quarantine(_ refusals: [TokenRefusal]) async throws(StoreError) -> Int {
        try await calling { () throws(StoreError) in try await devices.quarantine(refusals) }
    }

    package func quarantine(tombstonesOf backend: String, since moment: Date) async throws(StoreError) -> Int {
        try await calling { () throws(StoreError) in
            try await devices.quarantine(tombstonesOf: backend, since: moment)
        }
    }

    package func quarantined() async throws(StoreError) -> [QuarantinedTokens] {
        try await calling { () throws(StoreError) in try await devices.quarantined() }
    }

    package func quarantined(of backend: String, after cursor: DeviceCursor?, limit: Int) async throws(StoreError)
        -> (tokens: [InvalidatedToken], next: DeviceCursor?)
    {
        try await calling { () throws(StoreError) in
            try await devices.quarantined(of: backend, after: cursor, limit: limit)
        }
    }

    package func invalidate(quarantinedOf backend: String, limit: Int, outbox: Date?) async throws(StoreError)
        -> [InvalidatedToken]
    {
        try await calling { () throws(StoreError) in
            try await devices.invalidate(quarantinedOf: backend, limit: limit, outbox: outbox)
        }
    }

    package func discard(quarantinedOf backend: String, limit: Int) async throws(StoreError) -> Int {
        try await calling { () throws(StoreError) in try await devices.discard(quarantinedOf: backend, limit: limit) }
    }
}

extension MemoryStore: OutboxStore {
    package func enqueue(_ entries: [OutboxEntry]) async throws(StoreError) {
        try await calling { () throws(StoreError) in try await devices.enqueue(entries) }
    }

    package func claimEntries(of backend: String, limit: Int, lease: Duration, wait: Duration) async throws(StoreError)
        -> [ClaimedEntry]
    {
        try await calling { () throws(StoreError) in
            try await devices.claimEntries(of: backend, limit: limit, lease: lease, wait: wait)
        }
    }

    package func record(_ results: [OutboxResult]) async throws(StoreError) {
        try await calling { () throws(StoreError) in try await devices.record(results) }
        let events = results.compactMap(\.event)
        if !events.isEmpty { try await publish(events) }
    }

    package func entries(ofDevice device: String, limit: Int) async throws(StoreError) -> [WaitingEntry] {
        try await calling { () throws(StoreError) in try await devices.entries(ofDevice: device, limit: limit) }
    }

    package func cancelEntries(of backend: String, device: String?) async throws(StoreError) -> Int {
        try await calling { () throws(StoreError) in try await devices.cancelEntries(of: backend, device: device) }
    }

    package func makeRetriesDue(ofEntriesAt backend: String) async throws(StoreError) -> Int {
        try await calling { () throws(StoreError) in try await devices.makeRetriesDue(ofEntriesAt: backend) }
    }

    package func outboxDepths() async throws(StoreError) -> [String: OutboxDepth] {
        try await calling { () throws(StoreError) in try await devices.outboxDepths() }
    }

    package func unplannedChanges(limit: Int, wait: Duration) async throws(StoreError) -> [OutboxChange] {
        try await calling { () throws(StoreError) in try await devices.unplannedChanges(limit: limit, wait: wait) }
    }

    package func record(_ plans: [OutboxPlan]) async throws(StoreError) {
        try await calling { () throws(StoreError) in try await devices.record(plans) }
    }

    package func unplannedCount(ofDevice device: String?) async throws(StoreError) -> Int {
        try await calling { () throws(StoreError) in try await devices.unplannedCount(ofDevice: device) }
    }
}
