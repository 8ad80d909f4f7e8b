import NIOCore
import NIOHTTP1
import NIOPosix
import NIOSSL
import Synchronization

/// A small HTTP/1.1 server: answers 200 with what it was asked, or does what the test says.
final class HTTP1Server: Sendable {
    typealias Action = @Sendable (HTTPRequestHead, ChannelHandlerContext) -> Void

    private let channel = Mutex<(any Channel)?>(nil)
    private let counts = Mutex((connections: 0, requests: 0))
    private let children = Mutex<[any Channel]>([])
    private let scheme: String

    private init(scheme: String) { self.scheme = scheme }

    static func start(
        withTLS: Bool = false,
        identity: TestAuthority.Identity? = nil,
        clientTrustPEM: String? = nil,
        port: Int = 0,
        withPipelining: Bool = true,
        action: Action? = nil,
        opened: (@Sendable (ChannelHandlerContext) -> Void)? = nil
    ) async throws -> HTTP1Server {
        let server = HTTP1Server(scheme: withTLS ? "https" : "http")
        let identity = try identity ?? TestAuthority.shared.identity()
        var configuration = TLSConfiguration.makeServerConfiguration(
            certificateChain: try NIOSSLCertificate.fromPEMBytes(Array(identity.certificatePEM.utf8))
                .map { .certificate($0) },
            privateKey: .privateKey(try NIOSSLPrivateKey(bytes: Array(identity.keyPEM.utf8), format: .pem))
        )
        if let clientTrustPEM {
            configuration.certificateVerification = .noHostnameVerification
            configuration.trustRoots = .certificates(try NIOSSLCertificate.fromPEMBytes(Array(clientTrustPEM.utf8)))
        }
        let tls = try NIOSSLContext(configuration: configuration)
        let channel = try await ServerBootstrap(group: MultiThreadedEventLoopGroup.singleton)
            .serverChannelOption(.socketOption(.so_reuseaddr), value: 1)
            .childChannelInitializer { channel in
                server.counts.withLock { $0.connections += 1 }
                server.children.withLock { $0.append(channel) }
                return channel.eventLoop.makeCompletedFuture {
                    let pipeline = channel.pipeline.syncOperations
                    if withTLS { try pipeline.addHandler(NIOSSLServerHandler(context: tls)) }
                    try pipeline.configureHTTPServerPipeline(withPipeliningAssistance: withPipelining)
                    try pipeline.addHandler(Handler(server: server, opened: opened, action: action))
                }
            }
            .bind(host: "127.0.0.1", port: port).get()
        server.channel.withLock { $0 = channel }
        return server
    }

    var url: String { "\(scheme)://127.0.0.1:\(channel.withLock { $0?.localAddress?.port ?? 0 })" }
    var connections: Int { counts.withLock { $0.connections } }
    var requests: Int { counts.withLock { $0.requests } }

    func stop() async throws {
        try await channel.withLock { $0 }?.close()
        for child in children.withLock({ $0 }) { child.close(promise: nil) }
    }

    private final class Handler: ChannelInboundHandler {
        typealias InboundIn = HTTPServerRequestPart
        typealias OutboundOut = HTTPServerResponsePart

        private let server: HTTP1Server
        private let opened: (@Sendable (ChannelHandlerContext) -> Void)?
        private let action: Action?
        private var head: HTTPRequestHead?
        private var bytes = 0

        init(
            server: HTTP1Server,
            opened: (@Sendable (ChannelHandlerContext) -> Void)?,
            action: Action?
        ) {
            (self.server, self.opened, self.action) = (server, opened, action)
        }

        func channelActive(context: ChannelHandlerContext) {
            opened?(context)
            context.fireChannelActive()
        }

        func channelRead(context: ChannelHandlerContext, data: NIOAny) {
            switch unwrapInboundIn(data) {
            case .head(let head): (self.head, bytes) = (head, 0)
            case .body(let part): bytes += part.readableBytes
            case .end:
                guard let head else { return }
                server.counts.withLock { $0.requests += 1 }
                if let action { return action(head, context) }
                let headers: HTTPHeaders = [
                    "content-length": "5", "x-path": head.uri, "x-length": "\(bytes)",
                    "x-authorization": head.headers["authorization"].first ?? "",
                ]
                let answer = HTTPResponseHead(version: .http1_1, status: .ok, headers: headers)
                context.write(wrapOutboundOut(.head(answer)), promise: nil)
                context.write(wrapOutboundOut(.body(.byteBuffer(ByteBuffer(string: "hello")))), promise: nil)
                context.writeAndFlush(wrapOutboundOut(.end(nil)), promise: nil)
            }
        }

        func errorCaught(context: ChannelHandlerContext, error: any Error) { context.close(promise: nil) }
    }
}
