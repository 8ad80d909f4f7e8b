import ChaparCore

/// The backends that a delivery goes through, and the rules of its retries and of an attempt without an answer.
///
/// It is a value with two interpreters: the gateway's dispatcher, which keeps the step in the store, and
/// ``PlanBackend`` in memory. Both apply the same rules to outcomes.
public struct DeliveryPlan: Sendable, Hashable {
    /// The rule for a message that was sent and got no answer.
    @nonexhaustive
    public enum UnknownRule: String, Sendable, CaseIterable {
        /// Try again, with an id that makes a second copy harmless where the platform has one.
        case retry
        /// Stop; the outcome stays unknown.
        case stop
        /// Go on to the next backend.
        case next
        /// Wait up to ``DeliveryPlan/unknownWait`` for the platform's report that the message arrived; without a report
        /// go on to the next backend.
        case wait
    }

    /// The outcome of a recipient whose message went to several backends at the same time.
    @nonexhaustive
    public enum Need: String, Sendable, CaseIterable {
        /// Accepted when any backend accepted; else unknown when any gave no answer; else the refusal that most allows
        /// a retry.
        case any
        /// Accepted when all accepted; else unknown when any gave no answer; else a refusal.
        ///
        /// When some backends have taken the message, the refusal's advice is never to retry, since these backends
        /// would get the message twice.
        case all
    }

    /// The parts that few plans have: one word where a plan is stored.
    private indirect enum Rare: Sendable, Hashable {
        case values(unknownWait: Duration, retry: RetryPolicy?, escalation: Escalation?)
    }

    /// The default of ``DeliveryPlan/unknownWait``: 30 s.
    public static let defaultUnknownWait = Duration.seconds(30)

    /// The backends' names, in order.
    ///
    /// Never empty.
    public var backends: [String]
    /// The rule after an attempt without an answer; nil leaves it to the backend: stop where a repeat does harm, else
    /// retry.
    public var onUnknown: UnknownRule?
    /// Says that a message goes to all backends, and whether one or all of them must accept it; nil sends to one
    /// backend after the other.
    ///
    /// In a gateway each backend gets a delivery of its own, which ends on its own.
    public var need: Need?
    /// The longest time for which a step retries after a failure of the account or the platform, before the next
    /// backend is used.
    ///
    /// It is kept to the millisecond. With nil the interpreter decides; the last step has the whole time to live.
    public var fallbackAfter: Duration?
    /// Nil where all parts have their defaults.
    private var rare: Rare?

    /// Makes a plan.
    public init(
        _ backends: [String],
        onUnknown: UnknownRule? = nil,
        unknownWait: Duration = Self.defaultUnknownWait,
        fallbackAfter: Duration? = nil
    ) {
        self.backends = backends
        self.onUnknown = onUnknown
        self.fallbackAfter = fallbackAfter
        self.unknownWait = unknownWait
    }

    /// The longest time ``UnknownRule/wait`` waits for a report from the platform; kept to the millisecond.
    public var unknownWait: Duration {
        get { if case .values(let wait, _, _)? = rare { wait } else { Self.defaultUnknownWait } }
        set { keep(newValue, retry, escalation) }
    }

    /// The number of attempts of a delivery and the waits between them; with nil the interpreter decides.
    ///
    /// The waits are kept to the millisecond.
    public var retry: RetryPolicy? {
        get { if case .values(_, let retry, _)? = rare { retry } else { nil } }
        set { keep(unknownWait, newValue, escalation) }
    }

    /// The rule by which later backends take over when no report came; nil for most plans.
    ///
    /// Only the gateway's dispatcher applies it. In memory the backends that would take over are simply the last
    /// backends of the plan.
    package var escalation: Escalation? {
        get { if case .values(_, _, let rule)? = rare { rule } else { nil } }
        set { keep(unknownWait, retry, newValue) }
    }

    private mutating func keep(_ unknownWait: Duration, _ retry: RetryPolicy?, _ escalation: Escalation?) {
        let isUsual = unknownWait == Self.defaultUnknownWait && retry == nil && escalation == nil
        rare = isUsual ? nil : .values(unknownWait: unknownWait, retry: retry, escalation: escalation)
    }

    /// The plans of its deliveries: itself, or one of each backend where a message goes to all of them.
    package var parts: [DeliveryPlan] {
        guard need != nil else { return [self] }
        return backends.map { backend in
            var plan = self
            (plan.backends, plan.need, plan.fallbackAfter) = ([backend], nil, nil)
            return plan
        }
    }

    /// Returns the steps after `step` whose backends `isUsable` accepts, in order: those where a delivery can go on.
    public func laterSteps(after step: Int, where isUsable: (String) -> Bool = { _ in true }) -> [Int] {
        guard step + 1 < backends.count else { return [] }
        return backends.indices.dropFirst(step + 1).filter { isUsable(backends[$0]) }
    }

    /// One line of text that ``init(storedForm:)`` reads.
    ///
    /// Backend names never hold `>` or `|`.
    public var storedForm: String {
        var text = backends.count == 1 ? backends[0] : backends.joined(separator: ">")
        var parts = ""
        if unknownWait != Self.defaultUnknownWait { parts += "|wait=\(unknownWait.inMilliseconds)" }
        if let fallbackAfter { parts += "|patience=\(fallbackAfter.inMilliseconds)" }
        if let need { parts += "|need=\(need.rawValue)" }
        if let retry {
            parts += "|attempts=\(retry.maximumAttempts)|first=\(retry.firstWait.inMilliseconds)"
            parts += "|longest=\(retry.longestWait.inMilliseconds)"
        }
        if let escalation { parts += "|escalate=\(escalation.storedForm)" }
        if onUnknown != nil || !parts.isEmpty { text += "|" + (onUnknown?.rawValue ?? "") }
        return text + parts
    }

    /// Returns the backend of a step, or of the nearest one when the plan has no such step; empty for a plan without
    /// backends.
    package func backend(at step: Int) -> String {
        backends.isEmpty ? "" : backends[min(max(0, step), backends.count - 1)]
    }

    /// Returns the step for a stored number, or the nearest one that the plan has.
    package func step(stored number: some BinaryInteger) -> Int {
        min(Int(count: Int64(clamping: number)), max(0, backends.count - 1))
    }

    /// Reads ``storedForm``; parts that it does not know, of a later version, are left out.
    public init(storedForm text: String) {
        let parts = text.split(separator: "|", omittingEmptySubsequences: false)
        let backends = (parts.first ?? "").split(separator: ">").map(String.init)
        // An empty text, from a damaged store, becomes a plan of a backend that does not exist.
        self.init(backends.isEmpty ? [""] : backends)
        guard parts.count > 1 else { return }
        onUnknown = UnknownRule(rawValue: String(parts[1]))
        for part in parts.dropFirst(2) {
            let pair = part.split(separator: "=", maxSplits: 1)
            guard pair.count == 2 else { continue }
            switch pair[0] {
            case "need": need = Need(rawValue: String(pair[1]))
            case "escalate": escalation = Escalation(storedForm: pair[1])
            default: break
            }
            guard let number = Int64(pair[1]) else { continue }
            switch pair[0] {
            case "wait": unknownWait = .milliseconds(number)
            case "patience": fallbackAfter = .milliseconds(number)
            case "attempts": retry = RetryPolicy(maximumAttempts: max(1, Int(clamping: number)))
            case "first": retry?.firstWait = .milliseconds(max(0, number))
            case "longest": retry?.longestWait = .milliseconds(max(0, number))
            default: continue
            }
        }
    }
}
