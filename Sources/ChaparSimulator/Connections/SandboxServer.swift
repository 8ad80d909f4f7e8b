internal import NIOCore
internal import NIOPosix

/// A listener of a simulated service with its connections.
///
/// ``SandboxHTTP2Server`` and ``SandboxWebServer`` start it and set up its connections. It handles no requests; faults
/// that act on whole connections go through it.
package final class SandboxServer: Sendable {
    private let channel: any Channel
    private let connections: ConnectionTable

    /// The port it listens on.
    var port: Int { channel.localAddress?.port ?? 0 }

    private init(channel: any Channel, connections: ConnectionTable) {
        self.channel = channel
        self.connections = connections
    }

    /// Starts a listener; `configure` sets up each connection and adds it to the table.
    ///
    /// Throws when the address cannot be bound.
    static func start(
        on loop: any EventLoop,
        host: String,
        port: Int,
        configure: @escaping @Sendable (any Channel, ConnectionTable) throws -> Void
    ) async throws -> SandboxServer {
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
                channel.eventLoop.makeCompletedFuture { try configure(channel, connections) }
            }
            .bind(host: host, port: port)
            .get()
        return SandboxServer(channel: channel, connections: connections)
    }

    /// Carries out the steps on the connections with these numbers; on all of them when nil.
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
}
