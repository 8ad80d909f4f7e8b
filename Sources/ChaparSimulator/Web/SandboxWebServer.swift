internal import NIOCore
internal import NIOSSL

/// A TLS listener that serves one simulated web service over HTTP/2 and HTTP/1.1, by the client's ALPN.
enum SandboxWebServer {
    /// Starts a listener.
    ///
    /// Throws when the address cannot be bound.
    static func start(
        on loop: any EventLoop,
        host: String,
        port: Int,
        tls: NIOSSLContext,
        options: SandboxHTTP2Options,
        requestPipeline: SandboxPipeline
    ) async throws -> SandboxServer {
        try await SandboxServer.start(on: loop, host: host, port: port) { channel, connections in
            try configure(
                channel,
                tls: tls,
                options: options,
                requestPipeline: requestPipeline,
                connections: connections
            )
        }
    }

    private static func configure(
        _ channel: any Channel,
        tls: NIOSSLContext,
        options: SandboxHTTP2Options,
        requestPipeline: SandboxPipeline,
        connections: ConnectionTable
    ) throws {
        let (number, opening) = requestPipeline.accepted()
        let gate = TransportGate()
        let connection = SandboxProtocolSwitch(
            number: number,
            gate: gate,
            opening: opening,
            requestPipeline: requestPipeline,
            options: options,
            onClose: {
                connections.remove(number)
                requestPipeline.closed()
            }
        )
        try channel.pipeline.syncOperations.addHandlers(gate, NIOSSLServerHandler(context: tls), connection)
        connections.add(number, connection, channel)
        opening.begin(on: channel, gate)
    }
}
