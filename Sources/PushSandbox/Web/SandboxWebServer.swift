internal import NIOCore
internal import NIOPosix
internal import NIOSSL
internal import Synchronization

/// A TLS listener that serves one simulated web service over HTTP/2 and HTTP/1.1, as the client asks by ALPN.
final class SandboxWebServer: Sendable {
    private let channel: any Channel
    private let connections: ConnectionTable

    /// The port it listens on.
    var port: Int { channel.localAddress?.port ?? 0 }

    private init(channel: any Channel, connections: ConnectionTable) {
        self.channel = channel
        self.connections = connections
    }

    /// Listens.
    ///
    /// Throws when the address cannot be bound.
    static func start(
        on loop: any EventLoop,
        host: String,
        port: Int,
        tls: NIOSSLContext,
        options: SandboxHTTP2Options,
        desk: SandboxDesk
    ) async throws -> SandboxWebServer {
        let connections = ConnectionTable()
        let channel = try await ServerBootstrap(group: loop)
            .serverChannelOption(.backlog, value: 1024)
            .serverChannelOption(.socketOption(.so_reuseaddr), value: 1)
            .childChannelOption(.tcpOption(.tcp_nodelay), value: 1)
            .childChannelOption(
                .recvAllocator,
                value: AdaptiveRecvByteBufferAllocator(minimum: 4096, initial: 16384, maximum: 262_144)
            )
            .childChannelInitializer { channel in
                channel.eventLoop.makeCompletedFuture {
                    try Self.configure(channel, tls: tls, options: options, desk: desk, connections: connections)
                }
            }
            .bind(host: host, port: port)
            .get()
        return SandboxWebServer(channel: channel, connections: connections)
    }

    /// Does the steps on the connections with these numbers, on all of them when nil.
    func perform(_ steps: [SandboxStep], on numbers: Set<Int>? = nil) {
        connections.forEach { number, entry in
            guard numbers?.contains(number) ?? true else { return }
            entry.execute { $0.perform(steps) }
        }
    }

    /// Stops listening and closes every connection.
    func shutdown() async {
        // Closing fails only when the channel is closed already.
        try? await channel.close()
        await connections.closeAll()
    }

    private static func configure(
        _ channel: any Channel,
        tls: NIOSSLContext,
        options: SandboxHTTP2Options,
        desk: SandboxDesk,
        connections: ConnectionTable
    ) throws {
        let (number, opening) = desk.accepted()
        let gate = TransportGate()
        let connection = SandboxProtocolSwitch(
            number: number,
            gate: gate,
            opening: opening,
            desk: desk,
            options: options,
            onClose: {
                connections.remove(number)
                desk.closed()
            }
        )
        try channel.pipeline.syncOperations.addHandlers(gate, NIOSSLServerHandler(context: tls), connection)
        connections.add(number, connection, channel)
        opening.begin(on: channel, gate)
    }
}
