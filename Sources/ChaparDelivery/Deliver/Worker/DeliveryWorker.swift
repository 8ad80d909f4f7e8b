internal import Foundation
internal import Logging
internal import ChaparCore
internal import ChaparComposition
internal import ChaparQueue
internal import Synchronization

/// The worker of one backend's queue: it claims up to the backend's capacity, sends, and records the outcomes.
///
/// There is one task for each claimed batch, and no task for a single message. The code does not depend on the
/// platform: ``PlanRules`` decides what follows from an outcome, ``FlowGate`` how many messages may be under way.
/// Workers share only the store: a backend that hangs blocks its own worker and no other. Made and run by
/// ``Dispatcher``.
final class DeliveryWorker: Sendable {
    /// The parts of the gateway that a worker uses.
    struct Dependencies: Sendable {
        let store: any NotificationStore
        let outcomeWriter: OutcomeWriter
        /// The device registry; nil without one.
        let devices: (any DeviceStore)?
        /// The outbox; nil without such a store.
        let operations: (any OutboxStore)?
        /// The invalidation of refused tokens.
        let tokenInvalidation: TokenInvalidation
        /// The campaigns that run, as this gateway knows them; nil without campaigns.
        let campaigns: CampaignDirectory?
        /// The keys of the ids with which apps report arrivals; nil without them.
        let receipts: ReceiptKeys?
        let time: any TimeSource
        /// The translator between the two sides of ``time``.
        let clock: WallClock
        let observer: any DispatchObserver
        /// The sender of spans; nil without one.
        let tracing: TraceExporter?
        let logger: Logger
        /// The function that turns stored content back into a notification.
        let decode: @Sendable ([UInt8]) throws -> PushNotification
        /// The number in the message ids of this gateway, so that no two gateways use the same.
        let instance: UInt64
        /// The function that sends news to other gateways on the same store.
        let tell: @Sendable (NodeNews) -> Void
        /// The counts of messages for which backends took over.
        var escalations = EscalationLimits()
    }

    /// The most deliveries in one claim: large enough to share the cost, small enough to keep latency low.
    static let largestClaim = 512
    /// The most messages that wait in the process for an answer to free room at their backend.
    static let largestReserve = 512
    /// The window of a backend that knows no limit of its own.
    static let defaultWindow = 1_000
    /// The number of unrecorded outcomes at which the worker waits for the store.
    static let largestBacklog = 50_000
    /// The longest wait of one claim; a stop ends it at once.
    static let longestWait = Duration.seconds(30)

    let name: String
    let backend: any PushBackend
    /// The settings of a worker, from the configuration.
    struct Settings: Sendable {
        /// The app of the backend.
        var app = AppName.default
        var queue = GatewayConfiguration.Queue()
        /// The order in which a device's tokens are preferred.
        var tokenPriority = TokenService.priority
        /// The audience of each configured backend of the app, by its name.
        var audiences: [String: BackendAudience] = [:]
        /// The backends of the app, which know which tokens a message goes to.
        var backends: [(name: String, backend: any PushBackend)] = []
        /// The shortest time that any plan waits for a failing backend before it goes to the next; nil when none does.
        var fallbackAfter: Duration?
        /// Whether the app reports arrivals and openings, so that its messages have an id for that.
        var takesReceipts = false
        /// Whether some route has backends that take over when no report came in time.
        var escalates = false

        /// Returns the other backends that may accept a token which one has refused, in the order of their names.
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
    /// The current use of the backend; outlives the worker.
    let flow: FlowControl
    let template: AttemptTemplate
    /// The histograms of the backend's deliveries; nil where none are kept.
    let times: DeliveryTimes?
    /// The batches that are with the backend.
    let open = OpenBatches()
    private let configured: BackendRegistry.ConfiguredBackend
    private let stopped = Atomic(false)
    private let abandoned = Atomic(false)
    /// The number of deliveries about which the platform is being asked.
    let queriesInFlight = Atomic(0)
    /// The part of its queue that the worker has read while it is stopped.
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
        times = dependencies.observer.times(of: configured.name)
        self.flow = flow
        let gate = flow.gate
        let time = dependencies.time
        gate.update { ((), wakes: $0.quarantine(watch.trip != nil, at: time.steady)) }
        watch.observe { isQuarantined in
            gate.update { ((), wakes: $0.quarantine(isQuarantined, at: time.steady)) }
            if isQuarantined { gate.cancelClaims() }
        }
    }

    /// The status of the worker.
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
            isPaused: state.isPauseInForce,
            breaker: breaker,
            areInvalidationsQuarantined: state.isQuarantined,
            undecidedCallers: watch.quarantinedCallers.count,
            quota: flow.quotaStatus(at: now.steady)
        )
    }

    /// Works until ``stop()``, then waits for open sends; the backend keeps running.
    func run() async {
        parkIfOutOfDate()
        // Not a child of the group, which would wait for it: a plugin may ignore its cancellation.
        let watching = Task { [backend] in await backend.watch() }
        await withTaskGroup(of: Void.self) { group in
            group.addTask { await self.giveUpHangingBatches() }
            await withDiscardingTaskGroup { deliveries in
                while let work = await next() {
                    switch work {
                    case .deliver(let claimed): for part in claimed { deliveries.addTask { await self.deliver(part) } }
                    case .query(let silent): deliveries.addTask { await self.query(silent, isClaimed: false) }
                    case .nothing: break
                    }
                }
            }
            group.cancelAll()
        }
        watching.cancel()
        await giveTime(.zero, to: "watch") { await watching.value }
    }

    /// Parks a backend before its first message when its credential has expired or is not valid yet.
    private func parkIfOutOfDate() {
        let now = dependencies.clock.reading
        guard let problem = backend.credentialProblem(at: now.wall) else { return }
        let signal = BackendSignal.park(reason: problem.reason, detail: problem.detail)
        let change = gate.update { $0.apply(signal, at: now.steady) }
        guard let event = announce(change, at: now) else { return }
        dependencies.outcomeWriter.append([], events: [event])
    }

    /// The work that the loop starts.
    enum Work {
        /// Send each of these batches.
        case deliver([Claimed])
        /// Take another step.
        case nothing
        /// Ask the platform a last time for the outcome of messages that are not claimed.
        case query([Silence])
    }

    /// Deliveries that go to the backend together.
    struct Claimed {
        var deliveries: [ClaimedDelivery]
        /// Whether they count as a request, which ends when the backend has answered.
        var isRequest = false
        /// The time when they were asked for.
        var since: ContinuousClock.Instant
    }

    /// Whether the worker claims nothing more.
    var isStopped: Bool { stopped.load(ordering: .sequentiallyConsistent) }

    /// Stops claiming.
    func stop() {
        stopped.store(true, ordering: .sequentiallyConsistent)
        gate.wake()
        gate.cancelClaim(of: ObjectIdentifier(self))
    }

    /// Cancels open sends: they are reported as not sent or as unknown.
    func cancel() async {
        await close(grace: .zero)
        open.cancelAll()
    }

    /// Stops waiting for sends that ``cancel()`` did not end: they count as unknown.
    func abandon() {
        abandoned.store(true, ordering: .relaxed)
        open.abandon()
    }

    /// Whether the time of a drain is over.
    var isAbandoned: Bool { abandoned.load(ordering: .relaxed) }

    /// Shuts the backend down; one that exceeds the grace is abandoned.
    func close(grace: Duration) async {
        await giveTime(grace, to: "shutdown") { [backend] in await backend.shutdown(grace: grace) }
    }

    /// The time beyond its grace that a plugin gets to end.
    private static let closingMargin = Duration.seconds(1)

    /// Waits for a plugin to end, for a span and a second more: foreign code may never return.
    private func giveTime(_ span: Duration, to work: String, _ body: @escaping @Sendable () async -> Void) async {
        let time = dependencies.time
        // A task of its own, awaited here: even when the caller is cancelled, the plugin gets its time.
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

    /// Returns the next work; nil when the worker is to end.
    private func next() async -> Work? {
        var quotaSpentAt: ContinuousClock.Instant?
        var isIdle = false
        while !isStopped {
            let now = dependencies.time.steady
            let (window, limit) = window()
            let (step, mark) = gate.step(window: window, requests: limit, at: now)
            switch step {
            case _ where isStopped:  // The stop came before the step, whose mark does not show it.
                release(step, limit)
            case .wait(until: let time):
                await wait(until: reached(by: time, at: now), orChangeAfter: mark, at: now)
            case .passOn where isOutrunning, .claim where isOutrunning:
                release(step, limit)
                await pause(until: now.addingTimeInterval(0.05), orChangeAfter: mark)
            case .passOn:
                let silent = await passOn()
                if !silent.isEmpty { return .query(silent) }
            case .claim(_, _, mayWait: true) where isIdle && flow.isShared:
                if let work = await claimWithoutSlice(step, limit, mark) {
                    isIdle = false
                    if case .nothing = work { continue }
                    return work
                }
            case .claim(let capacity, _, let mayWait):
                let wanted = min(capacity, Self.largestClaim)
                var allowance = flow.reserve(wanted, at: now)
                if allowance.needsSlice { allowance = await flow.reserveSlice(wanted, dependencies.time) }
                guard allowance.granted > 0 else {
                    release(step, limit)
                    quotaSpentAt = quotaSpentAt ?? .now
                    await pause(until: allowance.retryAt, orChangeAfter: mark)
                    continue
                }
                if let since = quotaSpentAt {
                    dependencies.observer.waitedForQuota(backend: name, since.duration(to: .now))
                    quotaSpentAt = nil
                }
                let since = ContinuousClock.now
                let claims = await claim(
                    allowance.granted,
                    normal: allowance.normal,
                    wait: mayWait ? longestWait(allowance, at: now) : .zero,
                    mark
                )
                let end = dependencies.clock.reading
                let mayGo = !gate.standsStill(at: end.steady)
                flow.release(reserved: allowance.granted, used: mayGo ? claims.count : 0, at: end.steady)
                let work = release(step, limit, claims, asked: allowance.granted, sends: mayGo, since: since)
                if claims.isEmpty {
                    isIdle = mayWait && allowance.normal > 0
                    continue
                }
                if mayGo { return work }
                giveBack(claims, at: end)
            }
        }
        await flow.giveBack(dependencies.time)
        return nil
    }

    /// Gives the slice of a shared quota back, since there was no delivery to send, and waits for one.
    ///
    /// Only when there is a delivery it reserves a slice again: other gateways cannot use the quota of a slice that a
    /// waiting gateway keeps.
    ///
    /// - Returns: The delivery; an empty array when it was given back; nil when there was none.
    private func claimWithoutSlice(
        _ step: FlowGate.Step,
        _ limit: OpenRequests.Limit?,
        _ mark: AsyncSignal.Mark
    ) async -> Work? {
        await flow.giveBack(dependencies.time)
        let since = ContinuousClock.now
        let claims = await claim(1, normal: 1, wait: Self.longestWait, mark)
        guard !claims.isEmpty else {
            release(step, limit)
            return nil
        }
        var allowance = flow.reserve(claims.count, at: dependencies.time.steady)
        if allowance.needsSlice { allowance = await flow.reserveSlice(claims.count, dependencies.time) }
        // The delivery's priority is not known here: the next claim asks for what the quota allows.
        let now = dependencies.clock.reading
        let mayGo = allowance.normal >= claims.count && !gate.standsStill(at: now.steady)
        flow.release(reserved: allowance.granted, used: mayGo ? claims.count : 0, at: now.steady)
        let work = release(step, limit, claims, asked: claims.count, sends: mayGo, since: since)
        if mayGo { return work }
        giveBack(claims, at: now)
        return .nothing
    }

    /// Ends a step's reservation, and makes work of the deliveries that were claimed for it.
    @discardableResult
    private func release(
        _ step: FlowGate.Step,
        _ limit: OpenRequests.Limit?,
        _ claims: [ClaimedDelivery] = [],
        asked: Int = 0,
        sends: Bool = false,
        since: ContinuousClock.Instant = .now
    ) -> Work {
        guard case .claim(let capacity, let requests, _) = step else { return .nothing }
        let claimed = claims.lazy.map(\.id)
        let now = dependencies.time.steady
        guard let limit else {
            gate.release(reserved: capacity, claimed: claimed, isLast: isStopped, at: now)
            return .deliver([Claimed(deliveries: claims, since: since)])
        }
        let parts = sends ? limit.batching.parts(claims) : []
        var claim = OpenRequests.RequestClaim(limit: limit, reserved: requests, asked: asked)
        (claim.messages, claim.requests) = (sends ? claims.count : 0, parts.count)
        gate.release(reserved: capacity, claimed: claimed, in: claim, isLast: isStopped, at: now)
        return .deliver(parts.map { Claimed(deliveries: $0, isRequest: true, since: since) })
    }

    /// Gives back claims that may not be sent now: the quota is used up, the backend was stopped while they were
    /// claimed, or another gateway may own them by now.
    func giveBack(_ claims: [ClaimedDelivery], at now: TimeReading) {
        record(claims.map { withhold($0, at: now) ?? Resolution(of: $0, .release) })
    }

    /// Returns the time of the next step: earlier than a given time while the platform is unreachable.
    private func reached(by time: Date?, at now: Date) -> Date? {
        guard gate.waitsForReach(at: now) else { return time }
        let isInReach = backend.health.status != .down
        let next = gate.update { ($0.note(isInReach: isInReach, at: now), wakes: false) }
        return [time, next].compactMap { $0 }.min()
    }

    /// Whether more outcomes wait to be written than should.
    private var isOutrunning: Bool {
        dependencies.outcomeWriter.backlog + dependencies.tokenInvalidation.backlog >= Self.largestBacklog
    }

    /// Returns the longest wait of a claim.
    ///
    /// When only urgent messages may be sent, it ends when other messages may be sent again. It is so long that not
    /// every message needs a claim of its own, and no longer than a slice of a shared quota is valid.
    private func longestWait(_ allowance: FlowControl.Allowance, at now: Date) -> Duration {
        guard allowance.normal == 0 else {
            return flow.isShared ? .seconds(clamping: QuotaSlice.lifetime) : Self.longestWait
        }
        let span = Duration.milliseconds(clamping: allowance.retryAt.timeIntervalSince(now) * 1000)
        return min(Self.longestWait, max(.milliseconds(5), span))
    }

    /// Returns the most deliveries that may be with the backend, within the configured limit, and the requests that
    /// they make.
    ///
    /// It is the number of messages that the platform's connections take at once, and a reserve, so that an answered
    /// message is replaced without a read of the store. More would do harm: another gateway cannot take deliveries that
    /// are claimed and unsent, and they count as perhaps sent when this gateway dies.
    private func window() -> (messages: Int, requests: OpenRequests.Limit?) {
        let (window, batching) = (backend.window, backend.batching)
        let own: Int
        var limit: OpenRequests.Limit?
        if let window, let batching {
            let requests = OpenRequests.Limit(window: window, batching)
            (own, limit) = (requests.messages, requests)
        } else {
            own = window.map { $0.adding(clamping: min($0, Self.largestReserve)) } ?? Self.defaultWindow
        }
        return (min(own, configured.maximumInFlight ?? own), limit)
    }

    /// Claims deliveries from the store.
    ///
    /// The wait runs in a task of its own, which is awaited here, so that ``stop()`` can end only this wait.
    func claim(_ limit: Int, normal: Int, wait: Duration, _ mark: AsyncSignal.Mark) async -> [ClaimedDelivery] {
        guard dependencies.store.holdsClaims(since: .now) else {
            // Claimed deliveries could not be sent. A stop after the gate's step ends the wait, one before it is
            // checked here.
            let later = dependencies.time.steady.addingTimeInterval(0.1)
            if !isStopped { await pause(until: later, orChangeAfter: mark) }
            return []
        }
        let task = Task<[ClaimedDelivery], any Error> { [dependencies, name] in
            try await dependencies.store.claim(backend: name, limit: limit, normal: normal, wait: wait)
        }
        gate.begin(task, of: ObjectIdentifier(self))
        defer { gate.forgetClaim(of: ObjectIdentifier(self)) }
        // A stop between the gate's step and now did not find this claim.
        let now = dependencies.time.steady
        if isStopped || wait > .zero && gate.standsStill(at: now) { task.cancel() }
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

    /// Logs that a call of the store failed, and waits a second.
    func noteStoreFailure(_ error: any Error) async {
        dependencies.logger.unlessCancelled?.error(
            "claiming failed, trying again",
            metadata: ["backend": "\(name)", "error": "\(error)"]
        )
        try? await dependencies.time.sleep(for: .seconds(1))  // The worker's cancellation ends it.
    }

    /// Waits until a steady time (nil is for ever) or for a change of the gate after a mark; gives an unused slice back
    /// before it expires.
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
