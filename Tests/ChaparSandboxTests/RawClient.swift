import CChaparNghttp2
import Foundation
import NIOCore
import NIOPosix
import NIOSSL
import ChaparSandbox

/// An HTTP/2 client that sends whatever frames a test wants and shows every frame that comes back.
///
/// It acknowledges nothing by itself and keeps no limits, so that a test can also be a bad client.
final class RawClient: Sendable {
    /// A frame as it stood on the wire.
    struct Frame: Sendable, Equatable {
        var type: UInt8
        var flags: UInt8
        var stream: Int32
        var payload: [UInt8]

        var isLast: Bool { flags & 1 != 0 }

        func integer(at offset: Int) -> UInt32 {
            payload[offset..<offset + 4].reduce(0) { $0 << 8 | UInt32($1) }
        }

        /// The settings of a SETTINGS frame.
        var settings: [UInt16: UInt32] {
            var settings: [UInt16: UInt32] = [:]
            for offset in stride(from: 0, to: payload.count, by: 6) {
                settings[UInt16(payload[offset]) << 8 | UInt16(payload[offset + 1])] = integer(at: offset + 2)
            }
            return settings
        }
    }

    /// An event that the client saw.
    enum Event: Sendable {
        case headers(Int32, [String: String], isLast: Bool)
        case data(Int32, String, isLast: Bool)
        case reset(Int32, code: UInt32)
        case settings([UInt16: UInt32])
        case settingsAcknowledged
        case ping(isAcknowledgement: Bool)
        case goAway(last: Int32, code: UInt32, debugData: String)
        case other(Frame)
        /// The server sends nothing any more; the socket is still there.
        case inputClosed
        /// The connection is gone; the error's text, nil after an orderly end.
        case closed(String?)
    }

    private let channel: any Channel
    let stream: AsyncStream<Event>

    private init(channel: any Channel, stream: AsyncStream<Event>) {
        self.channel = channel
        self.stream = stream
    }

    /// Connects, and completes TLS unless the server prevents it, which shows as `closed`.
    static func connect(
        to simulator: APNsSimulator,
        _ listener: APNsListener = .production,
        protocols: [String] = ["h2"],
        identity: SandboxCertificateAuthority.Identity? = nil,
        staysAfterFIN: Bool = false
    ) async throws -> RawClient {
        var tls = TLSConfiguration.makeClientConfiguration()
        tls.trustRoots = .certificates(
            try NIOSSLCertificate.fromPEMBytes(Array(simulator.authority.certificatePEM.utf8))
        )
        tls.applicationProtocols = protocols
        tls.shutdownTimeout = .milliseconds(100)
        if let identity {
            let chain = try NIOSSLCertificate.fromPEMBytes(Array(identity.certificatePEM.utf8))
            tls.certificateChain = chain.map { .certificate($0) }
            tls.privateKey = .privateKey(try NIOSSLPrivateKey(bytes: Array(identity.privateKeyPEM.utf8), format: .pem))
        }
        let context = try NIOSSLContext(configuration: tls)
        let (stream, continuation) = AsyncStream.makeStream(of: Event.self)
        let channel = try await ClientBootstrap(group: MultiThreadedEventLoopGroup.singleton)
            .channelOption(.allowRemoteHalfClosure, value: staysAfterFIN)
            .channelInitializer { channel in
                channel.eventLoop.makeCompletedFuture {
                    let handler = try NIOSSLClientHandler(context: context, serverHostname: "localhost")
                    try channel.pipeline.syncOperations.addHandlers(handler, FrameReader(continuation))
                }
            }
            .connect(host: "127.0.0.1", port: simulator.port(listener))
            .get()
        let client = RawClient(channel: channel, stream: stream)
        client.write(Array("PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n".utf8))
        client.send(Frame(type: 4, flags: 0, stream: 0, payload: []))
        return client
    }

    func send(_ frame: Frame) {
        let length = frame.payload.count
        var bytes = [UInt8(length >> 16 & 255), UInt8(length >> 8 & 255), UInt8(length & 255), frame.type, frame.flags]
        withUnsafeBytes(of: frame.stream.bigEndian) { bytes += $0 }
        write(bytes + frame.payload)
    }

    /// Opens a stream.
    ///
    /// Fields are literals without indexing, so that no state is needed.
    func sendHeaders(_ stream: Int32, _ fields: [(String, String)], isLast: Bool = false) {
        var block: [UInt8] = []
        for (name, value) in fields { block += [0] + Self.literal(name) + Self.literal(value) }
        send(Frame(type: 1, flags: isLast ? 5 : 4, stream: stream, payload: block))
    }

    func sendData(_ stream: Int32, _ text: String, isLast: Bool = true) {
        send(Frame(type: 0, flags: isLast ? 1 : 0, stream: stream, payload: Array(text.utf8)))
    }

    func ping() { send(Frame(type: 6, flags: 0, stream: 0, payload: Array(repeating: 7, count: 8))) }

    /// Returns once all that was sent before is with the kernel; for little, after the handshake.
    func flushed() async throws { try await channel.eventLoop.submit {}.get() }

    /// Sends one complete push.
    func push(
        _ stream: Int32,
        to token: String,
        jwt: String?,
        topic: String? = "com.example.app",
        more: [(String, String)] = [],
        body: String = "{}"
    ) {
        sendHeaders(stream, Self.fields(to: token, jwt: jwt, topic: topic) + more)
        sendData(stream, body)
    }

    static func fields(to token: String, jwt: String?, topic: String? = "com.example.app") -> [(String, String)] {
        var fields = [
            (":method", "POST"), (":scheme", "https"), (":authority", "localhost"), (":path", "/3/device/\(token)"),
        ]
        if let jwt { fields.append(("authorization", "bearer \(jwt)")) }
        if let topic { fields.append(("apns-topic", topic)) }
        return fields
    }

    /// The first event that is wanted; those before it are dropped.
    ///
    /// Nil when the connection ended before.
    func first<Value: Sendable>(_ wanted: @Sendable (Event) -> Value?) async -> Value? {
        for await event in stream {
            if let value = wanted(event) { return value }
            if case .closed = event { return nil }
        }
        return nil
    }

    /// The code with which a stream is reset; nil when the connection ended before.
    func resetCode(of wanted: Int32) async -> UInt32? {
        await first { event -> UInt32? in
            if case .reset(wanted, let code) = event { code } else { nil }
        }
    }

    /// The answer to a stream: status and body.
    ///
    /// Nil when the stream was reset or the connection ended.
    func answer(_ wanted: Int32) async -> (status: String, headers: [String: String], body: String)? {
        var headers: [String: String] = [:]
        for await event in stream {
            switch event {
            case .headers(wanted, let fields, let isLast):
                headers = fields
                if isLast { return (fields[":status"] ?? "", fields, "") }
            case .data(wanted, let body, let isLast) where isLast || !body.isEmpty:
                return (headers[":status"] ?? "", headers, body)
            case .reset(wanted, _), .closed: return nil
            default: break
            }
        }
        return nil
    }

    /// How the connection ends: the error's text, "" after an orderly end.
    func end() async -> String {
        for await event in stream {
            if case .closed(let error) = event { return error ?? "" }
        }
        return "stream of events ended"
    }

    func close() async {
        // Closing fails only when the channel is closed already.
        try? await channel.close()
    }

    private func write(_ bytes: [UInt8]) { channel.writeAndFlush(ByteBuffer(bytes: bytes), promise: nil) }

    private static func literal(_ text: String) -> [UInt8] {
        let bytes = Array(text.utf8)
        var length: [UInt8] = []
        if bytes.count < 127 {
            length = [UInt8(bytes.count)]
        } else {
            length = [127]
            var rest = bytes.count - 127
            while rest >= 128 {
                length.append(UInt8(rest % 128 + 128))
                rest /= 128
            }
            length.append(UInt8(rest))
        }
        return length + bytes
    }
}

/// Cuts the server's bytes into frames and reads their content.
private final class FrameReader: ChannelInboundHandler {
    typealias InboundIn = ByteBuffer

    private let events: AsyncStream<RawClient.Event>.Continuation
    private var buffer = ByteBuffer()
    private var inflater: OpaquePointer?
    private var failure: String?

    init(_ events: AsyncStream<RawClient.Event>.Continuation) {
        self.events = events
        nghttp2_hd_inflate_new(&inflater)
    }

    deinit { nghttp2_hd_inflate_del(inflater) }

    func channelRead(context: ChannelHandlerContext, data: NIOAny) {
        var bytes = unwrapInboundIn(data)
        buffer.writeBuffer(&bytes)
        while buffer.readableBytes >= 9 {
            let start = buffer.readerIndex
            let head = buffer.getBytes(at: start, length: 9) ?? []
            let length = Int(head[0]) << 16 | Int(head[1]) << 8 | Int(head[2])
            guard buffer.readableBytes >= 9 + length else { return }
            buffer.moveReaderIndex(forwardBy: 9)
            let stream = Int32(bitPattern: head[5...8].reduce(0) { $0 << 8 | UInt32($1) })
            let payload = buffer.readBytes(length: length) ?? []
            report(RawClient.Frame(type: head[3], flags: head[4], stream: stream, payload: payload))
        }
    }

    func userInboundEventTriggered(context: ChannelHandlerContext, event: Any) {
        if case .inputClosed? = event as? ChannelEvent { events.yield(.inputClosed) }
    }

    func errorCaught(context: ChannelHandlerContext, error: any Error) {
        if failure == nil { failure = "\(error)" }
        context.close(promise: nil)
    }

    func channelInactive(context: ChannelHandlerContext) {
        events.yield(.closed(failure))
        events.finish()
    }

    private func report(_ frame: RawClient.Frame) {
        switch frame.type {
        case 0: events.yield(.data(frame.stream, String(decoding: frame.payload, as: UTF8.self), isLast: frame.isLast))
        case 1: events.yield(.headers(frame.stream, inflate(frame.payload), isLast: frame.isLast))
        case 3: events.yield(.reset(frame.stream, code: frame.integer(at: 0)))
        case 4: events.yield(frame.isLast ? .settingsAcknowledged : .settings(frame.settings))
        case 6: events.yield(.ping(isAcknowledgement: frame.isLast))
        case 7:
            let debugData = String(decoding: frame.payload.dropFirst(8), as: UTF8.self)
            let last = Int32(bitPattern: frame.integer(at: 0))
            events.yield(.goAway(last: last, code: frame.integer(at: 4), debugData: debugData))
        default: events.yield(.other(frame))
        }
    }

    private func inflate(_ block: [UInt8]) -> [String: String] {
        var fields: [String: String] = [:]
        var rest = block[...]
        while true {
            var field = nghttp2_nv()
            var flags: Int32 = 0
            let taken = rest.withUnsafeBufferPointer {
                nghttp2_hd_inflate_hd2(inflater, &field, &flags, $0.baseAddress, $0.count, 1)
            }
            guard taken >= 0 else { return ["error": "\(taken)"] }
            rest = rest.dropFirst(taken)
            if flags & Int32(NGHTTP2_HD_INFLATE_EMIT.rawValue) != 0 {
                let name = String(decoding: UnsafeBufferPointer(start: field.name, count: field.namelen), as: UTF8.self)
                let value = String(
                    decoding: UnsafeBufferPointer(start: field.value, count: field.valuelen),
                    as: UTF8.self
                )
                fields[name] = value
            }
            if flags & Int32(NGHTTP2_HD_INFLATE_FINAL.rawValue) != 0 {
                nghttp2_hd_inflate_end_headers(inflater)
                return fields
            }
        }
    }
}
