#if HTTP1
    import AsyncHTTPClient
    import Logging
    import NIOCore
    import NIOSSL
    import ChaparCore

    /// The event-loop side of an HTTP/1.1 pool: a queue in front of AsyncHTTPClient.
    ///
    /// There are at most as many calls in flight as connections, so a call that waits here surely was not written. The
    /// rules for waiting, deadlines and failed connects are those of the HTTP/2 pool.
    ///
    /// It is `@unchecked Sendable`: `mailbox` and `count` may be used on any thread, the `let`s are immutable, and
    /// everything else is used on `loop` only.
    final class HTTP1Engine: @unchecked Sendable {
        private static let tickPause = TimeAmount.milliseconds(50)

        let loop: any EventLoop
        private let configuration: HTTPPoolConfiguration
        private let tls: TLSConfiguration
        private let logger: Logger
        private let jitter: @Sendable () -> Double
        private let requestTimeout: TimeAmount
        private let mailbox = Mailbox()
        private let replies = ReplyCollector()
        private let count = HTTP1Client.Count()

        private var waiting = WaitingQueue()
        private var current: HTTP1Client?
        private var exchanges: [ObjectIdentifier: HTTP1Exchange] = [:]
        /// Those of `exchanges` that still have bytes to hand to a socket.
        private var unsent: [HTTP1Exchange] = []
        private var backoff: Backoff
        private let reach: ReachWatch
        private var lastConnectFailure: HTTPFailure?
        private var tick: Scheduled<Void>?
        private var isAdvancing = false
        private var isEnding = false
        private var graceEnds: NIODeadline?
        private var closing = 0
        private var endWaiters: [CheckedContinuation<Void, Never>] = []

        init(
            _ configuration: HTTPPoolConfiguration,
            tls: TLSConfiguration,
            loop: any EventLoop,
            logger: Logger,
            jitter: @escaping @Sendable () -> Double
        ) {
            self.configuration = configuration
            self.tls = tls
            self.loop = loop
            self.logger = logger
            self.jitter = jitter
            requestTimeout = TimeAmount(configuration.requestTimeout)
            backoff = Backoff(configuration.reconnectBackoff)
            reach = ReachWatch(configuration, loop: loop)
        }

        // MARK: From other threads

        func submit(_ batch: Batch) {
            if mailbox.put(batch) { loop.execute { self.drainSubmissions() } }
        }

        func cancel(_ batch: Batch) {
            batch.cancel()
            loop.execute {
                self.fail(self.waiting.removeAll(of: batch), .callerCancelled)
                self.advance()
            }
        }

        var status: HTTPPoolStatus {
            var status = mailbox.status
            status.connections = count.open
            status.connectionsOpened = count.opened
            return status
        }

        // MARK: Calls

        private func drainSubmissions() {
            reach.noteCall()
            for batch in mailbox.drain() {
                if waiting.isEmpty { backoff.admitFirstCall() }
                waiting.append(batch)
                guard isEnding || batch.isCancelled else { continue }
                fail(waiting.removeAll(of: batch), isEnding ? .poolShutDown : .callerCancelled)
            }
            advance()
        }

        private func advance() {
            guard !isAdvancing else { return }  // AsyncHTTPClient may call back at once; the loop below sees to it.
            isAdvancing = true
            let now = NIODeadline.now()
            dispatch(now)
            let excess = waiting.trim(to: configuration.maximumWaiting)
            if !excess.isEmpty { fail(excess, .queueFull(limit: configuration.maximumWaiting)) }
            isAdvancing = false
            finishEndIfDone()
            mailbox.publish(
                HTTPPoolStatus(
                    openStreams: exchanges.count,
                    waiting: waiting.count,
                    streamLimit: configuration.maximumConnections,
                    lastConnectFailure: lastConnectFailure
                )
            )
            scheduleTick()
            replies.handOver()
        }

        private func dispatch(_ now: NIODeadline) {
            if let notBefore = backoff.notBefore, notBefore > now {
                return fail(waiting.removeExpired(notBefore, default: requestTimeout), lateFailure)
            }
            // While connecting fails, only one call at a time tries.
            let limit = backoff.failures > 0 ? 1 : configuration.maximumConnections
            while !isEnding, exchanges.count < limit, let call = waiting.popFirst() {
                let deadline = call.batch.deadline(of: call.index, default: requestTimeout)
                guard deadline > now else {
                    fail([call], lateFailure)
                    continue
                }
                guard call.batch.mayWrite else {
                    fail([call], Batch.withdrawn)
                    continue
                }
                start(call, deadline: deadline, now)
            }
        }

        private func start(_ call: QueuedCall, deadline: NIODeadline, _ now: NIODeadline) {
            let client =
                current
                ?? HTTP1Client(configuration, tls: tls, loop: loop, count: count) { [weak self] in
                    self?.mayFlush() ?? true
                }
            current = client
            let fields: [HTTPHeader]
            switch client.fields(configuration.policy, now) {
            case .success(let headers): fields = headers
            case .failure(let failure): return fail([call] + waiting.removeAll(), failure)
            }
            let request = HTTP1Exchange.request(
                call.batch.calls[call.index],
                to: configuration.endpoint,
                extra: fields
            )
            guard let request else {
                let text = "the path or a field holds what HTTP forbids"
                return fail([call], HTTPFailure(.notProcessed, .invalidCall, text))
            }
            let exchange = HTTP1Exchange(call, maximumBytes: configuration.maximumAnswerBytes)
            exchanges[ObjectIdentifier(exchange)] = exchange
            unsent.append(exchange)
            client.active += 1
            let bound = NIOLoopBound(client, eventLoop: loop)
            let task = client.client.execute(
                request: request,
                delegate: exchange,
                eventLoop: .delegate(on: loop),
                deadline: deadline,
                logger: nil
            )
            exchange.task = task
            task.futureResult.whenComplete { result in self.ended(exchange, on: bound.value, result) }
        }

        /// Whether a connection may hand its bytes to the socket.
        ///
        /// AsyncHTTPClient does not tell whose bytes they are.
        private func mayFlush() -> Bool {
            var mayFlush = true
            unsent.removeAll { exchange in
                if !exchange.mayWrite() { mayFlush = false }
                return exchange.isHandedOver
            }
            return mayFlush
        }

        private func ended(_ exchange: HTTP1Exchange, on client: HTTP1Client, _ result: Result<HTTPAnswer, any Error>) {
            exchanges[ObjectIdentifier(exchange)] = nil
            unsent.removeAll { $0 === exchange }
            exchange.task = nil
            client.active -= 1
            switch result {
            case .success(let answer):
                backoff.succeed()
                lastConnectFailure = nil
                reach.stop()
                replies.add(exchange.call, .success(answer), connection: client.info.id)
                let isSuccess = (200..<300).contains(answer.status)
                if !isSuccess, configuration.policy?.verdict(on: answer, from: client.info) == .retire {
                    retire(client)
                }
            case .failure(let error):
                let failure = exchange.failure(
                    error,
                    endpoint: configuration.endpoint,
                    maximumBytes: configuration.maximumAnswerBytes
                )
                failed(exchange, failure, isReached: !HTTPFailure.isUnreachable(error))
            }
            if client.isRetired, client.active == 0 { close(client) }
            advance()
        }

        private func failed(_ exchange: HTTP1Exchange, _ failure: HTTPFailure, isReached: Bool) {
            guard failure.stage == .notProcessed else {
                return replies.add(exchange.call, .failure(failure), connection: 0)
            }
            switch failure.cause {
            case .connect, .tls, .proxy:
                let now = NIODeadline.now()
                if backoff.notBefore.map({ $0 <= now }) ?? true {
                    backoff.fail(now, isUnreachable: failure.cause == .connect, random: jitter())
                }
                lastConnectFailure = failure
                if isReached {
                    reach.stop()
                } else if !isEnding {
                    reach.start(isBusy: { [weak self] in self?.waiting.isEmpty == false }) { [weak self] in
                        self?.serverIsBack()
                    }
                }
                logger.debug(
                    "push connection failed",
                    metadata: ["http.endpoint": "\(configuration.endpoint)", "http.failure": "\(failure)"]
                )
                if failure.isLasting {
                    fail([exchange.call] + waiting.removeAll(), failure)
                } else if isEnding || exchange.call.batch.isCancelled {
                    fail([exchange.call], failure)
                } else {
                    waiting.putBack(exchange.call)
                }
            default:
                fail([exchange.call], failure)
            }
        }

        /// Makes the server's return visible in the status, and lets waiting calls try at once.
        private func serverIsBack() {
            guard !isEnding else { return }
            lastConnectFailure = nil
            backoff.succeed()
            advance()
        }

        private func fail(_ calls: [QueuedCall], _ failure: HTTPFailure) {
            for call in calls { replies.add(call, .failure(failure), connection: 0) }
        }

        private var lateFailure: HTTPFailure { .late(waitingFor: "connection", after: lastConnectFailure) }

        // MARK: Connections

        /// Retires all connections; calls on them end normally.
        func replaceConnections() {
            if let current { retire(current) }
            backoff.succeed()
            advance()
        }

        private func retire(_ client: HTTP1Client) {
            guard !client.isRetired else { return }
            client.isRetired = true
            if current === client { current = nil }
            if client.active == 0 { close(client) }
        }

        private func close(_ client: HTTP1Client) {
            closing += 1
            client.client.shutdown().whenComplete { _ in
                self.loop.execute {
                    self.closing -= 1
                    self.advance()
                }
            }
        }

        // MARK: The clock and the end

        private func scheduleTick() {
            guard tick == nil, !waiting.isEmpty || (isEnding && !exchanges.isEmpty) else { return }
            tick = loop.scheduleTask(in: Self.tickPause) { self.onTick() }
        }

        private func onTick() {
            tick = nil
            let now = NIODeadline.now()
            fail(waiting.removeExpired(now, default: requestTimeout), lateFailure)
            if let graceEnds, graceEnds <= now {
                for exchange in exchanges.values { exchange.task?.fail(reason: HTTPFailure.unanswered) }
            }
            advance()
        }

        func end(grace: Duration, _ waiter: CheckedContinuation<Void, Never>?) {
            if let waiter { endWaiters.append(waiter) }
            isEnding = true
            reach.stop()
            let graceEnds = NIODeadline.now() + TimeAmount(grace)
            self.graceEnds = self.graceEnds.map { min($0, graceEnds) } ?? graceEnds
            fail(waiting.removeAll(), .poolShutDown)
            if let current { retire(current) }
            advance()
        }

        private func finishEndIfDone() {
            guard isEnding, exchanges.isEmpty, closing == 0 else { return }
            let waiters = endWaiters
            endWaiters = []
            for waiter in waiters { waiter.resume() }
        }
    }
#endif
