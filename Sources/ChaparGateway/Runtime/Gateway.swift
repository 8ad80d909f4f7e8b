internal import Logging
public import ChaparDelivery
internal import ChaparAPI
internal import ChaparServer
public import ChaparCore
import ChaparQueue
public import ServiceLifecycle
internal import Synchronization

/// A running gateway: the API in front, the store behind it, and the dispatcher and the outbox relay between store and
/// platforms.
///
/// As a service it starts all of its parts. At a graceful shutdown it stops claiming and accepting connections at once.
/// Then messages that are being sent and open requests together get the time `queue.drain`. The store is closed last.
public final class Gateway: Service {
    /// The state that all parts share.
    package let state: GatewayState
    /// The state that the endpoints share.
    package let api: APIState
    private let dispatcher: Dispatcher
    private let operations: OutboxRelay
    /// Makes the deliveries of campaigns; nil where the store has none.
    private let fanOut: CampaignFanOut?
    private let notices: EventSink
    private let webhooks: WebhookRelay
    /// Writes the counts of each minute; nil where the store keeps none.
    private let series: SeriesRecorder?
    private let metrics: GatewayMetrics
    private let front: any Service
    /// The responder, by which the program itself accepts notifications as the API does.
    let responder: GatewayResponder
    private let logger: Logger
    /// A stream that ends when the shutdown begins.
    private let (running, runs) = AsyncStream.makeStream(of: Never.self)

    /// The time after `queue.drain` for writing what is left.
    private static let lastWrites = Duration.seconds(3)

    /// Builds a gateway; nothing happens before ``run()``.
    ///
    /// `front` serves the API and passes requests to `responder`; it ends at a graceful shutdown.
    init(
        state: GatewayState,
        api: APIState,
        dispatcher: Dispatcher,
        operations: OutboxRelay,
        fanOut: CampaignFanOut?,
        notices: EventSink,
        webhooks: WebhookRelay,
        series: SeriesRecorder?,
        metrics: GatewayMetrics,
        front: any Service,
        responder: GatewayResponder,
        logger: Logger
    ) {
        self.state = state
        self.api = api
        self.dispatcher = dispatcher
        self.operations = operations
        self.fanOut = fanOut
        self.notices = notices
        self.webhooks = webhooks
        self.series = series
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
            group.addTask { [fanOut] in await fanOut?.run() }
            group.addTask { [notices, state, metrics, logger] in await notices.run(state.store, metrics, logger) }
            group.addTask { [state, api, logger] in await api.keyUses.run(state, api.audit, logger) }
            group.addTask { [state, api, logger] in await api.erasures.run(state, logger) }
            group.addTask { [webhooks] in await webhooks.run() }
            group.addTask { [series] in await series?.work() }
            group.addTask { [state, metrics, logger] in await Self.sendSpans(state, metrics, logger) }
            let result = await runFront()
            api.keyUses.finish()
            notices.finish()  // All parts that may announce something have ended.
            state.tracing.finish()
            series?.stop()
            await group.waitForAll()
            return result
        }
    }

    /// Closes the store when the time for the shutdown is over; this ends the wait for the store's writes, and nothing
    /// is written later.
    ///
    /// Deliveries whose outcomes were not stored by then are still claimed at the next start.
    private func closeStoreWhenLate() async {
        for await _ in running {}
        let span = state.snapshot.configuration.queue.drain + Self.lastWrites
        guard !Task.isCancelled, (try? await state.time.sleep(for: span)) != nil else { return }
        logger.error("the store is closed before everything was written, since queue.drain is over")
        await state.store.close()
    }

    /// Runs the API and the dispatcher until one of them ends, and then stops the other.
    private func runFront() async -> Result<Void, any Error> {
        await withTaskGroup(of: Result<Void, any Error>.self) { group in
            group.addTask { [dispatcher, operations, state] in
                do {
                    // The workers shut the backends down, which the outbox uses as well.
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
                        self.beginStop()  // Not delayed until the front has ended: a client may keep that waiting.
                    }
                    return .success(())
                } catch {
                    return .failure(error)
                }
            }
            // The first one to end stops the other.
            let first = await group.next() ?? .success(())
            beginStop()
            await operations.stop()
            if case .failure = first { group.cancelAll() }
            let second = await group.next() ?? .success(())
            if case .failure = first { return first }
            return second
        }
    }

    /// Refuses new work and stops claiming; open work goes on.
    private func beginStop() {
        state.beginDraining()
        runs.finish()
        dispatcher.stop()
        operations.beginStop()
        webhooks.stop()
        fanOut?.stop()  // The window under way is committed, or made again by another gateway.
        api.erasures.finish()  // The next start continues: a search may take longer than the shutdown.
    }

    /// Puts another configuration in force: new requests use it, and workers are replaced without losing a message.
    ///
    /// - Throws: An error when the configuration has no API keys and the gateway listens on an address that other
    ///   machines reach; then nothing has changed.
    public func reload(_ snapshot: GatewaySnapshot) throws(ConfigurationError) {
        if snapshot.configuration.apiKeys.isEmpty, api.isExposed.load(ordering: .relaxed) {
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
        webhooks.reload()
        logger.notice(
            "configuration reloaded",
            metadata: ["backends": .array(snapshot.backends.map { .string($0.name) })]
        )
    }
}
