import Foundation
import HTTPTypes
import Hummingbird
import HummingbirdCore
import Logging
import NIOCore
import NIOEmbedded
import NIOHTTP1
import ChaparCore
import ServiceLifecycle

@testable import ChaparAPI
@testable import ChaparDelivery
@testable import ChaparGateway
@testable import ChaparServer

/// The HTTP server of a simulated gateway: the handlers of its connections are the real ones, the sockets and the event
/// loop are not.
///
/// `@unchecked Sendable`: one thread at a time, see ``Scheduler``.
final class SimulatedServer: Service, @unchecked Sendable {
    private let api: GatewayAPI
    private let loop = EmbeddedEventLoop()
    private let logger: Logger
    private var connections: [ClientConnection] = []
    private var waiter: CheckedContinuation<Void, Never>?
    private(set) var isQuiescing = false

    init(_ api: GatewayAPI, _ logger: Logger) {
        self.api = api
        self.logger = logger
    }

    /// Lets the event loop do what is due, and moves bytes.
    func tick() {
        loop.advanceTime(to: .now())
        var hasClosed = false
        for connection in connections where connection.isChanged {
            connection.pump()
            hasClosed = hasClosed || connection.isClosed
        }
        if hasClosed {
            let closed = connections.filter(\.isClosed)
            connections.removeAll(where: \.isClosed)
            for connection in closed { connection.end() }
        }
        if isQuiescing, connections.isEmpty { release() }
    }

    /// Every client finds its connection closed.
    func disconnect() {
        let open = connections
        connections = []
        for connection in open { connection.end() }
    }

    /// Opens a connection; nil while the gateway takes none.
    func connect() -> ClientConnection? {
        guard !isQuiescing else { return nil }
        let connection = ClientConnection(loop)
        connections.append(connection)
        let responder = api.responder
        let http = HTTP1Channel { request, writer, channel in
            let context = GatewayRequestContext(
                source: ApplicationRequestContextSource(
                    channel: channel,
                    logger: Logger(label: "simulation") { _ in SwiftLogNoOpLogHandler() }
                )
            )
            let response = try await responder.respond(to: request, context: context)
            let body = try await writer.writeHead(response.head)
            try await response.body.write(body)
        }
        let front = FastChannel(http: http, intake: responder.intake, limits: ConnectionHandler.Limits())
        connection.begin(front, logger)
        return connection
    }

    /// The memory that is set aside for bodies.
    var bodyBytes: Int { api.responder.bodyBytes }

    /// The reasons why it is open, for messages of failures.
    var state: String {
        "\(connections.count) connections (\(connections.map(\.state).joined(separator: ", "))), \(isQuiescing ? "quiescing" : "open")"
    }

    func run() async throws {
        await withGracefulShutdownHandler {
            await withTaskCancellationHandler {
                await withCheckedContinuation { continuation in
                    if Task.isCancelled { continuation.resume() } else { waiter = continuation }
                }
            } onCancel: {
                self.giveUp()
            }
        } onGracefulShutdown: {
            self.quiesce()
        }
    }

    /// Ends at once, as when another part of the gateway has failed; the world disconnects the clients.
    private func giveUp() {
        isQuiescing = true
        release()
    }

    /// Does Hummingbird's graceful shutdown: no new connections, and an event in the pipeline of every open one.
    private func quiesce() {
        isQuiescing = true
        for connection in connections { connection.quiesce() }
    }

    private func release() {
        waiter?.resume()
        waiter = nil
    }
}
