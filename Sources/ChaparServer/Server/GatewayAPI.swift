internal import Foundation
package import Hummingbird
internal import HummingbirdCore
package import Logging
package import ChaparDelivery
package import ChaparAPI
internal import ChaparCore
internal import Synchronization

/// The HTTP server of the gateway: makes the application, its connections and the endpoints behind them.
///
/// Made once for a gateway. ``makeApplication(onListening:)`` returns the server as a service, which ends at a graceful
/// shutdown: it accepts no new connections, ends event streams, and finishes requests in progress.
package struct GatewayAPI: Sendable {
    /// The responder to requests; for a program's own servers and tests.
    package let responder: GatewayResponder
    private let server: GatewayConfiguration.Server
    private let state: GatewayState
    /// The state of the endpoints.
    package let own: APIState
    private let logger: Logger

    /// Makes the front of a gateway.
    ///
    /// - Parameters:
    ///   - state: The state that all parts of the gateway share.
    ///   - workers: Returns the status of the workers.
    ///   - outbox: Carries out the entries of the outbox; nil for a gateway without one.
    ///   - webhooks: Sends webhooks; nil for a gateway without them.
    ///   - metrics: The metrics shown under `/metrics`.
    ///   - knownKinds: The kinds of backends that `overrides` may name beside the configured ones: all that the program
    ///     knows.
    ///   - build: The build of the program.
    ///   - logger: Logs failures.
    package init(
        state: GatewayState,
        workers: any WorkerObserver,
        outbox: OutboxRelay? = nil,
        webhooks: WebhookRelay? = nil,
        metrics: GatewayMetrics,
        knownKinds: [String] = [],
        build: BuildInfo = .current,
        logger: Logger
    ) {
        own = APIState(state, logger: logger)
        responder = GatewayResponder(
            state: state,
            api: own,
            workers: workers,
            outbox: outbox,
            webhooks: webhooks,
            metrics: metrics,
            knownKinds: knownKinds,
            build: build,
            logger: logger
        )
        server = state.snapshot.configuration.server
        self.state = state
        self.logger = logger
    }

    /// Makes the server for the configured address.
    ///
    /// `onListening` is called with the port once connections are accepted; it is the way to learn the port when the
    /// configured one is 0.
    package func makeApplication(
        onListening: @escaping @Sendable (_ port: Int) async -> Void = { _ in }
    ) -> Application<GatewayResponder> {
        makeApplication(limits: ConnectionHandler.Limits(), onListening: onListening)
    }

    /// Makes the server with other limits for its connections than the usual ones.
    func makeApplication(
        limits: ConnectionHandler.Limits,
        onListening: @escaping @Sendable (_ port: Int) async -> Void
    ) -> Application<GatewayResponder> {
        Application(
            responder: responder,
            server: HTTPServerBuilder { [intake = responder.intake] in
                FastChannel(http: HTTP1Channel(responder: $0), intake: intake, limits: limits)
            },
            configuration: ApplicationConfiguration(
                address: server.unixSocket.map { .unixDomainSocket(path: $0) }
                    ?? .hostname(server.host, port: server.port),
                backlog: 1024,
                availableConnectionsDelegate: MaximumAvailableConnections(
                    server.maximumConnections
                )
            ),
            onServerRunning: { [state, own, logger, server] channel in
                if let path = server.unixSocket, chmod(path, 0o660) != 0 {
                    logger.error("the mode of the socket cannot be set", metadata: ["path": "\(path)"])
                }
                if channel.localAddress?.isLoopback == false {
                    own.isExposed.store(true, ordering: .relaxed)
                    if state.snapshot.configuration.apiKeys.isEmpty {
                        logger.error("no API keys: every request to this address is refused; see auth.api_keys")
                    }
                }
                await onListening(channel.localAddress?.port ?? 0)
            },
            logger: logger
        )
    }
}
