internal import NIOCore
internal import NIOHTTP1
internal import NIOPosix
internal import ChaparCore
internal import ChaparSimulator
internal import Synchronization

/// A cleartext HTTP/1.1 listener on the loopback interface for control calls.
///
/// It has no authentication: never bind it to another interface. Requests for other hosts and from pages of other sites
/// are refused.
final class ControlServer: Sendable {
    private let channel: any Channel
    private let open: OpenChannels

    /// The port it listens on.
    var port: Int { channel.localAddress?.port ?? 0 }

    private init(channel: any Channel, open: OpenChannels) {
        self.channel = channel
        self.open = open
    }

    /// Starts a listener on `127.0.0.1`.
    static func start(
        port: Int,
        answer: @escaping @Sendable (ControlRequest) -> ControlAnswer
    ) async throws -> ControlServer {
        let open = OpenChannels()
        let channel = try await ServerBootstrap(group: MultiThreadedEventLoopGroup.singleton)
            .serverChannelOption(.socketOption(.so_reuseaddr), value: 1)
            .childChannelInitializer { channel in
                channel.eventLoop.makeCompletedFuture {
                    open.add(channel)
                    try channel.pipeline.syncOperations.configureHTTPServerPipeline()
                    try channel.pipeline.syncOperations.addHandler(ControlHandler(answer: answer))
                }
            }
            .bind(host: "127.0.0.1", port: port)
            .get()
        return ControlServer(channel: channel, open: open)
    }

    /// Stops listening and closes every connection.
    func shutdown() async {
        // Closing fails only when the channel is closed already.
        try? await channel.close()
        for child in open.all {
            child.close(promise: nil)
            try? await child.closeFuture.get()
        }
    }
}

/// The open connections of a listener.
private final class OpenChannels: Sendable {
    private let channels = Mutex<[ObjectIdentifier: any Channel]>([:])

    var all: [any Channel] { channels.withLock { Array($0.values) } }

    func add(_ channel: any Channel) {
        let id = ObjectIdentifier(channel)
        channels.withLock { $0[id] = channel }
        channel.closeFuture.whenComplete { _ in self.channels.withLock { _ = $0.removeValue(forKey: id) } }
    }
}

/// Collects one request at a time and answers it.
///
/// Each connection to the control API has one. It refuses requests for other hosts and from pages of other sites, and
/// closes a connection that sends more than 4 MiB.
private final class ControlHandler: ChannelInboundHandler {
    typealias InboundIn = HTTPServerRequestPart
    typealias OutboundOut = HTTPServerResponsePart

    private static let maximumBody = 4 << 20

    private static let origin = LocalOrigin(host: "127.0.0.1")

    private let answer: @Sendable (ControlRequest) -> ControlAnswer
    private var head: HTTPRequestHead?
    private var body: [UInt8] = []

    init(answer: @escaping @Sendable (ControlRequest) -> ControlAnswer) { self.answer = answer }

    func channelRead(context: ChannelHandlerContext, data: NIOAny) {
        switch unwrapInboundIn(data) {
        case .head(let head):
            self.head = head
            body = []
        case .body(let bytes):
            body.append(contentsOf: bytes.readableBytesView)
            if body.count > Self.maximumBody { context.close(promise: nil) }
        case .end:
            guard let head else { return }
            self.head = nil
            let refusal = Self.origin.refusal(
                host: head.headers.first(name: "host"),
                origin: head.headers.first(name: "origin"),
                fetchSite: head.headers.first(name: "sec-fetch-site")
            )
            guard refusal == nil else { return send(.foreign, keepAlive: false, context) }
            let request = ControlRequest(method: head.method.rawValue, target: head.uri, body: body)
            send(answer(request), keepAlive: head.isKeepAlive, context)
        }
    }

    func errorCaught(context: ChannelHandlerContext, error: any Error) { context.close(promise: nil) }

    private func send(_ answer: ControlAnswer, keepAlive: Bool, _ context: ChannelHandlerContext) {
        let bytes = answer.body.bytes
        var headers = HTTPHeaders()
        headers.add(name: "content-type", value: "application/json")
        headers.add(name: "content-length", value: "\(bytes.count)")
        if !keepAlive { headers.add(name: "connection", value: "close") }
        let head = HTTPResponseHead(version: .http1_1, status: .init(statusCode: answer.status), headers: headers)
        context.write(wrapOutboundOut(.head(head)), promise: nil)
        context.write(wrapOutboundOut(.body(.byteBuffer(ByteBuffer(bytes: bytes)))), promise: nil)
        let sent = context.eventLoop.makePromise(of: Void.self)
        context.writeAndFlush(wrapOutboundOut(.end(nil)), promise: sent)
        if !keepAlive {
            let channel = context.channel
            sent.futureResult.whenComplete { _ in channel.close(promise: nil) }
        }
    }
}
