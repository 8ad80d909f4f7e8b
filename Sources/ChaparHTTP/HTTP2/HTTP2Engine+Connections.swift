import Logging
import NIOCore
import ChaparCore

/// The opening, replacement and loss of a pool's connections.
///
/// There is at most one attempt at a time, and after a failure the next one waits for the backoff that all callers
/// share (``Backoff``). A connection that ended without a success counts as a failure too, so that a peer that accepts
/// connections and then drops them cannot cause a storm.
///
/// After a TLS, protocol, proxy or credential failure all waiting calls fail at once with that cause, since waiting
/// does not help. After any other failure those calls fail whose deadline comes before the next attempt; the others
/// wait for it.
extension HTTP2Engine {
    // MARK: Opening

    /// Starts an attempt when calls wait, no connection takes calls, and the backoff allows it.
    func connectIfNeeded(_ now: NIODeadline) {
        guard attempt == nil, !waiting.isEmpty, connections.isEmpty, !isEnding else { return }
        if let notBefore = backoff.notBefore, notBefore > now {
            let tooLate = waiting.removeExpired(notBefore, default: requestTimeout)
            return fail(tooLate, lateFailure)
        }
        connect(now)
    }

    private func connect(_ now: NIODeadline) {
        attempts += 1
        let id = attempts
        attempt = Attempt(id: id, giveUpAt: now + TimeAmount(configuration.connectTimeout))
        connector.connect(on: loop).whenComplete { result in
            switch result {
            case .success(let channel): self.channelIsUp(channel, attempt: id)
            case .failure(let error):
                guard self.attempt?.id == id else { return }
                self.attemptFailed(HTTPFailure(connecting: error, to: self.configuration.endpoint), isReached: false)
                self.advance(.now())
            }
        }
    }

    private func channelIsUp(_ channel: any Channel, attempt id: Int) {
        let handler = try? channel.pipeline.syncOperations.handler(type: HTTP2Connection.self)
        guard attempt?.id == id, let connection = handler else {
            channel.close(promise: nil)
            // The handler is gone if the channel failed before this callback.
            guard attempt?.id == id else { return }
            attemptFailed(
                HTTPFailure(.notProcessed, .connect, "\(configuration.endpoint) closed the connection at once")
            )
            return advance(.now())
        }
        attempt?.connection = connection
        attempt?.channel = channel
        connection.adopt(by: self)
    }

    /// Ends an attempt that takes too long, in name resolution, TCP or TLS, or before SETTINGS.
    func checkAttempt(_ now: NIODeadline) {
        guard let attempt, attempt.giveUpAt <= now else { return }
        let step =
            switch attempt.connection?.phase {
            case nil: "TCP"
            case .connecting: "TLS"
            default: "HTTP/2 SETTINGS"
            }
        let text = "\(configuration.endpoint): no \(step) within \(configuration.connectTimeout)"
        let failure = HTTPFailure(.notProcessed, .connect, text)
        if let connection = attempt.connection {
            connection.abort(failure)
        } else {
            attemptFailed(failure, isReached: false)
        }
    }

    /// Records a failed attempt; `isReached` means that TCP was connected.
    func attemptFailed(_ failure: HTTPFailure, isReached: Bool = true) {
        attempt = nil
        lastConnectFailure = failure
        if isReached {
            reach.stop()
        } else if !isEnding {
            reach.start(isBusy: { [weak self] in self?.waiting.isEmpty == false }) { [weak self] in self?.serverIsBack()
            }
        }
        backoff.fail(.now(), isUnreachable: failure.cause == .connect, random: tuning.jitter())
        logger.debug(
            "push connection failed",
            metadata: ["http.endpoint": "\(configuration.endpoint)", "http.failure": "\(failure)"]
        )
        if failure.isLasting, connections.isEmpty { failWaiting(failure) }
    }

    /// Makes the server's return visible in the status, and lets waiting calls try at once.
    private func serverIsBack() {
        guard connections.isEmpty, !isEnding else { return }
        lastConnectFailure = nil
        backoff.succeed()
        advance(.now())
    }

    /// Takes a connection into use after the peer's SETTINGS have arrived.
    func connectionIsReady(_ connection: HTTP2Connection) {
        attempt = nil
        opened += 1
        lastConnectFailure = nil
        reach.stop()
        logger.debug(
            "push connection open",
            metadata: ["http.endpoint": "\(configuration.endpoint)", "http.connection": "\(connection.id)"]
        )
        connections.append(connection)
        if isEnding { connection.retire() }
        advance(.now())
    }

    // MARK: Losing

    /// Stops giving calls to a connection that takes no more of them.
    func connectionStopped(_ connection: HTTP2Connection, asFailure: Bool) {
        connections.removeAll { $0 === connection }
        draining.append(connection)
        if asFailure { recordEnd(of: connection, HTTPFailure(.notProcessed, .goAway, "the connection was retired")) }
    }

    /// Removes a connection that has ended, before or after it was ready.
    func connectionDidClose(_ connection: HTTP2Connection) {
        let failure = connection.ending ?? HTTPFailure(.notProcessed, .connect, "the connection ended")
        if attempt?.connection === connection {
            attemptFailed(HTTPFailure(.notProcessed, failure.cause, failure.detail))
        } else if connections.contains(where: { $0 === connection }) {
            connections.removeAll { $0 === connection }
            recordEnd(of: connection, failure)
        }
        draining.removeAll { $0 === connection }
        logger.debug(
            "push connection closed",
            metadata: ["http.connection": "\(connection.id)", "http.failure": "\(failure)"]
        )
        advance(.now())
    }

    private func recordEnd(of connection: HTTP2Connection, _ failure: HTTPFailure) {
        guard connection.successes == 0 else { return backoff.succeed() }
        backoff.fail(.now(), isUnreachable: false, random: tuning.jitter())
        let detail = connection.ending?.detail ?? failure.detail
        let last = HTTPFailure(.notProcessed, failure.cause, detail)
        lastConnectFailure = last
        if last.isLasting, connections.isEmpty { failWaiting(last) }
    }

    // MARK: Size

    /// Opens another connection when the open ones have been full for a while and calls wait.
    func growIfFull(_ now: NIODeadline) {
        guard !waiting.isEmpty, let fullSince, now - fullSince >= tuning.growAfter, attempt == nil, !isEnding else {
            return
        }
        guard connections.count < configuration.maximumConnections, backoff.notBefore.map({ $0 <= now }) ?? true
        else { return }
        self.fullSince = now
        connect(now)
    }

    /// Closes connections that have been without calls for long; the last one stays open.
    func closeIdle(_ now: NIODeadline) {
        let limit = TimeAmount(configuration.idleTimeout)
        for connection in connections.reversed() where connections.count > 1 {
            if connection.openStreams == 0, now - connection.idleSince >= limit { connection.retire() }
        }
    }

    /// Retires every connection, and discards the one that is being opened.
    func replaceConnections() {
        for connection in connections { connection.retire() }
        backoff.succeed()
        if let attempt {
            self.attempt = nil
            attempt.connection?.abort(HTTPFailure(.notProcessed, .connectionLost, "replaced before it was ready"))
        }
        advance(.now())
    }

    // MARK: The end

    /// Ends the pool; `waiter` is resumed when the last connection is closed.
    func end(grace: Duration, _ waiter: CheckedContinuation<Void, Never>?) {
        if let waiter { endWaiters.append(waiter) }
        isEnding = true
        reach.stop()
        let graceEnds = NIODeadline.now() + TimeAmount(grace)
        self.graceEnds = self.graceEnds.map { min($0, graceEnds) } ?? graceEnds
        failWaiting(.poolShutDown)
        for connection in connections { connection.retire() }
        if let attempt {
            self.attempt = nil
            attempt.connection?.abort(.poolShutDown)
        }
        advance(.now())
    }

    func finishEndIfDone() {
        guard isEnding, connections.isEmpty, draining.isEmpty, attempt == nil else { return }
        let waiters = endWaiters
        endWaiters = []
        for waiter in waiters { waiter.resume() }
    }
}
