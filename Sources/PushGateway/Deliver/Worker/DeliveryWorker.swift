internal import Foundation
internal import Logging
internal import PushCore
internal import PushComposition
internal import PushQueue
internal import Synchronization

/// Delivers what is queued for one backend: claims up to its capacity, hands it to the backend, records the outcomes.
///
/// One task per claimed batch, none per message. Nothing here depends on the platform: what follows from an outcome is
/// decided by ``PlanRules``, how much may be under way by ``FlowGate``. Workers share nothing but the store: a backend
/// that hangs keeps its own worker waiting, and no other. Made and run by ``Dispatcher``.
final class DeliveryWorker: Sendable {
    /// What a worker needs of the gateway.
    struct Dependencies: Sendable {
        let store: any NotificationStore
        let outcomeWriter: OutcomeWriter
        /// Where the devices are; nil without a registry.
        let devices: (any DeviceStore)?
        /// The outbox; nil without such a store.
        let operations: (any OutboxStore)?
        /// Marks refused tokens invalid.
        let tokenInvalidation: TokenInvalidation
        let time: any TimeSource
        /// Translates between the two sides of ``time``.
        let clock: WallClock
        let observer: any DispatchObserver
        let logger: Logger
        /// Turns stored content back into a notification.
        let decode: @Sendable ([UInt8]) throws -> PushNotification
        /// Marks the message ids of this gateway, so that two gateways never use the same.
        let instance: UInt64
        /// Takes what other gateways on the same store are to know.
        let tell: @Sendable (NodeNews) -> Void
    }

    /// The most deliveries in one claim: large enough to share the cost, small enough to keep latency low.
    static let largestClaim = 512
    /// The window of a backend that knows no limit of its own.
    static let defaultWindow = 1_000
    /// With so much not yet recorded the worker waits for the store.
    static let largestBacklog = 50_000
    /// How long one look for work may last; a stop ends it at once.
    static let longestWait = Duration.seconds(30)

    let name: String
    let backend: any PushBackend
    /// What a worker goes by, from the configuration.
    struct Settings: Sendable {
        /// The app of the backend.
        var app = AppName.default
        var queue = GatewayConfiguration.Queue()
        /// The order in which a device's tokens are preferred.
        var tokenPriority = TokenService.priority
        /// Whom each configured backend of the app addresses, by its name.
        var audiences: [String: BackendAudience] = [:]
        /// The backends of the app, which know what tokens a message goes to.
        var backends: [(name: String, backend: any PushBackend)] = []
        /// The shortest time for which any plan waits on a failing backend before it goes on to the next; nil when none does.
        var fallbackDelay: Duration?

        /// The other backends that may take a token which one has refused, in the order of their names.
        func alternatives(to backend: String, for service: TokenService) -> [String] {
            audiences.filter { $0.key != backend && $0.value.services.contains(service) }.keys.sorted()
        }
    }

    let settings: Settings
    /// Whether the backend addresses devices of the registry by itself.
    let addressesDevices: Bool
    let rules: PlanRules
    let dependencies: Dependencies
    let watch: InvalidationWatch
    /// How the backend is used at the moment; outlives the worker.
    let flow: FlowControl
    let template: AttemptTemplate
    /// The batches that are with the backend.
    let open = OpenBatches()
    private let configured: BackendRegistry.ConfiguredBackend
    private let stopped = Atomic(false)
    private let abandoned = Atomic(false)
    /// How many deliveries the platform is being asked about.
    let queriesInFlight = Atomic(0)
    /// The part of its queue that it has looked at while it stands still.
    let standing = Mutex(StandingQueue())

    var gate: FlowGate { flow.gate }

    init(
        _ configured: BackendRegistry.ConfiguredBackend,
        _ settings: Settings,
        flow: FlowControl,
        watch: InvalidationWatch,
        _ dependencies: Dependencies
    ) {
        self.configured = configured
        self.settings = settings
        self.dependencies = dependencies
        self.watch = watch
        name = configured.name
        backend = configured.backend
        addressesDevices = configured.backend.audience.forms.contains(.device)
        rules = PlanRules(settings.queue)
        template = AttemptTemplate(backend: configured.name)
        self.flow = flow
        let gate = flow.gate
        let time = dependencies.time
        gate.update { ((), wakes: $0.hold(watch.trip != nil, at: time.steady)) }
        watch.observe { isHeld in
            gate.update { ((), wakes: $0.hold(isHeld, at: time.steady)) }
            if isHeld { gate.endLooks() }
        }
    }

    /// How the worker is doing.
    var status: WorkerStatus {
        let state = gate.state
        let now = dependencies.clock.reading
        var breaker = state.breakerState
        breaker.until = breaker.until.map(now.wall)
        return WorkerStatus(
            backend: name,
            inFlight: state.inFlight,
            window: state.window,
            pausedUntil: state.waitsUntil.map(now.wall),
            pauseReason: state.blockDetail.reason,
            pauseDetail: state.blockDetail.sentence,
            isParked: state.isParked,
            isSlowed: state.isSlowed,
            breaker: breaker,
            areInvalidationsHeld: state.isHeld
        )
    }

    /// Works until ``stop()``, then waits for what is under way; the backend is left running.
    func run() async {
        parkIfOutOfDate()
        // Not a child of the group, which would wait for it: a plugin may ignore its cancellation.
        let watching = Task { [backend] in await backend.watch() }
        await withTaskGroup(of: Void.self) { group in
            group.addTask { await self.giveUpHangingBatches() }
            await withDiscardingTaskGroup { deliveries in
                while let work = await next() {
                    deliveries.addTask {
                        switch work {
                        case .deliver(let claims): await self.deliver(claims)
                        case .query(let silent): await self.query(silent, isClaimed: false)
                        }
                    }
                }
            }
            group.cancelAll()
        }
        watching.cancel()
        await giveTime(.zero, to: "watch") { await watching.value }
    }

    /// Parks a backend before its first message, when its credential is not valid by its dates.
    private func parkIfOutOfDate() {
        let now = dependencies.clock.reading
        guard let problem = backend.credentialProblem(at: now.wall) else { return }
        let signal = BackendSignal.park(reason: problem.reason, detail: problem.detail)
        let change = gate.update { $0.apply(signal, at: now.steady) }
        guard let event = announce(change, at: now) else { return }
        dependencies.outcomeWriter.append([], events: [event])
    }

    /// What the loop starts.
    enum Work {
        /// Send.
        case deliver([ClaimedDelivery])
        /// Ask the platform a last time for the outcome of messages that are not claimed.
        case query([Silence])
    }

    /// Whether the worker claims nothing more.
    var isStopped: Bool { stopped.load(ordering: .sequentiallyConsistent) }

    /// Claims nothing more.
    func stop() {
        stopped.store(true, ordering: .sequentiallyConsistent)
        gate.wake()
        gate.endLook(of: self)
    }

    /// Ends what is still under way: it is reported as not sent or as unknown.
    func cancel() async {
        await close(grace: .zero)
        open.cancelAll()
    }

    /// Waits no longer for what ``cancel()`` did not end: it counts as unknown.
    func abandon() {
        abandoned.store(true, ordering: .relaxed)
        open.abandon()
    }

    /// Whether the time of a drain is over.
    var isAbandoned: Bool { abandoned.load(ordering: .relaxed) }

    /// Shuts the backend down; one that takes longer than its grace is left behind.
    func close(grace: Duration) async {
        await giveTime(grace, to: "shutdown") { [backend] in await backend.shutdown(grace: grace) }
    }

    /// How much longer than its grace the end of a plugin may take.
    private static let closingMargin = Duration.seconds(1)

    /// Waits for the end of a plugin for a span, and a second more: it is code of others, which may never return.
    private func giveTime(_ span: Duration, to work: String, _ body: @escaping @Sendable () async -> Void) async {
        let time = dependencies.time
        // A task of its own, awaited here: a task that is cancelled gives its plugin time as well.
        let isOver = await Task {
            (try? await Deadline.run(span + Self.closingMargin, time: time, body)) != nil
        }.value
        guard !isOver else { return }
        dependencies.logger.warning(
            "a plugin does not end and is left behind",
            metadata: ["backend": "\(name)", "work": "\(work)"]
        )
    }

    // MARK: Claiming

    /// The next thing to do, nil when the worker is to end.
    private func next() async -> Work? {
        var quotaSpentAt: ContinuousClock.Instant?
        var isIdle = false
        while !isStopped {
            let now = dependencies.time.steady
            let (step, mark) = gate.step(window: window(), at: now)
            switch step {
            case _ where isStopped:  // It came before the step, whose mark does not show it.
                if case .claim(let capacity) = step { gate.release(reserved: capacity, claimed: 0, isLast: true) }
            case .wait(until: let time):
                await wait(until: reached(by: time, at: now), orChangeAfter: mark, at: now)
            case .passOn where isOutrunning, .claim where isOutrunning:
                if case .claim(let capacity) = step { gate.release(reserved: capacity, claimed: 0, isLast: isStopped) }
                await pause(until: now.addingTimeInterval(0.05), orChangeAfter: mark)
            case .passOn:
                let silent = await passOn()
                if !silent.isEmpty { return .query(silent) }
            case .claim(let capacity) where isIdle && flow.isShared:
                if let claims = await lookWithoutSlice(capacity) {
                    isIdle = false
                    if !claims.isEmpty { return .deliver(claims) }
                }
            case .claim(let capacity):
                let wanted = min(capacity, Self.largestClaim)
                var allowance = flow.reserve(wanted, at: now)
                if allowance.needsSlice { allowance = await flow.reserveSlice(wanted, dependencies.time) }
                guard allowance.granted > 0 else {
                    gate.release(reserved: capacity, claimed: 0, isLast: isStopped)
                    quotaSpentAt = quotaSpentAt ?? .now
                    await pause(until: allowance.retryAt, orChangeAfter: mark)
                    continue
                }
                if let since = quotaSpentAt {
                    dependencies.observer.waitedForQuota(backend: name, since.duration(to: .now))
                    quotaSpentAt = nil
                }
                let claims = await look(
                    allowance.granted,
                    normal: allowance.normal,
                    wait: longestWait(allowance, at: now)
                )
                let end = dependencies.clock.reading
                let mayGo = !gate.state.standsStill(at: end.steady)
                flow.release(reserved: allowance.granted, used: mayGo ? claims.count : 0, at: end.steady)
                gate.release(reserved: capacity, claimed: claims.count, isLast: isStopped)
                if claims.isEmpty {
                    isIdle = allowance.normal > 0
                    continue
                }
                if mayGo { return .deliver(claims) }
                giveBack(claims, at: end)
            }
        }
        await flow.giveBack(dependencies.time)
        return nil
    }

    /// Gives back what is reserved of a shared quota, since nothing was there to be sent, and waits for one delivery.
    ///
    /// Only then it reserves again: whoever waits with a slice keeps the quota from the others.
    ///
    /// - Returns: The delivery, or none when it is given back; nil when there was none.
    private func lookWithoutSlice(_ capacity: Int) async -> [ClaimedDelivery]? {
        await flow.giveBack(dependencies.time)
        let claims = await look(1, normal: 1, wait: Self.longestWait)
        gate.release(reserved: capacity, claimed: claims.count, isLast: isStopped)
        guard !claims.isEmpty else { return nil }
        var allowance = flow.reserve(claims.count, at: dependencies.time.steady)
        if allowance.needsSlice { allowance = await flow.reserveSlice(claims.count, dependencies.time) }
        // Whether it is urgent is not known here: the next look asks for what may go.
        let now = dependencies.clock.reading
        let mayGo = allowance.normal >= claims.count && !gate.state.standsStill(at: now.steady)
        flow.release(reserved: allowance.granted, used: mayGo ? claims.count : 0, at: now.steady)
        if mayGo { return claims }
        giveBack(claims, at: now)
        return []
    }

    /// Gives back claims that may not be sent now: the quota is used up, or the backend came to a standstill while they were claimed.
    private func giveBack(_ claims: [ClaimedDelivery], at now: TimeReading) {
        record(claims.map { hold($0, at: now) ?? Resolution(of: $0, .release) })
    }

    /// When to look again: before a time, while the platform is out of reach.
    private func reached(by time: Date?, at now: Date) -> Date? {
        guard gate.state.waitsForReach(at: now) else { return time }
        let isInReach = backend.health.status != .down
        let look = gate.update { ($0.note(isInReach: isInReach, at: now), wakes: false) }
        return [time, look].compactMap { $0 }.min()
    }

    /// Whether more is to be written already than should be.
    private var isOutrunning: Bool {
        dependencies.outcomeWriter.backlog + dependencies.tokenInvalidation.backlog >= Self.largestBacklog
    }

    /// How long a look may last: when only urgent messages may go, until others may go again.
    ///
    /// Not so short that each message would be a trip of its own, and not longer than a slice of a shared quota.
    private func longestWait(_ allowance: FlowControl.Allowance, at now: Date) -> Duration {
        guard allowance.normal == 0 else {
            return flow.isShared ? .seconds(clamping: QuotaSlice.lifetime) : Self.longestWait
        }
        let span = Duration.milliseconds(clamping: allowance.retryAt.timeIntervalSince(now) * 1000)
        return min(Self.longestWait, max(.milliseconds(5), span))
    }

    /// The most deliveries that may be with the backend: twice what its peers take at once, so that an answered one is
    /// replaced without a trip to the store, within the configured bound.
    private func window() -> Int {
        let own = backend.window.map { max(64, $0 * 2) } ?? Self.defaultWindow
        return min(own, configured.maximumInFlight ?? own)
    }

    /// Asks the store.
    ///
    /// A task of its own, awaited here, so that ``stop()`` can end the wait and nothing else.
    func look(_ limit: Int, normal: Int, wait: Duration) async -> [ClaimedDelivery] {
        let task = Task<[ClaimedDelivery], any Error> { [dependencies, name] in
            try await dependencies.store.claim(backend: name, limit: limit, normal: normal, wait: wait)
        }
        gate.begin(task, of: self)
        defer { gate.forgetLook(of: self) }
        // What stopped the worker between the gate's step and now did not find this look.
        let now = dependencies.time.steady
        if isStopped || wait > .zero && gate.state.standsStill(at: now) { task.cancel() }
        do {
            return try await withTaskCancellationHandler {
                try await task.value
            } onCancel: {
                task.cancel()
            }
        } catch {
            await noteStoreFailure(error)
            return []
        }
    }

    /// Logs that a call of the store failed, and waits a moment.
    func noteStoreFailure(_ error: any Error) async {
        dependencies.logger.error(
            "claiming failed, trying again",
            metadata: ["backend": "\(name)", "error": "\(error)"]
        )
        try? await dependencies.time.sleep(for: .seconds(1))  // Cancelled with the worker.
    }

    /// Waits until a steady time (nil is for ever) or for a change of the gate after a mark, but gives back what is reserved before long.
    private func wait(until time: Date?, orChangeAfter mark: AsyncSignal.Mark, at now: Date) async {
        let lapsesAt = flow.sliceLapsesAt
        if let lapsesAt, lapsesAt <= now { return await flow.giveBack(dependencies.time) }
        guard let end = [time, lapsesAt].compactMap({ $0 }).min() else { return await gate.waitForChange(after: mark) }
        await pause(until: end, orChangeAfter: mark)
    }

    /// Waits until a steady time, or for a change of the gate after a mark.
    private func pause(until time: Date, orChangeAfter mark: AsyncSignal.Mark) async {
        let end = max(time, dependencies.time.steady.addingTimeInterval(0.001))
        await gate.waitForChange(after: mark, until: end, dependencies.time)
    }
}
