package import Foundation
package import Logging
package import ChaparCore
package import ChaparQueue
internal import Synchronization

/// The dispatcher runs a worker for each backend, ends expired deliveries, and purges old ones.
///
/// A reload replaces every worker: the old ones claim nothing more, finish their deliveries, and end.
package final class Dispatcher: WorkerObserver, Sendable {
    private enum Command: Sendable {
        case install(GatewaySnapshot)
        case stop
    }

    struct Workers {
        var current: [DeliveryWorker] = []
        var leaving: [DeliveryWorker] = []
    }

    private let store: any NotificationStore
    private let time: any TimeSource
    private let clock: WallClock
    private let observer: any DispatchObserver
    private let escalations = EscalationLimits()
    private let tracing: TraceExporter?
    private let logger: Logger
    private let decode: @Sendable ([UInt8]) throws -> PushNotification
    private let outcomeWriter: OutcomeWriter
    private let devices: (any DeviceStore)?
    private let operations: (any OutboxStore)?
    private let tokenInvalidation: TokenInvalidation
    private let nodes: (any NodeExchange)?
    private let quotas: (any QuotaLedger)?
    private let campaigns: CampaignDirectory?
    private let receipts: ReceiptKeys?
    let workersGuarded = Mutex(Workers())
    private let flows = Mutex<[String: FlowControl]>([:])
    private let gone: GoneBackends
    private let commands: AsyncStream<Command>
    private let commander: AsyncStream<Command>.Continuation
    /// Whether a first snapshot was installed.
    private let hasSnapshot = Mutex(false)

    /// Makes a dispatcher; nothing happens before ``run(_:beforeClosing:)``.
    ///
    /// `devices` is the registry, without which no delivery to a device finds its tokens; `operations` is the outbox;
    /// `campaigns` has the campaigns that run; `receipts` makes the ids of receipts; `nodes` connects to other gateways
    /// on the same store; `quotas` has the quotas that the gateways share; `clock` converts between the gateway's
    /// steady and wall clocks; `outbox` gives the time for outbox entries of a device that loses a token; `tracing`
    /// sends spans; `decode` turns stored content back into a notification.
    package init(
        store: any NotificationStore,
        devices: (any DeviceStore)? = nil,
        operations: (any OutboxStore)? = nil,
        campaigns: CampaignDirectory? = nil,
        receipts: ReceiptKeys? = nil,
        nodes: (any NodeExchange)? = nil,
        quotas: (any QuotaLedger)? = nil,
        time: any TimeSource,
        clock: WallClock? = nil,
        observer: any DispatchObserver = SilentObserver(),
        tracing: TraceExporter? = nil,
        logger: Logger,
        outbox: @escaping @Sendable () -> Date? = { nil },
        decode: @escaping @Sendable ([UInt8]) throws -> PushNotification
    ) {
        self.store = store
        self.time = time
        self.clock = clock ?? WallClock(time)
        self.observer = observer
        self.tracing = tracing
        self.logger = logger
        self.decode = decode
        self.devices = devices
        self.operations = operations
        self.nodes = nodes
        self.quotas = quotas
        self.campaigns = campaigns
        self.receipts = receipts
        let outcomeWriter = OutcomeWriter(store: store, time: time, logger: logger)
        self.outcomeWriter = outcomeWriter
        gone = GoneBackends(
            store: store,
            nodes: nodes,
            clock: self.clock,
            observer: observer,
            logger: logger
        )
        tokenInvalidation = TokenInvalidation(
            devices: devices,
            state: store,
            time: time,
            observer: observer,
            logger: logger,
            outbox: outbox,
            tell: { nodes?.tell($0.note) }
        ) {
            outcomeWriter.append([], events: $0)
        }
        (commands, commander) = AsyncStream.makeStream(bufferingPolicy: .bufferingNewest(16))
    }

    /// The status of every worker.
    package var workers: [WorkerStatus] { workersGuarded.withLock { $0.current }.map(\.status) }

    /// The invalidations, for an operator to resolve quarantined ones.
    package var invalidations: TokenInvalidation? { tokenInvalidation }

    /// The deliveries for backends that are no longer configured, for an operator to move or drop.
    package var goneBackends: GoneBackends? { gone }

    /// Ends the pauses of a backend that no platform asked for, here and at the other gateways on the store.
    package func endOwnPauses(of backend: String) -> EndedPauses {
        nodes?.tell(NodeNews.retried(backend: backend).note)
        guard let flow = flows.withLock({ $0[backend] }) else { return EndedPauses() }
        let result = flow.endOwnPauses(at: clock.reading)
        logger.notice(
            "waiting deliveries are retried now",
            metadata: [
                "backend": "\(backend)", "ended": .array(result.ended.map { .string($0.kind.rawValue) }),
                "kept": .array(result.kept.map { .string($0.kind.rawValue) }),
            ]
        )
        return result
    }

    /// Works until ``stop()`` or cancellation, then drains: messages with a platform get the time `queue.drain` for
    /// their answers.
    ///
    /// After the stop a backend is shut down once its own sends have ended and `beforeClosing` has returned, since
    /// other work may use the backends until then.
    package func run(
        _ snapshot: GatewaySnapshot,
        beforeClosing: @escaping @Sendable () async -> Void = {}
    ) async throws(StoreError) {
        let instance = try await store.makeInstance()
        nodes?.hear { [weak self] note in if let news = NodeNews(note) { self?.hear(news) } }
        hasSnapshot.withLock { hasSnapshot in
            // A snapshot that a reload installed meanwhile is newer.
            if !hasSnapshot { commander.yield(.install(snapshot)) }
            hasSnapshot = true
        }
        await withTaskGroup(of: Void.self) { group in
            group.addTask { [outcomeWriter] in await outcomeWriter.run() }
            group.addTask { [tokenInvalidation, outcomeWriter] in
                await tokenInvalidation.run()
                outcomeWriter.finish()  // The last events of token invalidation go through it.
            }
            await withTaskCancellationHandler {
                await self.runWorkers(instance, beforeClosing)
            } onCancel: {
                commander.yield(.stop)
            }
            tokenInvalidation.finish()
            await group.waitForAll()
        }
    }

    /// Replaces the running backends with those of a snapshot.
    package func install(_ snapshot: GatewaySnapshot) {
        hasSnapshot.withLock { hasSnapshot in
            hasSnapshot = true
            commander.yield(.install(snapshot))
        }
    }

    /// Stops claiming, and lets ``run(_:beforeClosing:)`` end.
    package func stop() { commander.yield(.stop) }

    private func runWorkers(_ instance: UInt64, _ beforeClosing: @escaping @Sendable () async -> Void) async {
        await withTaskGroup(of: Void.self) { group in
            var drain = Duration.seconds(25)
            var upkeep: Upkeep?
            for await command in commands {
                guard case .install(let snapshot) = command else { break }
                drain = snapshot.configuration.queue.drain
                let keep = Upkeep.Keep(snapshot.configuration.store)
                let workers = await replaceWorkers(snapshot, instance)
                if upkeep != nil { group.addTask { await self.retryNow(workers) } }
                for worker in workers {
                    group.addTask {
                        await worker.run()
                        // A worker that a reload replaced closes its backend at once: nothing else uses it any more.
                        if self.isCurrent(worker) { await beforeClosing() }
                        // A drain that was cut short has shut the backend down already.
                        if !worker.isAbandoned { await worker.close(grace: .seconds(1)) }
                        self.forget(worker)
                        await self.forgetFlows()
                    }
                }
                if let upkeep {
                    upkeep.keep = keep
                } else {
                    let new = Upkeep(
                        store: store,
                        outcomeWriter: outcomeWriter,
                        observer: observer,
                        time: time,
                        clock: clock,
                        logger: logger,
                        keep: keep
                    ) {
                        await self.keepFlows(isLast: false)
                        self.tokenInvalidation.tellAnswers()
                        await self.gone.work()
                    }
                    upkeep = new
                    group.addTask { await new.run() }
                }
            }
            upkeep?.stop()
            let leaving = workersGuarded.withLock { $0.current + $0.leaving }
            for worker in leaving { worker.stop() }
            await self.drain(&group, leaving, within: drain)
        }
        await keepFlows(isLast: true)
    }

    /// The time that a cancelled send, and a backend that shuts down, have to end.
    private static let cancelGrace = Duration.seconds(2)

    /// Waits for the workers, and cancels those that do not end in time.
    private func drain(_ group: inout TaskGroup<Void>, _ workers: [DeliveryWorker], within span: Duration) async {
        await withTaskGroup(of: Void.self) { deadline in
            // Each has a task of its own: a backend that closes slowly does not delay the others.
            for worker in workers {
                deadline.addTask { [time] in
                    guard (try? await time.sleep(for: span)) != nil else { return }  // Every worker ended in time.
                    await worker.cancel()
                }
            }
            deadline.addTask { [time] in
                guard (try? await time.sleep(for: span + Self.cancelGrace)) != nil else { return }
                for worker in workers { worker.abandon() }
            }
            await group.waitForAll()
            deadline.cancelAll()
        }
    }

    private func replaceWorkers(_ snapshot: GatewaySnapshot, _ instance: UInt64) async -> [DeliveryWorker] {
        let dependencies = DeliveryWorker.Dependencies(
            store: store,
            outcomeWriter: outcomeWriter,
            devices: devices,
            operations: operations,
            tokenInvalidation: tokenInvalidation,
            campaigns: campaigns,
            receipts: receipts,
            time: time,
            clock: clock,
            observer: observer,
            tracing: tracing,
            logger: logger,
            decode: decode,
            instance: instance,
            tell: { [nodes] in nodes?.tell($0.note) },
            escalations: escalations
        )
        var new: [DeliveryWorker] = []
        for backend in snapshot.backends {
            let watch = await tokenInvalidation.watch(
                backend.name,
                snapshot.configuration.invalidationGuard,
                identity: backend.identity
            )
            let settings = snapshot.workerSettings(of: backend.name)
            let flow = await flow(of: backend, settings)
            new.append(DeliveryWorker(backend, settings, flow: flow, watch: watch, dependencies))
        }
        await gone.install(snapshot)
        let old = workersGuarded.withLock { workers in
            let old = workers.current
            workers.leaving += old
            workers.current = new
            return old
        }
        // Puts flows back that the end of an old worker removed meanwhile.
        flows.withLock { flows in
            for worker in new { flows[worker.name] = worker.flow }
        }
        for worker in old { worker.flow.retire(true) }
        for worker in new { worker.flow.retire(false) }
        for worker in old { worker.stop() }
        await forgetFlows()
        return new
    }

    /// Makes deliveries that wait for another attempt due now: a reload may have corrected the cause.
    private func retryNow(_ workers: [DeliveryWorker]) async {
        for worker in workers {
            do throws(StoreError) {
                _ = try await store.makeRetriesDue(of: worker.name)
                _ = try await operations?.makeRetriesDue(ofEntriesAt: worker.name)
            } catch {
                logger.unlessCancelled?.warning(
                    "what waits for another attempt waits on",
                    metadata: ["backend": "\(worker.name)", "error": "\(error)"]
                )
            }
            // Done last, so that the delivery that waited longest is tried first. Other gateways are reloaded
            // separately.
            _ = worker.flow.endOwnPauses(at: clock.reading)
        }
    }

    // MARK: Other gateways

    /// Handles news of another gateway on the same store.
    func hear(_ news: NodeNews) {
        let now = clock.reading
        if case .retried(let backend) = news {
            _ = flows.withLock({ $0[backend] })?.endOwnPauses(at: now)
            return
        }
        guard case .paused(let backend, let identity, let until, let reason) = news else {
            tokenInvalidation.hear(news, at: now)
            return
        }
        // The news may be about a different backend that another configuration has under the same name.
        guard until > now.steady, let flow = flows.withLock({ $0[backend] }), flow.identity == identity else { return }
        let isNew = flow.gate.update { state in (state.pause(until: until, reason: reason), wakes: false) }
        if isNew { flow.gate.cancelClaims() }
    }

    // MARK: Flow control

    /// Returns the flow control of a backend: that of the previous worker when the backend is the same, else the one
    /// that was stored before a restart.
    private func flow(of configured: BackendRegistry.ConfiguredBackend, _ settings: DeliveryWorker.Settings) async
        -> FlowControl
    {
        let now = clock.reading
        var flow = flows.withLock { $0[configured.name] }
        if let known = flow, known.identity == configured.identity {
            known.adopt(configured, at: now.steady)
        } else {
            // A different backend under this name does not inherit the pauses of the earlier one.
            let memory = flow == nil ? await flowMemory(of: configured, at: now) : nil
            flow = FlowControl(configured, memory, ledger: quotas, at: now.steady)
        }
        let kept = flow ?? FlowControl(configured, ledger: quotas, at: now.steady)
        kept.gate.update { state in
            state.fallbackAfter = settings.fallbackAfter
            return ((), wakes: false)
        }
        flows.withLock { $0[configured.name] = kept }
        return kept
    }

    private func flowMemory(of configured: BackendRegistry.ConfiguredBackend, at now: TimeReading) async -> FlowMemory?
    {
        do throws(StoreError) {
            guard let stored = try await store.loadState(Self.flowKey(configured.name)) else { return nil }
            return FlowMemory(stored: stored, at: now).flatMap { $0.identity == configured.identity ? $0 : nil }
        } catch {
            logger.unlessCancelled?.error(
                "cannot read how a backend was used",
                metadata: ["backend": "\(configured.name)", "error": "\(error)"]
            )
            return nil
        }
    }

    /// Removes the flows of backends that are gone, once their last workers have ended.
    private func forgetFlows() async {
        let old = flows.withLock { flows in
            let names = Set(workersGuarded.withLock { $0.current + $0.leaving }.map(\.name))
            let old = flows.keys.filter { !names.contains($0) }
            for name in old { flows[name] = nil }
            return old
        }
        for name in old { await saveFlow(name, nil) }
    }

    /// Saves the flows that have changed; `isLast` is set at the end of the process.
    private func keepFlows(isLast: Bool) async {
        let now = clock.reading
        for (name, flow) in flows.withLock({ $0 }) {
            guard let memory = flow.changedMemory(at: now.steady, isLast: isLast) else { continue }
            await saveFlow(name, memory.isEmpty ? nil : memory.stored(at: now))
        }
    }

    private func saveFlow(_ name: String, _ value: [UInt8]?) async {
        do throws(StoreError) {
            try await store.saveState(Self.flowKey(name), value)
        } catch {
            logger.unlessCancelled?.warning(
                "how a backend is used was not kept",
                metadata: ["backend": "\(name)", "error": "\(error)"]
            )
        }
    }

    private static func flowKey(_ backend: String) -> String { "lane_flow." + backend }

    private func isCurrent(_ worker: DeliveryWorker) -> Bool {
        workersGuarded.withLock { $0.current.contains { $0 === worker } }
    }

    private func forget(_ worker: DeliveryWorker) {
        workersGuarded.withLock { $0.leaving.removeAll { $0 === worker } }
    }
}
