public import Logging
public import NIOCore
public import NIOPosix
public import ChaparCore
import Synchronization

/// The owner of the connections, and of the backends made over them, in a program that sends from code.
///
/// ``run(logger:grace:group:isolation:_:)`` shuts everything down when its body returns, throws or is cancelled:
///
/// ```swift
/// try await PushClient.run(logger: logger) { client in
///     let ios = try client.add(as: "ios") { try APNsBackend(options: options, context: $0) }
///     let outcome = await ios.send(PushNotification(title: "Order 42"), to: .token(token, service: .iOSAPNs))
/// }
/// ```
///
/// A service that lives as long as its process makes a client and calls ``shutdown(grace:)`` itself. A backend that is
/// used after the end still reports an outcome for every recipient: a refusal, since nothing was sent.
public final class PushClient: Sendable {
    /// The backends by name.
    package typealias Owned = [String: any PushBackend]

    private enum State {
        case running(Owned)
        case ended(Task<Void, Never>)

        /// Returns the backends; throws after the end, and when one of them has the name.
        func checkFree(_ name: String) throws -> Owned {
            guard case .running(let owned) = self else { throw PushClient.ended }
            guard owned[name] == nil else {
                throw HTTPPoolError("the push client has a backend \"\(name)\" already: use another name, or remove it")
            }
            return owned
        }
    }

    /// The extra time that a backend gets which does not end within its grace.
    static let shutdownMargin: Duration = .seconds(1)

    private let transport: NIOTransport
    private let logger: Logger
    private let state = Mutex(State.running([:]))

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

    /// Makes a backend that ends with the client, before its connections do, or earlier by ``remove(_:grace:)``.
    ///
    /// Call it once for each account, not for each message: the client keeps the backend. A composition is a backend
    /// too: if it is made here, it stops waiting for its next attempt at the end.
    ///
    /// - Parameters:
    ///   - name: The backend's name in logs and for ``post(_:to:via:options:)``; no other backend of the client has it.
    ///   - state: The store for small values that survive a restart, such as rotated credentials; nothing is kept
    ///     without one. The store of a gateway in the same program is one.
    ///   - make: Makes the backend, with the context that it gets from the client.
    /// - Returns: The backend.
    /// - Throws: The error of `make`, or `HTTPPoolError` for a name that is taken and after the client's end.
    public func add<Backend: PushBackend>(
        as name: String,
        state: (any StateStore)? = nil,
        _ make: (BackendContext) throws -> Backend
    ) throws -> Backend {
        _ = try self.state.withLock { try $0.checkFree(name) }
        var logger = logger
        logger[metadataKey: "backend"] = "\(name)"
        let backend = try make(BackendContext(name: name, http: transport, state: state, logger: logger))
        // If it throws now, the backend has opened nothing, and its pools go with the transport.
        try self.state.withLock { state in
            var owned = try state.checkFree(name)
            owned[name] = backend
            state = .running(owned)
        }
        return backend
    }

    /// Makes the backend of an account, as ``add(as:state:_:)`` does.
    ///
    /// ```swift
    /// let android = try client.add(.fcm(serviceAccount: json), as: "android")
    /// ```
    ///
    /// - Parameters:
    ///   - account: The account, by a plugin's function for it.
    ///   - name: The backend's name in logs and for ``post(_:to:via:options:)``; no other backend of the client has it.
    ///   - state: The store for small values that survive a restart; nothing is kept without one.
    /// - Returns: The backend.
    /// - Throws: What the account throws, or `HTTPPoolError` for a name that is taken and after the client's end.
    @discardableResult
    public func add<Backend: PushBackend>(
        _ account: PushAccount<Backend>,
        as name: String,
        state: (any StateStore)? = nil
    ) throws -> Backend {
        try add(as: name, state: state) { try account.backend($0) }
    }

    /// Shuts a backend down and forgets it, so that its name is free.
    ///
    /// Messages in flight get `grace`; in a cancelled task they get none. A name that no backend has is ignored.
    public func remove(_ name: String, grace: Duration = .seconds(5)) async {
        let removed = state.withLock { state -> (any PushBackend)? in
            guard case .running(var owned) = state else { return nil }
            let removed = owned.removeValue(forKey: name)
            state = .running(owned)
            return removed
        }
        if let removed { await Self.end(removed, name, grace: grace, logger) }
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

    /// The backends that were made with the client, by name.
    ///
    /// Throws after the client's end.
    package var owned: Owned {
        get throws {
            try state.withLock { state in
                guard case .running(let owned) = state else { throw Self.ended }
                return owned
            }
        }
    }

    private static let ended = HTTPPoolError("the push client was shut down")

    private static func end(
        _ backend: any PushBackend,
        _ name: String,
        grace: Duration,
        _ logger: Logger
    ) async {
        do {
            try await Deadline.run(grace + shutdownMargin) { await backend.shutdown(grace: grace) }
        } catch {
            logger.debug("a backend did not end in time", metadata: ["backend": "\(name)"])
        }
    }

    private func end(_ owned: Owned, grace: Duration) async {
        let start = ContinuousClock.now
        let logger = logger
        await withDiscardingTaskGroup { tasks in
            for (name, backend) in owned {
                tasks.addTask { await Self.end(backend, name, grace: grace, logger) }
            }
        }
        await transport.shutdown(grace: max(.zero, grace - start.duration(to: .now)))
    }
}
