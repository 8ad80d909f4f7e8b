import Foundation
import Logging
import ChaparCore
import ChaparHTTP
import ChaparSandbox
import ChaparTesting

@testable import ChaparRuStore

let quiet = Logger(label: "test") { _ in SwiftLogNoOpLogHandler() }
let goodToken = "bk3RNwTe3H0hu2P1-sample_token"
let serviceToken = "service-token-of-the-tests"

func recipient(_ token: String = goodToken, _ mode: RuStoreOptions.Mode = .direct) -> Recipient {
    .token(DeviceToken(token, service: mode == .direct ? .androidRuStore : .androidRuStoreUniversal))
}

/// Registration tokens that differ within their first six characters.
func deviceToken(_ number: Int) -> String { "r\(number)-kT3hu2P1sample" }

extension RuStoreBackend {
    /// A backend that talks to a scripted platform.
    static func scripted(
        _ transport: ScriptedTransport,
        _ mode: RuStoreOptions.Mode = .direct,
        logger: Logger = quiet,
        time: any TimeSource = ManualTime()
    ) throws -> RuStoreBackend {
        try RuStoreBackend(
            options: RuStoreOptions(projectID: "courier", serviceToken: Secret(serviceToken), mode: mode),
            context: BackendContext(name: "rustore", http: transport, time: time, logger: logger)
        )
    }
}

/// A RuStore simulator and a backend that talks to it, over TLS and HTTP/2 on the loopback interface.
struct Harness: Sendable {
    let simulator: RuStoreSimulator
    let backend: RuStoreBackend
    let mode: RuStoreOptions.Mode
    /// The requests of the backend.
    let sent: RecordedTransport

    /// Starts both, runs `body`, and ends both whatever happens.
    static func run(
        _ mode: RuStoreOptions.Mode = .direct,
        _ configuration: RuStoreSimulatorConfiguration = RuStoreSimulatorConfiguration(),
        timeout: Duration = .seconds(30),
        logger: Logger = quiet,
        adjust: (inout RuStoreOptions) -> Void = { _ in },
        _ body: (Harness) async throws -> Void
    ) async throws {
        try await RuStoreSimulator.run(configuration) { simulator in
            var options = RuStoreOptions(
                projectID: simulator.projectID,
                serviceToken: Secret(simulator.serviceToken),
                mode: mode
            )
            options.common.address = try .simulator(simulator.url(mode == .direct ? .direct : .universal))
            options.common.trustPEM = simulator.authority.certificatePEM
            options.common.timeout = timeout
            adjust(&options)
            let transport = NIOTransport(logger: logger)
            let sent = RecordedTransport(transport)
            let backend = try RuStoreBackend(
                options: options,
                context: BackendContext(name: "rustore", http: sent, logger: logger)
            )
            let harness = Harness(simulator: simulator, backend: backend, mode: mode, sent: sent)
            try await finally({ try await body(harness) }) {
                await backend.shutdown(grace: .milliseconds(50))
                await transport.shutdown(grace: .milliseconds(100))
            }
        }
    }

    /// Registers so many devices.
    func register(_ count: Int) -> [Recipient] {
        let tokens = (0..<count).map(deviceToken)
        simulator.register(tokens: tokens)
        return tokens.map { recipient($0, mode) }
    }

    /// Sends one message.
    func send(_ token: String = goodToken, _ notification: PushNotification = .sample) async -> DeliveryOutcome {
        await backend.send(notification, to: [recipient(token, mode)])[0]
    }
}

extension PushNotification {
    static let sample = PushNotification(title: "Parcel", body: "Out for delivery")
}
