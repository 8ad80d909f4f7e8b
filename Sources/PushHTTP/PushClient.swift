public import Logging
public import NIOCore
public import NIOPosix
public import PushCore
import Synchronization

/// What a program that sends from code needs besides its plugins: it owns the connections and the backends made over
/// them.
///
/// ``run(logger:grace:group:isolation:_:)`` ends everything when its body ends, however that is:
///
/// ```swift
/// try await PushClient.run(logger: logger) { client in
///     let ios = try client.backend("ios") { try APNsBackend(options: options, context: $0) }
///     let outcome = await ios.send(PushNotification(title: "Order 42"), to: .token(token, service: .iOSAPNs))
/// }
/// ```
///
/// A service that lives as long as its process makes a client and calls ``shutdown(grace:)`` itself. A backend that is
/// used after the end still reports an outcome for every recipient: refused, for nothing was sent.
public final class PushClient: Sendable {
    private typealias Owned = (name: String, backend: any PushBackend)

    private enum State {
        case running([Owned])
        case ended(Task<Void, Never>)
    }

    /// How long a backend that does not keep its own grace is waited for beyond it.
    static let shutdownMargin: Duration = .seconds(1)

    private let transport: NIOTransport
    private let logger: Logger
    private let state = Mutex(State.running([]))

    /// Makes a client; nothing is opened before a backend sends.
    ///
    /// - Parameters:
    ///   - group: Where connections live. The process-wide group unless given; the client never stops it.
    ///   - logger: Gets connection events at `debug`; each backend's logger carries its name as `backend`.
    public init(group: any EventLoopGroup = MultiThreadedEventLoopGroup.singleton, logger: Logger) {
        transport = NIOTransport(group: group, logger: logger)
        self.logger = logger
    }

    /// Makes a client, runs `body` with it, and ends it whatever happens: return, error or cancellation.
    ///
    /// - Parameters:
    ///   - logger: Gets connection events at `debug`.
    ///   - grace: How long messages that are under way at the end get; see ``shutdown(grace:)``.
    ///   - group: Where connections live; the client never stops it.
    ///   - isolation: The caller's, so that `body` may use what is not `Sendable`.
    ///   - body: Makes backends and sends.
    /// - Returns: What `body` returned.
    /// - Throws: What `body` throws, after the end.
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

    /// The connections, for parts that are no backends, such as a token provider or an `AuthStrategy`.
    ///
    /// What is opened through it ends with the client.
    public var http: any HTTPTransport { transport }

    /// Makes a backend that ends with the client, before its connections do.
    ///
    /// A composition is a backend too: one that is made here also stops waiting for its next attempt at the end.
    ///
    /// - Parameters:
    ///   - name: The backend's name in logs.
    ///   - state: Where it keeps small values over a restart, such as rotated credentials; nothing is kept unless
    ///     given. The store of a gateway in the same program is one.
    ///   - make: Makes it, with the context it gets from the client.
    /// - Returns: The backend.
    /// - Throws: What `make` throws, or `HTTPPoolError` after the client's end.
    public func backend<Backend: PushBackend>(
        _ name: String,
        state: (any StateStore)? = nil,
        _ make: (BackendContext) throws -> Backend
    ) throws -> Backend {
        guard isRunning else { throw Self.ended }
        var logger = logger
        logger[metadataKey: "backend"] = "\(name)"
        let backend = try make(BackendContext(name: name, http: transport, state: state, logger: logger))
        let isOwned = self.state.withLock { state in
            guard case .running(let owned) = state else { return false }
            state = .running(owned + [(name, backend)])
            return true
        }
        guard isOwned else { throw Self.ended }  // It has opened nothing, and its pools go with the transport.
        return backend
    }

    /// Ends all backends at the same time, then whatever connections are left.
    ///
    /// Messages under way get until `grace`; a backend that takes longer than a second beyond it is left behind and
    /// loses its connections. Everyone who asks waits for the same end, with the first one's grace, also a cancelled
    /// task.
    public func shutdown(grace: Duration = .seconds(5)) async {
        let end = state.withLock { state -> Task<Void, Never> in
            switch state {
            case .ended(let end): return end
            case .running(let owned):
                // Unstructured, so that the end is reached in a cancelled task as well. Every caller awaits it.
                let end = Task { await self.end(owned, grace: grace) }
                state = .ended(end)
                return end
            }
        }
        await end.value
    }

    private var isRunning: Bool {
        state.withLock { state in if case .running = state { true } else { false } }
    }

    private static let ended = HTTPPoolError("the push client was shut down")

    private func end(_ owned: [Owned], grace: Duration) async {
        let start = ContinuousClock.now
        let logger = logger
        await withDiscardingTaskGroup { tasks in
            for (name, backend) in owned {
                tasks.addTask {
                    do {
                        try await Deadline.run(grace + Self.shutdownMargin) { await backend.shutdown(grace: grace) }
                    } catch {
                        logger.debug("a backend did not end in time", metadata: ["backend": "\(name)"])
                    }
                }
            }
        }
        await transport.shutdown(grace: max(.zero, grace - start.duration(to: .now)))
    }
}
