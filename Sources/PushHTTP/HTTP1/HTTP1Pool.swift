import Logging
import NIOCore
import PushCore

/// A pool of HTTP/1.1 connections: the part that callers hold.
///
/// Cleartext is allowed here, for simulators and services on the same machine.
final class HTTP1Pool: HTTPPool {
    private let engine: HTTP1Engine
    private let onEnd: @Sendable (ObjectIdentifier) -> Void

    init(
        _ configuration: HTTPPoolConfiguration,
        loop: any EventLoop,
        logger: Logger,
        jitter: @escaping @Sendable () -> Double = { .random(in: 0...1) },
        onEnd: @escaping @Sendable (ObjectIdentifier) -> Void = { _ in }
    ) throws(HTTPPoolError) {
        _ = try configuration.tlsContext(protocols: ["http/1.1"])  // Mistakes are found now, not at the first call.
        engine = HTTP1Engine(
            configuration,
            tls: try configuration.tlsConfiguration(),
            loop: loop,
            logger: logger,
            jitter: jitter
        )
        self.onEnd = onEnd
    }

    deinit {
        // AsyncHTTPClient must be shut down before it goes.
        let engine = engine
        engine.loop.execute { engine.end(grace: .zero, nil) }
    }

    func send(_ calls: [HTTPCall], report: @escaping @Sendable ([HTTPReply]) -> Void) async {
        guard !calls.isEmpty else { return }
        let batch = Batch(calls, report: report)
        let engine = engine
        await withTaskCancellationHandler {
            await withCheckedContinuation { continuation in
                batch.continuation = continuation
                engine.submit(batch)
            }
        } onCancel: {
            engine.cancel(batch)
        }
    }

    var status: HTTPPoolStatus { engine.status }

    func replaceConnections() {
        let engine = engine
        engine.loop.execute { engine.replaceConnections() }
    }

    func shutdown(grace: Duration) async {
        let engine = engine
        await withCheckedContinuation { waiter in
            engine.loop.execute { engine.end(grace: grace, waiter) }
        }
        onEnd(ObjectIdentifier(self))
    }
}
