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
    private let resolve: AddressResolver
    private let state = Mutex(State.running([:]))

    /// Makes a transport.
    ///
    /// - Parameters:
    ///   - group: The event loops of the connections; each pool stays on one of them. By default the process-wide
    ///     group.
    ///   - logger: Gets connection events at `debug`; never a header, path or body.
    public convenience init(group: any EventLoopGroup = MultiThreadedEventLoopGroup.singleton, logger: Logger) {
        self.init(group: group, logger: logger, resolve: SystemResolver.addresses)
    }

    /// Makes a transport whose pools of foreign hosts resolve names in a way of their own, for tests.
    package init(
        group: any EventLoopGroup = MultiThreadedEventLoopGroup.singleton,
        logger: Logger,
        resolve: @escaping @Sendable (String) async throws -> [[UInt8]]
    ) {
        self.group = group
        self.logger = logger
        self.resolve = resolve
    }

    /// Makes a pool; nothing is opened before the first call.
    ///
    /// Throws for invalid certificates, keys and proxies, for HTTP/2 without TLS, for HTTP/1.1 without the trait
    /// `HTTP1`, and after ``shutdown(grace:)``.
    public func pool(_ configuration: HTTPPoolConfiguration) throws(HTTPPoolError) -> any HTTPPool {
        try configuration.checkLimits()
        if configuration.requiresPublicAddress, configuration.proxy == nil { return try publicPool(configuration) }
        let (id, pool) = try plainPool(configuration)
        try keep(id, pool)
        return pool
    }

    /// Makes a pool that resolves and checks its host itself.
    private func publicPool(_ configuration: HTTPPoolConfiguration) throws(HTTPPoolError) -> any HTTPPool {
        let pool = PublicPool(
            configuration,
            resolve: resolve,
            make: { [group, logger] configuration throws(HTTPPoolError) in
                try Self.plainPool(configuration, group, logger).pool
            },
            onEnd: { [weak self] id in self?.forget(id) }
        )
        try keep(ObjectIdentifier(pool), pool)
        return pool
    }

    private func plainPool(
        _ configuration: HTTPPoolConfiguration
    ) throws(HTTPPoolError) -> (id: ObjectIdentifier, pool: any HTTPPool) {
        try Self.plainPool(configuration, group, logger) { [weak self] id in self?.forget(id) }
    }

    private static func plainPool(
        _ configuration: HTTPPoolConfiguration,
        _ group: any EventLoopGroup,
        _ logger: Logger,
        onEnd: @escaping @Sendable (ObjectIdentifier) -> Void = { _ in }
    ) throws(HTTPPoolError) -> (id: ObjectIdentifier, pool: any HTTPPool) {
        switch configuration.version {
        case .http2:
            let made = try HTTP2Pool(configuration, loop: group.next(), logger: logger, onEnd: onEnd)
            return (ObjectIdentifier(made), made)
        case .http1:
            #if HTTP1
                let made = try HTTP1Pool(configuration, loop: group.next(), logger: logger, onEnd: onEnd)
                return (ObjectIdentifier(made), made)
            #else
                throw HTTPPoolError("HTTP/1.1 needs the trait HTTP1 of the package chapar, which is turned off")
            #endif
        }
    }

    /// Keeps a pool until its end; throws after ``shutdown(grace:)``.
    private func keep(_ id: ObjectIdentifier, _ pool: any HTTPPool) throws(HTTPPoolError) {
        let isRunning = state.withLock { state in
            guard case .running(var pools) = state else { return false }
            pools[id] = pool
            state = .running(pools)
            return true
        }
        guard isRunning else { throw HTTPPoolError("the transport was shut down") }
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
    /// The host that a socket connects to: the proxy, an address that was checked, or the endpoint's name.
    var connectHost: String { proxy?.host ?? resolvedAddress ?? endpoint.host }

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
