internal import NIOCore
internal import NIOPosix
internal import NIOSSL

/// What a listener of a simulated service needs to know.
struct SandboxHTTP2Options: Sendable {
    /// Whether a client that did not negotiate `h2` is turned away.
    var requiresALPN = true
    /// The flow-control window of each connection as a whole, in bytes.
    var connectionWindow: Int32 = 1 << 20
    /// How long a connection without open streams may be silent; nil for ever.
    var idleLimit: Duration?
}

/// A simulated service, as a listener sees it.
protocol SandboxHTTP2Service: Sendable {
    /// A client connected: the connection's number and how it begins.
    func accepted() -> (number: Int, opening: SandboxOpening)

    /// TLS is up: the service's view of the connection. Called on the connection's event loop.
    func makePeer(number: Int, certificate: NIOSSLCertificate?) -> any SandboxHTTP2Peer

    /// A connection is gone.
    func closed(number: Int)
}

/// A TLS listener that speaks HTTP/2 for one simulated service, and nothing else.
final class SandboxHTTP2Server: Sendable {
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
        service: any SandboxHTTP2Service
    ) async throws -> SandboxHTTP2Server {
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
                    try Self.configure(channel, tls: tls, options: options, service: service, connections: connections)
                }
            }
            .bind(host: host, port: port)
            .get()
        return SandboxHTTP2Server(channel: channel, connections: connections)
    }

    /// Does the steps on the connections with these numbers, on all of them when nil.
    func perform(_ steps: [SandboxStep], on numbers: Set<Int>? = nil) {
        connections.forEach { number, connection in
            guard numbers?.contains(number) ?? true else { return }
            connection.execute { $0.perform(steps) }
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
