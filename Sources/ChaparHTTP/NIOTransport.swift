public import Logging
public import NIOCore
public import NIOPosix
public import ChaparCore
import Synchronization

/// The transport over real sockets: HTTP/2 with libnghttp2, HTTP/1.1 with AsyncHTTPClient.
///
/// HTTP/1.1 belongs to the package's trait `HTTP1`, which is on by default; without it no package for HTTP/1.1 is
/// fetched or built.
///
/// The executable makes one and passes it to every plugin. Pools live until their own `shutdown(grace:)` or this
/// transport's, whichever comes first. The transport never stops an event loop group: the group's owner does.
public final class NIOTransport: HTTPTransport {
    private enum State {
        case running([ObjectIdentifier: any HTTPPool])
        case ended
    }

    private let group: any EventLoopGroup
    private let logger: Logger
    private let state = Mutex(State.running([:]))

    /// Makes a transport.
    ///
    /// - Parameters:
    ///   - group: The event loops of the connections; each pool stays on one of them. By default the process-wide
    ///     group.
    ///   - logger: Gets connection events at `debug`; never a header, path or body.
    public init(group: any EventLoopGroup = MultiThreadedEventLoopGroup.singleton, logger: Logger) {
        self.group = group
        self.logger = logger
    }

    /// Makes a pool; nothing is opened before the first call.
    ///
    /// Throws for invalid certificates, keys and proxies, for HTTP/2 without TLS, for HTTP/1.1 without the trait
    /// `HTTP1`, and after ``shutdown(grace:)``.
    public func pool(_ configuration: HTTPPoolConfiguration) throws(HTTPPoolError) -> any HTTPPool {
        try configuration.checkLimits()
        let onEnd: @Sendable (ObjectIdentifier) -> Void = { [weak self] id in self?.forget(id) }
        let id: ObjectIdentifier
        let pool: any HTTPPool
        switch configuration.version {
        case .http2:
            let made = try HTTP2Pool(configuration, loop: group.next(), logger: logger, onEnd: onEnd)
            (id, pool) = (ObjectIdentifier(made), made)
        case .http1:
            #if HTTP1
                let made = try HTTP1Pool(configuration, loop: group.next(), logger: logger, onEnd: onEnd)
                (id, pool) = (ObjectIdentifier(made), made)
            #else
                throw HTTPPoolError("HTTP/1.1 needs the trait HTTP1 of the package chapar, which is turned off")
            #endif
        }
        let isRunning = state.withLock { state in
            guard case .running(var pools) = state else { return false }
            pools[id] = pool
            state = .running(pools)
            return true
        }
        guard isRunning else { throw HTTPPoolError("the transport was shut down") }
        return pool
    }

    /// Shuts all pools down at the same time: waiting calls fail as `cancelled`, open ones have `grace` to end.
    public func shutdown(grace: Duration) async {
        let pools = state.withLock { state -> [any HTTPPool] in
            guard case .running(let pools) = state else { return [] }
            state = .ended
            return Array(pools.values)
        }
        await withTaskGroup(of: Void.self) { tasks in
            for pool in pools { tasks.addTask { await pool.shutdown(grace: grace) } }
        }
    }

    private func forget(_ id: ObjectIdentifier) {
        state.withLock { state in
            guard case .running(var pools) = state else { return }
            pools[id] = nil
            state = .running(pools)
        }
    }
}

extension HTTPPoolConfiguration {
    /// Rejects limits under which a pool could not work, or not safely.
    func checkLimits() throws(HTTPPoolError) {
        guard maximumConnections > 0 else { throw HTTPPoolError("a pool needs at least one connection") }
        guard maximumWaiting >= 0, maximumAnswerBytes >= 0 else { throw HTTPPoolError("a limit is below zero") }
        guard requestTimeout > .zero, connectTimeout > .zero, reconnectBackoff.lowerBound > .zero else {
            throw HTTPPoolError("a timeout or backoff is not above zero")
        }
        if let proxy, proxy.scheme != .http {
            throw HTTPPoolError("the proxy \(proxy) must be an http:// address; the tunnel itself carries TLS")
        }
    }
}
