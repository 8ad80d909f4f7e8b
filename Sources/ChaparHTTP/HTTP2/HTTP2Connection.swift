import NIOCore
import NIOSSL
import NIOTLS
import ChaparCore
import Synchronization

/// One HTTP/2 connection of a pool, from TCP's first byte to its end: the last handler in its channel's pipeline.
///
/// It moves bytes between the channel and an `HTTP2Session`, writes once for each turn of the event loop, and notifies
/// its pool when it is ready, when it stops taking calls and when it has ended. The pool decides which calls it gets.
/// Event loop only.
final class HTTP2Connection: ChannelInboundHandler {
    typealias InboundIn = ByteBuffer
    typealias OutboundOut = ByteBuffer

    /// The phase of a connection's life.
    enum Phase {
        /// TCP, tunnel and TLS.
        case connecting
        /// HTTP/2 has begun; the peer's SETTINGS have not arrived.
        case greeting
        /// It takes calls.
        case open
        /// It takes no new calls; the open ones finish.
        case draining
        case closed
    }

    private static let nextID = Atomic<UInt64>(1)
    /// The bytes collected before they are handed to the socket: four full TLS records.
    private static let writeSize = 64 * 1024
    /// The number of calls that are framed together; their fields stay in memory until then.
    private static let fillSize = 64

    let id = HTTP2Connection.nextID.wrappingAdd(1, ordering: .relaxed).oldValue
    private let endpoint: HTTPEndpoint
    private let session: HTTP2Session
    /// The pool's engine, set once this is the connection that the pool waits for; nil for the loser of a race between
    /// addresses.
    private(set) var engine: HTTP2Engine?
    private(set) var phase = Phase.connecting
    private var context: ChannelHandlerContext?
    private var output = ByteBuffer()
    /// The batches of calls that are framed and not yet handed to the socket.
    private var unwritten: [Batch] = []
    private var reason: HTTPFailure?
    private var isClosing = false

    /// The description of the connection, set when it is ready for calls.
    private var info: HTTPConnectionInfo?
    private var fieldsAskedAt: NIODeadline?
    private var credentialsFailure: HTTPFailure?
    private var lastSign = NIODeadline.now()
    /// The time of the last answer, or the time when calls were opened if that is later.
    private var answerDueSince = NIODeadline.now()
    private let stalledAfter: TimeAmount
    private var pingSentAt: NIODeadline?
    /// The time since when no stream has been open.
    private(set) var idleSince = NIODeadline.now()
    /// The number of answers with a status below 300.
    private(set) var successes = 0

    init?(endpoint: HTTPEndpoint, configuration: HTTPPoolConfiguration, tuning: HTTP2Tuning, budget: AnswerBudget) {
        self.endpoint = endpoint
        let session = HTTP2Session(
            endpoint: endpoint,
            maximumAnswerBytes: configuration.maximumAnswerBytes,
            budget: budget,
            firstStreamID: tuning.firstStreamID
        )
        guard let session else { return nil }
        self.session = session
        stalledAfter = tuning.stalledAfter
    }

    // MARK: Calls of the pool

    var openStreams: Int { session.openStreams }
    var streamLimit: Int { session.streamLimit }
    /// The reason why the connection ended or must end.
    var ending: HTTPFailure? { reason }

    /// Whether a call can go out now.
    var hasRoom: Bool {
        phase == .open && session.openStreams < session.streamLimit && session.hasWindow
            && (context?.channel.isWritable ?? false)
    }

    /// Makes the pool the owner of this connection, and reports to it what has already happened.
    func adopt(by engine: HTTP2Engine) {
        self.engine = engine
        switch phase {
        case .open: engine.connectionIsReady(self)
        case .closed: engine.connectionDidClose(self)
        case .connecting, .greeting, .draining: break
        }
    }

    /// Sends waiting calls until there are none or no more fit.
    func fill(_ now: NIODeadline) {
        guard let engine else { return }
        while hasRoom, !engine.waiting.isEmpty {
            guard refreshFields(now) else { return }
            var count = 0
            while count < Self.fillSize, session.openStreams < session.streamLimit, !session.isExhausted,
                let call = engine.nextCall(now)
            {
                count += 1
                if session.openStreams == 0 { (lastSign, answerDueSince) = (now, now) }
                let deadline = engine.deadline(of: call)
                guard let failure = session.open(call, deadline: deadline) else {
                    if unwritten.last !== call.batch { unwritten.append(call.batch) }
                    continue
                }
                if session.isExhausted {
                    engine.waiting.putBack(call)
                } else {
                    engine.report(call, .failure(failure), connection: 0)
                }
            }
            if session.isExhausted { retire() }
            frame()
        }
        flush()
    }

    /// Writes the codec's pending output.
    func flush() {
        if phase != .closed, session.wantsWrite { frame() }
        collect()  // Framing a RST_STREAM ends a stream, too.
        writeOutput()
        if !session.wantsWrite, output.readableBytes == 0 { unwritten.removeAll(keepingCapacity: true) }
    }

    /// Whether the framed calls may still be written; if one may not, the connection ends with that error.
    func mayWrite() -> Bool {
        if unwritten.allSatisfy(\.mayWrite) { return true }
        reason = reason ?? Batch.withdrawn
        return false
    }

    /// Ends calls past their deadlines, pings a silent peer, and ends a connection that gave no reply to a ping.
    ///
    /// A connection that is alive but answers no calls gets no more of them.
    func check(_ now: NIODeadline, _ configuration: HTTPPoolConfiguration) {
        guard phase == .open || phase == .draining else { return }
        session.expire(now)
        collect()
        // One stalled connection must not hold all calls of the pool: the next ones use another.
        if session.openStreams > 0, now - answerDueSince >= stalledAfter { retire() }
        if let pingSentAt {
            if now - pingSentAt >= TimeAmount(configuration.pingTimeout) {
                abort(HTTPFailure(.unknown, .connectionLost, "no sign of life from \(endpoint), not even to a ping"))
            }
        } else if session.openStreams > 0, now - lastSign >= TimeAmount(configuration.pingAfterSilence) {
            pingSentAt = now
            session.ping()
        }
    }

    /// Retires the connection; open streams end normally.
    ///
    /// `asFailure` is true when the peer or an answer caused it: the pool then backs off unless there was a success
    /// before.
    func retire(asFailure: Bool = false) {
        guard phase == .open else { return }
        phase = .draining
        engine?.connectionStopped(self, asFailure: asFailure)
    }

    /// Closes the connection when it is retired and has no open streams.
    func closeIfDone() {
        guard phase == .draining, session.openStreams == 0, !isClosing, let context else { return }
        isClosing = true
        session.terminate()
        frame()
        writeOutput()
        context.close(promise: nil)
    }

    /// Ends the connection at once; its calls end with `failure`.
    func abort(_ failure: HTTPFailure) {
        guard phase != .closed else { return }
        reason = reason ?? failure
        end()
        context?.close(promise: nil)
    }

    // MARK: The channel's events

    func handlerAdded(context: ChannelHandlerContext) { self.context = context }

    func handlerRemoved(context: ChannelHandlerContext) {
        end()
        self.context = nil
    }

    func userInboundEventTriggered(context: ChannelHandlerContext, event: Any) {
        if case TLSUserEvent.handshakeCompleted(let negotiated)? = event as? TLSUserEvent, phase == .connecting {
            if negotiated == "h2" {
                phase = .greeting
                flush()
            } else {
                abort(.noHTTP2(endpoint))
            }
        }
        context.fireUserInboundEventTriggered(event)
    }

    func channelRead(context: ChannelHandlerContext, data: NIOAny) {
        guard phase != .connecting, phase != .closed else { return }
        let isSound = unwrapInboundIn(data).withUnsafeReadableBytes { session.receive($0) }
        if !isSound {
            abort(HTTPFailure(.unknown, .connectionLost, "\(endpoint): \(session.complaint ?? "bad bytes")"))
        }
    }

    func channelReadComplete(context: ChannelHandlerContext) {
        guard phase != .connecting, phase != .closed else { return }
        lastSign = .now()
        pingSentAt = nil
        if let goAway = session.goAway {
            reason = HTTPFailure(.unknown, .connectionLost, "\(endpoint) said \(goAway.text)")
            if phase == .greeting { return abort(HTTPFailure(.notProcessed, .goAway, goAway.text)) }
            retire(asFailure: true)
        } else if !session.acceptsRequests, !session.isExhausted, reason == nil {
            // The peer broke a rule. Waiting calls must not be tried here, since each would be lost.
            let failure = HTTPFailure(.unknown, .connectionLost, "\(endpoint): \(session.complaint ?? "a broken rule")")
            if phase == .greeting { return abort(failure) }
            reason = failure
            retire(asFailure: true)
        }
        if phase == .greeting, session.hasSettings { becomeOpen() }
        collect()
        engine?.advance(lastSign, reading: self)
        closeIfFinished()
    }

    func channelWritabilityChanged(context: ChannelHandlerContext) {
        if context.channel.isWritable, phase == .open || phase == .draining {
            engine?.advance(.now(), reading: self)
            closeIfFinished()
        }
        context.fireChannelWritabilityChanged()
    }

    func errorCaught(context: ChannelHandlerContext, error: any Error) {
        // A close without TLS's close_notify is an ordinary close; the peer's own error takes precedence.
        if reason == nil, error as? NIOSSLError != .uncleanShutdown { reason = failure(of: error) }
        context.close(promise: nil)
    }

    func channelInactive(context: ChannelHandlerContext) {
        end()
        context.fireChannelInactive()
    }

    // MARK: Inside

    private func failure(of error: any Error) -> HTTPFailure {
        if phase == .connecting || phase == .greeting { return HTTPFailure(connecting: error, to: endpoint) }
        if successes == 0, let refused = HTTPFailure.refusedCertificate(error, by: endpoint) { return refused }
        return HTTPFailure(.unknown, .connectionLost, "\(endpoint): \(HTTPFailure.sentence(error))")
    }

    private func closeIfFinished() {
        if phase != .closed, session.isFinished { context?.close(promise: nil) }
    }

    private func becomeOpen() {
        let info = HTTPConnectionInfo(id: id, openedAt: .now)
        self.info = info
        phase = .open
        guard refreshFields(lastSign) else {
            return abort(credentialsFailure ?? HTTPFailure(.notProcessed, .credentials, "no credentials"))
        }
        engine?.connectionIsReady(self)
    }

    /// Requests the connection's fields from the policy, at most once a second; returns false when the policy has none.
    private func refreshFields(_ now: NIODeadline) -> Bool {
        guard let engine, let policy = engine.configuration.policy, let info else { return true }
        if fieldsAskedAt.map({ now - $0 >= .seconds(1) }) ?? true {
            fieldsAskedAt = now
            do throws(HTTPFailure) {
                session.setFields(try policy.headers(for: info))
                credentialsFailure = nil
            } catch {
                credentialsFailure = error
            }
        }
        guard let credentialsFailure else { return true }
        if phase == .open { engine.failWaiting(credentialsFailure) }
        return false
    }

    /// Passes ended calls to the pool.
    private func collect() {
        guard let engine, !session.ended.isEmpty else { return }
        for ended in session.ended {
            switch ended.result {
            case .success(let answer):
                answerDueSince = lastSign
                if (200..<300).contains(answer.status) {
                    successes += 1
                } else if let info, engine.configuration.policy?.verdict(on: answer, from: info) == .retire {
                    retire(asFailure: true)
                }
                engine.report(ended.call, ended.result, connection: id)
            case .failure(let failure):
                engine.callFailed(ended.call, failure, connection: id)
            }
        }
        session.ended.removeAll(keepingCapacity: true)
        if session.openStreams == 0 { idleSince = .now() }
    }

    private func frame() {
        guard let context else { return }
        while phase != .closed, context.channel.isWritable {
            switch session.makeFrames(into: &output, limit: Self.writeSize) {
            case .done: return
            case .more: writeOutput()
            case .failed: return abort(HTTPFailure(.unknown, .connectionLost, "the HTTP/2 codec failed"))
            }
        }
    }

    /// Hands the output to the socket.
    ///
    /// The buffer is swapped out first, because a write can re-enter this function.
    private func writeOutput() {
        guard output.readableBytes > 0, let context else { return }
        var full = ByteBuffer()
        swap(&full, &output)
        context.writeAndFlush(wrapOutboundOut(full), promise: nil)
        full.clear()  // TLS has made its own bytes of it by now, so this keeps the memory.
        if output.readableBytes == 0 { swap(&full, &output) }
    }

    private func end() {
        guard phase != .closed else { return }
        let wasReady = info != nil
        phase = .closed
        let failure =
            reason
            ?? HTTPFailure(
                wasReady ? .unknown : .notProcessed,
                wasReady ? .connectionLost : .connect,
                "\(endpoint) closed the connection"
            )
        reason = failure
        // A TLS failure means that no HTTP server was reached; after any other end it is unknown what the server has
        // done.
        session.failAll(failure.cause == .tls ? failure : HTTPFailure(.unknown, failure.cause, failure.detail))
        collect()
        engine?.connectionDidClose(self)
    }
}
