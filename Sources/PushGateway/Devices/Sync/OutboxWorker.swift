internal import Foundation
internal import Logging
internal import PushCore
internal import PushQueue
internal import Synchronization

/// Carries out the operations of one backend: claims what there is room for, asks the platform, writes what became of it.
///
/// Operations of one device follow each other, since the store gives out only the oldest; those of different devices are
/// under way at the same time, up to ``OutboxPause/widest``.
final class OutboxWorker: Sendable {
    /// What a lane needs of the gateway.
    struct Dependencies: Sendable {
        let store: any OutboxStore & DeviceStore
        let outcomes: OutboxOutcomes
        let time: any TimeSource
        let logger: Logger
        /// Counts an attempt: backend, kind, outcome.
        let count: @Sendable (String, OutboxEntry.Kind, String) -> Void
        /// A registration at a backend was lost to refused credentials.
        let doubt: @Sendable (String) async -> Void
    }

    /// Longer than a call's deadline, so that no operation under way is taken by another.
    static let lease = OutboxCall.deadline + .seconds(60)
    /// How long one look for work may last; a stop ends it at once.
    private static let patience = Duration.seconds(30)
    /// How long calls under way get when the lane is to end.
    private static let grace = Duration.seconds(5)

    private enum Step {
        case stop
        case wait(Duration)
        case claim(Int)
    }

    private struct State {
        var isStopped = false
        var inFlight = 0
        var pause = OutboxPause()
        var look: Task<[ClaimedEntry], any Error>?
    }

    let name: String
    private let backend: any PushBackend
    private let call: OutboxCall
    private let around: Dependencies
    private let state = Mutex(State())
    private let nap = AsyncSignal()

    init(_ configured: BackendRegistry.ConfiguredBackend, priority: [TokenService], _ around: Dependencies) {
        name = configured.name
        backend = configured.backend
        call = OutboxCall(backend: configured.backend, priority: priority, time: around.time)
        self.around = around
    }

    /// Whether a backend has a use for a lane.
    static func isWanted(for backend: any PushBackend) -> Bool {
        backend.devices != nil || backend.subscriptions != nil || backend.tags != nil || backend.events != nil
    }

    /// Works until ``stop()``; what is under way then gets a few seconds.
    func run() async {
        await withDiscardingTaskGroup { group in
            while let claims = await next() {
                for claim in claims { group.addTask { await self.carryOut(claim) } }
            }
            await settleDown()
            group.cancelAll()
        }
    }

    /// Claims nothing more.
    func stop() {
        state.withLock { state in
            state.isStopped = true
            return state.look
        }?.cancel()
        nap.wake()
    }

    /// Waits until nothing is under way, or the time for that is over.
    private func settleDown() async {
        let end = around.time.steady.addingTimeInterval(Self.grace.inSeconds)
        while !Task.isCancelled, state.withLock({ $0.inFlight }) > 0, around.time.steady < end {
            await nap.rest(.seconds(clamping: max(0, end.timeIntervalSince(around.time.steady))), around.time)
        }
    }

    // MARK: Claiming

    /// The next operations; nil when the lane is to end.
    private func next() async -> [ClaimedEntry]? {
        while true {
            switch step() {
            case .stop: return nil
            case .wait(let span): await nap.rest(span, around.time)
            case .claim(let room):
                let claims = await look(room)
                guard !claims.isEmpty else { continue }
                state.withLock { $0.inFlight += claims.count }
                return claims
            }
        }
    }

    private func step() -> Step {
        let now = around.time.steady
        return state.withLock { state in
            if state.isStopped || Task.isCancelled { return .stop }
            if let until = state.pause.until, until > now {
                return .wait(.seconds(clamping: until.timeIntervalSince(now)))
            }
            let room = state.pause.width - state.inFlight
            return room > 0 ? .claim(room) : .wait(Self.patience)
        }
    }

    private func look(_ room: Int) async -> [ClaimedEntry] {
        // A task, so that a stop or a pause can end the look; awaited here.
        let look = Task { [around, name] in
            try await around.store.claimEntries(
                of: name,
                limit: room,
                lease: Self.lease,
                wait: Self.patience
            )
        }
        let isStopped = state.withLock { state in
            state.look = look
            return state.isStopped
        }
        if isStopped { look.cancel() }
        let result = await withTaskCancellationHandler {
            await look.result
        } onCancel: {
            look.cancel()
        }
        state.withLock { $0.look = nil }
        switch result {
        case .success(let claims): return claims
        case .failure(let error):
            around.logger.warning("operations cannot be read", metadata: ["backend": "\(name)", "error": "\(error)"])
            await nap.rest(.seconds(1), around.time)
            return []
        }
    }

    // MARK: Carrying out

    private func carryOut(_ claim: ClaimedEntry) async {
        let answer: Result<OutboxCall.Answer, PushError>
        do throws(PushError) {
            let device = try await device(claim.operation.device)
            answer = .success(try await call.perform(claim, device))
            await repeatIfOvertaken(claim.operation, device)
        } catch {
            answer = .failure(error)
        }
        await settle(claim, answer)
        state.withLock { $0.inFlight -= 1 }
        nap.wake()
    }

    /// A subscription is asked for once more when its device went over to somebody else meanwhile: the platform may have heard
    /// of the new user first, and is now told that the user is a former one.
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
            try await around.store.enqueue([again])
        } catch {
            around.logger.warning(
                "a subscription was overtaken by a log-out and is not asked for again",
                metadata: ["backend": "\(name)", "device": "\(operation.device)", "error": "\(error)"]
            )
        }
    }

    private func device(_ id: String) async throws(PushError) -> Device? {
        do throws(StoreError) {
            return try await around.store.device(id)
        } catch {
            throw PushError(.unavailable, "The registry cannot be read: \(error)", reason: "registry")
        }
    }

    private func settle(_ claim: ClaimedEntry, _ answer: Result<OutboxCall.Answer, PushError>) async {
        let now = around.time.now
        let report: OperationReport
        switch answer {
        case .success(.done(let detail)):
            state.withLock { $0.pause.noteAnswer() }
            report = OperationReport(.done, detail: detail)
        case .success(.moot(let reason)):
            report = OperationReport(.done, reason: reason)
        case .failure(let error):
            let isStopped = state.withLock { $0.isStopped }
            if Task.isCancelled || isStopped && error.isPassing {
                return await write(OutboxResult(claim, .release))
            }
            noteFailure(error)
            report = self.report(claim, error)
        }
        let event = EventJSON.operation(claim, backend: name, report, at: now)
        let ending: OutboxResult.Ending =
            report.pause.map { .retry(at: around.time.steady.addingTimeInterval($0.inSeconds)) } ?? .end
        if case .failure(let error) = answer, error.code == .credentialsRefused, claim.operation.kind == .register {
            await around.doubt(name)
        }
        await write(OutboxResult(claim, ending, event: event))
        around.count(name, claim.operation.kind, report.outcome.rawValue)
        switch (report.outcome, answer) {
        case (.retry, _): break
        case (.failed, .failure(let error)): around.outcomes.note(claim.operation.id, .failed(error))
        default: around.outcomes.note(claim.operation.id, .done(report.detail))
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
        return report
    }

    private func noteFailure(_ error: PushError) {
        let now = around.time.steady
        let (isPaused, look) = state.withLock { state in (state.pause.note(error, at: now), state.look) }
        guard isPaused else { return }
        look?.cancel()
        if error.code == .credentialsRefused {
            around.logger.warning(
                "a platform refuses the gateway's credentials",
                metadata: ["backend": "\(name)", "reason": "\(error.message)"]
            )
        }
    }

    /// Writes a result, again and again until it works; after a closed store the lease lapses and the next start goes on.
    private func write(_ result: OutboxResult) async {
        var pause = Duration.milliseconds(50)
        while true {
            do throws(StoreError) {
                return try await around.store.record([result])
            } catch {
                guard error != .closed, (try? await around.time.sleep(for: pause)) != nil else { return }
                around.logger.error("an operation's outcome was not written", metadata: ["error": "\(error)"])
                pause = min(pause * 2, .seconds(1))
            }
        }
    }
}

/// How an attempt at an operation ended, as events tell it.
struct OperationReport: Sendable {
    /// What it came to.
    enum Outcome: String, Sendable {
        case done, retry, failed
    }

    var outcome: Outcome
    var reason: String?
    var code: String?
    var message: String?
    /// How long it waits for the next attempt; nil when there is none.
    var pause: Duration?
    var detail: JSONObject

    init(_ outcome: Outcome, reason: String? = nil, detail: JSONObject = JSONObject()) {
        self.outcome = outcome
        self.reason = reason
        self.detail = detail
    }
}
