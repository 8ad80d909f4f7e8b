import CChaparNghttp2
import NIOCore
import NIOSSL
import Synchronization

/// One connection of a scripted server: frames by hand, only the header decoder is the library's.
///
/// Sendable without proof by the compiler: everything runs on the server's one event loop, but for what tests read,
/// which is in `seen`.
final class ServerConnection: ChannelInboundHandler, @unchecked Sendable {
    typealias InboundIn = ByteBuffer
    typealias OutboundOut = ByteBuffer

    enum Kind: UInt8 {
        case data = 0
        case headers = 1
        case reset = 3
        case settings = 4
        case ping = 6
        case goAway = 7
        case windowUpdate = 8
        case continuation = 9
    }

    let number: Int
    private let server: ScriptedServer
    private var hasGreeted = false
    private var owesAcknowledgement = false
    private var context: ChannelHandlerContext?
    private var input = ByteBuffer()
    private var hasPreface = false
    private var inflater: OpaquePointer?
    private var headerBlock: [UInt8] = []
    private var headerFlags: UInt8 = 0

    /// Streams whose request has begun and whose answer has not ended.
    private(set) var open: [Int32] = []
    /// Requests that are complete and not answered, oldest first.
    private(set) var pending: [Int32] = []
    private(set) var requestCount = 0
    /// The state that tests read on threads of their own.
    private struct Seen {
        var largestFrame = 0
        var continuations = 0
        var bodyBytes: [Int32: Int] = [:]
        var pings = 0
        var isClosed = false
    }
    private let seen = Mutex(Seen())
    var largestFrame: Int { seen.withLock { $0.largestFrame } }
    var continuations: Int { seen.withLock { $0.continuations } }
    var bodyBytes: [Int32: Int] { seen.withLock { $0.bodyBytes } }
    var pings: Int { seen.withLock { $0.pings } }
    var isClosed: Bool { seen.withLock { $0.isClosed } }
    /// The `:path` of every request that came.
    private(set) var paths: [Int32: String] = [:]
    /// Stream limits sent and not yet superseded by an acknowledged one, oldest first.
    private var limits: [UInt32] = [.max]
    private var unacknowledged: [UInt32?] = []

    init(server: ScriptedServer, number: Int) {
        (self.server, self.number) = (server, number)
        nghttp2_hd_inflate_new(&inflater)
    }

    deinit { nghttp2_hd_inflate_del(inflater) }

    // MARK: Steps of scripts

    func frame(_ kind: Kind, flags: UInt8 = 0, stream: Int32 = 0, _ payload: [UInt8] = []) {
        send(Self.frame(kind.rawValue, flags: flags, stream: stream, payload))
    }

    /// Writes bytes as they are.
    func send(_ bytes: [UInt8]) { context?.writeAndFlush(wrapOutboundOut(ByteBuffer(bytes: bytes)), promise: nil) }

    /// Writes bytes that TLS has not made.
    func sendBelowTLS(_ bytes: [UInt8]) { tls?.writeAndFlush(NIOAny(ByteBuffer(bytes: bytes)), promise: nil) }

    /// Closes without a goodbye.
    func breakOff() { tls?.close(promise: nil) }

    private var tls: ChannelHandlerContext? {
        try? context?.pipeline.syncOperations.context(handlerType: NIOSSLServerHandler.self)
    }

    /// A frame's bytes; its head says `length` even when the payload has another.
    static func frame(
        _ type: UInt8,
        flags: UInt8 = 0,
        stream: Int32 = 0,
        _ payload: [UInt8] = [],
        length: Int? = nil
    ) -> [UInt8] {
        let count = UInt32(length ?? payload.count)
        let head = [UInt8(count >> 16), UInt8(count >> 8 & 255), UInt8(count & 255), type, flags]
        return head + bytes(UInt32(bitPattern: stream)) + payload
    }

    func fields(_ fields: [(String, String)]) -> [UInt8] { Self.block(fields) }

    /// The literal form of fields.
    static func block(_ fields: [(String, String)]) -> [UInt8] {
        var bytes: [UInt8] = []
        for (name, value) in fields {
            bytes += [0, UInt8(name.utf8.count)]
            bytes += name.utf8
            bytes += Self.length(value.utf8.count)
            bytes += value.utf8
        }
        return bytes
    }

    private static func length(_ count: Int) -> [UInt8] {
        guard count >= 127 else { return [UInt8(count)] }
        var (bytes, rest): ([UInt8], Int) = ([127], count - 127)
        while rest >= 128 {
            bytes.append(UInt8(rest & 127) | 128)
            rest >>= 7
        }
        return bytes + [UInt8(rest)]
    }

    func answer(_ id: Int32, status: Int = 200, fields extra: [(String, String)] = [], body: [UInt8] = []) {
        ended(id)
        let block = fields([(":status", "\(status)")] + extra)
        frame(.headers, flags: body.isEmpty ? 5 : 4, stream: id, block)
        if !body.isEmpty { frame(.data, flags: 1, stream: id, body) }
    }

    func reset(_ id: Int32, _ code: UInt32) {
        ended(id)
        frame(.reset, stream: id, Self.bytes(code))
    }

    func settings(_ values: [(UInt16, UInt32)]) {
        hasGreeted = true
        unacknowledged.append(values.first { $0.0 == 3 }?.1)
        if let limit = unacknowledged.last ?? nil { limits.append(limit) }
        frame(.settings, values.flatMap { [UInt8($0 >> 8), UInt8($0 & 255)] + Self.bytes($1) })
        if owesAcknowledgement { frame(.settings, flags: 1) }  // Ours had to come first.
        owesAcknowledgement = false
    }

    func goAway(last: Int32, code: UInt32 = 0, debug: String = "") {
        frame(.goAway, Self.bytes(UInt32(last)) + Self.bytes(code) + Array(debug.utf8))
    }

    func windowUpdate(_ stream: Int32, _ count: UInt32) { frame(.windowUpdate, stream: stream, Self.bytes(count)) }

    func close() { context?.close(promise: nil) }

    /// Makes the decoder hold the client to the table size that SETTINGS announced.
    func setTableSize(_ size: UInt32) { nghttp2_hd_inflate_change_table_size(inflater, Int(size)) }

    func setReading(_ isReading: Bool) {
        _ = context?.channel.setOption(.autoRead, value: isReading)
    }

    var loop: any EventLoop { server.loop }

    func after(_ time: TimeAmount, _ action: @escaping @Sendable (ServerConnection) -> Void) {
        _ = context?.eventLoop.scheduleTask(in: time) { action(self) }
    }

    static func bytes(_ value: UInt32) -> [UInt8] {
        [UInt8(value >> 24), UInt8(value >> 16 & 255), UInt8(value >> 8 & 255), UInt8(value & 255)]
    }

    private func ended(_ id: Int32) {
        open.removeAll { $0 == id }
        pending.removeAll { $0 == id }
    }

    // MARK: Events of the channel

    func handlerAdded(context: ChannelHandlerContext) { self.context = context }
    func handlerRemoved(context: ChannelHandlerContext) {
        self.context = nil
        seen.withLock { $0.isClosed = true }  // A connection that was gone before it was taken never becomes inactive.
    }

    func channelInactive(context: ChannelHandlerContext) { seen.withLock { $0.isClosed = true } }

    func errorCaught(context: ChannelHandlerContext, error: any Error) { context.close(promise: nil) }

    func channelRead(context: ChannelHandlerContext, data: NIOAny) {
        var bytes = unwrapInboundIn(data)
        input.writeBuffer(&bytes)
        if !hasPreface {
            guard input.readableBytes >= 24 else { return }
            hasPreface = true
            input.moveReaderIndex(forwardBy: 24)
            if let values = server.rules.settings { settings(values) }
            server.rules.script(self, .opened)
        }
        while let head = input.getBytes(at: input.readerIndex, length: 9) {
            let count = Int(head[0]) << 16 | Int(head[1]) << 8 | Int(head[2])
            guard input.readableBytes >= 9 + count else { return }
            input.moveReaderIndex(forwardBy: 9)
            let payload = input.readBytes(length: count) ?? []
            let id = head[5...8].reduce(Int32(0)) { $0 << 8 | Int32($1) }
            seen.withLock { $0.largestFrame = max($0.largestFrame, count) }
            if let kind = Kind(rawValue: head[3]) { received(kind, flags: head[4], id, payload) }
        }
        input.discardReadBytes()
    }

    private func received(_ kind: Kind, flags: UInt8, _ id: Int32, _ payload: [UInt8]) {
        switch kind {
        case .headers:
            headerBlock = flags & 32 != 0 ? Array(payload.dropFirst(5)) : payload
            headerFlags = flags
            if flags & 4 != 0 { headersEnded(id) }
        case .continuation:
            seen.withLock { $0.continuations += 1 }
            headerBlock += payload
            if flags & 4 != 0 { headersEnded(id) }
        case .data:
            seen.withLock { $0.bodyBytes[id, default: 0] += payload.count }
            server.rules.script(self, .data(id, payload.count))
            if flags & 1 != 0 { requestEnded(id) }
        case .reset:
            let code = payload.reduce(UInt32(0)) { $0 << 8 | UInt32($1) }
            ended(id)
            server.note(reset: id, code)
            server.rules.script(self, .reset(id, code))
        case .settings:
            if flags & 1 != 0 { return settingsAcknowledged() }
            if hasGreeted { frame(.settings, flags: 1) } else { owesAcknowledgement = true }
        case .ping:
            guard flags & 1 == 0 else { return }
            seen.withLock { $0.pings += 1 }
            if server.rules.answersPings { frame(.ping, flags: 1, payload) }
            server.rules.script(self, .ping)
        case .goAway, .windowUpdate: break
        }
    }

    private func settingsAcknowledged() {
        if !unacknowledged.isEmpty, unacknowledged.removeFirst() != nil { limits.removeFirst() }
        server.rules.script(self, .settingsAcknowledged)
    }

    private func headersEnded(_ id: Int32) {
        open.append(id)
        requestCount += 1
        if let limit = limits.max(), open.count > limit {
            server.note(violation: "\(open.count) streams open on connection \(number), the limit is \(limit)")
        }
        if !hasGreeted { server.note(violation: "a request before any SETTINGS") }
        let fields = decode(headerBlock)
        paths[id] = fields[":path"]
        server.note(ScriptedServer.Request(connection: number, stream: id, fields: fields))
        let isEnd = headerFlags & 1 != 0
        server.rules.script(self, .headers(id))
        if isEnd { requestEnded(id) }
    }

    private func requestEnded(_ id: Int32) {
        guard open.contains(id) else { return }
        pending.append(id)
        server.rules.script(self, .request(id))
    }

    private func decode(_ block: [UInt8]) -> [String: String] {
        var fields: [String: String] = [:]
        var rest = block[...]
        while true {
            var (field, flags) = (nghttp2_nv(), Int32(0))
            let taken = rest.withUnsafeBufferPointer {
                nghttp2_hd_inflate_hd2(inflater, &field, &flags, $0.baseAddress, $0.count, 1)
            }
            guard taken >= 0 else {
                server.note(violation: "a header block that cannot be decoded")
                return fields
            }
            rest = rest.dropFirst(taken)
            if UInt32(bitPattern: flags) & NGHTTP2_HD_INFLATE_EMIT.rawValue != 0 {
                let name = UnsafeBufferPointer(start: field.name, count: field.namelen)
                let value = UnsafeBufferPointer(start: field.value, count: field.valuelen)
                fields[String(decoding: name, as: UTF8.self)] = String(decoding: value, as: UTF8.self)
            }
            if UInt32(bitPattern: flags) & NGHTTP2_HD_INFLATE_FINAL.rawValue != 0 { break }
        }
        nghttp2_hd_inflate_end_headers(inflater)
        return fields
    }
}
