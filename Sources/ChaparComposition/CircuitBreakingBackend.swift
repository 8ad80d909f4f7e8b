internal import Foundation
internal import Synchronization
public import ChaparCore

/// A wrapper that stops using a failing backend for a while, so that callers get an answer at once instead of waiting
/// for a deadline each time.
///
/// While the breaker is open, every message is refused with `breaker_open` and the advice to retry at the time of the
/// next probe. Outcomes that say nothing about the platform do not count as failures: a dead token does not, since the
/// platform works.
public struct CircuitBreakingBackend: BackendWrapper {
    /// The wrapped backend.
    public let wrapped: any PushBackend
    private let core: Core
    private let time: any TimeSource
    private let observe: (@Sendable (Breaker.Change) -> Void)?

    /// The state that all copies of the value share.
    private final class Core: Sendable {
        let breaker: Mutex<Breaker>
        init(_ settings: Breaker.Settings) { breaker = Mutex(Breaker(settings)) }
    }

    /// Wraps a backend.
    ///
    /// - Parameters:
    ///   - wrapped: The backend to wrap.
    ///   - settings: When it opens and for how long.
    ///   - observe: Called with every opening and closing, with steady times; called from any thread, must not block.
    public init(
        _ wrapped: any PushBackend,
        settings: Breaker.Settings = Breaker.Settings(),
        observe: (@Sendable (Breaker.Change) -> Void)? = nil
    ) {
        self.init(
            wrapped,
            settings: settings,
            time: SystemTime(),
            observe: observe
        )
    }

    /// Does the same with a clock of its own, for tests.
    package init(
        _ wrapped: any PushBackend,
        settings: Breaker.Settings = Breaker.Settings(),
        time: any TimeSource,
        observe: (@Sendable (Breaker.Change) -> Void)? = nil
    ) {
        self.wrapped = wrapped
        self.time = time
        self.observe = observe
        core = Core(settings)
    }

    /// The state of the breaker.
    ///
    /// Its times are ``ChaparCore/TimeSource/steady`` times of the clock.
    public var state: Breaker.State { core.breaker.withLock { $0.state } }

    /// Sends the messages that the breaker allows and refuses the rest.
    ///
    /// A probe is a single message, whose outcome closes the breaker or opens it again.
    public func send(_ requests: [PushRequest], report: @escaping @Sendable ([DeliveryReport]) -> Void) async {
        let requests = requests.fixingExpiry(at: time.now)  // Messages wait for the answer to a probe.
        var rest = BatchIndex.all(in: requests)[...]
        while let first = rest.first {
            switch core.breaker.withLock({ $0.admit(at: time.steady) }) {
            case .pass:
                await pass(SubBatch(rest, of: requests), report)
                rest = []
            case .probe:
                await pass(SubBatch(CollectionOfOne(first), of: requests), report)
                core.breaker.withLock { breaker in
                    if case .halfOpen = breaker.state { breaker.abandonProbe() }  // Its answer showed nothing.
                }
                rest = rest.dropFirst()
            case .refuse(let until, let reason):
                let span = max(0, until.timeIntervalSince(time.steady))
                let refusal = Refusal(
                    .platform,
                    reason: GatewayReason.breakerOpen,
                    detail: "not sent, since the backend fails (\(reason))",
                    advice: .retry(after: .milliseconds(clamping: (span * 1000).rounded(.up)))
                )
                report(rest.map { $0.report(.refused(refusal)) })
                rest = []
            }
        }
    }

    /// The wrapped backend's health; down while the breaker is open.
    public var health: BackendHealth {
        var health = wrapped.health
        let (status, reason): (BackendHealth.Status, String)
        switch state {
        case .closed: return health
        case .open(_, let why): (status, reason) = (.down, why)
        case .halfOpen(_, let why): (status, reason) = (.degraded, why)
        }
        if health.status != .down { health.status = status }
        health.detail = "the breaker is open: \(reason)" + (health.detail.map { "; " + $0 } ?? "")
        return health
    }

    private func pass(_ batch: SubBatch, _ report: @escaping @Sendable ([DeliveryReport]) -> Void) async {
        await batch.send(through: wrapped) { answers in
            let now = time.steady
            let signals = answers.map(\.outcome.signal)
            let changes = core.breaker.withLock { $0.record(signals, wrapped.batching, at: now) }
            report(answers.map { $0.index.report($0.outcome) })
            if let observe { changes.forEach(observe) }
        }
    }
}

extension Breaker {
    /// Records the signals of a group of answers; failed messages count as the smallest number of requests that they
    /// can have been sent in.
    fileprivate mutating func record(
        _ signals: [BackendSignal],
        _ batching: RequestBatching?,
        at now: Date
    ) -> [Change] {
        guard let limit = batching?.limit else { return signals.compactMap { record($0, at: now) } }
        var changes: [Change] = []
        var failures: (reason: String, messages: Int)?
        for signal in signals {
            if case .fails(let reason) = signal {
                failures = (failures?.reason ?? reason, (failures?.messages ?? 0) + 1)
            } else if let change = record(signal, at: now) {
                changes.append(change)
            }
        }
        if let (reason, messages) = failures {
            let requests = 1 + (messages - 1) / limit
            if let change = record(failure: reason, messages: messages, requests: requests, at: now) {
                changes.append(change)
            }
        }
        return changes
    }
}
