import Logging
import NIOCore
import PushCore

/// A pool of HTTP/2 connections: the part that callers hold.
///
/// All work happens in its engine, on one event loop.
final class HTTP2Pool: HTTPPool {
    private let engine: HTTP2Engine
    private let onEnd: @Sendable (ObjectIdentifier) -> Void

    init(
        _ configuration: HTTPPoolConfiguration,
        loop: any EventLoop,
        tuning: HTTP2Tuning = HTTP2Tuning(),
        logger: Logger,
        onEnd: @escaping @Sendable (ObjectIdentifier) -> Void = { _ in }
    ) throws(HTTPPoolError) {
        guard configuration.endpoint.scheme == .https else {
            throw HTTPPoolError("HTTP/2 needs TLS: \(configuration.endpoint) must begin with https://")
        }
        let tls = try configuration.tlsContext(protocols: ["h2"])
        let connector = Connector(configuration: configuration, tls: tls, tuning: tuning)
        engine = HTTP2Engine(configuration, connector: connector, loop: loop, tuning: tuning, logger: logger)
        self.onEnd = onEnd
    }

    deinit {
        // Without this the engine would live as long as its connections do.
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
