import Foundation
import Logging
import NIOCore
import ChaparCore
import ChaparComposition
import ChaparQueue
import ChaparStoreSQLite
import ChaparTesting
import ServiceLifecycle
import Synchronization
import Testing

@testable import ChaparAPI
@testable import ChaparDelivery
@testable import ChaparGateway
@testable import ChaparServer

/// A graceful shutdown while clients do not read what they are sent.
@Suite("The drain", .timeLimit(.minutes(1)))
struct DrainTests {
    /// Holds every send until a test lets it go.
    private final class HeldBackend: PushBackend {
        let kind: BackendKind = "held"
        let audience = BackendAudience(forms: [.topic])
        let window: Int? = 1
        private let sends = Mutex<(count: Int, held: [CheckedContinuation<Void, Never>])>((0, []))

        var sendCount: Int { sends.withLock { $0.count } }

        func send(_ requests: [PushRequest], report: @escaping @Sendable ([DeliveryReport]) -> Void) async {
            await withCheckedContinuation { continuation in
                sends.withLock {
                    $0.count += 1
                    $0.held.append(continuation)
                }
            }
            for (row, request) in requests.enumerated() {
                report(
                    request.recipients.indices.map {
                        DeliveryReport(request: row, recipient: $0, outcome: .accepted(Acceptance()))
                    }
                )
            }
        }

        func release() {
            let held = sends.withLock { sends in
                defer { sends.held = [] }
                return sends.held
            }
            for continuation in held { continuation.resume() }
        }

        func shutdown(grace: Duration) async { release() }
    }

    @Test("ends dispatch at once and the process in time, though a hundred readers never read")
    func readersThatNeverRead() async throws {
        let folder = FileManager.default.temporaryDirectory.appending(path: "chapar-drain-\(UUID().uuidString)")
        try FileManager.default.createDirectory(at: folder, withIntermediateDirectories: true)
        defer { try? FileManager.default.removeItem(at: folder) }
        let store = try SQLiteStore(SQLiteStoreOptions(path: folder.appending(path: "test.db").path))
        let backend = HeldBackend()
        var configuration = GatewayConfiguration.keyless
        configuration.server.port = 0
        configuration.queue.drain = .seconds(1)
        let configured = BackendRegistry.ConfiguredBackend(name: "a", backend: backend, maximumInFlight: 1)
        let (ports, listening) = AsyncStream.makeStream(of: Int.self)
        let gateway = try await Gateway.assemble(
            GatewaySnapshot(configuration: configuration, backends: [configured]),
            store: store,
            logger: quiet
        ) { listening.yield($0) }
        let services = ServiceGroup(
            configuration: .init(services: [.init(service: gateway)], logger: quiet)
        )
        try await withThrowingTaskGroup(of: Void.self) { group in
            group.addTask { try await services.run() }
            let port = try #require(await ports.first { _ in true })
            var readers: [UnreadClient] = []
            for _ in 0..<100 {
                readers.append(try UnreadClient(port, "GET /v1/events?after=0 HTTP/1.1\r\nHost: localhost\r\n\r\n"))
            }
            // More than the buffers of a connection take: the streams stand.
            let padding = String(repeating: "x", count: 250_000)
            let event = Array(#"{"type":"test.padding","padding":"\#(padding)"}"#.utf8)
            for _ in 0..<16 { try await store.publish([event]) }
            for _ in 0..<2 { try await accept(store) }
            try await eventually("a message is sent") { backend.sendCount == 1 }
            await services.triggerGracefulShutdown()
            try await eventually("the drain begins") { gateway.state.isDraining }
            backend.release()
            try await group.waitForAll()
            #expect(backend.sendCount == 1, "nothing is claimed after the signal")
            _ = readers
        }
    }

    private func accept(_ store: SQLiteStore) async throws {
        let now = store.time.steady
        let notification = NewNotification(
            id: store.makeID(recipients: 1),
            notification: PushNotification(title: "t"),
            record: NotificationRecord(content: Array("{}".utf8), plans: [DeliveryPlan(["a"])], acceptedAt: now),
            recipients: [.topic("t")],
            caller: "",
            dueAt: nil,
            expiresAt: now.addingTimeInterval(3600),
            event: Array("{}".utf8)
        )
        _ = try await store.enqueue(EnqueueBatch([notification]))
    }

    @Test("A client that does not read is cut off")
    func unread() async throws {
        let harness = APIHarness { $0.server.port = 0 }
        let limits = ConnectionHandler.Limits(write: .milliseconds(300))
        try await harness.serve(limits: limits) { port, _ in
            let padding = String(repeating: "x", count: 250_000)
            let reader = try UnreadClient(port, "GET /v1/events?after=0 HTTP/1.1\r\nHost: localhost\r\n\r\n")
            try await eventually("the stream is open") { harness.api.responder.load.streams == 1 }
            let event = Array(#"{"type":"test.padding","padding":"\#(padding)"}"#.utf8)
            for _ in 0..<32 { try await harness.store.publish([event]) }
            try await eventually("the stream is cut off") { harness.api.responder.load.streams == 0 }
            _ = reader
        }
    }
}
