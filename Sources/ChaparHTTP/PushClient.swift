public import Logging
public import NIOCore
public import NIOPosix
public import ChaparCore
import Synchronization

/// The owner of the connections, and of the backends made over them, in a program that sends from code.
///
/// ``run(logger:grace:group:isolation:_:)`` shuts everything down when its body ends, for whatever reason:
///
/// ```swift
/// try await PushClient.run(logger: logger) { client in
///     let ios = try client.backend("ios") { try APNsBackend(options: options, context: $0) }
///     let outcome = await ios.send(PushNotification(title: "Order 42"), to: .token(token, service: .iOSAPNs))
/// }
/// ```
///
/// A service that lives as long as its process makes a client and calls ``shutdown(grace:)`` itself. A backend that is
/// used after the end still reports an outcome for every recipient: a refusal, since nothing was sent.
public final class PushClient: Sendable {
    typealias Owned = (name: String, backend: any PushBackend)

    private enum State {
        case running([Owned])
        case ended(Task<Void, Never>)
    }

    /// The extra time that a backend gets which does not end within its grace.
    static let shutdownMargin: Duration = .seconds(1)

    private let transport: NIOTransport
    private let logger: Logger
    private let state = Mutex(State.running([]))

    /// Makes a client; nothing is opened before a backend sends.
    ///
    /// - Parameters:
    ///   - group: The event loops of the connections. By default the process-wide group; the client never stops it.
    ///   - logger: Gets connection events at `debug`; each backend's logger carries its name as `backend`.
    public init(group: any EventLoopGroup = MultiThreadedEventLoopGroup.singleton, logger: Logger) {
        transport = NIOTransport(group: group, logger: logger)
        self.logger = logger
    }

    /// Makes a client, runs `body` with it, and shuts it down after a return, an error or a cancellation.
    ///
    /// - Parameters:
    ///   - logger: Gets connection events at `debug`.
    ///   - grace: The time that messages in flight have at the end; see ``shutdown(grace:)``.
    ///   - group: The event loops of the connections; the client never stops it.
    ///   - isolation: The caller's, so that `body` may use values that are not `Sendable`.
    ///   - body: Makes backends and sends.
    /// - Returns: The result of `body`.
    /// - Throws: The error of `body`, after the shutdown.
    public static func run<Value>(
        logger: Logger,
        grace: Duration = .seconds(5),
        group: any EventLoopGroup = MultiThreadedEventLoopGroup.singleton,
        isolation: isolated (any Actor)? = #isolation,
        _ body: (PushClient) async throws -> Value
    ) async throws -> Value {
        let client = PushClient(group: group, logger: logger)
        do {
            let value = try await body(client)
            await client.shutdown(grace: grace)
            return value
        } catch {
            await client.shutdown(grace: grace)
            throw error
        }
    }

    /// The connections, for parts other than backends, such as a token provider or an `AuthStrategy`.
    ///
    /// Connections opened through it end with the client.
    public var http: any HTTPTransport { transport }

    /// Makes a backend that ends with the client, before its connections do.
    ///
    /// A composition is a backend too: if it is made here, it stops waiting for its next attempt at the end.
    ///
    /// - Parameters:
    ///   - name: The backend's name in logs and for ``post(_:to:via:options:)``; each backend has one of its own.
    ///   - state: The store for small values that survive a restart, such as rotated credentials; nothing is kept
    ///     without one. The store of a gateway in the same program is one.
    ///   - make: Makes the backend, with the context that it gets from the client.
    /// - Returns: The backend.
    /// - Throws: The error of `make`; `PushError` when another backend has the name, which ``remove(_:grace:)`` would
    ///   free; `HTTPPoolError` after the client's end.
    public func backend<Backend: PushBackend>(
        _ name: String,
        state: (any StateStore)? = nil,
        _ make: (BackendContext) throws -> Backend
    ) throws -> Backend {
        try Self.checkIsFree(name, in: owned)
        var logger = logger
        logger[metadataKey: "backend"] = "\(name)"
        let backend = try make(BackendContext(name: name, http: transport, state: state, logger: logger))
        // If it is not taken now, it has opened nothing, and its pools go with the transport.
        try self.state.withLock { state in
            guard case .running(let owned) = state else { throw Self.ended }
            try Self.checkIsFree(name, in: owned)
            state = .running(owned + [(name, backend)])
        }
        return backend
    }

    /// Ends a backend before the client does, and frees its name; does nothing when none has the name.
    ///
    /// Messages in flight get `grace`; a backend that takes more than a second longer is abandoned.
    public func remove(_ name: String, grace: Duration = .seconds(5)) async {
        let found = state.withLock { state -> Owned? in
            guard case .running(var owned) = state, let place = owned.firstIndex(where: { $0.name == name }) else {
                return nil
            }
            let found = owned.remove(at: place)
            state = .running(owned)
            return found
        }
        if let found { await Self.end(found, grace: grace, logger) }
    }

    /// Shuts all backends down at the same time, then closes the remaining connections.
    ///
    /// Messages in flight get `grace`; a backend that takes more than a second longer is abandoned and loses its
    /// connections. All callers, even in a cancelled task, wait for the same end, with the first caller's grace.
    public func shutdown(grace: Duration = .seconds(5)) async {
        let end = state.withLock { state -> Task<Void, Never> in
            switch state {
            case .ended(let end): return end
            case .running(let owned):
                // Unstructured, so that the shutdown also completes in a cancelled task. Every caller awaits it.
                let end = Task { await self.end(owned, grace: grace) }
                state = .ended(end)
                return end
            }
        }
        await end.value
    }

    /// The backends that were made with the client.
    ///
    /// Throws after the client's end.
    var owned: [Owned] {
        get throws {
            try state.withLock { state in
                guard case .running(let owned) = state else { throw Self.ended }
                return owned
            }
        }
    }

    private static func checkIsFree(_ name: String, in owned: [Owned]) throws(PushError) {
        guard owned.contains(where: { $0.name == name }) else { return }
        throw PushError(
            .invalidRequest,
            "the client has a backend \(name) already: use that one, remove it first, or choose another name"
        )
    }

    private static let ended = HTTPPoolError("the push client was shut down")

    private func end(_ owned: [Owned], grace: Duration) async {
        let start = ContinuousClock.now
        let logger = logger
        await withDiscardingTaskGroup { tasks in
            for one in owned { tasks.addTask { await Self.end(one, grace: grace, logger) } }
        }
        await transport.shutdown(grace: max(.zero, grace - start.duration(to: .now)))
    }

    private static func end(_ one: Owned, grace: Duration, _ logger: Logger) async {
        do {
            try await Deadline.run(grace + shutdownMargin) { await one.backend.shutdown(grace: grace) }
        } catch {
            logger.debug("a backend did not end in time", metadata: ["backend": "\(one.name)"])
        }
    }
}
