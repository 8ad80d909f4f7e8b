import NIOCore
import NIOPosix
import Synchronization

/// Counts the TCP connections that it takes, and does with each what the test says: the way to be a bad network.
final class Door: Sendable {
    private let channel = Mutex<(any Channel)?>(nil)
    private let count = Mutex(0)

    static func open(
        port: Int = 0,
        _ prepare: @escaping @Sendable (any Channel) throws -> Void
    ) async throws -> Door {
        let door = Door()
        let channel = try await ServerBootstrap(group: MultiThreadedEventLoopGroup.singleton)
            .serverChannelOption(.socketOption(.so_reuseaddr), value: 1)
            .childChannelInitializer { channel in
                door.count.withLock { $0 += 1 }
                return channel.eventLoop.makeCompletedFuture { try prepare(channel) }
            }
            .bind(host: "127.0.0.1", port: port).get()
        door.channel.withLock { $0 = channel }
        return door
    }

    var connections: Int { count.withLock { $0 } }
    var port: Int { channel.withLock { $0?.localAddress?.port ?? 0 } }
    func close() async throws { try await channel.withLock { $0 }?.close() }
}

/// A door that closes every connection at once.
func closedDoor() async throws -> Door { try await Door.open { $0.close(promise: nil) } }

/// A listener that never answers.
func silentDoor() async throws -> Door { try await Door.open { _ in } }

/// An HTTP proxy that answers `CONNECT` with the given head, and after a 200 passes bytes to the port asked for.
///
/// With `credentials` (in base64) it answers 407 to a request without them.
func proxy(
    answer: String = "HTTP/1.1 200 Connection established\r\n\r\n",
    credentials: String? = nil
) async throws -> Door {
    try await Door.open { channel in
        try channel.pipeline.syncOperations.addHandler(ProxyHandler(answer: answer, credentials: credentials))
    }
}

private final class ProxyHandler: ChannelInboundHandler {
    typealias InboundIn = ByteBuffer
    typealias OutboundOut = ByteBuffer

    private let answer: String
    private let field: String?
    private var head = ByteBuffer()
    private var other: (any Channel)?

    init(answer: String, credentials: String?) {
        self.answer = answer
        field = credentials.map { "\r\nproxy-authorization: basic \($0.lowercased())\r\n" }
    }

    func channelRead(context: ChannelHandlerContext, data: NIOAny) {
        var bytes = unwrapInboundIn(data)
        if let other { return other.writeAndFlush(bytes, promise: nil) }
        head.writeBuffer(&bytes)
        let text = String(buffer: head)
        guard text.hasSuffix("\r\n\r\n") else { return }
        if let field, !text.lowercased().contains(field) {
            let refusal = "HTTP/1.1 407 Wanted\r\nproxy-authenticate: Basic\r\ncontent-length: 0\r\n\r\n"
            context.writeAndFlush(wrapOutboundOut(ByteBuffer(string: refusal)), promise: nil)
            return context.close(promise: nil)
        }
        let target = text.split(separator: " ").dropFirst().first?.split(separator: ":").last.flatMap { Int($0) }
        guard text.hasPrefix("CONNECT "), answer.contains(" 200 "), let target else {
            context.writeAndFlush(wrapOutboundOut(ByteBuffer(string: answer)), promise: nil)
            return context.close(promise: nil)
        }
        let client = context.channel
        let answer = answer
        let isDone = context.eventLoop.makePromise(of: (any Channel).self)
        ClientBootstrap(group: context.eventLoop)
            .channelInitializer { channel in
                channel.eventLoop.makeCompletedFuture {
                    try channel.pipeline.syncOperations.addHandler(PassOn(to: client))
                }
            }
            .connect(host: "127.0.0.1", port: target).cascade(to: isDone)
        let bound = NIOLoopBound(self, eventLoop: context.eventLoop)
        isDone.futureResult.whenSuccess { channel in
            bound.value.other = channel
            client.writeAndFlush(ByteBuffer(string: answer), promise: nil)
        }
    }

    func channelInactive(context: ChannelHandlerContext) { other?.close(promise: nil) }
}

private final class PassOn: ChannelInboundHandler {
    typealias InboundIn = ByteBuffer
    private let target: any Channel
    init(to target: any Channel) { self.target = target }
    func channelRead(context: ChannelHandlerContext, data: NIOAny) {
        target.writeAndFlush(unwrapInboundIn(data), promise: nil)
    }
    func channelInactive(context: ChannelHandlerContext) { target.close(promise: nil) }
}
