internal import Foundation
internal import Synchronization
import ChaparCore

/// The state of one batch on its way through a plan: the steps, waits and reports of its recipients.
///
/// Every recipient is reported exactly once: by the verdict that ends its delivery, or by ``endWaits()`` when no
/// further attempt is made.
final class PlanRun: Sendable {
    private struct Job {
        let index: BatchIndex
        let addressee: Addressee
        /// The recipient that each step addresses; nil where it cannot.
        let addresses: [Recipient?]
        let expiresAt: Date
        let isNowOrNever: Bool
        var step = 0
        var attempts = 0
        /// The last attempt without an answer.
        var silence: UnknownOutcome?
        var last: DeliveryOutcome?
        /// Set while a report of the platform is awaited.
        var heldUntil: Date?
        var isReported = false
    }

    private struct State {
        var jobs: [Job] = []
        var open = 0
        /// Jobs to send, by step.
        var ready: [Int: [Int]] = [:]
        var waiting: [(due: Date, job: Int)] = []
        var timer: Date?
    }

    /// The work that the loop has to start.
    struct Work {
        var sends: [(step: Int, jobs: [Int])]
        /// In several parts, so that one slow tracker does not hold up all of them.
        var polls: [[Int]]
        var timer: Date?
        var isOver: Bool
    }

    private static let pollWidth = 8
    /// In real time, not by the plan's clock: it guards against a tracker that hangs.
    private static let pollDeadline = Duration.seconds(10)

    private let plan: PlanInterpreter
    private let requests: [PushRequest]
    private let resolved: ResolvedBatch
    private let startedAt: Date
    private let wake: @Sendable () -> Void
    private let report: @Sendable ([DeliveryReport]) -> Void
    private let state: Mutex<State>

    init(
        _ plan: PlanInterpreter,
        _ requests: [PushRequest],
        _ resolved: ResolvedBatch,
        acceptedAt: Date,
        wake: @escaping @Sendable () -> Void,
        report: @escaping @Sendable ([DeliveryReport]) -> Void
    ) {
        self.plan = plan
        self.requests = requests
        self.resolved = resolved
        self.wake = wake
        self.report = report
        let now = plan.time.steady
        startedAt = now
        let audiences = plan.steps.map(\.backend.audience)
        var jobs: [Job] = []
        for (row, request) in requests.enumerated() {
            var end = now.addingTimeInterval(plan.deadline.inSeconds)
            let isNowOrNever = request.expiration == .immediately
            if !isNowOrNever, let last = request.end(at: acceptedAt, plan.time) { end = min(end, last) }
            let uses = plan.steps.map { $0.backend.tokenUse(of: request.notification) }
            for (column, addressee) in request.recipients.enumerated() {
                jobs.append(
                    Job(
                        index: BatchIndex(request: row, recipient: column),
                        addressee: resolved.localized(addressee),
                        addresses: zip(audiences, uses).map { audience, use in
                            resolved.address(addressee.recipient, for: audience, use)
                                ?? (plan.skipsForeign ? nil : addressee.recipient)
                        },
                        expiresAt: end,
                        isNowOrNever: isNowOrNever
                    )
                )
            }
        }
        let first = jobs.indices.filter { jobs[$0].addresses.first.flatMap { $0 } != nil }
        state = Mutex(State(jobs: jobs, open: jobs.count, ready: [0: first]))
        if first.count < jobs.count { skip(Set(jobs.indices).subtracting(first).sorted()) }
    }

    // MARK: The loop's side

    /// Returns the work that can be started now.
    func takeWork() -> Work {
        let now = plan.time.steady
        return state.withLock { state in
            var polls: [Int] = []
            state.waiting.removeAll { entry in
                guard entry.due <= now else { return false }
                if state.jobs[entry.job].heldUntil == nil {
                    state.ready[state.jobs[entry.job].step, default: []].append(entry.job)
                } else {
                    polls.append(entry.job)
                }
                return true
            }
            var work = Work(sends: [], polls: [], timer: nil, isOver: state.open == 0)
            work.sends = state.ready.filter { !$0.value.isEmpty }.map { ($0.key, $0.value) }
            state.ready = [:]
            let share = max(1, (polls.count + Self.pollWidth - 1) / Self.pollWidth)
            work.polls = stride(from: 0, to: polls.count, by: share).map {
                Array(polls[$0..<min($0 + share, polls.count)])
            }
            if let due = state.waiting.lazy.map(\.due).min(), due < state.timer ?? .distantFuture {
                state.timer = due
                work.timer = due
            }
            return work
        }
    }

    /// Wakes the loop at this time.
    func sleep(until time: Date) async {
        let span = max(0.001, time.timeIntervalSince(plan.time.steady))
        try? await plan.time.sleep(for: .seconds(clamping: span))  // Cancelled once no job waits any more.
        state.withLock { state in
            if state.timer == time { state.timer = nil }
        }
        wake()
    }

    /// Sends jobs through the backend of a step.
    func send(_ jobs: [Int], at step: Int) async {
        var batch = SubBatch()
        var numbers: [BatchIndex: Int] = [:]
        state.withLock { state in
            for number in jobs {
                let job = state.jobs[number]
                guard let address = job.addresses[step] else { continue }
                var addressee = job.addressee
                addressee.recipient = address
                addressee.isReplay = addressee.isReplay || job.silence != nil
                batch.add(addressee, at: job.index, of: requests)
                numbers[job.index] = number
            }
        }
        await batch.send(through: plan.steps[step].backend) { [numbers] answers in
            self.handle(
                answers.compactMap { answer in numbers[answer.index].map { ($0, .answered(answer.outcome)) } }
            )
        }
    }

    /// Asks the trackers for the state of jobs without an answer.
    func poll(_ jobs: [Int]) async {
        for number in jobs {
            let job = state.withLock { $0.jobs[number] }
            var known: DeliveryState?
            if let tracker = plan.steps[job.step].backend.tracking {
                let id = job.silence?.platformID ?? job.addressee.messageID.description
                let answer = try? await Deadline.run(Self.pollDeadline) { try await tracker.state(of: id) }
                known = answer ?? nil
            }
            let now = plan.time.steady
            if known?.isFinal ?? false {
                handle([(number, .waited(known))])
            } else if now >= job.heldUntil ?? now {
                handle([(number, .waited(nil))])
            } else {
                state.withLock { state in
                    guard !state.jobs[number].isReported else { return }
                    state.waiting.append((nextPoll(until: job.heldUntil ?? now, at: now), number))
                }
                wake()
            }
        }
    }

    /// Reports the jobs that wait for another attempt, each with its last outcome: no further attempt is made for them.
    ///
    /// - Parameter isOver: Whether nothing is in flight any more, so that every unreported job is waiting.
    func endWaits(isOver: Bool = false) {
        let last = state.withLock { state -> [DeliveryReport] in
            var numbers = state.waiting.map(\.job)
            numbers += state.ready.values.flatMap { $0 }
            if isOver { numbers = Array(state.jobs.indices) }
            state.waiting = []
            state.ready = [:]
            return numbers.compactMap { number in
                guard !state.jobs[number].isReported else { return nil }
                state.jobs[number].isReported = true
                state.open -= 1
                let job = state.jobs[number]
                let cancelled = Refusal(.platform, reason: GatewayReason.cancelled, advice: .retry(after: nil))
                let outcome = job.silence.map { DeliveryOutcome.unknown($0) } ?? job.last ?? .refused(cancelled)
                return job.index.report(outcome)
            }
        }
        if !last.isEmpty { report(last) }
        wake()
    }

    // MARK: Jobs

    private func skip(_ jobs: [Int]) {
        let reason = state.withLock { state in jobs.map { resolved.refusal(of: state.jobs[$0].addressee.recipient) } }
        handle(zip(jobs, reason).map { ($0, .skipped(reason: $1.reason)) })
    }

    /// Decides what happens next, reports the jobs that have ended, and wakes the loop for the rest.
    private func handle(_ events: [(job: Int, event: PlanEvent)]) {
        let now = plan.time.steady
        var reports: [DeliveryReport] = []
        var entries: [PlanEntry] = []
        state.withLock { state in
            for (number, event) in events where !state.jobs[number].isReported {
                let verdict = decide(state.jobs[number], event, at: now)
                if let entry = entry(state.jobs[number], event, verdict) { entries.append(entry) }
                if case .answered(let outcome) = event {
                    state.jobs[number].attempts += 1
                    state.jobs[number].last = outcome
                    if case .unknown(let silence) = outcome { state.jobs[number].silence = silence }
                }
                state.jobs[number].heldUntil = nil
                switch verdict.move {
                case .retry(let time):
                    state.waiting.append((time, number))
                case .next(let step):
                    state.jobs[number].step = step
                    state.ready[step, default: []].append(number)
                case .hold(let end):
                    state.jobs[number].heldUntil = end
                    state.waiting.append((nextPoll(until: end, at: now), number))
                case .end(let final):
                    state.jobs[number].isReported = true
                    state.open -= 1
                    reports.append(state.jobs[number].index.report(outcome(state.jobs[number], event, final)))
                }
            }
        }
        if let observe = plan.observe { entries.forEach(observe) }
        if !reports.isEmpty { report(reports) }
        wake()
    }

    private func decide(_ job: Job, _ event: PlanEvent, at now: Date) -> PlanVerdict {
        var position = PlanPosition(
            plan.plan,
            step: job.step,
            attempts: job.attempts,
            startedAt: startedAt,
            expiresAt: job.expiresAt,
            mayHaveBeenSent: job.silence != nil
        )
        position.nextStep = nextStep(job, event)
        position.isNowOrNever = job.isNowOrNever
        return plan.rules.decide(position, event, at: now, random: plan.random())
    }

    /// Returns the next step that can address the recipient: never with a token that is dead for certain, and in the
    /// other environment only after the token was refused.
    private func nextStep(_ job: Job, _ event: PlanEvent) -> Int? {
        var invalidation: Refusal.Invalidation?
        if case .answered(.refused(let refusal)) = event { invalidation = refusal.invalidation }
        let later = plan.plan.laterSteps(after: job.step).filter { job.addresses[$0] != nil }
        guard plan.steps.indices.contains(job.step) else { return later.first }
        let (here, address) = (plan.steps[job.step].backend.audience, job.addresses[job.step])
        return later.first { step in
            if invalidation?.isCertain == true, job.addresses[step] == address { return false }
            return invalidation != nil || !plan.steps[step].backend.audience.isOtherEnvironment(of: here)
        }
    }

    private func entry(_ job: Job, _ event: PlanEvent, _ verdict: PlanVerdict) -> PlanEntry? {
        guard plan.observe != nil, plan.steps.indices.contains(job.step) else { return nil }
        return PlanEntry(
            messageID: job.addressee.messageID,
            recipient: job.addressee.recipient,
            backend: plan.steps[job.step].name,
            step: job.step,
            event: event,
            verdict: verdict
        )
    }

    /// Returns the outcome that reports a final state.
    private func outcome(_ job: Job, _ event: PlanEvent, _ final: DeliveryState) -> DeliveryOutcome {
        switch (final, event) {
        case (.unknown, _):
            return .unknown(job.silence ?? UnknownOutcome(reason: "not_reported"))
        case (.acceptedByPlatform, .waited), (.delivered, .waited), (.opened, .waited):
            return .accepted(Acceptance(platformID: job.silence?.platformID))
        case (_, .waited):
            return .refused(Refusal(.platform, reason: GatewayReason.failedLater, advice: .never))
        case (_, .answered(let outcome)):
            return outcome
        case (_, .skipped):
            return job.last ?? .refused(resolved.refusal(of: job.addressee.recipient))
        }
    }

    /// Returns the time of the next poll: after a tenth of the wait, but at least 0.5 s and at most 5 s.
    private func nextPoll(until end: Date, at now: Date) -> Date {
        let pace = min(5, max(0.5, plan.plan.unknownWait.inSeconds / 10))
        return min(end, now.addingTimeInterval(pace))
    }
}
