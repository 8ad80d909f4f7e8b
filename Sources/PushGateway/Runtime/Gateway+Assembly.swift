public import Logging
public import PushCore
public import PushQueue
internal import ServiceLifecycle

extension Gateway {
    /// Puts a whole gateway together: books, dispatcher and API over a store and the backends of a snapshot.
    ///
    /// - Parameters:
    ///   - snapshot: The configuration in force and its backends.
    ///   - store: An open store; the gateway closes it when it ends.
    ///   - knownKinds: The kinds of backends that `overrides` may name: all that the program knows.
    ///   - notices: Where the backends announce what goes on the stream of events.
    ///   - time: The clock; the store's unless given.
    ///   - metrics: What is counted and shown under `/metrics`.
    ///   - servesAPI: Whether it listens on the configured address. Without that it is for the program alone, which
    ///     sends through ``accept(_:to:route:backend:app:idempotencyKey:)``; clicks, receipts and the dashboard are the
    ///     API's.
    ///   - build: Which build this is, for whoever asks.
    ///   - logger: Where failures are logged.
    ///   - onListening: Called with the port once connections are accepted.
    /// - Returns: A gateway that does nothing before it runs.
    /// - Throws: When the store does not answer.
    public static func assemble(
        _ snapshot: GatewaySnapshot,
        store: any NotificationStore & DeviceStore & OutboxStore,
        knownKinds: [String] = [],
        notices: EventSink = EventSink(),
        time: (any TimeSource)? = nil,
        metrics: GatewayMetrics = GatewayMetrics(),
        servesAPI: Bool = true,
        build: BuildInfo = .current,
        logger: Logger,
        onListening: @escaping @Sendable (_ port: Int) async -> Void = { _ in }
    ) async throws(StoreError) -> Gateway {
        // A start that fails before has told nobody how the run before it ended.
        let notes = store as? any ServingNotes
        return try await assemble(
            snapshot,
            store: store,
            knownKinds: knownKinds,
            notices: notices,
            time: time,
            metrics: metrics,
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

    /// Puts a gateway together whose API is served by another front, and whose planner works on another thread.
    static func assemble(
        _ snapshot: GatewaySnapshot,
        store: any NotificationStore & DeviceStore & OutboxStore,
        knownKinds: [String],
        notices: EventSink,
        time: (any TimeSource)?,
        metrics: GatewayMetrics,
        build: BuildInfo = .current,
        logger: Logger,
        planning: @escaping OutboxPlanner.Thread,
        makeFront: (GatewayAPI) -> any Service
    ) async throws(StoreError) -> Gateway {
        let time = time ?? store.time
        let depths = try await store.depths()
        metrics.ledger.begin(waiting: depths.values.reduce(0) { $0 + $1.waiting + $1.claimed })
        store.observe { [ledger = metrics.ledger] in ledger.apply($0) }
        let state = GatewayState(snapshot: snapshot, store: store, devices: store, time: time, logger: logger)
        let dispatcher = Dispatcher(
            store: store,
            devices: store,
            operations: store,
            nodes: store as? any NodeExchange,
            quotas: store as? any QuotaLedger,
            time: time,
            clock: state.clock,
            observer: metrics,
            logger: logger,
            outbox: { [state] in state.outbox }
        ) { stored in try NotificationContent.decode(stored) }
        let operations = OutboxRelay(
            state: state,
            nodes: store as? any NodeExchange,
            metrics: metrics,
            logger: logger,
            planning: planning
        )
        let api = GatewayAPI(
            state: state,
            workers: dispatcher,
            outbox: operations,
            metrics: metrics,
            knownKinds: knownKinds,
            build: build,
            logger: logger
        )
        return Gateway(
            state: state,
            dispatcher: dispatcher,
            operations: operations,
            notices: notices,
            metrics: metrics,
            front: makeFront(api),
            responder: api.responder,
            logger: logger
        )
    }
}

/// Stands in for the server of a gateway that serves no API: there until the graceful shutdown.
private struct AbsentFront: Service {
    let notes: (any ServingNotes)?

    func run() async throws {
        notes?.noteServing()
        try? await gracefulShutdown()  // A cancellation ends it as well.
    }
}
