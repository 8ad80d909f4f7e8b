import Foundation
import Logging
import ChaparCore
import ChaparHTTP
import ChaparSandbox
import ChaparTesting
import Testing

@testable import ChaparWebPush

let quiet = Logger(label: "test") { _ in SwiftLogNoOpLogHandler() }

func browser(_ text: String) -> Recipient { .token(DeviceToken(text, service: .webPush)) }

extension PushNotification {
    static let sample = PushNotification(title: "Parcel", body: "Out for delivery", clickURL: "https://example.com/o/1")
}

/// A simulator of push services and a backend that talks to it, over TLS on the loopback interface.
struct Harness: Sendable {
    let simulator: WebPushSimulator
    let backend: WebPushBackend
    /// The requests of the backend.
    let sent: RecordedTransport

    /// Starts both, runs `body`, and ends both whatever happens.
    static func run(
        _ configuration: WebPushSimulator.Configuration = .init(),
        timeout: Duration = .seconds(45),
        time: any TimeSource = SystemTime(),
        logger: Logger = quiet,
        change: (inout WebPushOptions, WebPushSimulator) throws -> Void = { _, _ in },
        _ body: (Harness) async throws -> Void
    ) async throws {
        try await WebPushSimulator.run(configuration, time: time) { simulator in
            let transport = NIOTransport(logger: logger)
            var options = WebPushOptions(
                keys: [try WebPushKey(Secret(simulator.vapidKeyPEM))],
                subject: "mailto:ops@example.com"
            )
            try options.allow(hosts: WebPushService.allCases.map { String(simulator.url($0).dropFirst(8)) })
            options.common.trustPEM = simulator.certificatePEM
            options.common.timeout = timeout
            try change(&options, simulator)
            let sent = RecordedTransport(transport)
            let context = BackendContext(name: "browsers", http: sent, time: time, logger: logger)
            let backend = WebPushBackend(options: options, context: context)
            try await finally({ try await body(Harness(simulator: simulator, backend: backend, sent: sent)) }) {
                await backend.shutdown(grace: .milliseconds(100))
                await transport.shutdown(grace: .milliseconds(100))
            }
        }
    }

    /// Makes a subscription.
    func subscribe(_ id: String = "b-1", at service: WebPushService = .plain, key: String? = nil) -> Recipient {
        browser(simulator.subscription(id, at: service, applicationServerKey: key))
    }

    /// Sends one message to one new subscription.
    @discardableResult
    func send(
        _ notification: PushNotification = .sample,
        to id: String = "b-1",
        at service: WebPushService = .plain
    ) async -> DeliveryOutcome {
        await backend.send(notification, to: subscribe(id, at: service))
    }

    /// Makes a service answer every request so from now on.
    func fault(_ service: WebPushService, _ answer: FaultAnswer, count: Int? = nil) {
        simulator.add(FaultRule(match: FaultMatch(listener: service.listener, count: count), .answer(answer)))
    }
}
