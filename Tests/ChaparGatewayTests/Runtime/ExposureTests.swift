import NIOCore
import ChaparCore
import ChaparStoreContract
import Synchronization
import Testing

@testable import ChaparAPI
@testable import ChaparDelivery
@testable import ChaparGateway
@testable import ChaparServer

@Suite("A gateway that others can reach", .timeLimit(.minutes(1)))
struct ExposureTests {
    @Test("refuses a reload without API keys, and goes on with those it has")
    func reload() async throws {
        var configuration = GatewayConfiguration()
        configuration.apiKeys = [APIHarness.key("shop", [.send])]
        let snapshot = GatewaySnapshot(configuration: configuration, backends: [])
        let store = HeldStore(time: SystemTime())
        let state = GatewayState(snapshot: snapshot, store: store, devices: MemoryDeviceStore(time: SystemTime()))
        let metrics = GatewayMetrics()
        let api = GatewayAPI(state: state, workers: StubWorkers(), metrics: metrics, logger: quiet)
        let gateway = Gateway(
            state: state,
            api: api.own,
            dispatcher: Dispatcher(
                store: store,
                devices: state.devices,
                operations: state.devices,
                time: state.time,
                clock: state.clock,
                observer: metrics,
                logger: quiet,
                outbox: { nil }
            ) { stored in try NotificationContent.decode(stored) },
            operations: OutboxRelay(state: state, metrics: metrics, logger: quiet),
            fanOut: nil,
            notices: EventSink(),
            webhooks: WebhookRelay(state: state, metrics: metrics, logger: quiet),
            series: nil,
            metrics: metrics,
            front: api.makeApplication(),
            responder: api.responder,
            logger: quiet
        )
        api.own.isExposed.store(true, ordering: .relaxed)
        let error = #expect(throws: ConfigurationError.self) {
            try gateway.reload(GatewaySnapshot(configuration: GatewayConfiguration(), backends: []))
        }
        #expect(error?.issues.map(\.path) == ["auth.api_keys"])
        #expect(state.snapshot.configuration.apiKeys.count == 1)
        api.own.isExposed.store(false, ordering: .relaxed)
        try gateway.reload(GatewaySnapshot(configuration: GatewayConfiguration(), backends: []))
        #expect(state.snapshot.configuration.apiKeys.isEmpty)
    }

    @Test(
        "knows a loopback address",
        arguments: [
            ("127.0.0.1", true), ("127.9.9.9", true), ("::1", true), ("::ffff:127.0.0.1", true), ("192.0.2.2", false),
            ("::", false), ("::ffff:192.0.2.2", false), ("fe80::1", false), ("0.0.0.0", false),
        ]
    )
    func loopback(text: String, isLoopback: Bool) throws {
        #expect(try SocketAddress(ipAddress: text, port: 1).isLoopback == isLoopback)
    }

    @Test("is not one whose socket is a file")
    func file() throws {
        #expect(try SocketAddress(unixDomainSocketPath: "/tmp/x").isLoopback)
    }
}
