import Foundation
import Logging
import ChaparCore
import ChaparHTTP
import ChaparSandbox
import ChaparTesting

@testable import ChaparAPNs

/// An APNs simulator and a backend that talks to it, over TLS and HTTP/2 on the loopback interface.
struct SocketHarness: Sendable {
    let simulator: APNsSimulator
    let backend: APNsBackend
    /// The requests of the backend.
    let sent: RecordedTransport

    /// Starts both, runs `body`, and ends both whatever happens.
    static func run(
        _ configuration: APNsSimulatorConfiguration = APNsSimulatorConfiguration(),
        timeout: Duration = .seconds(30),
        connections: Int = 4,
        topic: String = bundleID,
        environment: APNsOptions.Environment = .production,
        time: any TimeSource = SystemTime(),
        state: (any StateStore)? = nil,
        credential: ((APNsSimulator) throws -> APNsOptions.Credential)? = nil,
        trusts: Bool = true,
        logger: Logger = quiet,
        _ body: (SocketHarness) async throws -> Void
    ) async throws {
        try await APNsSimulator.run(configuration, time: time) { simulator in
            var options = try APNsOptions.sample(simulator.key, topic: topic, environment: environment)
            if let credential { options.credential = try credential(simulator) }
            let (send, manage): (APNsListener, APNsListener) =
                environment == .production
                ? (.production, .productionManagement) : (.development, .developmentManagement)
            options.common.address = try .simulator(simulator.url(send))
            options.common.trustPEM = trusts ? simulator.authority.certificatePEM : nil
            options.common.timeout = timeout
            options.common.maximumConnections = connections
            options.managementEndpoint = try HTTPEndpoint(simulator.url(manage))
            let sent = RecordedTransport(NIOTransport(logger: logger))
            let backend = try APNsBackend(
                options: options,
                context: BackendContext(
                    name: "ios",
                    http: sent,
                    time: time,
                    state: state,
                    logger: logger
                )
            )
            try await finally({ try await body(SocketHarness(simulator: simulator, backend: backend, sent: sent)) }) {
                await backend.shutdown(grace: .milliseconds(100))
            }
        }
    }

    /// Registers so many devices.
    func register(_ count: Int) -> [Recipient] {
        let tokens = (0..<count).map(deviceToken)
        simulator.register(tokens: tokens, topic: bundleID)
        return tokens.map { recipient($0) }
    }

    /// Sends one message to one registered device, so that the connection is up and proven.
    @discardableResult
    func warmUp() async -> DeliveryOutcome {
        simulator.register(tokens: [goodToken], topic: bundleID)
        return await send()
    }

    /// Waits until the client knows that it may have so many streams open.
    func hasWindow(_ window: Int) async -> Bool {
        let clock = ContinuousClock()
        let end = clock.now + .seconds(20)
        while backend.window != window {
            guard clock.now < end else { return false }
            await Task.yield()
        }
        return true
    }

    /// Sends one message.
    func send(_ token: String = goodToken, title: String = "Parcel") async -> DeliveryOutcome {
        await backend.send(PushNotification(title: .plain(title)), to: [recipient(token)])[0]
    }

    /// Sends one message as an addressee of a gateway.
    func send(_ addressee: Addressee) async -> DeliveryOutcome {
        await backend.send([PushRequest(PushNotification(title: "Parcel"), to: [addressee])])[0][0]
    }
}
