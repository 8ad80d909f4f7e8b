internal import Synchronization
public import ChaparCore

/// An event of one recipient on its way through a plan, with its consequence, for logs and tests.
public struct PlanEntry: Sendable, Hashable {
    /// The delivery.
    public var messageID: MessageID
    /// The recipient as the caller named it.
    public var recipient: Recipient
    /// The backend's name.
    public var backend: String
    /// The backend's step of the plan.
    public var step: Int
    /// The event.
    public var event: PlanEvent
    /// The consequence of the event.
    public var verdict: PlanVerdict
}

/// Receives the events of recipients on their way through a plan; called from any thread, must not block.
public typealias PlanObserver = @Sendable (PlanEntry) -> Void

/// Sends batches by the steps of a plan and keeps nothing on disk, for ``FallbackBackend`` and ``RetryingBackend``.
///
/// The gateway's dispatcher does the same with stored messages. Both follow ``PlanRules``.
struct PlanInterpreter: Sendable {
    let steps: [NamedBackend]
    let plan: DeliveryPlan
    let rules: PlanRules
    /// The longest time a batch is tried.
    let deadline: Duration
    let resolver: RecipientResolver?
    /// Whether a backend that cannot address a recipient is skipped; otherwise it is called, and refuses by itself.
    let skipsForeign: Bool
    let time: any TimeSource
    let random: @Sendable () -> Double
    let observe: PlanObserver?
    private let running = RunningPlans()

    init(
        steps: [NamedBackend],
        plan: DeliveryPlan,
        rules: PlanRules,
        deadline: Duration,
        resolver: RecipientResolver? = nil,
        skipsForeign: Bool,
        time: any TimeSource,
        random: @escaping @Sendable () -> Double,
        observe: PlanObserver?
    ) {
        self.steps = steps
        self.plan = plan
        self.rules = rules
        self.deadline = deadline
        self.resolver = resolver
        self.skipsForeign = skipsForeign
        self.time = time
        self.random = random
        self.observe = observe
    }

    func send(_ requests: [PushRequest], report: @escaping @Sendable ([DeliveryReport]) -> Void) async {
        let acceptedAt = time.steady
        let requests = requests.fixingExpiry(at: time.now)
        let resolved = await ResolvedBatch(requests, resolver: resolver)
        let changed = AsyncSignal()
        let run = PlanRun(
            self,
            requests,
            resolved,
            acceptedAt: acceptedAt,
            wake: { changed.signal() },
            report: report
        )
        let number = running.add(changed)
        defer { running.remove(number) }
        await withDiscardingTaskGroup { tasks in
            while true {
                let mark = changed.mark
                if running.isClosed { run.endWaits() }
                let work = run.takeWork()
                for (step, jobs) in work.sends { tasks.addTask { await run.send(jobs, at: step) } }
                for jobs in work.polls { tasks.addTask { await run.poll(jobs) } }
                if let timer = work.timer { tasks.addTask { await run.sleep(until: timer) } }
                if work.isOver { break }
                await changed.wait(after: mark)
                if Task.isCancelled { break }
            }
            // Either all is done, or this task is cancelled: the sends in flight report, the timers end.
            tasks.cancelAll()
        }
        run.endWaits(isOver: true)
    }

    /// Ends every wait between attempts; messages in flight still report.
    func close() { running.close() }
}

/// The sends in progress, so that a shutdown can end their waits.
private final class RunningPlans: Sendable {
    private struct State {
        var isClosed = false
        var next = 0
        var signals: [Int: AsyncSignal] = [:]
    }

    private let state = Mutex(State())

    var isClosed: Bool { state.withLock { $0.isClosed } }

    func add(_ signal: AsyncSignal) -> Int {
        state.withLock { state in
            state.next += 1
            state.signals[state.next] = signal
            return state.next
        }
    }

    func remove(_ number: Int) { state.withLock { $0.signals[number] = nil } }

    func close() {
        let signals = state.withLock { state in
            state.isClosed = true
            return Array(state.signals.values)
        }
        for signal in signals { signal.signal() }
    }
}
