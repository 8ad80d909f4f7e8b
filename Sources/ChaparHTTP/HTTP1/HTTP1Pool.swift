#if HTTP1
    import Logging
    import NIOCore
    import ChaparCore

    /// A pool of HTTP/1.1 connections.
    ///
    /// Cleartext is allowed here, for simulators and services on the same machine.
    typealias HTTP1Pool = EnginePool<HTTP1Engine>

    extension HTTP1Engine: PoolEngine {}

    extension EnginePool where Engine == HTTP1Engine {
        convenience init(
            _ configuration: HTTPPoolConfiguration,
            loop: any EventLoop,
            logger: Logger,
            jitter: @escaping @Sendable () -> Double = { .random(in: 0...1) },
            onEnd: @escaping @Sendable (ObjectIdentifier) -> Void = { _ in }
        ) throws(HTTPPoolError) {
            _ = try configuration.tlsContext(protocols: ["http/1.1"])  // Mistakes are found now, not at the first call.
            let tls = try configuration.tlsConfiguration()
            self.init(HTTP1Engine(configuration, tls: tls, loop: loop, logger: logger, jitter: jitter), onEnd: onEnd)
        }
    }
#endif
