internal import NIOCore
internal import NIOHTTP1
internal import ChaparDelivery
internal import ChaparAPI
internal import ChaparCore
internal import ChaparQueue

/// The handler between a connection's HTTP/1.1 codec and Hummingbird, which answers requests that ``FastIntake``
/// accepts and passes the others on.
///
/// It handles one request at a time: pipelined requests are held back until the one before is answered, on either path.
/// It closes connections that deliver no whole request in time, and those whose client does not read its answers. At a
/// graceful shutdown it closes connections without a request in progress at once, and the others when the drain is
/// over.
final class ConnectionHandler: ChannelDuplexHandler, RemovableChannelHandler {
    typealias InboundIn = HTTPServerRequestPart
    typealias InboundOut = HTTPServerRequestPart
    typealias OutboundIn = HTTPServerResponsePart
    typealias OutboundOut = HTTPServerResponsePart

    /// The times for which a client may keep a connection waiting.
    struct Limits: Sendable {
        /// The longest time for a request head, and for a body after its head; then the connection is closed, even
        /// while data arrives.
        var request = TimeAmount.seconds(60)
        /// The longest time for the rest of a body whose request was refused; then the connection is closed.
        var refusedBody = TimeAmount.seconds(5)
        /// The longest time for which a client's unread data may block all writing; then the connection is closed.
        var write = TimeAmount.seconds(30)
        /// The same during a graceful shutdown.
        var lastWrite = TimeAmount.seconds(5)
    }

    /// The event for a connection that must close because another peer gets its place.
    private struct GiveWay: Sendable {}

    private enum Phase {
        /// No request is in progress.
        case idle
        /// A request is on the general path; the flags say whether it has been read and answered to its end.
        case passing(isRead: Bool, isAnswered: Bool)
        /// A request on the fast path is being read.
        case collecting(LoopRequest)
        /// A request on the fast path waits for the store.
        case waiting(LoopRequest)
        /// The connection is closed.
        case closed
    }

    /// Input that arrived while something else was in progress.
    private enum Deferred {
        case part(HTTPServerRequestPart)
        case event(any Sendable)
        case error(any Error)
    }

    private let intake: FastIntake
    private let fastRequests: FastRequests
    /// The context to which whole answers are written, past the encoder of parts.
    private let encoder: ChannelHandlerContext
    private let limits: Limits
    private var context: ChannelHandlerContext?
    /// Whether only this machine can reach the address that the client connected to.
    private var isLocal = false
    /// The address of the other end.
    private var address = PeerAddress.local
    /// The number under which the connection counts for its peer; nil when it does not count.
    private var number: UInt64?
    /// Whether the connection is a trusted proxy's.
    ///
    /// It counts for no peer; each request counts for the peer that the proxy names.
    private var isProxy = false
    private var phase = Phase.idle
    private var deferred: [Deferred] = []
    private var isReadDeferred = false
    private var isQuiescing = false
    /// Whether the decoder reads no further request, since the current one ends the connection or asks for another
    /// protocol.
    ///
    /// If the connection stayed open, a client would wait for its next answer, and the data that it sends would be kept
    /// without bound.
    private var isLast = false
    /// The time when the connection is closed unless the expected request has arrived.
    private var deadline = NIODeadline.now()
    private var timer: Scheduled<Void>?
    /// The timer that runs while the client's unread data blocks all writing.
    private var writeTimer: Scheduled<Void>?
    /// The timer that runs from the beginning of a graceful shutdown.
    private var drainTimer: Scheduled<Void>?

    init(intake: FastIntake, fastRequests: FastRequests, encoder: ChannelHandlerContext, limits: Limits) {
        self.intake = intake
        self.fastRequests = fastRequests
        self.encoder = encoder
        self.limits = limits
    }

    func handlerAdded(context: ChannelHandlerContext) {
        self.context = context
        isLocal = context.localAddress?.isLoopback ?? false
        guard admit(context) else { return }
        deadline = .now() + limits.request
        watch(context)
    }

    /// Counts the connection for its peer; returns false, and closes it, when the peer has as many as it may.
    private func admit(_ context: ChannelHandlerContext) -> Bool {
        address = PeerAddress(context.remoteAddress)
        let snapshot = intake.snapshots.current
        isProxy = snapshot.isProxy(address)
        guard !isProxy else {
            intake.limits.peers.connectProxy()
            return true
        }
        number = intake.limits.peers.connect(address, limit: snapshot.connectionsPerPeer) {
            [channel = context.channel] in
            channel.pipeline.fireUserInboundEventTriggered(GiveWay())
        }
        guard number == nil else { return true }
        intake.metrics.limitReached(.connectionsPerPeer)
        phase = .closed
        context.close(promise: nil)
        return false
    }

    /// Ends the counting of the connection for its peer.
    private func leave() {
        if isProxy {
            isProxy = false
            intake.limits.peers.disconnectProxy()
        } else if let number {
            self.number = nil
            intake.limits.peers.disconnect(address, number)
        }
    }

    func handlerRemoved(context: ChannelHandlerContext) {
        leave()
        cancelTimers()
        self.context = nil
    }

    private func cancelTimers() {
        for timer in [timer, writeTimer, drainTimer] { timer?.cancel() }
        (timer, writeTimer, drainTimer) = (nil, nil, nil)
    }

    // MARK: Reading

    func channelRead(context: ChannelHandlerContext, data: NIOAny) {
        let part = unwrapInboundIn(data)
        if deferred.isEmpty, acceptsMore {
            process(part, context)
        } else {
            deferred.append(.part(part))
        }
    }

    /// Whether a part of a request can be handled now.
    private var acceptsMore: Bool {
        switch phase {
        case .idle, .collecting, .passing(isRead: false, _): true
        case .passing(isRead: true, _), .waiting, .closed: false
        }
    }

    private func process(_ part: HTTPServerRequestPart, _ context: ChannelHandlerContext) {
        switch (phase, part) {
        case (.idle, .head(let head)):
            // For an HTTP/1.0 client the end of the connection is the end of the answer. Data after a request that ends
            // the connection is not a request (RFC 9112, 9.6).
            isLast = head.version != .http1_1 || !head.isKeepAlive
            if let refusal = intake.refuseHead(head, from: address, isLocal: isLocal, date: fastRequests.date) {
                isQuiescing = true
                write(refusal, context)
            } else if let request = intake.begin(head, from: address) {
                deadline = request.begin + limits.request
                phase = .collecting(request)
            } else {
                // The reader of the body has a shorter deadline, and answers when that is over.
                deadline = .now() + limits.request + limits.refusedBody
                isLast = isLast || head.method == .CONNECT || head.headers.contains(name: "upgrade")
                phase = .passing(isRead: false, isAnswered: false)
                if awaitsContinue(head) {
                    encoder.writeAndFlush(NIOAny(IOData.byteBuffer(Self.continuing)), promise: nil)
                }
                context.fireChannelRead(wrapInboundOut(part))
            }
        case (.collecting(let request), .body(var more)):
            if request.body.readableBytes == 0 { request.body = more } else { request.body.writeBuffer(&more) }
        case (.collecting(let request), .end):
            check(request, context)
        case (.passing(false, let isAnswered), .end):
            phase = .passing(isRead: true, isAnswered: isAnswered)
            context.fireChannelRead(wrapInboundOut(part))
            if isAnswered { rest(context) }
        default:
            context.fireChannelRead(wrapInboundOut(part))
        }
    }

    private static let continuing = ByteBuffer(string: "HTTP/1.1 100 Continue\r\n\r\n")

    /// Whether the client waits for 100 before it sends its body (RFC 9110, 10.1.1), and the length of the body is
    /// allowed.
    private func awaitsContinue(_ head: HTTPRequestHead) -> Bool {
        guard head.version == .http1_1, head.headers.contains(name: "expect"),
            head.headers["expect"].contains(where: { $0.lowercased() == "100-continue" })
        else { return false }
        let length = head.headers.first(name: "content-length").flatMap { Int($0) } ?? 0
        return length <= intake.snapshots.current.server.maximumBodyBytes
    }

    private func check(_ request: LoopRequest, _ context: ChannelHandlerContext) {
        guard let batch = intake.check(request) else {
            passOn(context)
            return process(.end(nil), context)
        }
        request.body = ByteBuffer()
        phase = .waiting(request)
        fastRequests.submit(batch, for: self)
    }

    /// Moves a request that was being read to the general path.
    private func passOn(_ context: ChannelHandlerContext) {
        guard case .collecting(let request) = phase else { return }
        intake.abandon(request)
        phase = .passing(isRead: false, isAnswered: false)
        context.fireChannelRead(wrapInboundOut(.head(request.head)))
        if request.body.readableBytes > 0 { context.fireChannelRead(wrapInboundOut(.body(request.body))) }
    }

    func read(context: ChannelHandlerContext) {
        if isLast, case .passing(isRead: true, _) = phase { return }
        // A client that pipelines requests waits as well.
        if deferred.isEmpty { context.read() } else { isReadDeferred = true }
    }

    func errorCaught(context: ChannelHandlerContext, error: any Error) {
        if case .collecting = phase { passOn(context) }
        if case .waiting = phase { return deferred.append(.error(error)) }
        // Bytes that are no request are answered after the requests before them.
        if case .passing(isRead: true, _) = phase, error is HTTPParserError { return deferred.append(.error(error)) }
        if deferred.isEmpty { process(error, context) } else { deferred.append(.error(error)) }
    }

    /// Answers bytes that are no request, and passes every other error on.
    private func process(_ error: any Error, _ context: ChannelHandlerContext) {
        switch (phase, error as? HTTPParserError) {
        case (.idle, let error?):
            phase = .closed
            let answer = intake.refuseBytes(error, from: address, date: fastRequests.date)
            encoder.writeAndFlush(NIOAny(IOData.byteBuffer(answer)), promise: nil)
            // The client may still be sending; closing both directions at once could lose the answer.
            context.close(mode: .output, promise: nil)
            timer?.cancel()
            timer = close(context, in: limits.refusedBody)
        case (.closed, _?): break
        default: context.fireErrorCaught(error)
        }
    }

    func userInboundEventTriggered(context: ChannelHandlerContext, event: Any) {
        if event is ChannelShouldQuiesceEvent {
            isQuiescing = true
            watchWrites(context)
            let drain = intake.state.snapshot.configuration.queue.drain
            drainTimer = close(context, in: .nanoseconds(Int64(clamping: drain.inSeconds * 1e9)))
            switch phase {
            case .idle: context.close(promise: nil)
            case .passing: context.fireUserInboundEventTriggered(event)
            case .collecting, .waiting, .closed: break
            }
            return
        }
        if event is GiveWay { return giveWay(context) }
        if let event = event as? ChannelEvent {
            if case .collecting = phase { passOn(context) }
            if case .waiting = phase { return deferred.append(.event(event)) }
            if !deferred.isEmpty { return deferred.append(.event(event)) }
        }
        context.fireUserInboundEventTriggered(event)
    }

    /// Ends the connection at once, or after the answer to a request that has been read.
    private func giveWay(_ context: ChannelHandlerContext) {
        switch phase {
        case .idle, .collecting, .passing(isRead: false, _): context.close(promise: nil)
        case .passing(isRead: true, _): isLast = true
        case .waiting: isQuiescing = true
        case .closed: break
        }
    }

    func channelInactive(context: ChannelHandlerContext) {
        if case .collecting(let request) = phase { intake.abandon(request) }
        // A request that waits is uncounted when the store answers.
        if case .waiting = phase {} else { phase = .closed }
        deferred = []
        cancelTimers()
        context.fireChannelInactive()
    }

    // MARK: Writing

    /// Handles the store's result.
    func finish(_ result: Result<EnqueueResult, StoreError>) {
        guard case .waiting(let request) = phase else { return }
        let answer = intake.answer(request, result, date: fastRequests.date, closes: isQuiescing || isLast)
        guard let context, context.channel.isActive else { return phase = .closed }
        write(answer, context)
        if case .closed = phase { return }
        rest(context)
    }

    private func write(_ answer: ByteBuffer, _ context: ChannelHandlerContext) {
        let data = NIOAny(IOData.byteBuffer(answer))
        guard isQuiescing || isLast else { return encoder.writeAndFlush(data, promise: nil) }
        phase = .closed
        encoder.writeAndFlush(data, promise: nil)
        context.close(promise: nil)
    }

    func write(context: ChannelHandlerContext, data: NIOAny, promise: EventLoopPromise<Void>?) {
        if isLast, case .head(var head) = unwrapOutboundIn(data) {
            head.headers.replaceOrAdd(name: "Connection", value: "close")
            return context.write(wrapOutboundOut(.head(head)), promise: promise)
        }
        guard case .end = unwrapOutboundIn(data), case .passing(let isRead, _) = phase else {
            return context.write(data, promise: promise)
        }
        guard !isRead || !isLast else { return writeLast(data, promise, context) }
        context.write(data, promise: promise)
        if isRead { return rest(context) }
        phase = .passing(isRead: false, isAnswered: true)
        deadline = min(deadline, .now() + limits.refusedBody)
        watch(context)
    }

    /// Writes the end of the last answer; the connection is closed once the system has it.
    private func writeLast(_ data: NIOAny, _ promise: EventLoopPromise<Void>?, _ context: ChannelHandlerContext) {
        let written = promise ?? context.eventLoop.makePromise()
        written.futureResult.assumeIsolated().whenComplete { _ in self.context?.close(promise: nil) }
        context.write(data, promise: written)
    }

    /// Ends a request, and continues with the input that arrived meanwhile.
    private func rest(_ context: ChannelHandlerContext) {
        if isLast { return context.close(promise: nil) }
        phase = .idle
        deadline = .now() + limits.request
        guard !deferred.isEmpty else { return }
        if isQuiescing { return deferred = [] }
        var next = 0
        while next < deferred.count, acceptsMore {
            switch deferred[next] {
            case .part(let part): process(part, context)
            case .event(let event): context.fireUserInboundEventTriggered(event)
            case .error(let error): process(error, context)
            }
            next += 1
        }
        deferred.removeFirst(min(next, deferred.count))
        context.fireChannelReadComplete()  // Hummingbird handles the parts only now.
        guard deferred.isEmpty, isReadDeferred else { return }
        isReadDeferred = false
        context.read()
    }

    // MARK: Limits

    func channelWritabilityChanged(context: ChannelHandlerContext) {
        watchWrites(context)
        context.fireChannelWritabilityChanged()
    }

    /// Closes the connection of a client that does not read in time.
    private func watchWrites(_ context: ChannelHandlerContext) {
        writeTimer?.cancel()
        writeTimer = nil
        guard !context.channel.isWritable else { return }
        writeTimer = close(context, in: isQuiescing ? min(limits.write, limits.lastWrite) : limits.write)
    }

    private func close(_ context: ChannelHandlerContext, in span: TimeAmount) -> Scheduled<Void> {
        context.eventLoop.assumeIsolated().scheduleTask(in: span) { context.close(promise: nil) }
    }

    /// Schedules a check at ``deadline``; if that has moved, the check is scheduled again.
    private func watch(_ context: ChannelHandlerContext) {
        timer?.cancel()
        timer = context.eventLoop.assumeIsolated().scheduleTask(deadline: deadline) { self.look(context) }
    }

    /// Closes the connection when its time is over, or schedules the next check.
    private func look(_ context: ChannelHandlerContext) {
        let now = NIODeadline.now()
        switch phase {
        case .closed: return
        case .idle, .passing(isRead: false, _):
            if deadline <= now { return context.close(promise: nil) }
        case .collecting(let request):
            if deadline <= now {
                isQuiescing = true
                return write(intake.refuse(request, .bodyTimeout, date: fastRequests.date, closes: true), context)
            }
        case .waiting, .passing(isRead: true, _): deadline = now + limits.request
        }
        watch(context)
    }
}
