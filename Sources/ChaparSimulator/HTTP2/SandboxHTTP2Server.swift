package import NIOCore
package import NIOSSL

/// The options of a simulated service's listener.
package struct SandboxHTTP2Options: Sendable {
    /// Whether a client that did not negotiate `h2` is rejected.
    package var requiresALPN: Bool
    /// The flow-control window of each connection as a whole, in bytes.
    package var connectionWindow: Int32
    /// The longest time that a connection without open streams may be silent; nil for no limit.
    package var idleLimit: Duration?

    package init(requiresALPN: Bool = true, connectionWindow: Int32 = 1 << 20, idleLimit: Duration? = nil) {
        self.requiresALPN = requiresALPN
        self.connectionWindow = connectionWindow
        self.idleLimit = idleLimit
    }
}

/// A simulated service, as its listener uses it.
package protocol SandboxHTTP2Service: Sendable {
    /// Returns the number of a new connection and its opening.
    func accepted() -> (number: Int, opening: SandboxOpening)

    /// Makes the service's peer of a connection once TLS is up. Called on the connection's event loop.
    func makePeer(number: Int, certificate: NIOSSLCertificate?) -> any SandboxHTTP2Peer

    /// Removes a connection that has closed.
    func closed(number: Int)
}

/// A TLS listener that speaks HTTP/2 for one simulated service, and nothing else.
package enum SandboxHTTP2Server {
    /// Starts a listener.
    ///
    /// Throws when the address cannot be bound.
    package static func start(
        on loop: any EventLoop,
        host: String,
        port: Int,
        tls: NIOSSLContext,
        options: SandboxHTTP2Options,
        service: any SandboxHTTP2Service
    ) async throws -> SandboxServer {
        try await SandboxServer.start(on: loop, host: host, port: port) { channel, connections in
            try configure(channel, tls: tls, options: options, service: service, connections: connections)
        }
    }

    private static func configure(
        _ channel: any Channel,
        tls: NIOSSLContext,
        options: SandboxHTTP2Options,
        service: any SandboxHTTP2Service,
        connections: ConnectionTable
    ) throws {
        let (number, opening) = service.accepted()
        let gate = TransportGate()
        let connection = SandboxHTTP2Connection(
            number: number,
            gate: gate,
            opening: opening,
            options: options,
            makePeer: { service.makePeer(number: number, certificate: $0) },
            onClose: {
                connections.remove(number)
                service.closed(number: number)
            }
        )
        let pipeline = channel.pipeline.syncOperations
        try pipeline.addHandler(gate)
        if options.requiresALPN { try pipeline.addHandler(ALPNGuard()) }
        try pipeline.addHandlers(NIOSSLServerHandler(context: tls), connection)
        connections.add(number, connection, channel)
        opening.begin(on: channel, gate)
    }
}
