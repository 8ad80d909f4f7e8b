import Foundation
import Logging
import NIOCore
import NIOEmbedded
import NIOHTTP1
import ChaparCore

@testable import ChaparAPI
@testable import ChaparDelivery
@testable import ChaparGateway
@testable import ChaparServer

/// A connection of a client: HTTP/1.1 on both sides, and a socket's buffer between them that fills when the client does
/// not read.
///
/// `@unchecked Sendable`: one thread at a time, see ``Scheduler``.
final class ClientConnection: @unchecked Sendable {
    /// The bytes that a socket takes before its sender has to wait.
    private static let capacity = 16 << 10

    private let server: EmbeddedChannel
    private let client: EmbeddedChannel
    private var buffered: [ByteBuffer] = []
    private var bufferedBytes: Int { buffered.reduce(0) { $0 + $1.readableBytes } }
    /// Whether there may be bytes to move, or it was closed, since the last ``pump()``.
    private(set) var isChanged = false
    private var onPart: ((HTTPClientResponsePart) -> Void)?
    private var onEnd: (() -> Void)?
    /// Whether the client takes what comes.
    var isReading = true {
        didSet { isChanged = true }
    }
    private(set) var isBusy = false
    /// Whether it was noticed that its client does not read.
    var isNoticed = false
    /// Since when nothing more can be written to it, since the client does not read; nil while it can.
    private(set) var blockedSince: NIODeadline?
    /// Whether the server has closed it.
    var isClosedByServer: Bool { !server.isActive }

    init(_ loop: EmbeddedEventLoop) {
        server = EmbeddedChannel(loop: loop)
        client = EmbeddedChannel(loop: loop)
    }

    func begin(_ front: FastChannel, _ logger: Logger) {
        do {
            let address = try SocketAddress(ipAddress: "127.0.0.1", port: 8080)
            server.localAddress = address
            server.remoteAddress = try SocketAddress(ipAddress: "127.0.0.1", port: 50_000)
            try client.pipeline.syncOperations.addHTTPClientHandlers()
            try server.pipeline.syncOperations.addHandler(FlushObserver { [unowned self] in isChanged = true })
            server.closeFuture.whenComplete { [self] _ in isChanged = true }
            client.connect(to: address, promise: nil)
            front.setup(channel: server, logger: logger).whenSuccess { value in
                Task { await front.handle(value: value, logger: logger) }
            }
            server.connect(to: address, promise: nil)
        } catch {
            fatalError("the simulation cannot make a connection: \(error)")
        }
    }

    /// Sends a request; each part of the answer goes to `onPart`, and the end of the connection to `onEnd`.
    func send(
        _ method: HTTPMethod,
        _ path: String,
        _ fields: [(String, String)],
        _ body: [UInt8]?,
        onPart: @escaping (HTTPClientResponsePart) -> Void,
        onEnd: @escaping () -> Void
    ) {
        isBusy = true
        self.path = path
        self.onPart = onPart
        self.onEnd = onEnd
        var head = HTTPRequestHead(version: .http1_1, method: method, uri: path)
        head.headers.add(name: "Host", value: "localhost:8080")
        for (name, value) in fields { head.headers.add(name: name, value: value) }
        if let body {
            head.headers.add(name: "Content-Type", value: "application/json")
            head.headers.add(name: "Content-Length", value: "\(body.count)")
        }
        client.write(HTTPClientRequestPart.head(head), promise: nil)
        if let body { client.write(HTTPClientRequestPart.body(.byteBuffer(ByteBuffer(bytes: body))), promise: nil) }
        client.writeAndFlush(HTTPClientRequestPart.end(nil), promise: nil)
        while let bytes = try? client.readOutbound(as: ByteBuffer.self) { _ = try? server.writeInbound(bytes) }
    }

    /// The client goes.
    func close() { server.close(promise: nil) }

    /// Whether the server has closed it, and the client has read what it reads.
    var isClosed: Bool { !server.isActive && (buffered.isEmpty || !isReading) }

    /// Tells the client that the connection is no more.
    func end() {
        let last = onEnd
        (onPart, onEnd) = (nil, nil)
        last?()
    }

    /// For messages of failures.
    var state: String {
        "\(isReading ? "reads" : "does not read") \(bufferedBytes) \(isBusy ? "busy" : "idle") \(server.isActive) \(path)"
    }
    private var path = ""

    func quiesce() { server.pipeline.fireUserInboundEventTriggered(ChannelShouldQuiesceEvent()) }

    /// Moves bytes from the server to the client, as far as it reads.
    func pump() {
        isChanged = false
        while isReading || bufferedBytes < Self.capacity, let bytes = read() { buffered.append(bytes) }
        if isReading {
            let moved = buffered
            buffered = []
            for bytes in moved {
                _ = try? client.writeInbound(bytes)
                while let part = try? client.readInbound(as: HTTPClientResponsePart.self) {
                    let listener = onPart
                    if case .end = part {
                        isBusy = false
                        (onPart, onEnd) = (nil, nil)
                    }
                    listener?(part)
                }
            }
        }
        let isWritable = isReading || bufferedBytes < Self.capacity
        guard isWritable != server.isWritable else { return }
        blockedSince = isWritable ? nil : .now()
        server.isWritable = isWritable
        server.pipeline.fireChannelWritabilityChanged()
    }

    /// Sees that there is something to send, next to the socket.
    private final class FlushObserver: ChannelOutboundHandler {
        typealias OutboundIn = IOData
        private let onFlush: () -> Void

        init(_ onFlush: @escaping () -> Void) { self.onFlush = onFlush }

        func flush(context: ChannelHandlerContext) {
            onFlush()
            context.flush()
        }
    }

    private func read() -> ByteBuffer? {
        guard let data = try? server.readOutbound(as: IOData.self) else { return nil }
        guard case .byteBuffer(let bytes) = data else { return nil }
        return bytes
    }
}
