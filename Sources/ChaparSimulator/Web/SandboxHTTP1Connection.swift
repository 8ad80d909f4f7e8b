internal import NIOCore
internal import NIOHTTP1
internal import ChaparCore

/// One HTTP/1.1 connection to a simulated web service: passes its requests to the listener's request pipeline, one
/// after the other.
///
/// Steps that HTTP/1.1 does not have become the nearest it has: a reset stream resets the connection, a `GOAWAY` closes
/// after the next answer, settings and pings have no effect.
final class SandboxHTTP1Connection: ChannelInboundHandler, SandboxLiveConnection {
    typealias InboundIn = HTTPServerRequestPart
    typealias OutboundOut = HTTPServerResponsePart

    private let number: Int
    private let gate: TransportGate
    private let requestPipeline: SandboxPipeline
    private let idleLimit: Duration?
    private var context: ChannelHandlerContext?
    private var head: HTTPRequestHead?
    private var body: [UInt8] = []
    private var requests = 0
    private var closesAfterAnswer = false
    private var isClosing = false
    private var isAnswering = false

    init(number: Int, gate: TransportGate, requestPipeline: SandboxPipeline, idleLimit: Duration?) {
        self.number = number
        self.gate = gate
        self.requestPipeline = requestPipeline
        self.idleLimit = idleLimit
    }

    func handlerAdded(context: ChannelHandlerContext) {
        self.context = context
        perform(requestPipeline.opened(number)[...]) {}
        watchIdleness(since: 0)
    }

    func handlerRemoved(context: ChannelHandlerContext) { self.context = nil }

    func errorCaught(context: ChannelHandlerContext, error: any Error) { context.close(promise: nil) }

    func channelRead(context: ChannelHandlerContext, data: NIOAny) {
        guard !isClosing else { return }
        switch unwrapInboundIn(data) {
        case .head(let head):
            requests += 1
            isAnswering = true
            self.head = head
            body = []
            perform(requestPipeline.began(request(head))[...]) {}
        case .body(let bytes):
            if body.count + bytes.readableBytes <= HTTP2Stream.maximumBody {
                body.append(contentsOf: bytes.readableBytesView)
            }
        case .end:
            guard let head else { return }
            self.head = nil
            let request = request(head)
            let early = requestPipeline.received(request)
            perform(early.steps[...]) {
                let reply = self.requestPipeline.reply(to: request, after: early)
                self.perform(reply.before[...]) { self.send(reply, keepAlive: head.isKeepAlive) }
            }
        }
    }

    func perform(_ steps: [SandboxStep]) { perform(steps[...]) {} }

    func abort() { gate.reset() }

    private func request(_ head: HTTPRequestHead) -> SandboxRequest {
        SandboxRequest(
            method: head.method.rawValue,
            target: head.uri,
            headers: head.headers.map { HTTPHeader($0.name.lowercased(), $0.value) },
            body: body,
            connection: number,
            stream: requests,
            isHTTP2: false
        )
    }

    private func send(_ reply: SandboxReply, keepAlive: Bool) {
        guard let context, let answer = reply.answer else { return }
        let closes = !keepAlive || closesAfterAnswer
        var headers = HTTPHeaders()
        for header in answer.headers { headers.add(name: header.name, value: header.value) }
        headers.add(name: "content-length", value: "\(answer.body.count)")
        if closes { headers.add(name: "connection", value: "close") }
        let head = HTTPResponseHead(version: .http1_1, status: .init(statusCode: answer.status), headers: headers)
        context.writeAndFlush(wrapOutboundOut(.head(head)), promise: nil)
        perform(reply.afterHeaders[...]) {
            guard let context = self.context else { return }
            if !answer.body.isEmpty {
                context.write(self.wrapOutboundOut(.body(.byteBuffer(ByteBuffer(bytes: answer.body)))), promise: nil)
            }
            context.writeAndFlush(self.wrapOutboundOut(.end(nil)), promise: nil)
            self.isAnswering = false
            self.perform(reply.after[...]) {
                if closes || self.closesAfterAnswer { self.end(.close) }
            }
        }
    }

    /// Carries out the steps in order, then `next`; after a step that ends the connection the rest is skipped.
    private func perform(_ steps: ArraySlice<SandboxStep>, then next: @escaping () -> Void) {
        var rest = steps
        while let step = rest.popFirst() {
            guard context != nil, !isClosing else { return }
            switch step {
            case .delay(let delay):
                let remaining = rest
                return schedule(delay) { $0.perform(remaining, then: next) }
            case .goAway(let frame):
                closesAfterAnswer = true
                if frame.ending == .now || !isAnswering { end(.close) }
            case .resetStream: end(.reset)
            case .end(let how): end(how)
            case .blackHole:
                gate.becomeBlackHole()
                isClosing = true
            case .throttle(let bytesPerSecond): gate.throttle(to: bytesPerSecond)
            case .settings, .ignorePings: break
            }
        }
        guard context != nil, !isClosing else { return }
        next()
    }

    private func end(_ how: SandboxConnectionEnd) {
        guard !isClosing else { return }
        isClosing = true
        switch how {
        case .reset: gate.reset()
        case .fin: gate.finish(keepsReading: false)
        case .halfClose: gate.finish(keepsReading: true)
        case .close: context?.close(promise: nil)
        }
    }

    private func watchIdleness(since count: Int) {
        guard let idleLimit else { return }
        schedule(idleLimit) { connection in
            if connection.requests == count, !connection.isAnswering { return connection.end(.close) }
            connection.watchIdleness(since: connection.requests)
        }
    }

    private func schedule(_ delay: Duration, _ work: @escaping (SandboxHTTP1Connection) -> Void) {
        guard let context else { return }
        context.eventLoop.assumeIsolated().scheduleTask(in: TimeAmount(delay)) { [weak self] in
            if let self, self.context != nil { work(self) }
        }
    }
}
