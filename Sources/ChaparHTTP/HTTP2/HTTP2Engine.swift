import Logging
import NIOCore
import ChaparCore

/// The event-loop side of an HTTP/2 pool: waiting calls, connections, and the assignment of one to the other.
///
/// Every event (calls handed over, bytes read, a connection opened or lost, the clock's tick) changes some state and
/// then ends in `advance`, which gives calls to connections, opens connections, reports and publishes the status.
///
/// It is `@unchecked Sendable`: `mailbox` may be used on any thread, the `let`s are immutable, and everything else is
/// used on `loop` only, which the entry points from other threads reach through `loop.execute`.
final class HTTP2Engine: @unchecked Sendable {
    /// A connection attempt in progress.
    struct Attempt {
        let id: Int
        let giveUpAt: NIODeadline
        var connection: HTTP2Connection?
        var channel: (any Channel)?
    }

    let loop: any EventLoop
    let configuration: HTTPPoolConfiguration
    let tuning: HTTP2Tuning
    let logger: Logger
    let connector: Connector
    let requestTimeout: TimeAmount
    private let mailbox = Mailbox()
    private let replies = ReplyCollector()

    var waiting = WaitingQueue()
    /// The connections that take calls.
    var connections: [HTTP2Connection] = []
    /// The connections whose open calls are ending.
    var draining: [HTTP2Connection] = []
    var attempt: Attempt?
    var attempts = 0
    var opened = 0
    var backoff: Backoff
    let reach: ReachWatch
    var lastConnectFailure: HTTPFailure?
    /// The time since when the open connections are full: calls wait, but for gaps below ``HTTP2Tuning/emptyFor``.
    var fullSince: NIODeadline?
    /// The last time at which calls waited although connections were open.
    private var lastWaiting: NIODeadline?
    var isEnding = false
    var graceEnds: NIODeadline?
    var endWaiters: [CheckedContinuation<Void, Never>] = []

    private var isAdvancing = false
    private var mustAdvanceAgain = false
    private var tick: Scheduled<Void>?

    init(
        _ configuration: HTTPPoolConfiguration,
        connector: Connector,
        loop: any EventLoop,
        tuning: HTTP2Tuning,
        logger: Logger
    ) {
        self.configuration = configuration
        self.connector = connector
        self.loop = loop
        self.tuning = tuning
        self.logger = logger
        requestTimeout = TimeAmount(configuration.requestTimeout)
        backoff = Backoff(configuration.reconnectBackoff)
        reach = ReachWatch(configuration, loop: loop)
    }

    // MARK: From other threads

    /// Takes a batch; one wake-up serves all batches that arrive before the loop's next turn.
    func submit(_ batch: Batch) {
        if mailbox.put(batch) { loop.execute { self.drainSubmissions() } }
    }

    /// Fails the waiting calls of a batch.
    func cancel(_ batch: Batch) {
        batch.cancel()
        loop.execute {
            let calls = self.waiting.removeAll(of: batch)
            guard !calls.isEmpty else { return }  // Not handed over yet, or all on the wire.
            self.fail(calls, .callerCancelled)
            self.advance(.now())
        }
    }

    var status: HTTPPoolStatus { mailbox.status }

    // MARK: Calls

    private func drainSubmissions() {
        reach.noteCall()
        for batch in mailbox.drain() {
            if isEnding || batch.isCancelled {
                let calls = batch.calls.indices.map { QueuedCall(batch: batch, index: $0, tries: 0) }
                fail(calls, isEnding ? .poolShutDown : .callerCancelled)
            } else {
                if waiting.isEmpty { backoff.admitFirstCall() }
                waiting.append(batch)
            }
        }
        advance(.now())
    }

    /// Returns the next call that is not too late and may be written.
    func nextCall(_ now: NIODeadline) -> QueuedCall? {
        while let call = waiting.popFirst() {
            if deadline(of: call) <= now {
                fail([call], lateFailure)
            } else if call.batch.mayWrite {
                return call
            } else {
                fail([call], Batch.withdrawn)
            }
        }
        return nil
    }

    func deadline(of call: QueuedCall) -> NIODeadline {
        call.batch.deadline(of: call.index, default: requestTimeout)
    }

    /// Sends a failed call again when that is safe and there is time; otherwise reports it.
    func callFailed(_ call: QueuedCall, _ failure: HTTPFailure, connection: UInt64) {
        let canRepeat = failure.cause == .refusedStream || failure.cause == .goAway
        guard failure.stage == .notProcessed, canRepeat, call.tries + 1 < tuning.maximumTries, !isEnding,
            !call.batch.isCancelled
        else { return report(call, .failure(failure), connection: connection) }
        var again = call
        again.tries += 1
        waiting.putBack(again)
    }

    /// Fails every waiting call.
    func failWaiting(_ failure: HTTPFailure) { fail(waiting.removeAll(), failure) }

    func fail(_ calls: [QueuedCall], _ failure: HTTPFailure) {
        for call in calls { report(call, .failure(failure), connection: 0) }
    }

    /// Adds a reply, which the batch's owner gets at the end of this turn, together with others.
    func report(_ call: QueuedCall, _ result: Result<HTTPAnswer, HTTPFailure>, connection: UInt64) {
        replies.add(call, result, connection: connection)
    }

    /// The error of a call whose deadline passed while it waited.
    var lateFailure: HTTPFailure {
        .late(waitingFor: "stream", after: connections.isEmpty ? lastConnectFailure : nil)
    }

    // MARK: The end of every event

    /// Brings calls, connections and the status up to date after an event.
    ///
    /// A write may re-enter it; it then runs once more.
    func advance(_ now: NIODeadline, reading: HTTP2Connection? = nil) {
        guard !isAdvancing else {
            mustAdvanceAgain = true
            return
        }
        isAdvancing = true
        repeat {
            mustAdvanceAgain = false
            dispatch(now)
            reading?.flush()
            for connection in draining { connection.closeIfDone() }
            connectIfNeeded(now)
        } while mustAdvanceAgain
        isAdvancing = false
        finishEndIfDone()
        publish()
        scheduleTick()
        replies.handOver()
    }

    private func dispatch(_ now: NIODeadline) {
        while !waiting.isEmpty, let connection = connections.first(where: \.hasRoom) { connection.fill(now) }
        let excess = waiting.trim(to: configuration.maximumWaiting)
        if !excess.isEmpty { fail(excess, .queueFull(limit: configuration.maximumWaiting)) }
        noteFullness(now)
    }

    /// Notes since when the open connections are full.
    ///
    /// A caller that refills the queue only after answers leaves it empty for moments, although every stream is in use.
    private func noteFullness(_ now: NIODeadline) {
        guard !waiting.isEmpty, !connections.isEmpty else {
            if connections.isEmpty { lastWaiting = nil }
            return
        }
        if lastWaiting.map({ now - $0 >= tuning.emptyFor }) ?? true { fullSince = now }
        lastWaiting = now
    }

    private func publish() {
        var status = HTTPPoolStatus()
        status.connections = connections.count
        for connection in connections {
            status.openStreams += connection.openStreams
            status.streamLimit += connection.streamLimit
        }
        for connection in draining { status.openStreams += connection.openStreams }
        status.waiting = waiting.count
        status.connectionsOpened = opened
        status.lastConnectFailure = lastConnectFailure
        mailbox.publish(status)
    }

    // MARK: The clock

    /// Schedules the next tick while a deadline may pass; none in an idle pool.
    private func scheduleTick() {
        guard tick == nil else { return }
        let isBusy =
            !waiting.isEmpty || attempt != nil || !draining.isEmpty || isEnding
            || connections.contains { $0.openStreams > 0 }
        guard isBusy || connections.count > 1 else { return }
        if isEnding, connections.isEmpty, draining.isEmpty, attempt == nil { return }
        let pause = isBusy ? tuning.tick : max(tuning.tick, min(.seconds(1), TimeAmount(configuration.idleTimeout)))
        tick = loop.scheduleTask(in: pause) { self.onTick() }
    }

    private func onTick() {
        tick = nil
        let now = NIODeadline.now()
        for connection in connections + draining { connection.check(now, configuration) }
        fail(waiting.removeExpired(now, default: requestTimeout), lateFailure)
        checkAttempt(now)
        growIfFull(now)
        closeIdle(now)
        if let graceEnds, graceEnds <= now {
            for connection in connections + draining { connection.abort(.unanswered) }
        }
        for connection in connections + draining { connection.flush() }
        advance(now)
    }
}
