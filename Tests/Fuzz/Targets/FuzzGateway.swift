import Crypto
import Foundation
import HTTPTypes
import Hummingbird
import HummingbirdCore
import NIOCore
import NIOEmbedded
import ChaparChabok
import ChaparCore
import ChaparQueue
import ChaparGateway
import ChaparHMS
import ChaparStoreContract
import ChaparTesting
import Synchronization

/// A gateway's API whose store forgets everything, asked without sockets or over them.
struct FuzzGateway {
    let api: GatewayAPI
    let time = InstantTime()
    private let context: GatewayRequestContext
    private static let huaweiSecret = "0123456789abcdef"
    private static let chabokSecret = "0123456789abcdef01234567"

    init() throws {
        let (time, transport) = (time, ScriptedTransport())
        func backend(
            _ name: String,
            _ factory: BackendFactory,
            _ keys: JSONObject
        ) throws -> BackendRegistry.ConfiguredBackend {
            let sample = SampleSection(keys)
            let context = BackendContext(name: name, http: transport, time: time, state: MemoryState(), logger: .silent)
            guard let backend = sample.make(factory, context) else { throw Violation("\(sample.issues)") }
            return BackendRegistry.ConfiguredBackend(name: name, backend: backend)
        }
        var configuration = GatewayConfiguration()
        configuration.server.port = 0
        configuration.isKeyless = true
        let snapshot = GatewaySnapshot(
            configuration: configuration,
            backends: [
                try backend(
                    "huawei",
                    .hms,
                    [
                        "app_id": "1001", "client_secret": "s",
                        "receipts": ["user": "chapar", "secret": .string(Self.huaweiSecret), "secret_encoding": "raw"],
                    ]
                ),
                try backend(
                    "chabok",
                    .chabok,
                    [
                        "app_id": "shop", "access_token": "t", "environment": "sandbox",
                        "webhook_secret": .string(Self.chabokSecret),
                    ]
                ),
            ]
        )
        let state = GatewayState(
            snapshot: snapshot,
            store: ForgetfulStore(time: time),
            devices: MemoryDeviceStore(time: time),
            time: time
        )
        api = GatewayAPI(state: state, workers: NoWorkers(), metrics: GatewayMetrics(), logger: .silent)
        context = GatewayRequestContext(
            source: ApplicationRequestContextSource(channel: EmbeddedChannel(), logger: .silent)
        )
    }

    // MARK: Without sockets

    struct Reply {
        let status: Int
        let headers: HTTPFields
        let json: JSONValue?
    }

    /// Asks with a body in parts; an answer without end, as a stream of events, is not read.
    func ask(
        _ method: HTTPRequest.Method,
        _ path: String,
        _ parts: [ArraySlice<UInt8>] = [],
        _ fields: HTTPFields = [:]
    ) async throws -> Reply {
        time.advance(by: .seconds(1))  // So that no limit of a rate is met.
        var headers = fields
        headers[.contentType] = "application/json"
        let body =
            parts.count == 1
            ? RequestBody(buffer: ByteBuffer(bytes: parts[0]))
            : RequestBody(
                asyncSequence: AsyncStream { stream in
                    for part in parts { stream.yield(ByteBuffer(bytes: part)) }
                    stream.finish()
                }
            )
        let head = HTTPRequest(
            method: method,
            scheme: "http",
            authority: "localhost:8080",
            path: path,
            headerFields: headers
        )
        let response = try await api.responder.respond(to: Request(head: head, body: body), context: context)
        let status = response.status.code
        if response.headers[.contentType] == "text/event-stream" {
            return Reply(status: status, headers: response.headers, json: nil)
        }
        let writer = Writer()
        try await response.body.write(writer)
        let bytes = writer.bytes.withLock { $0 }
        return Reply(status: status, headers: response.headers, json: try? JSONValue(parsing: bytes))
    }

    private final class Writer: ResponseBodyWriter, Sendable {
        let bytes = Mutex<[UInt8]>([])

        func write(_ buffer: ByteBuffer) async throws { bytes.withLock { $0 += buffer.readableBytesView } }
        func finish(_ trailingHeaders: HTTPFields?) async throws {}
    }

    /// Checks that an answer is one that the API describes, and no failure of the gateway's own.
    static func check(_ reply: Reply) throws {
        try require(reply.status < 500, "the gateway does not fail: \(reply.status) \(reply.json?.text ?? "")")
        guard reply.status >= 400 else { return }
        try require(
            reply.headers[.contentType] == "application/problem+json",
            "an error is a problem: \(reply.status)"
        )
        try require(reply.json?["status"] == .integer(Int64(reply.status)), "it says its status")
        try require(reply.json?["code"]?.stringValue?.isEmpty == false, "it says its code")
        for error in reply.json?["errors"]?.arrayValue ?? [] {
            try require(error["pointer"]?.stringValue?.hasPrefix("#") == true, "a mistake has a place: \(error.text)")
        }
    }

    /// The field that signs a callback of Huawei's: another one each time, as for each callback.
    func signature(nonce: Int) -> String {
        let text = "\(time.now.millisecondsSince1970)"
        let code = HMAC<SHA256>.authenticationCode(
            for: Data("\(text)\(nonce)chapar".utf8),
            using: SymmetricKey(data: Data(Self.huaweiSecret.utf8))
        )
        return "timestamp=\(text); nonce=\(nonce); value=\(Data(code).base64EncodedString())"
    }

    /// The field that a callback of Chabok's has.
    static let chabokAuthorization = "Bearer " + chabokSecret
}

private struct NoWorkers: WorkerObserver {
    let workers: [WorkerStatus] = []
}

/// Takes everything and keeps nothing; every receipt is about a delivery that it has just had.
private struct ForgetfulStore: NotificationStore {
    let time: any TimeSource
    let abilities = StoreAbilities()
    private let ids = Ids()

    private final class Ids: Sendable {
        let allocator = Mutex(NotificationIDAllocator(above: 0))
    }

    init(time: any TimeSource) { self.time = time }

    func makeID(recipients: Int) -> NotificationID { ids.allocator.withLock { $0.allocate(recipients, at: time.now) } }

    func enqueue(_ batch: EnqueueBatch) async throws(StoreError) -> EnqueueResult { .accepted }

    func record(_ receipts: [ReceiptEntry]) async throws(StoreError) -> [ReceiptResult] {
        receipts.map { entry in
            let delivery = ReceivedDelivery(
                id: 7,
                notificationID: NotificationID(rawValue: 7),
                recipient: .user("ada"),
                state: entry.state ?? .acceptedByPlatform
            )
            _ = entry.event(delivery)
            return .recorded(delivery)
        }
    }

    func observe(_ observer: @escaping @Sendable (StoreChange) -> Void) {}
    func claim(backend: String, limit: Int, normal: Int, wait: Duration) async throws(StoreError)
        -> [ClaimedDelivery]
    { [] }
    func claimExpired(limit: Int) async throws(StoreError) -> [ClaimedDelivery] { [] }
    func record(
        _ resolutions: [Resolution],
        event: @escaping @Sendable (ClaimedDelivery, DeliveryState, EndReason) -> [UInt8]
    ) async throws(StoreError) {}
    func waitingDeliveries(
        _ look: WaitingLook,
        where isWanted: @escaping @Sendable (WaitingDelivery) -> Bool
    ) async throws(StoreError) -> WaitingPage { WaitingPage() }
    func settle(
        _ resolutions: [Resolution],
        of backend: String,
        event: @escaping @Sendable (ClaimedDelivery, DeliveryState, EndReason) -> [UInt8]
    ) async throws(StoreError) -> Set<Int64> { [] }
    func makeRetriesDue(of backend: String) async throws(StoreError) -> Int { 0 }
    func cancel(_ id: NotificationID, event: @escaping @Sendable (ClaimedDelivery, DeliveryState) -> [UInt8])
        async throws(StoreError) -> Cancellation?
    { nil }
    func cancel(
        caller: String,
        from place: CallerCancellation.Place?,
        event: @escaping @Sendable (ClaimedDelivery, DeliveryState) -> [UInt8]
    ) async throws(StoreError) -> CallerCancellation { CallerCancellation(cancelled: 0) }
    func move(backend: String, to other: String) async throws(StoreError) -> Int? { 0 }
    func notification(_ id: NotificationID) async throws(StoreError) -> StoredNotification? { nil }
    func deliveries(of id: NotificationID, after: Int64?, limit: Int) async throws(StoreError) -> [StoredDelivery] {
        []
    }
    func events(after: Int64, limit: Int, wait: Duration) async throws(StoreError) -> [StoredEvent] {
        try? await Task.sleep(for: .milliseconds(50))  // Listeners wait in real time; the targets' clock stands still.
        return []
    }
    func lastEvent() async throws(StoreError) -> Int64 { 0 }
    func publish(_ events: [[UInt8]]) async throws(StoreError) {}
    func depths() async throws(StoreError) -> [String: QueueDepth] { [:] }
    func purge(_ retention: Retention) async throws(StoreError) -> Bool { false }
    func health() async -> StoreHealth { StoreHealth(acceptsWork: true) }
    func close() async {}
    func loadState(_ name: String) async throws(StoreError) -> [UInt8]? { nil }
    func saveState(_ name: String, _ value: [UInt8]?) async throws(StoreError) {}
}
