import HummingbirdCore
import Crypto
import Foundation
import HTTPTypes
import Hummingbird
import Logging
import NIOCore
import ChaparCore
import ChaparModules
import ChaparStoreContract
import ChaparTesting
import Synchronization
import Testing

@testable import ChaparAPI
@testable import ChaparDelivery
@testable import ChaparGateway
@testable import ChaparServer

let quiet = Logger(label: "test") { _ in SwiftLogNoOpLogHandler() }

/// A gateway's API over a store in memory and backends that only answer questions.
struct APIHarness {
    let time = ManualTime(Date(timeIntervalSince1970: 1_800_000_000))
    let store: HeldStore
    let devices: MemoryDeviceStore
    let state: GatewayState
    let metrics: GatewayMetrics
    /// Takes what backends say about tokens; a test runs it.
    let desk: TokenInvalidation
    let api: GatewayAPI

    init(
        backends: [StubBackend] = [.ios, .android],
        apps: [String: AppName] = [:],
        keys: [GatewayConfiguration.APIKey] = [],
        metrics: GatewayMetrics = GatewayMetrics(),
        logger: Logger = quiet,
        _ change: (inout GatewayConfiguration) -> Void = { _ in }
    ) {
        self.init(
            platforms: backends.map { ($0.name, $0) },
            apps: apps,
            keys: keys,
            metrics: metrics,
            logger: logger,
            change
        )
    }

    /// An API over backends of any kind.
    init(
        platforms: [(name: String, backend: any PushBackend)],
        apps: [String: AppName] = [:],
        modules: [any GatewayModule] = [],
        keys: [GatewayConfiguration.APIKey] = [],
        metrics: GatewayMetrics = GatewayMetrics(),
        logger: Logger = quiet,
        _ change: (inout GatewayConfiguration) -> Void = { _ in }
    ) {
        self.metrics = metrics
        store = HeldStore(time: time)
        devices = MemoryDeviceStore(time: time)
        var configuration = GatewayConfiguration()
        configuration.apiKeys = keys
        configuration.isKeyless = keys.isEmpty
        change(&configuration)
        let snapshot = GatewaySnapshot(
            configuration: configuration,
            backends: platforms.map {
                BackendRegistry.ConfiguredBackend(name: $0.name, backend: $0.backend, app: apps[$0.name] ?? .default)
            },
            modules: modules
        )
        state = GatewayState(
            snapshot: snapshot,
            store: store,
            devices: devices,
            audiences: devices,
            time: time,
            series: metrics.series
        )
        let store = store
        desk = TokenInvalidation(
            devices: devices,
            state: store,
            time: time,
            observer: SilentObserver(),
            logger: quiet
        ) { _ in }
        api = GatewayAPI(
            state: state,
            workers: StubWorkers(invalidations: desk),
            metrics: metrics,
            knownKinds: ["apns", "fcm"],
            logger: logger
        )
    }

    /// Carries out what platforms are to be told while `body` runs.
    func operating(_ body: () async throws -> Void) async throws {
        let desk = OutboxRelay(state: state, metrics: metrics, logger: quiet)
        try await withThrowingTaskGroup(of: Void.self) { group in
            group.addTask { await desk.run() }
            let result: Result<Void, any Error>
            do {
                try await body()
                result = .success(())
            } catch {
                result = .failure(error)
            }
            await desk.stop()
            try result.get()
        }
    }

    /// An answer, read to its end.
    struct Reply {
        let status: Int
        let headers: HTTPFields
        let bytes: [UInt8]

        var text: String { String(decoding: bytes, as: UTF8.self) }
        var json: JSONValue { (try? JSONValue(parsing: bytes)) ?? .null }
        var code: String? { json["code"]?.stringValue }
        /// `pointer code` of each wrong field.
        var errors: [String] { APIHarness.errors(of: json) }
    }

    static func errors(of problem: JSONValue?) -> [String] {
        (problem?["errors"]?.arrayValue ?? []).map {
            "\($0["pointer"]?.stringValue ?? "?") \($0["code"]?.stringValue ?? "?")"
        }
    }

    func send(
        _ method: HTTPRequest.Method,
        _ path: String,
        _ body: String? = nil,
        headers: HTTPFields = [:],
        host: String? = "localhost:8080"
    ) async throws -> Reply {
        let reply = try await Self.send(api.responder, method, path, body, headers: headers, host: host)
        let planner = OutboxPlanner(store: devices, time: time, logger: quiet) { [state] in state.snapshot.deviceSync }
        while (try? await planner.planSome()) ?? 0 > 0 {}  // What a running gateway does a moment later.
        return reply
    }

    static func send(
        _ responder: GatewayResponder,
        _ method: HTTPRequest.Method,
        _ path: String,
        _ body: String? = nil,
        headers: HTTPFields = [:],
        host: String? = "localhost:8080"
    ) async throws -> Reply {
        let request = request(method, path, body, headers: headers, host: host)
        let response = try await responder.respond(to: request, context: GatewayRequestContext())
        let writer = CollectingWriter()
        try await response.body.write(writer)
        return Reply(status: response.status.code, headers: response.headers, bytes: writer.bytes.withLock { $0 })
    }

    /// Gives the answer with its body unread.
    func respond(
        _ method: HTTPRequest.Method,
        _ path: String,
        _ body: String? = nil,
        headers: HTTPFields = [:],
        host: String? = "localhost:8080"
    ) async throws -> Response {
        let request = Self.request(method, path, body, headers: headers, host: host)
        return try await api.responder.respond(to: request, context: GatewayRequestContext())
    }

    private static func request(
        _ method: HTTPRequest.Method,
        _ path: String,
        _ body: String?,
        headers: HTTPFields,
        host: String?
    ) -> Request {
        var headers = headers
        if body != nil, !headers.contains(.contentType) { headers[.contentType] = "application/json" }
        if let body { headers[.contentLength] = String(body.utf8.count) }
        let head = HTTPRequest(method: method, scheme: "http", authority: host, path: path, headerFields: headers)
        return Request(head: head, body: RequestBody(buffer: ByteBuffer(string: body ?? "")))
    }

    /// Sends one notification.
    func post(_ body: String, headers: HTTPFields = [:]) async throws -> Reply {
        try await send(.post, "/v1/notifications", body, headers: headers)
    }

    /// A notification to one Apple token, with further members.
    static func sample(_ more: String = "", content: String = #"{"title":"Order 42"}"#) -> String {
        #"{"to":{"tokens":[{"token":"4f1c","service":"ios-apns"}]},"content":\#(content)\#(more)}"#
    }

    static func key(
        _ name: String,
        _ scopes: Set<GatewayConfiguration.APIKey.Scope>,
        backends: Set<String>? = nil,
        notAfter: Date? = nil
    ) -> GatewayConfiguration.APIKey {
        GatewayConfiguration.APIKey(
            name: name,
            hashes: [hash(of: name)],
            scopes: scopes,
            backends: backends,
            notAfter: notAfter
        )
    }

    /// The hash of the key that ``bearer(_:)`` presents.
    static func hash(of name: String) -> String {
        SHA256.hash(data: Data("chp_\(name)".utf8)).map { String(format: "%02x", $0) }.joined()
    }

    static func bearer(_ name: String) -> HTTPFields { [.authorization: "Bearer chp_\(name)"] }
}

/// Keeps what is written, and lets a test wait for it.
final class CollectingWriter: ResponseBodyWriter, Sendable {
    let bytes = Mutex<[UInt8]>([])
    let isFinished = Mutex(false)
    private let limit: Int?

    struct Full: Error {}

    /// With a limit, the client goes away after so many bytes.
    init(limit: Int? = nil) { self.limit = limit }

    var text: String { String(decoding: bytes.withLock { $0 }, as: UTF8.self) }

    func write(_ buffer: ByteBuffer) async throws {
        let count = bytes.withLock {
            $0 += buffer.readableBytesView
            return $0.count
        }
        if let limit, count > limit { throw Full() }
    }

    func finish(_ trailingHeaders: HTTPFields?) async throws { isFinished.withLock { $0 = true } }
}

/// A backend that takes what it is told to take, and finds in a payload what it is told to find.
struct StubBackend: PushBackend {
    var name: String
    var kind: BackendKind
    var audience: BackendAudience
    var finding: @Sendable (PushNotification) -> PayloadCheck = { _ in PayloadCheck() }
    var size: @Sendable (PushNotification, Addressee) -> PayloadSize? = { _, _ in nil }
    var shown: @Sendable (PushNotification, Addressee) -> JSONObject? = { _, _ in nil }
    var diagnosis: @Sendable () async -> [Diagnosis] = { [] }
    var health = BackendHealth()
    /// A text that is no token and no topic; other tokens are brought to lower case where there is one.
    var malformed: String?
    var receipts: (any ReceiptReader)?
    var clicks: (any ClickReader)?

    func send(_ requests: [PushRequest], report: @escaping @Sendable ([DeliveryReport]) -> Void) async {}
    func check(_ notification: PushNotification, for recipient: Recipient.Form) -> PayloadCheck {
        finding(notification)
    }

    func payloadSize(of notification: PushNotification, for addressee: Addressee) -> PayloadSize? {
        size(notification, addressee)
    }

    func payload(of notification: PushNotification, for addressee: Addressee) -> JSONObject? {
        shown(notification, addressee)
    }

    func diagnose() async -> [Diagnosis] { await diagnosis() }

    func checked(_ token: DeviceToken) throws(InvalidToken) -> DeviceToken {
        guard let malformed else { return token }
        if token.value == malformed { throw InvalidToken(token.service, "it is malformed") }
        return DeviceToken(token.value.lowercased(), service: token.service)
    }

    func problem(withTopic topic: String) -> String? { topic == malformed ? "It is malformed." : nil }

    static let ios = StubBackend(
        name: "ios",
        kind: "apns",
        audience: BackendAudience(services: [.iOSAPNs], forms: [.platformID])
    )
    static let android = StubBackend(
        name: "android",
        kind: "fcm",
        audience: BackendAudience(services: [.androidFirebase, .iOSFirebase], forms: [.topic])
    )
    /// Takes every form there is.
    static let crm = StubBackend(
        name: "crm",
        kind: "altcraft",
        audience: BackendAudience(
            services: Set(TokenService.known),
            forms: [.device, .user, .platformID, .topic, .tags, .everyone],
            broadcast: BroadcastRule(isAllowed: true)
        )
    )
}

/// Workers with fixed statuses.
struct StubWorkers: WorkerObserver {
    var invalidations: TokenInvalidation?
    let workers = [
        WorkerStatus(backend: "ios", inFlight: 3, window: 1000, quota: .init(perSecond: 100, used: 0.4123)),
        WorkerStatus(
            backend: "android",
            pauseReason: "invalid_grant",
            pauseDetail: "Log in again.",
            isParked: true
        ),
    ]
}

extension GatewayConfiguration {
    /// A configuration with the defaults, whose gateway needs no key.
    static var keyless: Self {
        var configuration = Self()
        configuration.isKeyless = true
        return configuration
    }
}
