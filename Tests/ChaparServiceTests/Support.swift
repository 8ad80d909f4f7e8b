import Foundation
import Logging
import ChaparCore
import ChaparHTTP
import ChaparSandbox
import ChaparTesting

@testable import ChaparService

let quiet = Logger(label: "test") { _ in SwiftLogNoOpLogHandler() }

/// The simulated service and a backend that posts to it, over TLS on the loopback interface.
struct Harness: Sendable {
    static let own = TokenService(rawValue: "x-pager")

    let simulator: ServiceSimulator
    let backend: ServiceBackend
    /// The requests of the backend.
    let sent: RecordedTransport

    static func token(_ text: String) -> Recipient { .token(DeviceToken(text, service: own)) }

    static func run(
        adjust: (inout ServiceOptions) -> Void = { _ in },
        logger: Logger = quiet,
        _ body: (Harness) async throws -> Void
    ) async throws {
        try await ServiceSimulator.run { simulator in
            let transport = NIOTransport(logger: logger)
            guard let url = HTTPBaseURL(url: simulator.url) else { throw ConformanceFailure("no address") }
            var options = ServiceOptions(
                url: url,
                secret: Secret(ServiceSimulator.secret),
                audience: BackendAudience(services: [own], forms: [.user, .topic])
            )
            options.common.trustPEM = simulator.certificatePEM
            adjust(&options)
            let sent = RecordedTransport(transport)
            let backend = try ServiceBackend(
                options: options,
                context: BackendContext(name: "pager", http: sent, logger: logger)
            )
            try await finally({ try await body(Harness(simulator: simulator, backend: backend, sent: sent)) }) {
                await backend.shutdown(grace: .milliseconds(50))
                await transport.shutdown(grace: .milliseconds(100))
            }
        }
    }

    /// Sends one message and gives its outcome.
    func outcome(_ address: String = "a", _ notification: PushNotification = .sample) async -> DeliveryOutcome {
        await backend.send(notification, to: [Self.token(address)])[0]
    }
}

extension PushNotification {
    static let sample = PushNotification(title: "Order 118", body: "On its way")
}
