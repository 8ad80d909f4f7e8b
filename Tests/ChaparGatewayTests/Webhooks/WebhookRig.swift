import Foundation
import HTTPTypes
import NIOCore
import ChaparCore
import ChaparQueue
import ChaparStoreSQLite
import ChaparTesting
import Synchronization
import Testing

@testable import ChaparAPI
@testable import ChaparDelivery
@testable import ChaparGateway
@testable import ChaparServer

/// A store, the API and the sender of webhooks, with a clock that a test moves and names that it gives addresses.
struct WebhookRig {
    let time: ManualTime
    let store: SQLiteStore
    let state: GatewayState
    let metrics: GatewayMetrics
    let api: GatewayAPI
    let relay: WebhookRelay
    let names: Names

    /// The addresses of names; those that are missing are looked up as numbers.
    final class Names: Sendable {
        private let known = Mutex<[String: [String]]>([:])
        func set(_ name: String, _ addresses: [String]) { known.withLock { $0[name] = addresses } }

        func addresses(_ host: String, _ port: Int) throws -> [SocketAddress] {
            try (known.withLock { $0[host] } ?? [host]).map { try SocketAddress(ipAddress: $0, port: port) }
        }
    }

    init(
        path: String,
        time: ManualTime = ManualTime(Date(timeIntervalSince1970: 1_800_000_000)),
        apps: [String: AppName] = [:],
        keys: [GatewayConfiguration.APIKey] = [],
        networks: [String] = ["127.0.0.0/8"],
        deadline: Duration = .seconds(15),
        credentials: (any StateStore)? = nil
    ) throws {
        self.time = time
        store = try SQLiteStore(SQLiteStoreOptions(path: path), time: time, logger: quiet)
        var configuration = GatewayConfiguration()
        configuration.apiKeys = keys
        configuration.isKeyless = keys.isEmpty
        configuration.apps = Set(apps.values).union([.default]).sorted()
        configuration.webhooks.allowedNetworks = networks
        let snapshot = GatewaySnapshot(
            configuration: configuration,
            backends: [StubBackend.ios, .crm].map {
                .init(name: $0.name, backend: $0, app: apps[$0.name] ?? .default)
            }
        )
        state = GatewayState(snapshot: snapshot, store: store, devices: store, time: store.time)
        metrics = GatewayMetrics()
        let names = Names()
        self.names = names
        relay = WebhookRelay(
            state: state,
            credentials: credentials,
            metrics: metrics,
            logger: quiet,
            deadline: deadline
        ) { host, port, _ in try names.addresses(host, port) }
        api = GatewayAPI(
            state: state,
            workers: StubWorkers(),
            webhooks: relay,
            metrics: metrics,
            logger: quiet
        )
    }

    /// Runs the sender while `body` runs, and closes the store.
    func run(_ body: () async throws -> Void) async throws {
        let result = await withTaskGroup(of: Void.self) { group in
            group.addTask { [relay] in await relay.run() }
            let result: Result<Void, any Error>
            do {
                try await body()
                result = .success(())
            } catch {
                result = .failure(error)
            }
            relay.stop()
            return result
        }
        await store.close()
        try result.get()
    }

    /// Runs `body` with a new store in a folder of its own.
    static func run(
        apps: [String: AppName] = [:],
        keys: [GatewayConfiguration.APIKey] = [],
        networks: [String] = ["127.0.0.0/8"],
        deadline: Duration = .seconds(15),
        time: ManualTime = ManualTime(Date(timeIntervalSince1970: 1_800_000_000)),
        _ body: (WebhookRig, WebhookReceiver) async throws -> Void
    ) async throws {
        let folder = FileManager.default.temporaryDirectory.appending(path: "webhooks-\(UUID().uuidString)")
        try FileManager.default.createDirectory(at: folder, withIntermediateDirectories: true)
        defer { try? FileManager.default.removeItem(at: folder) }
        let path = folder.appending(path: "test.db").path
        try await WebhookReceiver.run { receiver in
            let rig = try WebhookRig(
                path: path,
                time: time,
                apps: apps,
                keys: keys,
                networks: networks,
                deadline: deadline
            )
            try await rig.run { try await body(rig, receiver) }
        }
    }

    func call(
        _ method: HTTPRequest.Method,
        _ path: String,
        _ body: String? = nil,
        headers: HTTPFields = [:]
    ) async throws -> APIHarness.Reply {
        try await APIHarness.send(api.responder, method, path, body, headers: headers)
    }

    /// Adds an endpoint; returns its key.
    @discardableResult
    func add(_ name: String = "hook", _ url: String, _ more: String = "") async throws -> WebhookSecret {
        let reply = try await call(.put, "/v1/webhooks/\(name)", #"{"url":"\#(url)"\#(more)}"#)
        #expect(reply.status == 201, "\(reply.text)")
        let text = try #require(reply.json["secret"]?.stringValue)
        return try #require(WebhookSecret(Secret(text)))
    }

    func show(_ name: String = "hook") async throws -> JSONValue { try await call(.get, "/v1/webhooks/\(name)").json }

    /// Returns the last attempts, the newest first.
    func attempts(_ name: String = "hook") async throws -> [JSONValue] {
        try await call(.get, "/v1/webhooks/\(name)/attempts").json["attempts"]?.arrayValue ?? []
    }

    /// Writes events of one delivery each.
    func publish(_ types: String..., backend: String = "ios", more: String = "") async throws {
        let at = RFC3339.string(time.now)
        try await store.publish(
            types.map { Array(#"{"type":"\#($0)","at":"\#(at)","backend":"\#(backend)"\#(more)}"#.utf8) }
        )
    }

    /// Waits until a condition holds, and moves the clock meanwhile when `step` is more than nothing.
    func wait(_ what: String, moving step: Duration = .zero, until condition: () async throws -> Bool) async throws {
        try await eventually(what, within: .seconds(20), every: .milliseconds(5)) {
            if try await condition() { return true }
            if step > .zero { time.advance(by: step) }
            return false
        }
    }

    /// Waits until every event is delivered and that is stored.
    func settle(_ name: String = "hook") async throws {
        try await wait("\(name) has nothing to do", moving: .milliseconds(50)) {
            let shown = try await show(name)
            return shown["lag"] == 0 && shown["open"] == 0
        }
    }
}

extension WebhookReceiver {
    /// The address of its endpoint.
    func url(_ path: String = "/hook") -> String { "http://127.0.0.1:\(port)\(path)" }

    /// Waits for so many requests.
    func wait(for count: Int) async throws {
        try await eventually("\(count) requests came, \(requests.count) so far", within: .seconds(20)) {
            requests.count >= count
        }
    }
}
