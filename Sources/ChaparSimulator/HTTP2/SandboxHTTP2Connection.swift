internal import NIOCore
internal import NIOSSL
internal import NIOTLS
internal import ChaparCore

/// A simulated service's part of one connection; it lives on the connection's event loop.
package protocol SandboxHTTP2Peer: AnyObject {
    /// The settings the server opens with.
    var openingSettings: [HTTP2Setting] { get }

    /// Returns the steps after TLS and HTTP/2 are up, carried out before the first request.
    func opened() -> [SandboxStep]

    /// Returns the steps after a request's header block, carried out before its body is read.
    func began(_ stream: HTTP2Stream) -> [SandboxStep]

    /// Returns the steps after a complete request, carried out before it is processed.
    func received(_ stream: HTTP2Stream) -> [SandboxStep]

    /// Processes a request. It is not called when an earlier step ended the stream or the connection.
    func process(_ stream: HTTP2Stream) -> SandboxReply

    /// Returns the steps after a ping, carried out after its acknowledgement.
    func pinged() -> [SandboxStep]

    /// Counts a stream that was refused beyond the limit.
    func refusedStream()

    /// Returns the steps after the server's idle limit, which may end the connection.
    func idled() -> [SandboxStep]

    /// Counts a `GOAWAY` that was sent.
    func sentGoAway()
}

/// One connection to a simulated service: drives the HTTP/2 session and carries out the service's decisions.
///
/// All reads of one turn of the event loop are answered by one write.
final class SandboxHTTP2Connection: ChannelInboundHandler, SandboxLiveConnection {
    typealias InboundIn = ByteBuffer
    typealias OutboundOut = ByteBuffer

    /// The time after which a client without completed TLS is cut off.
    private static let handshakeDeadline = TimeAmount.seconds(30)
    /// The longest wait for the remaining answers after a `GOAWAY`.
    private static let drainDeadline = Duration.seconds(30)

    /// The connection's number, never used twice by a simulator.
    let number: Int
    private let gate: TransportGate
    private let opening: SandboxOpening
    private let options: SandboxHTTP2Options
    private let makePeer: (NIOSSLCertificate?) -> any SandboxHTTP2Peer
    private let onClose: () -> Void
    private var peer: (any SandboxHTTP2Peer)?
    private var session: HTTP2ServerSession?
    private var context: ChannelHandlerContext?
    private var isOutputHeld = false
    private var ignoresPings = false
    private var isSilenced = false
    private var isClosing = false
    private var closesAfterAnswers = false
    private var lastRead = NIODeadline.now()

    init(
        number: Int,
        gate: TransportGate,
        opening: SandboxOpening,
        options: SandboxHTTP2Options,
        makePeer: @escaping (NIOSSLCertificate?) -> any SandboxHTTP2Peer,
        onClose: @escaping () -> Void
    ) {
        self.number = number
        self.gate = gate
        self.opening = opening
        self.options = options
        self.makePeer = makePeer
        self.onClose = onClose
    }

    /// The number of open streams.
    var openStreams: Int { session?.streams.count ?? 0 }

    func handlerAdded(context: ChannelHandlerContext) { self.context = context }

    func handlerRemoved(context: ChannelHandlerContext) {
        self.context = nil
        session = nil
        peer = nil
        onClose()
    }

    func channelActive(context: ChannelHandlerContext) {
        let deadline = Self.handshakeDeadline + TimeAmount(opening.handshakeDelay)
        context.eventLoop.assumeIsolated().scheduleTask(in: deadline) { [weak self] in
            if let self, self.session == nil { self.abort() }
        }
        context.fireChannelActive()
    }

    func errorCaught(context: ChannelHandlerContext, error: any Error) {
        // A failed handshake, a missing TLS goodbye, a reset: nothing more can be sent on this connection.
        context.close(promise: nil)
    }

    func userInboundEventTriggered(context: ChannelHandlerContext, event: Any) {
        if case .handshakeCompleted(let negotiated)? = event as? TLSUserEvent {
            guard negotiated == "h2" || !options.requiresALPN else { return context.close(promise: nil) }
            open(context)
        }
        context.fireUserInboundEventTriggered(event)
    }

    func channelRead(context: ChannelHandlerContext, data: NIOAny) {
        guard let session, !isClosing else { return }
        lastRead = .now()
        let events = unwrapInboundIn(data).withUnsafeReadableBytes { session.receive($0) }
        guard let events else {
            flush()
            return context.close(promise: nil)
        }
        for event in events { handle(event, session) }
    }

    func channelReadComplete(context: ChannelHandlerContext) {
        flush()
        context.fireChannelReadComplete()
    }

    /// Carries out the steps of a control call.
    func perform(_ steps: [SandboxStep]) {
        guard session != nil else { return }
        perform(steps[...], on: nil) {}
        flush()
    }

    /// Cuts the connection in any state.
    func abort() { gate.reset() }

    private func open(_ context: ChannelHandlerContext) {
        // Nil when the client showed none, or when certificates were not asked for.
        let certificate = try? context.channel.pipeline.syncOperations.nioSSL_peerCertificate()
        let peer = makePeer(certificate)
        self.peer = peer
        session = HTTP2ServerSession(settings: peer.openingSettings, connectionWindow: options.connectionWindow)
        if opening.settingsDelay > .zero {
            isOutputHeld = true
            schedule(opening.settingsDelay) { $0.isOutputHeld = false }
        }
        watchIdleness()
        let steps = peer.opened()
        if !steps.isEmpty { perform(steps[...], on: nil) {} }
        flush()
    }

    private func handle(_ event: HTTP2ServerSession.Event, _ session: HTTP2ServerSession) {
        guard let peer, !isClosing else { return }
        switch event {
        case .began(let stream):
            let steps = peer.began(stream)
            if !steps.isEmpty { perform(steps[...], on: stream) {} }
        case .ended(let stream):
            guard !stream.isAbandoned else { return }
            let steps = peer.received(stream)
            if steps.isEmpty { return process(stream) }
            perform(steps[...], on: stream) { self.process(stream) }
        case .ping(let data):
            if !ignoresPings { session.acknowledge(ping: data) }
            let steps = peer.pinged()
            if !steps.isEmpty { perform(steps[...], on: nil) {} }
        case .refused:
            peer.refusedStream()
        case .reset:
            break
        }
    }

    private func process(_ stream: HTTP2Stream) {
        guard let peer, !stream.isAbandoned, !isSilenced else { return }
        let reply = peer.process(stream)
        if reply.before.isEmpty { return send(reply, on: stream) }
        perform(reply.before[...], on: stream) { self.send(reply, on: stream) }
    }

    private func send(_ reply: SandboxReply, on stream: HTTP2Stream) {
        guard let session else { return }
        if let answer = reply.answer {
            session.answer(
                stream,
                status: answer.status,
                headers: answer.headers,
                body: answer.body,
                holdsBody: !reply.afterHeaders.isEmpty
            )
        }
        if !reply.afterHeaders.isEmpty {
            flush()
            perform(reply.afterHeaders[...], on: stream) { session.releaseBody(of: stream) }
        }
        if !reply.after.isEmpty {
            flush()
            perform(reply.after[...], on: stream) {}
        }
    }

    /// Carries out the steps in order, then `next`.
    ///
    /// After a step that ends the connection or the stream the rest is skipped.
    private func perform(_ steps: ArraySlice<SandboxStep>, on stream: HTTP2Stream?, then next: @escaping () -> Void) {
        var rest = steps
        while let step = rest.popFirst() {
            guard let session, !isClosing else { return }
            switch step {
            case .delay(let delay):
                let remaining = rest
                return schedule(delay) { $0.perform(remaining, on: stream, then: next) }
            case .settings(let settings): session.submit(settings)
            case .goAway(let frame): goAway(frame, session)
            case .resetStream(let code):
                if let stream { session.reset(stream.id, code: code) }
            case .end(let end): self.end(end)
            case .blackHole:
                flush()
                isSilenced = true
                gate.becomeBlackHole()
            case .ignorePings: ignoresPings = true
            case .throttle(let bytesPerSecond): gate.throttle(to: bytesPerSecond)
            }
        }
        guard session != nil, !isClosing, !isSilenced else { return }
        next()
    }

    private func goAway(_ frame: SandboxGoAway, _ session: HTTP2ServerSession) {
        let last: Int32 =
            switch frame.last {
            case .current: session.highestStream
            case .none: 0
            case .maximum: .max
            case .stream(let id): id
            case .middle:
                session.streams.isEmpty
                    ? session.highestStream : session.streams.keys.sorted()[session.streams.count / 2]
            }
        session.goAway(last: last, code: frame.code, debugData: frame.debugData)
        peer?.sentGoAway()
        switch frame.ending {
        case .linger: break
        case .afterAnswers:
            closesAfterAnswers = true
            schedule(Self.drainDeadline) { $0.end(.close) }
        case .now: end(.close)
        }
    }

    private func end(_ end: SandboxConnectionEnd) {
        flush()
        switch end {
        case .reset: gate.reset()
        case .fin: gate.finish(keepsReading: false)
        case .halfClose: gate.finish(keepsReading: true)
        case .close: context?.close(promise: nil)
        }
        isSilenced = true
        isClosing = end != .halfClose
    }

    private func flush() {
        guard let session, let context, !isOutputHeld, !isClosing else { return }
        var buffer = context.channel.allocator.buffer(capacity: 4096)
        session.drain(into: &buffer)
        if buffer.readableBytes > 0 { context.writeAndFlush(wrapOutboundOut(buffer), promise: nil) }
        if session.isFinished {
            isClosing = true
            context.close(promise: nil)
        } else if closesAfterAnswers, session.streams.values.allSatisfy(\.isAbandoned) {
            closesAfterAnswers = false
            end(.close)
        }
    }

    private func watchIdleness() {
        guard let limit = options.idleLimit else { return }
        let silence = NIODeadline.now() - lastRead
        let rest = TimeAmount(limit) - silence
        guard rest <= .nanoseconds(0) else { return schedule(Duration(rest)) { $0.watchIdleness() } }
        if openStreams == 0, let steps = peer?.idled(), !steps.isEmpty { return perform(steps) }
        schedule(limit) { $0.watchIdleness() }
    }

    private func schedule(_ delay: Duration, _ work: @escaping (SandboxHTTP2Connection) -> Void) {
        guard let context else { return }
        context.eventLoop.assumeIsolated().scheduleTask(in: TimeAmount(delay)) { [weak self] in
            guard let self, self.session != nil else { return }
            work(self)
            self.flush()
        }
    }
}
