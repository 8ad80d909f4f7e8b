import NIOCore
import NIOPosix
import NIOSSL
import Synchronization

/// A client that sends what it is told to and reads what comes, on one TCP connection.
struct RawClient {
    private let outbound: NIOAsyncChannelOutboundWriter<ByteBuffer>
    private let inbound: Inbound

    /// The connection has ended; thrown by a test, it does.
    struct Ended: Error {}

    /// Reads the connection on behalf of one test.
    private final class Inbound {
        var iterator: NIOAsyncChannelInboundStream<ByteBuffer>.AsyncIterator
        var text = ""
        init(_ iterator: NIOAsyncChannelInboundStream<ByteBuffer>.AsyncIterator) { self.iterator = iterator }
    }

    static func run(_ port: Int, host: String = "127.0.0.1", _ body: (RawClient) async throws -> Void) async throws {
        try await connect(port, host: host).executeThenClose { inbound, outbound in
            try await body(RawClient(outbound: outbound, inbound: Inbound(inbound.makeAsyncIterator())))
        }
    }

    /// Connects from an address of this machine; with `tls`, through TLS.
    private static func connect(
        _ port: Int,
        host: String = "127.0.0.1",
        from source: String? = nil,
        tls: NIOSSLContext? = nil
    ) async throws -> NIOAsyncChannel<ByteBuffer, ByteBuffer> {
        var bootstrap = ClientBootstrap(group: .singletonMultiThreadedEventLoopGroup)
            .channelOption(.allowRemoteHalfClosure, value: true)
        if let source { bootstrap = bootstrap.bind(to: try SocketAddress(ipAddress: source, port: 0)) }
        return try await bootstrap.connect(host: host, port: port) { channel in
            channel.eventLoop.makeCompletedFuture {
                if let tls {
                    let handler = try NIOSSLClientHandler(context: tls, serverHostname: "localhost")
                    try channel.pipeline.syncOperations.addHandler(handler)
                }
                return try NIOAsyncChannel(
                    wrappingChannelSynchronously: channel,
                    configuration: .init(isOutboundHalfClosureEnabled: true)
                )
            }
        }
    }

    /// The bytes that came on a connection.
    private final class Received: Sendable {
        private let state = Mutex((bytes: ByteBuffer(), isInOrder: false))

        func add(_ part: ByteBuffer) { state.withLock { _ = $0.bytes.writeImmutableBuffer(part) } }
        func end() { state.withLock { $0.isInOrder = true } }
        var all: (text: String, isInOrder: Bool) { state.withLock { (String(buffer: $0.bytes), $0.isInOrder) } }
    }

    /// Writes while everything that comes is read, until the server ends the connection or `write` throws; gives what
    /// came, and whether the end was in order.
    static func converse(
        _ port: Int,
        from source: String? = nil,
        tls: NIOSSLContext? = nil,
        _ write: @escaping @Sendable (NIOAsyncChannelOutboundWriter<ByteBuffer>) async throws -> Void
    ) async throws -> (text: String, isInOrder: Bool) {
        let received = Received()
        let channel = try await connect(port, from: source, tls: tls)
        try? await channel.executeThenClose { inbound, outbound in
            await withThrowingTaskGroup(of: Void.self) { group in
                group.addTask {
                    for try await part in inbound { received.add(part) }
                    received.end()
                }
                group.addTask { try await write(outbound) }
                while let result = await group.nextResult() {
                    // What cannot be written any more is no reason to stop reading.
                    if case .failure(let error) = result, error is Ended { group.cancelAll() }
                }
            }
        }
        return received.all
    }

    func send(_ text: String) async throws { try await outbound.write(ByteBuffer(string: text)) }

    /// Ends our side of the connection.
    func finish() async throws { outbound.finish() }

    /// Everything up to and with a text.
    func read(until end: String) async throws -> String {
        while true {
            if let range = inbound.text.firstRange(of: end) {
                defer { inbound.text.removeSubrange(..<range.upperBound) }
                return String(inbound.text[..<range.upperBound])
            }
            guard let part = try await inbound.iterator.next() else { throw Ended() }
            inbound.text += String(buffer: part)
        }
    }

    /// Reads a number of bytes.
    func read(count: Int) async throws -> String {
        while inbound.text.utf8.count < count {
            guard let part = try await inbound.iterator.next() else { throw Ended() }
            inbound.text += String(buffer: part)
        }
        let end = inbound.text.utf8.index(inbound.text.startIndex, offsetBy: count)
        defer { inbound.text.removeSubrange(..<end) }
        return String(inbound.text[..<end])
    }

    /// Everything until the server ends the connection.
    func readToEnd() async throws -> String {
        while let part = try await inbound.iterator.next() { inbound.text += String(buffer: part) }
        return inbound.text
    }
}
