internal import Foundation
internal import Logging
internal import PushCore
internal import Synchronization

/// Carries the deliveries of one backend: claims what there is room for, hands it to the backend, records what became of it.
///
/// One task per claimed batch, none per message. The lane knows nothing of the platform: what an outcome means is
/// ``PlanRules``, how much may be under way is ``LaneGate``. Lanes share nothing but the store: a backend that hangs keeps
/// its own lane waiting, and no other.
final class Lane: Sendable {
    /// What a lane needs of the gateway.
    struct Surroundings: Sendable {
        let store: any NotificationStore
        let recorder: Recorder
        /// Where the devices are; nil without a registry.
        let devices: (any DeviceStore)?
        /// What platforms are still to be told about devices; nil without such a store.
        let operations: (any OperationStore)?
        /// Takes the platforms' words that tokens are dead.
        let desk: InvalidationDesk
        let time: any TimeSource
        let observer: any DispatchObserver
        let logger: Logger
        /// Turns stored content back into a notification.
        let decode: @Sendable ([UInt8]) throws -> PushNotification
        /// Marks the message ids of this gateway, so that two gateways never use the same.
        let instance: UInt64
    }

    /// The most deliveries in one claim: large enough to share the cost, small enough to keep latency low.
    static let largestClaim = 512
    /// The window of a backend that knows no limit of its own.
    static let defaultWindow = 1_000
    /// With so much not yet recorded the lane waits for the store.
    static let largestBacklog = 50_000
    /// How long one look for work may last; a stop ends it at once.
    static let patience = Duration.seconds(30)

    let name: String
    let backend: any PushBackend
    /// What a lane goes by, from the configuration.
    struct Settings: Sendable {
        var queue = GatewayConfiguration.Queue()
        /// The order in which a device's tokens are preferred.
        var tokenPriority = TokenService.priority
        /// Whom each configured backend addresses, by its name.
        var audiences: [String: BackendAudience] = [:]
        /// The shortest time that any plan bears trouble of this backend before it goes on to the next; nil when none does.
        var patience: Duration?
    }

    let settings: Settings
    /// Whether the backend addresses devices of the registry by itself.
    let takesDevices: Bool
    let rules: PlanRules
    let around: Surroundings
    let watch: InvalidationWatch
    let gate: LaneGate
    let json: AcceptanceJSON
    let pauses = Mutex(RecipientPauses())
    private let configured: BackendRegistry.ConfiguredBackend
    private let bucket: Mutex<TokenBucket?>
    private let looking = Look()

    init(
        _ configured: BackendRegistry.ConfiguredBackend,
        _ settings: Settings,
        watch: InvalidationWatch,
        _ around: Surroundings
    ) {
        self.configured = configured
        self.settings = settings
        self.around = around
        self.watch = watch
        name = configured.name
        backend = configured.backend
        takesDevices = configured.backend.audience.forms.contains(.device)
        rules = PlanRules(settings.queue)
        json = AcceptanceJSON(backend: configured.name)
        bucket = Mutex(configured.pacing.map { TokenBucket($0, at: around.time.now) })
        let gate = LaneGate(breaker: configured.breaker.map { Breaker($0) }, patience: settings.patience)
        self.gate = gate
        let time = around.time
        gate.update { ((), wakes: $0.hold(watch.trip != nil, at: time.now)) }
        let looking = looking
        watch.observe { isHeld in
            gate.update { ((), wakes: $0.hold(isHeld, at: time.now)) }
            if isHeld { looking.cancel() }
        }
    }

    /// How the lane is doing.
    var status: LaneStatus {
        let state = gate.state
        return LaneStatus(
            backend: name,
            inFlight: state.inFlight,
            window: state.window,
            pausedUntil: state.pausedUntil,
            pauseReason: state.pauseReason,
            isParked: state.isParked,
            breaker: state.breakerState,
            areInvalidationsHeld: state.isHeld
        )
    }

    /// Works until ``stop()``, then waits for what is under way; the backend is left running.
    func run() async {
        await withTaskGroup(of: Void.self) { group in
            group.addTask { [backend] in await backend.watch() }
            await withDiscardingTaskGroup { deliveries in
                while let claims = await claim() {
                    deliveries.addTask { await self.deliver(claims) }
                }
            }
            group.cancelAll()
        }
    }

    /// Claims nothing more.
    func stop() {
        gate.stop()
        looking.cancel()
    }

    /// Ends a look for work that began before the lane had to stand still.
    func stopLooking() { looking.cancel() }

    /// The look for work that is under way.
    private final class Look: Sendable {
        private let task = Mutex<Task<[ClaimedDelivery], any Error>?>(nil)

        func begin(_ new: Task<[ClaimedDelivery], any Error>) { task.withLock { $0 = new } }

        func cancel() { task.withLock { $0 }?.cancel() }
    }

    /// Ends what is still under way: it is reported as not sent or as unknown.
    func abandon() async { await backend.shutdown(grace: .zero) }

    // MARK: Claiming

    /// The next deliveries, nil when the lane is to end.
    private func claim() async -> [ClaimedDelivery]? {
        var quotaSpentAt: ContinuousClock.Instant?
        while true {
            let now = around.time.now
            let window = window()
            switch gate.update({ ($0.step(window: window, at: now), wakes: false) }) {
            case .stop:
                return nil
            case .wait(until: nil):
                await gate.waitForChange()
            case .wait(until: let time?):
                await pause(until: time)
            case .passOn:
                await passOn()
            case .claim(let room):
                guard around.recorder.backlog + around.desk.backlog < Self.largestBacklog else {
                    giveUpProbe()
                    await pause(until: now.addingTimeInterval(0.05))
                    continue
                }
                let (granted, retryAt) = allowance(min(room, Self.largestClaim), at: now)
                guard granted > 0 else {
                    giveUpProbe()
                    quotaSpentAt = quotaSpentAt ?? .now
                    await pause(until: retryAt)
                    continue
                }
                if let since = quotaSpentAt {
                    around.observer.waitedForQuota(backend: name, since.duration(to: .now))
                    quotaSpentAt = nil
                }
                let claims = await look(granted, patience: Self.patience)
                if granted > claims.count { bucket.withLock { $0?.giveBack(granted - claims.count) } }
                guard !claims.isEmpty else {
                    giveUpProbe()
                    continue
                }
                gate.update { state in
                    state.inFlight += claims.count
                    return ((), wakes: false)
                }
                return claims
            }
        }
    }

    /// Lets the next look be the probe, when this one found nothing to probe with.
    private func giveUpProbe() {
        gate.update { state in
            state.breaker?.abandonProbe()
            return ((), wakes: false)
        }
    }

    /// The most deliveries that may be with the backend: twice what its peers take at once, so that an answered one is
    /// replaced without a trip to the store, within the configured bound.
    private func window() -> Int {
        let own = backend.window.map { max(64, $0 * 2) } ?? Self.defaultWindow
        return min(own, configured.maximumInFlight ?? own)
    }

    /// How many messages the quota lets go now.
    ///
    /// A claim mixes urgent messages and others, so that nothing is kept back for the urgent.
    private func allowance(_ wanted: Int, at now: Date) -> (granted: Int, retryAt: Date) {
        bucket.withLock { $0?.take(wanted, isUrgent: true, at: now) } ?? (wanted, now)
    }

    /// Asks the store.
    ///
    /// A task of its own, awaited here, so that ``stop()`` can end the wait and nothing else.
    func look(_ limit: Int, patience: Duration) async -> [ClaimedDelivery] {
        let task = Task<[ClaimedDelivery], any Error> { [around, name, settings] in
            try await around.store.claim(lane: name, limit: limit, patience: patience)
        }
        looking.begin(task)
        // What stopped the lane between the gate's word and now did not find this look.
        let now = around.time.now
        if gate.update({ ($0.isStopped || patience > .zero && $0.standsStill(at: now), wakes: false) }) {
            task.cancel()
        }
        do {
            return try await withTaskCancellationHandler {
                try await task.value
            } onCancel: {
                task.cancel()
            }
        } catch {
            around.logger.error("claiming failed, trying again", metadata: ["backend": "\(name)", "error": "\(error)"])
            await pause(until: around.time.now.addingTimeInterval(1))
            return []
        }
    }

    /// Waits until a time, or until the gate changes.
    func pause(until time: Date) async {
        await withTaskGroup(of: Void.self) { group in
            group.addTask { [around] in
                let span = Duration.milliseconds(Int64(max(1, time.timeIntervalSince(around.time.now) * 1000)))
                _ = try? await around.time.sleep(for: span)  // Cancelled when the gate was first.
            }
            group.addTask { [gate] in await gate.waitForChange() }
            await group.next()
            group.cancelAll()
        }
    }
}
