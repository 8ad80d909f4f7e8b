import Foundation
import ChaparCore
import ChaparQueue
import Synchronization

@testable import ChaparStorePostgres

/// Asks another node with each call: the contract must hold whichever node hears a call.
final class AlternatingStore: DeviceStore {
    private let nodes: [PostgresStore]
    private let calls = Atomic(0)

    init(_ nodes: [PostgresStore]) { self.nodes = nodes }

    private var node: PostgresStore { nodes[calls.wrappingAdd(1, ordering: .relaxed).newValue % nodes.count] }

    func put(_ devices: [Device], outbox: Date?) async throws(StoreError) -> [DevicePut] {
        try await node.put(devices, outbox: outbox)
    }

    func patch(
        _ id: String,
        outbox: Date?,
        _ change: @escaping @Sendable (inout Device) -> Void
    ) async throws(StoreError) -> Device? {
        try await node.patch(id, outbox: outbox, change)
    }

    func delete(_ id: String, outbox: Date?) async throws(StoreError) -> Bool {
        try await node.delete(id, outbox: outbox)
    }

    func backfill(_ ids: [String], to backend: String, at moment: Date) async throws(StoreError) -> Int {
        try await node.backfill(ids, to: backend, at: moment)
    }

    func devices(_ ids: [String]) async throws(StoreError) -> [String: Device] { try await node.devices(ids) }

    func devices(ofUsers users: [String], limit: Int) async throws(StoreError) -> [Device] {
        try await node.devices(ofUsers: users, limit: limit)
    }

    func devices(withTokenOf kind: TokenKind, in app: AppName, limit: Int) async throws(StoreError) -> [Device] {
        try await node.devices(withTokenOf: kind, in: app, limit: limit)
    }

    func list(_ query: DeviceQuery, after cursor: DeviceCursor?, limit: Int) async throws(StoreError) -> DevicePage {
        try await node.list(query, after: cursor, limit: limit)
    }

    func device(having token: DeviceToken, in app: AppName) async throws(StoreError) -> Device? {
        try await node.device(having: token, in: app)
    }

    func record(_ refusals: [TokenRefusal]) async throws(StoreError) -> [TokenRefusal] {
        try await node.record(refusals)
    }

    func forgetRefusals(limit: Int) async throws(StoreError) -> Int { try await node.forgetRefusals(limit: limit) }

    func remove(_ tokens: [DeviceToken], in app: AppName) async throws(StoreError) {
        try await node.remove(tokens, in: app)
    }

    func invalidate(_ refusals: [TokenRefusal], outbox: Date?) async throws(StoreError) -> [InvalidatedToken] {
        try await node.invalidate(refusals, outbox: outbox)
    }

    func quarantine(_ refusals: [TokenRefusal]) async throws(StoreError) -> Int { try await node.quarantine(refusals) }

    func quarantine(tombstonesOf backend: String, since moment: Date) async throws(StoreError) -> Int {
        try await node.quarantine(tombstonesOf: backend, since: moment)
    }

    func quarantined() async throws(StoreError) -> [QuarantinedTokens] { try await node.quarantined() }

    func quarantined(
        of backend: String,
        after cursor: DeviceCursor?,
        limit: Int
    ) async throws(StoreError) -> (tokens: [InvalidatedToken], next: DeviceCursor?) {
        try await node.quarantined(of: backend, after: cursor, limit: limit)
    }

    func invalidate(
        quarantinedOf backend: String,
        limit: Int,
        outbox: Date?
    ) async throws(StoreError) -> [InvalidatedToken] {
        try await node.invalidate(quarantinedOf: backend, limit: limit, outbox: outbox)
    }

    func discard(quarantinedOf backend: String, limit: Int) async throws(StoreError) -> Int {
        try await node.discard(quarantinedOf: backend, limit: limit)
    }
}
