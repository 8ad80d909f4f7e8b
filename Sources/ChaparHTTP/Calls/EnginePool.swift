import NIOCore
import ChaparCore

/// The event-loop side of a pool: waiting calls, connections, and the assignment of one to the other.
protocol PoolEngine: Sendable {
    var loop: any EventLoop { get }
    var status: HTTPPoolStatus { get }
    /// Takes a batch, from any thread.
    func submit(_ batch: Batch)
    /// Fails the waiting calls of a batch, from any thread.
    func cancel(_ batch: Batch)
    /// Retires every connection; on the loop.
    func replaceConnections()
    /// Ends the engine; on the loop.
    ///
    /// `waiter` is resumed when the last connection is closed.
    func end(grace: Duration, _ waiter: CheckedContinuation<Void, Never>?)
}

/// A pool of connections: the part that callers hold.
///
/// All work happens in its engine, on one event loop.
final class EnginePool<Engine: PoolEngine>: HTTPPool {
    private let engine: Engine
    private let onEnd: @Sendable (ObjectIdentifier) -> Void

    /// Wraps an engine; `onEnd` is called at the end of ``shutdown(grace:)``.
    init(_ engine: Engine, onEnd: @escaping @Sendable (ObjectIdentifier) -> Void) {
        self.engine = engine
        self.onEnd = onEnd
    }

    deinit {
        // Otherwise the engine would live as long as its connections, and an AsyncHTTPClient must not be released
        // before it is shut down.
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
