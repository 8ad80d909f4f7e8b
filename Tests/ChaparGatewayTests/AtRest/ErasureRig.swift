import Foundation
import HTTPTypes
import ChaparCore
import ChaparQueue
import ChaparStoreContract
import ChaparStoreSQLite
import ChaparTesting
import Testing

@testable import ChaparAPI
@testable import ChaparDelivery
@testable import ChaparGateway
@testable import ChaparServer

/// A store with an API in front of it and no workers: deliveries stay waiting.
struct ErasureRig {
    let time = ManualTime(Date(timeIntervalSince1970: 1_800_000_000))
    let path: String
    let store: SQLiteStore
    let state: GatewayState
    let api: GatewayAPI

    init(_ folder: URL) throws {
        path = folder.appending(path: "test.db").path
        store = try SQLiteStore(SQLiteStoreOptions(path: path), time: time, logger: quiet)
        var configuration = GatewayConfiguration.keyless
        configuration.audit = GatewayConfiguration.Audit(path: folder.appending(path: "audit.jsonl").path)
        let snapshot = GatewaySnapshot(
            configuration: configuration,
            backends: [StubBackend.ios, .crm].map { .init(name: $0.name, backend: $0) }
        )
        state = GatewayState(snapshot: snapshot, store: store, devices: store, time: time)
        api = GatewayAPI(
            state: state,
            workers: StubWorkers(),
            metrics: GatewayMetrics(),
            knownKinds: ["apns", "altcraft"],
            logger: quiet
        )
    }

    /// An erasure of whose removals no platform is told.
    func erasure(in store: any TraceStore) -> UserErasure {
        UserErasure(store: store, devices: self.store, audiences: nil, outbox: nil, time: time, apps: [:])
    }

    func hash() async throws -> String { try await KeyedHash(store)("user", "ada-lovelace") }

    func call(_ method: HTTPRequest.Method, _ path: String, _ body: String? = nil) async throws -> APIHarness.Reply {
        try await APIHarness.send(api.responder, method, path, body)
    }

    func send(_ to: String, _ title: String, backend: String = "ios") async throws -> String {
        let body = #"{"to":\#(to),"content":{"title":"\#(title)"},"backend":"\#(backend)"}"#
        let reply = try await call(.post, "/v1/notifications", body)
        #expect(reply.status == 202, "\(reply.text)")
        return try #require(reply.json["id"]?.stringValue)
    }

    /// Ends some deliveries as sent, with the events of that.
    func deliver(_ limit: Int, backend: String = "ios") async throws {
        let claims = try await store.claim(backend: backend, limit: limit, wait: .zero)
        try await store.record(
            claims.map { claim in
                let accepted = DeliveryOutcome.accepted(Acceptance())
                let attempt = EventJSON.attempt(accepted, backend: backend, at: time.now, retryAt: nil)
                let event = EventJSON.delivery(claim, state: .acceptedByPlatform, at: time.now, attempt: attempt)
                return Resolution(of: claim, .end(.acceptedByPlatform), attempt: attempt, event: event)
            }
        )
    }

    /// Moves the clock until no erasure is unfinished.
    func waitUntilFinished() async throws {
        try await eventually("no erasure is unfinished", every: .milliseconds(10)) {
            if try await UserErasure.unfinished(in: store).isEmpty { return true }
            time.advance(by: .seconds(1))
            return false
        }
    }

    func events() async throws -> [String] {
        try await store.events(after: 0, limit: 10_000, wait: .zero).map {
            String(decoding: $0.json, as: UTF8.self)
        }
    }

    /// Texts that name the user ada-lovelace, her devices, tokens and notifications.
    static let traces = ["ada-lovelace", "phone-a", "tablet-a", "aaaaaaaa", "abababab", "For Ada"]

    /// Runs a test on a new store with the devices of two users, ada-lovelace and eve.
    static func run(_ body: (ErasureRig) async throws -> Void) async throws {
        let folder = FileManager.default.temporaryDirectory.appending(path: "chapar-\(UUID().uuidString)")
        try FileManager.default.createDirectory(at: folder, withIntermediateDirectories: true)
        defer { try? FileManager.default.removeItem(at: folder) }
        let rig = try ErasureRig(folder)
        for (id, user, token) in [
            ("phone-a", "ada-lovelace", "aaaa"), ("tablet-a", "ada-lovelace", "abab"), ("phone-e", "eve", "eeee"),
        ] {
            let body = #"{"user":"\#(user)","tokens":{"ios-apns":"\#(String(repeating: token, count: 16))"}}"#
            #expect(try await rig.call(.put, "/v1/devices/\(id)", body).status == 201)
        }
        try await body(rig)
        await rig.store.close()
    }
}

extension UserErasure {
    /// Goes on with what is on record, as the gateway does; returns whether it is finished, nil when none is on record.
    func resume(hash: String) async throws(StoreError) -> Bool? {
        let calls = try await calls(hash)
        guard !calls.isEmpty else { return nil }
        return try await run(calls).isFinished
    }
}
