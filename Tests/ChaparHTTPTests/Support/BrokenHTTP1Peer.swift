import NIOCore
import NIOHTTP1
import NIOSSL
import ChaparTesting
import Synchronization

/// The ways in which an HTTP/1.1 peer, or something between, can be broken.
enum HTTP1Nonsense: Int, Nonsense, CaseIterable {
    // Bytes.
    case flippedBits, cut, cutInSilence, cutWithoutGoodbye, brokenTLS, noise
    // Legal, if odd: nothing may come of it.
    case small, informational, untilClose, closeAtOnce
    // What no peer may write.
    case early, statusLine, chunks, length, hugeHead, endlessHead, twoAnswers, moreBytes, fields, upgrade

    var isLegal: Bool { [.small, .informational, .untilClose].contains(self) }

    /// Whether the meaning of the bytes is undefined.
    var isObscure: Bool { self == .flippedBits || self == .noise }
}

/// A server whose first connections are broken in one way, and which remembers what it wrote.
///
/// Sendable without proof by the compiler: everything but `attempts` is touched within `lock`.
final class BrokenHTTP1Peer: @unchecked Sendable {
    private struct State {
        let number: Int
        /// Requests that are answered before the trouble.
        var wellBefore: Int
        var isSpent = false
        var isMute = false
        var isConfusing = false
    }

    /// The output of a peer for one request.
    private struct Output {
        var bytes: [UInt8]
        /// The whole answer has been written before any nonsense.
        var isCertain = false
        var isOnePiece = false
    }

    let kind: HTTP1Nonsense
    private let lock = Mutex(())
    private var dice: Dice
    private let brokenConnections: Int
    private var states: [ObjectIdentifier: State] = [:]
    private var channels: [any Channel] = []
    private var isBroken = true
    private var known = Attempts()
    private var troubles = 0

    init(_ kind: HTTP1Nonsense, seed: Int) {
        self.kind = kind
        dice = Dice(seed: seed)
        brokenConnections = dice.roll(1...3)
    }

    var attempts: Attempts { lock.withLock { _ in known } }
    /// How often the peer has been broken.
    var failures: Int { lock.withLock { _ in troubles } }

    func start() async throws -> HTTP1Server {
        try await HTTP1Server.start(
            withTLS: true,
            identity: try BrokenPeerTests.identity.get(),
            withPipelining: false,
            action: { self.requested($0, $1) },
            opened: { self.opened($0) }
        )
    }

    /// From now on the peer is a good one; broken connections end.
    func mend() {
        let channels = lock.withLock { _ in
            isBroken = false
            for id in states.keys { states[id]?.isMute = true }
            return self.channels
        }
        for channel in channels { channel.close(promise: nil) }
    }

    /// Connections that are open.
    var open: Int { lock.withLock { _ in channels.filter(\.isActive).count } }

    private func opened(_ context: ChannelHandlerContext) {
        let early: [UInt8]? = lock.withLock { _ in
            let wellBefore = kind == .early ? 0 : dice.roll(0...2)
            let state = State(number: channels.count + 1, wellBefore: wellBefore)
            states[ObjectIdentifier(context.channel)] = state
            channels.append(context.channel)
            guard kind == .early, isBroken, state.number <= brokenConnections else { return nil }
            troubles += 1
            states[ObjectIdentifier(context.channel)]?.isConfusing = true
            let answer = "HTTP/1.1 200 OK\r\ncontent-length: 4\r\n\r\nnone"
            return dice.pick([Array(answer.utf8), dice.bytes(dice.roll(1...300)), [], Array("HTTP/1.1 ".utf8)])
        }
        guard let early else { return }
        if !early.isEmpty { write([early], context) }
        let context = NIOLoopBound(context, eventLoop: context.eventLoop)
        context.value.eventLoop.scheduleTask(in: .milliseconds(5)) { self.close(context.value) }
    }

    private func requested(_ head: HTTPRequestHead, _ context: ChannelHandlerContext) {
        let id = ObjectIdentifier(context.channel)
        let output: (chunks: [[UInt8]], isTrouble: Bool)? = lock.withLock { _ in
            guard var state = states[id], let number = Attempts.number(ofPath: head.uri) else { return nil }
            defer { states[id] = state }
            var attempt = Attempt(connection: state.number)
            attempt.isObscure = state.isSpent && kind.isObscure
            attempt.mayBeConfused = state.isConfusing
            let place = known.add(attempt, number: number)
            guard !state.isMute else { return nil }
            let isTrouble = isBroken && state.number <= brokenConnections && !state.isSpent && state.wellBefore == 0
            state.wellBefore = max(0, state.wellBefore - 1)
            let status = dice.pick(HTTP2Composer.statuses)
            var output = Output(bytes: answer(number, status), isCertain: !state.isSpent && !state.isConfusing)
            if isTrouble {
                troubles += 1
                (state.isSpent, state.isMute) = (true, !kind.isLegal)
                state.isConfusing = kind == .closeAtOnce
                output = spoil(output, number, status)
            }
            known.change(number, place) {
                $0.statuses.insert(status)
                if output.isCertain { $0.certain = status }
                if isTrouble, kind.isObscure, !output.isCertain { $0.isObscure = true }
            }
            return (output.isOnePiece ? [output.bytes] : dice.cut(output.bytes), isTrouble)
        }
        guard let output else { return }
        write(output.chunks[...], context) { if output.isTrouble { self.finish($0) } }
    }

    private func finish(_ context: ChannelHandlerContext) {
        let tls = try? context.pipeline.syncOperations.context(handlerType: NIOSSLServerHandler.self)
        switch kind {
        case .small, .informational, .cutInSilence: return
        case .cutWithoutGoodbye: tls?.close(promise: nil)
        case .cut, .untilClose, .closeAtOnce: return close(context)
        case .brokenTLS:
            let bytes = lock.withLock { _ in dice.bytes(dice.roll(1...600)) }
            tls?.writeAndFlush(NIOAny(ByteBuffer(bytes: bytes)), promise: nil)
        default: break
        }
        let pause = lock.withLock { _ in dice.roll(1...40) }
        let bound = NIOLoopBound(context, eventLoop: context.eventLoop)
        context.eventLoop.scheduleTask(in: .milliseconds(Int64(pause))) { self.close(bound.value) }
    }

    private func close(_ context: ChannelHandlerContext) {
        lock.withLock { _ in states[ObjectIdentifier(context.channel)]?.isMute = true }
        context.close(promise: nil)
    }

    /// Writes below the HTTP encoder, each piece in a turn of its own.
    private func write(
        _ chunks: ArraySlice<[UInt8]>,
        _ context: ChannelHandlerContext,
        _ done: @escaping (ChannelHandlerContext) -> Void = { _ in }
    ) {
        guard let chunk = chunks.first else { return done(context) }
        let encoder = try? context.pipeline.syncOperations.context(handlerType: HTTPResponseEncoder.self)
        encoder?.writeAndFlush(NIOAny(ByteBuffer(bytes: chunk)), promise: nil)
        guard chunks.count > 1 else { return done(context) }
        let rest = NIOLoopBound((chunks.dropFirst(), context, done), eventLoop: context.eventLoop)
        context.eventLoop.execute { self.write(rest.value.0, rest.value.1, rest.value.2) }
    }

    // MARK: Answers; within the lock

    private func answer(_ number: Int, _ status: Int) -> [UInt8] {
        let body = Attempts.body(number, status)
        let head = Array("HTTP/1.1 \(status) Status\r\nx-number: \(number)\r\n".utf8)
        if dice.happens(onceIn: 2) {
            return head + Array("content-length: \(body.count)\r\n\r\n".utf8) + body
        }
        let place = dice.roll(1...body.count - 1)
        func chunk(_ bytes: ArraySlice<UInt8>) -> [UInt8] {
            Array((String(bytes.count, radix: 16) + "\r\n").utf8) + bytes + [13, 10]
        }
        return head + Array("transfer-encoding: chunked\r\n\r\n".utf8) + chunk(body[..<place]) + chunk(body[place...])
            + Array("0\r\n\r\n".utf8)
    }

    private func spoil(_ good: Output, _ number: Int, _ status: Int) -> Output {
        let body = Attempts.body(number, status)
        func said(_ head: String, _ rest: [UInt8] = []) -> Output { Output(bytes: Array(head.utf8) + rest) }
        let ok = "HTTP/1.1 \(status) OK\r\n"
        switch kind {
        case .small: return good
        case .closeAtOnce: return Output(bytes: good.bytes, isCertain: true)
        case .informational:
            let hints = (0..<dice.roll(1...30)).map { _ in "HTTP/1.1 \(dice.pick([100, 102, 103])) Hint\r\nx: y\r\n\r\n"
            }
            return Output(bytes: Array(hints.joined().utf8) + good.bytes, isCertain: true)
        case .untilClose: return Output(bytes: Array((ok + "connection: close\r\n\r\n").utf8) + body, isCertain: true)
        case .flippedBits: return Output(bytes: dice.flip(good.bytes, from: 0))
        case .noise: return Output(bytes: dice.bytes(dice.roll(1...2000)))
        case .cut, .cutInSilence, .cutWithoutGoodbye, .brokenTLS:
            return Output(bytes: Array(good.bytes[..<dice.roll(0...good.bytes.count - 1)]))
        case .twoAnswers:
            let second = Array("HTTP/1.1 200 OK\r\ncontent-length: 4\r\n\r\nnone".utf8)
            return Output(bytes: good.bytes + second, isCertain: true, isOnePiece: true)
        case .moreBytes:
            return Output(bytes: good.bytes + dice.bytes(dice.roll(1...500)), isCertain: true, isOnePiece: true)
        case .early, .statusLine:
            let line = dice.pick([
                "HTTP/9.9 200 OK", "HTTP/1.1 abc OK", "HTTP/1.1 99999999999999999999 OK", "HTTP/1.1 20 OK",
                "ICY 200 OK",
                "HTTP/1.1 -200 OK", "HTTP/1.1", "HTTP/1.1 ", " HTTP/1.1 200 OK", "200 OK", "<html>", "\u{0}",
                "HTTP/1.1 000 OK",
                "HTTP/1.1 099 OK", "HTTP/1.1 2000 OK", "GET / HTTP/1.1",
            ])
            return said("\(line)\r\ncontent-length: 4\r\n\r\nnone")
        case .chunks:
            let bad = dice.pick([
                "xyz\r\nnone\r\n0\r\n\r\n", "FFFFFFFFFFFFFFFFF\r\nnone", "-4\r\nnone\r\n0\r\n\r\n",
                "4\r\nnone00\r\n\r\n",
                "4\r\nnone\r\n", "\r\n\r\n", "4 4\r\nnone\r\n0\r\n\r\n", "7FFFFFFFFFFFFFFF\r\nnone",
                "4;\u{0}\r\nnone\r\n",
            ])
            return said(ok + "transfer-encoding: chunked\r\n\r\n" + bad)
        case .length:
            let bad = dice.pick([
                "content-length: -1", "content-length: 4\r\ncontent-length: 5", "content-length: 99999999999999999999",
                "content-length: x", "content-length: 4, 5", "content-length: 1000", "content-length: 0x4",
                "content-length: 4\r\ntransfer-encoding: chunked", "content-length: ",
                "content-length: 9223372036854775807",
            ])
            return said(ok + bad + "\r\n\r\n", Array("none".utf8))
        case .hugeHead, .endlessHead:
            let value = String(repeating: "v", count: dice.pick([1 << 10, 1 << 16]))
            let count = (1 << 20) / value.utf8.count
            let fields = (0..<count).map { "x-\($0): \(value)\r\n" }.joined()
            return kind == .endlessHead
                ? said(ok + fields) : said(ok + fields + "content-length: \(body.count)\r\n\r\n", body)
        case .fields:
            let bad = dice.pick([
                "no colon\r\n", ": nameless\r\n", "na me: x\r\n", "x : y\r\n", "x: \u{0}\r\n", "x: a\r\n folded: b\r\n",
                "x: y\rz\r\n",
            ])
            return said(ok + bad + "content-length: 5000\r\n\r\nnone")
        case .upgrade:
            return said(
                "HTTP/1.1 101 Switching Protocols\r\nupgrade: h2c\r\nconnection: upgrade\r\n\r\n",
                dice.bytes(30)
            )
        }
    }
}
