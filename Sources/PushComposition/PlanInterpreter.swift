internal import Synchronization
public import PushCore

/// One thing that happened to one recipient on its way through a plan, for logs and tests.
public struct PlanEntry: Sendable, Hashable {
    /// The delivery.
    public var messageID: MessageID
    /// The recipient as the caller named it.
    public var recipient: Recipient
    /// The backend's name.
    public var backend: String
    /// The backend's place in the plan.
    public var step: Int
    /// What happened.
    public var event: PlanEvent
    /// What follows.
    public var verdict: PlanVerdict
}

/// Takes what happens on the way of messages through a plan; called from any thread, must not block.
public typealias PlanObserver = @Sendable (PlanEntry) -> Void

/// Carries batches through a plan in memory: the interpreter behind ``FallbackBackend`` and ``RetryingBackend``.
///
/// The gateway's dispatcher is the other interpreter; both follow ``PlanRules``.
struct PlanInterpreter: Sendable {
    let steps: [NamedBackend]
    let plan: DeliveryPlan
    let rules: PlanRules
    /// How long a batch is tried at most.
    let deadline: Duration
    let resolver: RecipientResolver?
    /// Whether a backend that cannot address a recipient is passed over; otherwise it is asked, and refuses by itself.
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
        let resolved = await ResolvedBatch(requests, resolver: resolver)
        let (wakes, waker) = AsyncStream<Void>.makeStream(bufferingPolicy: .bufferingNewest(1))
        let run = PlanRun(self, requests, resolved, wake: { waker.yield() }, report: report)
        let number = running.add(waker)
        defer { running.remove(number) }
        waker.yield()
        await withDiscardingTaskGroup { tasks in
            for await _ in wakes {
                if running.isClosed { run.endWaits() }
                let work = run.takeWork()
                for (step, jobs) in work.sends { tasks.addTask { await run.send(jobs, at: step) } }
                for jobs in work.polls { tasks.addTask { await run.poll(jobs) } }
                if let timer = work.timer { tasks.addTask { await run.sleep(until: timer) } }
                if work.isOver { break }
            }
            // Over, or this task is cancelled: the sends that are under way report, the timers end.
            tasks.cancelAll()
        }
        run.endWaits(isOver: true)
    }

    /// Ends every wait between attempts; what is on its way still reports.
    func close() { running.close() }
}

/// The sends that are under way, so that a shutdown can end their waits.
private final class RunningPlans: Sendable {
    private struct State {
        var isClosed = false
        var next = 0
        var wakers: [Int: AsyncStream<Void>.Continuation] = [:]
    }

    private let state = Mutex(State())

    var isClosed: Bool { state.withLock { $0.isClosed } }

    func add(_ waker: AsyncStream<Void>.Continuation) -> Int {
        state.withLock { state in
            state.next += 1
            state.wakers[state.next] = waker
            return state.next
        }
    }

    func remove(_ number: Int) { state.withLock { $0.wakers[number] = nil } }

    func close() {
        let wakers = state.withLock { state in
            state.isClosed = true
            return Array(state.wakers.values)
        }
        for waker in wakers { waker.yield() }
    }
}
