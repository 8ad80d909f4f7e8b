internal import Foundation
public import Logging
public import ChaparCore
public import ChaparQueue
internal import Synchronization

/// The store for several gateways: tables in a PostgreSQL database that all of them share.
///
/// Each kind of work has a connection on a thread of its own, so that a slow read holds up no commit. Calls that arrive
/// during a transaction share the next one. A node claims under its own lease, timed by the database's clock; when the
/// node dies, another takes over its work. The store calls no plugin and sends nothing.
public final class PostgresStore: NotificationStore {
    /// Every ability but the record of runs: `serving` is nil.
    public var abilities: StoreAbilities {
        var abilities = StoreAbilities(nodes: self, quotas: self, traces: self, search: self)
        abilities.webhooks = self
        abilities.series = self
        abilities.campaigns = self
        abilities.audiences = self
        return abilities
    }

    let core: StoreCore
    /// The connection for changes of devices.
    let registry: PostgresConnection
    private let listener: PostgresConnection
    /// The connection for the outbox.
    let outbox: PostgresConnection
    /// The connection for reads of devices and of the outbox.
    let registryReader: PostgresConnection
    /// The connection for quotas that nodes share: a worker waits for each answer.
    let quotas: PostgresConnection
    let quotaFailures = QuotaFailures()
    let registryWork = RegistryWork()
    let registryGrowth = RegistryGrowth()
    private let enqueues = Inbox<EnqueueRequest>(capacity: 50_000)
    private let records = Inbox<RecordRequest>()
    private let tasks = Mutex<Tasks?>(nil)
    private let closed = Atomic(false)

    private struct Tasks {
        /// The tasks that end with their inboxes.
        var loops: [Task<Void, Never>]
        /// The tasks that are cancelled at the end.
        var others: [Task<Void, Never>]
    }

    /// Opens a store, and creates its tables when there are none.
    ///
    /// - Parameters:
    ///   - options: The database and how to use it.
    ///   - time: A clock in place of the database's: for tests.
    ///   - logger: The logger for what happens without a caller.
    /// - Returns: The open store.
    /// - Throws: `StoreError.failed` with the fix when the database cannot be used, `StoreError.newer` when a newer
    ///   version of the program has changed it, `StoreError.full` when it cannot be reached now.
    public static func open(
        _ options: PostgresOptions,
        time: (any TimeSource)? = nil,
        logger: Logger = Logger(label: "chapar.store")
    ) async throws(StoreError) -> PostgresStore {
        let store = PostgresStore(options, time: time, logger: logger)
        var (lease, keeper) = (NodeLease(store.core), Keeper(store.core))
        do throws(PostgresError) {
            try await Schema.migrate(store.core.keeper, options) {
                logger.notice("upgrade of the store", metadata: ["progress": "\($0)"])
            }
            try await store.refuseUnfinishedCopy()
            try await store.connect()
            try await store.warn()
            try await lease.begin()
            try await keeper.begin()
        } catch {
            await store.disconnect()
            throw error.openingError
        }
        store.start(lease, keeper)
        return store
    }

    /// Opens every connection at the start: one for which the server has no room later would stop all of its work until
    /// other clients leave room.
    private func connect() async throws(PostgresError) {
        let connections =
            core.connections + [registry, outbox, registryReader, quotas] + (options.pollsOnly ? [] : [listener])
        for (place, connection) in connections.enumerated() {
            do throws(PostgresError) {
                try await connection.open()
            } catch {
                guard error.lacksConnections else { throw error }
                throw .declined(
                    .full(
                        reason: """
                            \(options) has room for \(place) of the \(connections.count) connections of this gateway: raise max_connections to \
                            superuser_reserved_connections and \(connections.count) for each gateway at least, or put a pooler between, with pooled: true
                            """,
                        retryAfter: .seconds(5)
                    )
                )
            }
        }
    }

    /// Logs the settings of the database that do harm.
    private func warn() async throws(PostgresError) {
        let weaknesses = try await core.keeper.session { (db) throws(PostgresError) in
            let nodes = try db.run("SELECT count(*) FROM chapar.nodes WHERE lease_until > clock_timestamp()").integer(
                0,
                0
            )
            return try PostgresLook.weaknesses(nodes: Int(clamping: nodes ?? 0) + 1, db)
        }
        for weakness in weaknesses {
            logger.warning(
                "the database has harmful settings",
                metadata: ["finding": "\(weakness.finding)", "fix": "\(weakness.fix)"]
            )
        }
    }

    /// Refuses a store with an unfinished copy: a gateway would send and remove the part that has arrived.
    private func refuseUnfinishedCopy() async throws(PostgresError) {
        let isUnfinished = try await core.keeper.session { (db) throws(PostgresError) in
            try db.run("SELECT EXISTS (SELECT FROM chapar.state WHERE name = $1)", [.text(CopyMark.name)]).bool(0, 0)
        }
        if isUnfinished { throw .declined(CopyMark.refusal("\(options), schema \(options.schema),")) }
    }

    private init(_ options: PostgresOptions, time: (any TimeSource)?, logger: Logger) {
        core = StoreCore(options, time: time, logger: logger)
        registry = PostgresConnection(options, name: "registry", walksIndexes: true, keepsPlans: true)
        listener = PostgresConnection(options, name: "listener")
        outbox = PostgresConnection(options, name: "outbox", walksIndexes: true, keepsPlans: true)
        registryReader = PostgresConnection(options, name: "registry-reader", walksIndexes: true, reopens: true)
        var hasty = options
        hasty.statementTimeout = min(options.statementTimeout, QuotaTable.timeout)
        quotas = PostgresConnection(hasty, name: "quotas", settings: QuotaTable.settings)
        core.sessions.add([registry, outbox, registryReader, quotas])
    }

    /// Starts the tasks, which ``close()`` ends and waits for.
    private func start(_ lease: NodeLease, _ keeper: Keeper) {
        let (core, enqueues, records, listener) = (core, enqueues, records, listener)
        let tasks = Tasks(
            loops: [
                Task {
                    var loop = EnqueueLoop(core, enqueues)
                    await loop.run()
                },
                Task { await RecordLoop(core: core, inbox: records).run() },
            ] + registryWork.start(core, registry: registry, outbox: outbox),
            others: [
                Task {
                    var loop = ClaimLoop(core)
                    await loop.run()
                },
                Task {
                    var lease = lease
                    await lease.run()
                },
                Task {
                    var keeper = keeper
                    await keeper.run()
                },
                Task { await core.unknownClaims.run(core) },
                Task { await core.callerCounts.run(core) },
                Task { await core.announcer.tell(over: core.keeper, core) },
                Task { await core.announcer.read(over: core.keeper, core) },
            ] + (core.options.pollsOnly ? [] : [Task { await core.announcer.listen(over: listener, core) }])
        )
        self.tasks.withLock { $0 = tasks }
    }

    var options: PostgresOptions { core.options }
    var logger: Logger { core.logger }

    /// The clock, which is set by the database's own.
    public var time: any TimeSource { core.time }

    /// Adds an observer that is called after each commit of this node.
    public func observe(_ observer: @escaping @Sendable (StoreChange) -> Void) { core.observe(observer) }

    // MARK: Work

    /// Reserves the numbers of a notification with this number of recipients.
    public func makeID(recipients: Int) -> NotificationID { core.makeID(recipients: recipients) }

    /// Accepts notifications, in one transaction with other requests that wait.
    public func enqueue(_ batch: EnqueueBatch) async throws(StoreError) -> EnqueueResult {
        let result: Result<EnqueueResult, StoreError> = await withCheckedContinuation { continuation in
            let request = EnqueueRequest(batch: batch, reply: .task(continuation))
            if let error = enqueues.refusal(of: request) { continuation.resume(returning: .failure(error)) }
        }
        return try result.get()
    }

    /// Makes a port that delivers its results after each transaction.
    public func makePort(receive: @escaping @Sendable ([EnqueueAnswer]) -> Void) -> any EnqueuePort {
        PostgresPort(enqueues, receive)
    }

    /// Whether the node has renewed its lease without a gap since then; otherwise another node may have taken its
    /// claims.
    public func holdsClaims(since moment: ContinuousClock.Instant) -> Bool {
        core.leaseHealth.isUnbroken(since: moment)
    }

    /// Claims due deliveries of a backend's queue, and waits for some when there are none.
    public func claim(backend: String, limit: Int, normal: Int, wait: Duration) async throws(StoreError)
        -> [ClaimedDelivery]
    {
        let until = core.now.adding(clamping: wait.boundedMilliseconds)
        let number = core.claimWaiters.makeNumber()
        let result: Result<[ClaimedDelivery], StoreError> = await withTaskCancellationHandler {
            await withCheckedContinuation { continuation in
                core.claimWaiters.add(
                    ClaimTicket(
                        number: number,
                        backend: backend,
                        limit: limit,
                        normal: normal,
                        until: until,
                        waits: wait > .zero,
                        continuation: continuation
                    ),
                    now: core.now
                )
                if Task.isCancelled { core.claimWaiters.cancel(number) }
            }
        } onCancel: {
            core.claimWaiters.cancel(number)
        }
        return try result.get()
    }

    /// Records the results of claimed deliveries.
    public func record(
        _ resolutions: [Resolution],
        event: @escaping @Sendable (ClaimedDelivery, DeliveryState, EndReason) -> [UInt8]
    ) async throws(StoreError) {
        let result: Result<Void, StoreError> = await withCheckedContinuation { continuation in
            let request = RecordRequest(resolutions: resolutions, event: event, continuation: continuation)
            if records.add(request, weight: resolutions.count) != .admitted {
                continuation.resume(returning: .failure(.closed))
            }
        }
        try result.get()
    }

    // MARK: Life

    /// Returns whether the store can take work: whether its last call of the database succeeded.
    public func health() async -> StoreHealth {
        if isClosed { return StoreHealth(acceptsWork: false, detail: StoreError.closed.description) }
        var health = StoreHealth(acceptsWork: core.lastFailure == nil, detail: core.lastFailure)
        (health.deadRows, health.oldestSnapshot) = core.remains.withLock { $0 }
        health.note(waiting: Int(clamping: core.waiting), bound: core.options.maximumWaiting)
        return health
    }

    /// Whether ``close()`` was called.
    var isClosed: Bool { closed.load(ordering: .acquiring) }

    /// Ends the store after work under way is committed; later calls throw `StoreError.closed`.
    public func close() async {
        guard !closed.exchange(true, ordering: .acquiringAndReleasing) else { return }
        enqueues.close()
        records.close()
        registryWork.close()
        core.claimWaiters.close()
        if let tasks = tasks.withLock({ $0 }) {
            for task in tasks.others { task.cancel() }
            listener.interrupt()
            for task in tasks.loops + tasks.others { await task.value }
            // Its transaction under way is committed first, and nothing more is claimed.
            await outbox.close()
            do throws(PostgresError) {
                try await core.releasePrefetched(all: true)
                try await NodeLease(core).end()
            } catch {
                logger.notice(
                    "the node's lease could not be given up and stays until it expires",
                    metadata: ["store.error": "\(error)"]
                )
            }
        }
        core.events.signal()
        await disconnect()
    }

    private func disconnect() async {
        closed.store(true, ordering: .releasing)
        await core.disconnect()
        await registry.close()
        await outbox.close()
        await listener.close()
        await registryReader.close()
        await quotas.close()
        core.outboxSignals.raiseAll()
    }

    /// Lets the node's lease expire, as if the process stood still except for claims; for tests.
    func pauseKeeper() async {
        let others = tasks.withLock { $0?.others ?? [] }
        for task in others.dropFirst() { task.cancel() }
        listener.interrupt()
        for task in others.dropFirst() { await task.value }
    }

    // MARK: Transactions

    /// Runs a transaction, and repeats it after a conflict or when today's partition of events is missing.
    func transaction<Value: Sendable>(
        on connection: PostgresConnection,
        _ body: @Sendable (isolated PostgresConnection) throws(PostgresError) -> Value
    ) async throws(StoreError) -> Value {
        var attempts = 0
        while true {
            do throws(PostgresError) {
                return try await connection.transaction(body)
            } catch {
                attempts += 1
                guard core.mayRepeat(error), attempts < 8 else { throw error.storeError }
                if error.lacksPartition { try await prepareDay(core.now) }
            }
        }
    }

    /// Runs single statements, each as a transaction of its own.
    func session<Value: Sendable>(
        on connection: PostgresConnection,
        _ body: @Sendable (isolated PostgresConnection) throws(PostgresError) -> Value
    ) async throws(StoreError) -> Value {
        do throws(PostgresError) {
            do throws(PostgresError) {
                return try await connection.session(body)
            } catch .ended {
                return try await connection.session(body)
            }
        } catch {
            throw error.storeError
        }
    }
}
