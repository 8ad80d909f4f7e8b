package import Logging
public import PushCore
import PushQueue
public import ServiceLifecycle
internal import Synchronization

/// A running gateway: the API in front, the store behind it, the dispatcher and the outbox relay between store and
/// platforms.
///
/// As a service it starts everything. At a graceful shutdown it claims nothing more at once and takes no new
/// connections; sends and requests that are under way get `queue.drain` side by side; the store is closed last.
public final class Gateway: Service {
    /// What every part shares.
    package let state: GatewayState
    private let dispatcher: Dispatcher
    private let operations: OutboxRelay
    private let notices: EventSink
    private let metrics: GatewayMetrics
    private let front: any Service
    /// Accepts what the program itself sends, as it does for the API.
    let responder: GatewayResponder
    private let logger: Logger
    /// Ends when the shutdown begins.
    private let (running, runs) = AsyncStream.makeStream(of: Never.self)

    /// How long what is left may take to be written after `queue.drain`.
    private static let lastWrites = Duration.seconds(3)

    /// Puts a gateway together; nothing happens before ``run()``.
    ///
    /// `front` serves the API and ends by itself at a graceful shutdown; `responder` is what it hands requests to.
    package init(
        state: GatewayState,
        dispatcher: Dispatcher,
        operations: OutboxRelay,
        notices: EventSink,
        metrics: GatewayMetrics,
        front: any Service,
        responder: GatewayResponder,
        logger: Logger
    ) {
        self.state = state
        self.dispatcher = dispatcher
        self.operations = operations
        self.notices = notices
        self.metrics = metrics
        self.front = front
        self.responder = responder
        self.logger = logger
    }

    /// Runs until a graceful shutdown or cancellation, or until a part fails.
    public func run() async throws {
        let result = await withTaskGroup(of: Void.self) { deadline in
            deadline.addTask { await self.closeStoreWhenLate() }
            defer { deadline.cancelAll() }
            return await runParts()
        }
        await state.store.close()
        try result.get()
    }

    private func runParts() async -> Result<Void, any Error> {
        await withTaskGroup(of: Void.self) { group in
            group.addTask { [operations] in await operations.run() }
            group.addTask { [notices, state, metrics, logger] in await notices.run(state.store, metrics, logger) }
            group.addTask { [state, logger] in await state.keyUses.run(state, logger) }
            group.addTask { [state, logger] in await state.erasures.run(state, logger) }
            let result = await runFront()
            state.keyUses.finish()
            notices.finish()  // Whoever may announce something has ended.
            await group.waitForAll()
            return result
        }
    }

    /// Ends the wait for a store that fails: nobody writes to it again after it was closed.
    ///
    /// What it did not take is known as claimed at the next start.
    private func closeStoreWhenLate() async {
        for await _ in running {}
        let span = state.snapshot.configuration.queue.drain + Self.lastWrites
        guard !Task.isCancelled, (try? await state.time.sleep(for: span)) != nil else { return }
        logger.error("the store is closed before everything was written, since queue.drain is over")
        await state.store.close()
    }

    /// Runs API and dispatcher until one of them ends, and then ends the rest.
    private func runFront() async -> Result<Void, any Error> {
        await withTaskGroup(of: Result<Void, any Error>.self) { group in
            group.addTask { [dispatcher, operations, state] in
                do {
                    // The workers shut the backends down, which the operations use as well.
                    try await dispatcher.run(state.snapshot) { await operations.stop() }
                    return .success(())
                } catch {
                    return .failure(error)
                }
            }
            group.addTask { [front] in
                do {
                    try await withGracefulShutdownHandler {
                        try await front.run()
                    } onGracefulShutdown: {
                        self.beginStop()  // Not after the front has ended: a client may keep it waiting.
                    }
                    return .success(())
                } catch {
                    return .failure(error)
                }
            }
            // Whichever ends first takes the other along.
            let first = await group.next() ?? .success(())
            beginStop()
            await operations.stop()
            if case .failure = first { group.cancelAll() }
            let second = await group.next() ?? .success(())
            if case .failure = first { return first }
            return second
        }
    }

    /// Refuses new work and claims nothing more; what is under way goes on.
    private func beginStop() {
        state.beginDraining()
        runs.finish()
        dispatcher.stop()
        operations.beginStop()
        state.erasures.finish()  // The next start goes on: a search may take longer than the shutdown.
    }

    /// Puts another configuration in force: requests from now on use it, and workers are replaced without losing a
    /// message.
    ///
    /// - Throws: When it has no API keys and the gateway listens on an address that others than this machine reach;
    ///   then nothing has changed.
    public func reload(_ snapshot: GatewaySnapshot) throws(ConfigurationError) {
        if snapshot.configuration.apiKeys.isEmpty, state.isExposed.load(ordering: .relaxed) {
            let issue = ConfigIssue(
                path: "auth.api_keys",
                origin: .builtIn,
                problem: "is empty, while the gateway listens on an address that others can reach",
                fix: "Make a key with \"chapar keys create\"; or restart it with another server.host."
            )
            throw ConfigurationError([issue])
        }
        state.replace(snapshot)
        operations.install()
        dispatcher.install(snapshot)
        logger.notice("configuration reloaded", metadata: ["backends": "\(snapshot.backends.map(\.name))"])
    }
}
