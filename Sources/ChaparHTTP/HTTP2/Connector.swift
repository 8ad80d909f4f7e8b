import NIOCore
import NIOPosix
import NIOSSL
import ChaparCore

/// Opens channels to one endpoint: new name resolution each time, TCP, the proxy's tunnel, TLS.
struct Connector: Sendable {
    let configuration: HTTPPoolConfiguration
    let tls: NIOSSLContext
    let tuning: HTTP2Tuning
    let budget: AnswerBudget

    /// Starts an attempt.
    ///
    /// The connection at the end of the returned channel's pipeline has begun its TLS handshake.
    func connect(on loop: any EventLoop) -> EventLoopFuture<any Channel> {
        let server = configuration.proxy ?? configuration.endpoint
        return ClientBootstrap(group: loop)
            .connectTimeout(TimeAmount(configuration.connectTimeout))
            .channelOption(.tcpOption(.tcp_nodelay), value: 1)
            .channelOption(.maxMessagesPerRead, value: 8)
            .channelOption(
                .recvAllocator,
                value: AdaptiveRecvByteBufferAllocator(minimum: 4096, initial: 65_536, maximum: 262_144)
            )
            .channelOption(.writeBufferWaterMark, value: .init(low: 64 * 1024, high: 256 * 1024))
            .channelInitializer { channel in
                channel.eventLoop.makeCompletedFuture { try prepare(channel.pipeline.syncOperations) }
            }
            .connect(host: configuration.connectHost, port: server.port)
    }

    private func prepare(_ pipeline: ChannelPipeline.SynchronousOperations) throws {
        let connection = HTTP2Connection(
            endpoint: configuration.endpoint,
            configuration: configuration,
            tuning: tuning,
            budget: budget
        )
        guard let connection else {
            throw HTTPFailure(.notProcessed, .connect, "there is no memory for an HTTP/2 session")
        }
        try pipeline.addHandler(WriteGuard(connection.mayWrite))
        guard configuration.proxy != nil else {
            try pipeline.addHandler(try tlsHandler())
            return try pipeline.addHandler(connection)
        }
        let tunnel = ProxyTunnelHandler(
            endpoint: configuration.endpoint,
            credentials: configuration.proxyCredentials
        ) { context in
            try context.pipeline.syncOperations.addHandler(try tlsHandler(), position: .after(context.handler))
        }
        try pipeline.addHandler(tunnel)
        try pipeline.addHandler(connection)
    }

    /// Makes the TLS handler; an address literal is not allowed in SNI, and the certificate is then compared to the
    /// address.
    private func tlsHandler() throws -> NIOSSLClientHandler {
        let host = configuration.endpoint.host
        let isAddress = (try? SocketAddress(ipAddress: host, port: 0)) != nil
        return try NIOSSLClientHandler(context: tls, serverHostname: isAddress ? nil : host)
    }
}
