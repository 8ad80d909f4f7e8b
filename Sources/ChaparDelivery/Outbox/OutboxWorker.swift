internal import Foundation
internal import Logging
internal import ChaparCore
internal import ChaparQueue
internal import Synchronization

/// The worker of one backend's outbox entries: it claims up to the backend's capacity, calls the platform, and records
/// the result.
///
/// Entries of one device are carried out one after the other, since the store returns only the oldest; entries of
/// different devices are under way at the same time, up to ``OutboxPause/widest``. ``OutboxRelay`` makes and runs it;
/// it never plans entries.
final class OutboxWorker: Sendable {
    /// The parts of the gateway that a worker uses.
    struct Dependencies: Sendable {
        let store: any OutboxStore & DeviceStore
        let outcomes: OutboxOutcomes
        let time: any TimeSource
        let logger: Logger
        /// Whether claims from a moment on are certainly still this gateway's.
        let holdsClaims: @Sendable (ContinuousClock.Instant) -> Bool
        /// The function that counts an attempt by backend, kind and outcome.
        let count: @Sendable (String, OutboxEntry.Kind, String) -> Void
        /// The function that records that a registration at a backend was lost to refused credentials.
        let markIncomplete: @Sendable (String) async -> Void
    }

    /// The lease of a claim, longer than a call's deadline, so that no other worker takes an operation under way.
    static let lease = OutboxCall.deadline + .seconds(60)
    /// The longest wait of one claim; a stop ends it at once.
    private static let longestWait = Duration.seconds(30)
    /// The time that open calls have to end when the worker stops.
    private static let grace = Duration.seconds(5)

    private enum Step {
        case stop
        case wait(Duration)
        case claim(Int)
    }

    private struct State {
        var isStopped = false
        var inFlight = 0
        var claim: Task<[ClaimedEntry], any Error>?
    }

    let name: String
    /// The pause of the backend, shared with the previous worker.
    let flow: OutboxFlow
    private let backend: any PushBackend
    private let call: OutboxCall
    private let dependencies: Dependencies
    private let state = Mutex(State())
    private let changed = AsyncSignal()

    init(
        _ configured: BackendRegistry.ConfiguredBackend,
        flow: OutboxFlow,
        priority: [TokenService],
        _ dependencies: Dependencies
    ) {
        name = configured.name
        self.flow = flow
        backend = configured.backend
        call = OutboxCall(backend: configured.backend, priority: priority, time: dependencies.time)
        self.dependencies = dependencies
    }

    /// Whether a backend needs a worker.
    static func isNeeded(for backend: any PushBackend) -> Bool {
        backend.devices != nil || backend.subscriptions != nil || backend.tags != nil || backend.events != nil
    }

    /// Works until ``stop()``; open calls then get a few seconds.
    func run() async {
        await withDiscardingTaskGroup { group in
            while let (claims, since) = await next() {
                for claim in claims { group.addTask { await self.carryOut(claim, since: since) } }
            }
            await drain()
            group.cancelAll()
        }
    }

    /// Stops claiming.
    func stop() {
        state.withLock { state in
            state.isStopped = true
            return state.claim
        }?.cancel()
        changed.signal()
    }

    /// Waits until no call is open, or the time for that is over.
    private func drain() async {
        let end = dependencies.time.steady.addingTimeInterval(Self.grace.inSeconds)
        while true {
            let mark = changed.mark
            let left = end.timeIntervalSince(dependencies.time.steady)
            guard !Task.isCancelled, state.withLock({ $0.inFlight }) > 0, left > 0 else { return }
            await changed.wait(after: mark, atMost: .seconds(clamping: left), dependencies.time)
        }
    }

    /// Ends a pause that no platform asked for; returns whether one ended, and the steady time until which one stays.
    func endOwnPause() -> (hasEnded: Bool, kept: Date?) {
        let now = dependencies.time.steady
        let result = flow.pause.withLock { $0.endOwn(at: now) }
        changed.signal()
        return result
    }

    // MARK: Claiming

    /// Claims the next operations; returns them and a moment before the claim, nil when the worker is to end.
    private func next() async -> (claims: [ClaimedEntry], since: ContinuousClock.Instant)? {
        while true {
            let mark = changed.mark
            switch step() {
            case .stop: return nil
            case .wait(let span): await changed.wait(after: mark, atMost: span, dependencies.time)
            case .claim(let capacity):
                let since = ContinuousClock.now
                let claims = await claim(capacity)
                guard !claims.isEmpty else { continue }
                if isPaused {
                    await write(claims.map { OutboxResult($0, .release) })
                    continue
                }
                state.withLock { $0.inFlight += claims.count }
                return (claims, since)
            }
        }
    }

    private func step() -> Step {
        let now = dependencies.time.steady
        let pause = flow.pause.withLock { $0 }
        return state.withLock { state in
            if state.isStopped || Task.isCancelled { return .stop }
            if let until = pause.until, until > now {
                return .wait(.seconds(clamping: until.timeIntervalSince(now)))
            }
            let capacity = pause.width - state.inFlight
            return capacity > 0 ? .claim(capacity) : .wait(Self.longestWait)
        }
    }

    /// Whether the backend gets nothing now.
    private var isPaused: Bool {
        let now = dependencies.time.steady
        return flow.pause.withLock { $0.until.map { $0 > now } ?? false }
    }

    private func claim(_ capacity: Int) async -> [ClaimedEntry] {
        let mark = changed.mark
        guard dependencies.holdsClaims(.now) else {
            // Claimed entries could not be carried out. A stop after the step ends the wait, one before it is checked
            // here.
            if !state.withLock({ $0.isStopped }) {
                await changed.wait(after: mark, atMost: .milliseconds(100), dependencies.time)
            }
            return []
        }
        // A task, so that a stop or a pause can end the claim; awaited here.
        let task = Task { [dependencies, name] in
            try await dependencies.store.claimEntries(
                of: name,
                limit: capacity,
                lease: Self.lease,
                wait: Self.longestWait
            )
        }
        let isStopped = state.withLock { state in
            state.claim = task
            return state.isStopped
        }
        // A stop or a pause between the step and now did not find this claim.
        if isStopped || isPaused { task.cancel() }
        let result = await withTaskCancellationHandler {
            await task.result
        } onCancel: {
            task.cancel()
        }
        state.withLock { $0.claim = nil }
        switch result {
        case .success(let claims): return claims
        case .failure(let error):
            dependencies.logger.unlessCancelled?.warning(
                "operations cannot be read",
                metadata: ["backend": "\(name)", "error": "\(error)"]
            )
            await changed.wait(after: mark, atMost: .seconds(1), dependencies.time)
            return []
        }
    }

    // MARK: Carrying out

    private func carryOut(_ claim: ClaimedEntry, since: ContinuousClock.Instant) async {
        await attempt(claim, since: since)
        state.withLock { $0.inFlight -= 1 }
        changed.signal()
    }

    private func attempt(_ claim: ClaimedEntry, since: ContinuousClock.Instant) async {
        let answer: Result<OutboxCall.Answer, PushError>
        do throws(PushError) {
            let device = try await device(claim.operation.device)
            guard dependencies.holdsClaims(since) else {
                // Another gateway may own it by now, and may have carried out later entries of the device.
                return await write([OutboxResult(claim, .release)])
            }
            answer = await perform(claim, device, since: since)
            if case .success = answer { await repeatIfOvertaken(claim.operation, device) }
        } catch {
            answer = .failure(error)
        }
        await record(claim, answer, isHeld: dependencies.holdsClaims(since))
    }

    /// Calls the platform; the claim is checked again before each write, as for messages.
    private func perform(
        _ claim: ClaimedEntry,
        _ device: Device?,
        since: ContinuousClock.Instant
    ) async -> Result<OutboxCall.Answer, PushError> {
        let permit = SendPermit { [holdsClaims = dependencies.holdsClaims] in holdsClaims(since) }
        defer { permit.end() }
        return await SendPermit.$current.withValue(permit) {
            do throws(PushError) {
                return .success(try await call.perform(claim, device))
            } catch {
                return .failure(error)
            }
        }
    }

    /// Enqueues a subscription again when its device got another user during the call: the platform may have got the
    /// new user first, and then, by this call, the former user.
    private func repeatIfOvertaken(_ operation: OutboxEntry, _ before: Device?) async {
        guard operation.kind == .subscription, let before, before.user == operation.user else { return }
        do {
            guard let now = try await device(operation.device), now.user != operation.user else { return }
            let again = OutboxEntry(
                backend: operation.backend,
                device: operation.device,
                user: operation.user,
                kind: operation.kind,
                body: operation.body,
                at: operation.at
            )
            try await dependencies.store.enqueue([again])
        } catch {
            dependencies.logger.warning(
                "a subscription was overtaken by a log-out and is not asked for again",
                metadata: ["backend": "\(name)", "device": "\(operation.device)", "error": "\(error)"]
            )
        }
    }

    private func device(_ id: String) async throws(PushError) -> Device? {
        do throws(StoreError) {
            return try await dependencies.store.device(id)
        } catch {
            throw PushError(.unavailable, "The registry cannot be read: \(error)", reason: "registry")
        }
    }

    private func record(_ claim: ClaimedEntry, _ answer: Result<OutboxCall.Answer, PushError>, isHeld: Bool) async {
        let now = dependencies.time.now
        let report: OperationReport
        switch answer {
        case .success(.done(let detail)):
            flow.pause.withLock { $0.recordAnswer() }
            dependencies.outcomes.troubles.works(name)
            report = OperationReport(.done, detail: detail)
        case .success(.moot(let reason)):
            report = OperationReport(.done, reason: reason)
        case .failure(let error):
            // Without the claim the call may have been withheld, which says nothing about the platform.
            let isOver = !isHeld || state.withLock { $0.isStopped }
            // An answer with a time is the platform's own word: the next worker respects it, and so does the next
            // start.
            if Task.isCancelled || isOver && error.isPassing && error.retryAfter == nil {
                return await write([OutboxResult(claim, .release)])
            }
            recordFailure(error)
            report = self.report(claim, error)
        }
        let event = EventJSON.operation(claim, backend: name, report, at: now)
        let ending: OutboxResult.Ending =
            report.pause.map { .retry(at: dependencies.time.steady.addingTimeInterval($0.inSeconds)) } ?? .end
        if case .failure(let error) = answer, error.code == .credentialsRefused, claim.operation.kind == .register {
            await dependencies.markIncomplete(name)
        }
        var result = OutboxResult(claim, ending, event: event)
        result.asksToWait = report.asksToWait
        await write([result])
        dependencies.count(name, claim.operation.kind, report.outcome.rawValue)
        switch (report.outcome, answer) {
        case (.retry, .failure(let error)): dependencies.outcomes.troubles.waits(claim.operation.id, for: error)
        case (.retry, .success): break
        case (.failed, .failure(let error)): dependencies.outcomes.report(claim.operation, .failed(error), at: now)
        default: dependencies.outcomes.report(claim.operation, .done(report.detail), at: now)
        }
    }

    private func report(_ claim: ClaimedEntry, _ error: PushError) -> OperationReport {
        let policy = backend.operationPolicy
        let pause =
            error.isPassing
            ? policy.pause(after: claim.attempt, wish: error.retryAfter, chance: .random(in: 0...1)) : nil
        var report = OperationReport(pause == nil ? .failed : .retry, reason: error.reason ?? error.code.rawValue)
        report.code = error.code.rawValue
        report.message = error.message
        report.pause = pause
        report.asksToWait = policy.honoursRetryAfter && error.retryAfter ?? .zero > .zero
        return report
    }

    private func recordFailure(_ error: PushError) {
        let now = dependencies.time.steady
        guard flow.pause.withLock({ $0.recordFailure(error, at: now) }) else { return }
        dependencies.outcomes.troubles.pauses(name, for: error)
        state.withLock { $0.claim }?.cancel()
        if error.code == .credentialsRefused {
            dependencies.logger.warning(
                "a platform refuses the gateway's credentials",
                metadata: ["backend": "\(name)", "reason": "\(error.message)"]
            )
        }
    }

    /// Writes results; if the store is closed, the lease expires and the next start continues.
    private func write(_ results: [OutboxResult]) async {
        await StoreRetry(time: dependencies.time, logger: dependencies.logger)
            .run("outcome of an outbox entry") { () throws(StoreError) in try await dependencies.store.record(results)
            }
    }
}
