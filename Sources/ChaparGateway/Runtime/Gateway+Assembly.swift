public import Logging
public import ChaparDelivery
internal import ChaparAPI
internal import ChaparServer
internal import ChaparComposition
public import ChaparCore
public import ChaparQueue
internal import ServiceLifecycle

extension Gateway {
    /// Builds a whole gateway: ledger, dispatcher and API over a store and the backends of a snapshot.
    ///
    /// - Parameters:
    ///   - snapshot: The configuration in force and its backends.
    ///   - store: An open store; the gateway closes it when it ends.
    ///   - knownKinds: The kinds of backends that `overrides` may name: all that the program knows.
    ///   - platforms: The platforms that the program knows, whose tables of reasons explain failed deliveries.
    ///   - notices: Receives the notices of backends for the event stream.
    ///   - time: The clock; the store's unless given.
    ///   - metrics: The metrics shown under `/metrics`.
    ///   - servesAPI: Whether the gateway listens on the configured address. Otherwise it serves only the program,
    ///     which sends through ``accept(_:to:route:backend:app:idempotencyKey:)``; clicks, receipts and the dashboard
    ///     need the API.
    ///   - credentials: The store of the keys of webhooks and receipts, such as a `SealedState`; nil keeps them in
    ///     `store` as they are.
    ///   - build: The build of the program, which the API shows.
    ///   - logger: Logs failures.
    ///   - onListening: Called with the port once connections are accepted.
    /// - Returns: A gateway that does nothing before it runs.
    /// - Throws: The store's failure.
    public static func assemble(
        _ snapshot: GatewaySnapshot,
        store: any NotificationStore & DeviceStore & OutboxStore,
        knownKinds: [String] = [],
        platforms: [BackendFactory] = [],
        notices: EventSink = EventSink(),
        time: (any TimeSource)? = nil,
        metrics: GatewayMetrics = GatewayMetrics(),
        servesAPI: Bool = true,
        credentials: (any StateStore)? = nil,
        build: BuildInfo = .current,
        logger: Logger,
        onListening: @escaping @Sendable (_ port: Int) async -> Void = { _ in }
    ) async throws(StoreError) -> Gateway {
        try await Gateway(
            snapshot,
            store: store,
            knownKinds: knownKinds,
            platforms: platforms,
            notices: notices,
            time: time,
            metrics: metrics,
            servesAPI: servesAPI,
            credentials: credentials,
            build: build,
            logger: logger,
            onListening: onListening
        )
    }

    /// Builds a gateway with the server as the front of its API, or without a front.
    convenience init(
        _ snapshot: GatewaySnapshot,
        store: any NotificationStore & DeviceStore & OutboxStore,
        knownKinds: [String] = [],
        platforms: [BackendFactory] = [],
        notices: EventSink = EventSink(),
        time: (any TimeSource)? = nil,
        metrics: GatewayMetrics = GatewayMetrics(),
        servesAPI: Bool,
        credentials: (any StateStore)? = nil,
        build: BuildInfo = .current,
        logger: Logger,
        onListening: @escaping @Sendable (_ port: Int) async -> Void = { _ in }
    ) async throws(StoreError) {
        // A start that fails before this point has not reported how the previous run ended.
        let notes = store.abilities.serving
        try await self.init(
            snapshot,
            store: store,
            knownKinds: knownKinds,
            platforms: platforms,
            notices: notices,
            time: time,
            metrics: metrics,
            credentials: credentials,
            build: build,
            logger: logger,
            planning: OutboxPlanner.ownThread()
        ) { api in
            guard servesAPI else { return AbsentFront(notes: notes) }
            return api.makeApplication { port in
                notes?.noteServing()
                await onListening(port)
            }
        }
    }

    /// Builds a gateway whose API has another front, and whose planner runs on another thread; `mostOfCampaign` is the
    /// most deliveries of a campaign that wait at a time, `webhookTransport` sends requests to webhooks.
    convenience init(
        _ snapshot: GatewaySnapshot,
        store: any NotificationStore & DeviceStore & OutboxStore,
        knownKinds: [String],
        platforms: [BackendFactory] = [],
        notices: EventSink,
        time: (any TimeSource)?,
        metrics: GatewayMetrics,
        credentials: (any StateStore)? = nil,
        build: BuildInfo = .current,
        logger: Logger,
        planning: @escaping OutboxPlanner.Thread,
        mostOfCampaign: Int = CampaignFanOut.mostWaiting,
        webhookTransport: (any WebhookTransport)? = nil,
        makeFront: (GatewayAPI) -> any Service
    ) async throws(StoreError) {
        let time = time ?? store.time
        let abilities = store.abilities
        let depths = try await store.depths()
        metrics.ledger.begin(waiting: depths.values.reduce(0) { $0 + $1.waiting + $1.claimed })
        store.observe { [ledger = metrics.ledger] in ledger.apply($0) }
        let state = GatewayState(
            snapshot: snapshot,
            store: store,
            devices: store,
            credentials: credentials,
            time: time,
            reasons: ReasonBook(platforms),
            series: metrics.series
        )
        let dispatcher = Dispatcher(
            store: store,
            devices: store,
            operations: store,
            campaigns: state.campaigns,
            receipts: state.receiptKeys,
            nodes: abilities.nodes,
            quotas: abilities.quotas,
            time: time,
            clock: state.clock,
            observer: metrics,
            tracing: state.tracing,
            logger: logger,
            outbox: { [state] in state.outbox }
        ) { stored in try NotificationContent.decode(stored) }
        let operations = OutboxRelay(
            state: state,
            nodes: abilities.nodes,
            metrics: metrics,
            logger: logger,
            planning: planning
        )
        let webhooks = WebhookRelay(
            state: state,
            credentials: credentials,
            metrics: metrics,
            logger: logger,
            transport: webhookTransport
        )
        let fanOut = CampaignFanOut(state: state, bound: mostOfCampaign, logger: logger) { stored in
            try NotificationContent.decode(stored)
        }
        let api = GatewayAPI(
            state: state,
            workers: dispatcher,
            outbox: operations,
            webhooks: webhooks,
            metrics: metrics,
            knownKinds: knownKinds,
            build: build,
            logger: logger
        )
        self.init(
            state: state,
            api: api.own,
            dispatcher: dispatcher,
            operations: operations,
            fanOut: fanOut,
            notices: notices,
            webhooks: webhooks,
            series: SeriesRecorder(store: store, metrics: metrics, time: time, logger: logger),
            metrics: metrics,
            front: makeFront(api),
            responder: api.responder,
            logger: logger
        )
    }
}

/// Takes the place of the server in a gateway without an API, until the graceful shutdown.
private struct AbsentFront: Service {
    let notes: (any ServingNotes)?

    func run() async throws {
        notes?.noteServing()
        try? await gracefulShutdown()  // A cancellation ends it as well.
    }
}
