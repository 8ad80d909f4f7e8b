import ChaparCore

/// The backends that a delivery goes through, and the rule for an attempt without an answer.
///
/// It is a value with two interpreters: the gateway's dispatcher, which keeps the step in the store, and
/// ``FallbackBackend`` in memory. Both apply ``PlanRules`` to outcomes.
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
        /// Wait for ``DeliveryPlan/unknownWait`` for the platform's report that it arrived, then go on to the next
        /// backend.
        case wait
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
    /// The longest time ``UnknownRule/wait`` waits for a report from the platform; kept to the millisecond.
    public var unknownWait: Duration
    /// The longest time trouble of an account or a platform is tolerated at each step before the next backend is used.
    ///
    /// Kept to the millisecond. Nil leaves it to the interpreter; the last step has the whole time to live.
    public var fallbackAfter: Duration?
    /// A rule that few plans have, behind a reference so that the others are no larger.
    private var rare: Rare?

    private indirect enum Rare: Sendable, Hashable {
        case escalation(Escalation)
    }

    /// The rule by which later backends take over when no report came; nil for most plans.
    ///
    /// Only the gateway's dispatcher carries it out. In memory the backends that take over are the last of the plan.
    package var escalation: Escalation? {
        get { if case .escalation(let rule)? = rare { rule } else { nil } }
        set { rare = newValue.map { .escalation($0) } }
    }

    /// Makes a plan.
    public init(
        _ backends: [String],
        onUnknown: UnknownRule? = nil,
        unknownWait: Duration = Self.defaultUnknownWait,
        fallbackAfter: Duration? = nil
    ) {
        self.backends = backends
        self.onUnknown = onUnknown
        self.unknownWait = unknownWait
        self.fallbackAfter = fallbackAfter
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
        var text = backends.joined(separator: ">")
        let hasSpans = unknownWait != Self.defaultUnknownWait || fallbackAfter != nil || rare != nil
        if onUnknown != nil || hasSpans { text += "|" + (onUnknown?.rawValue ?? "") }
        if unknownWait != Self.defaultUnknownWait { text += "|wait=\(unknownWait.inMilliseconds)" }
        if let fallbackAfter { text += "|patience=\(fallbackAfter.inMilliseconds)" }
        if let escalation { text += "|escalate=\(escalation.storedForm)" }
        return text
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

    /// Reads ``storedForm``.
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
            if pair[0] == "escalate" {
                escalation = Escalation(storedForm: pair[1])
                continue
            }
            guard let milliseconds = Int64(pair[1]) else { continue }
            switch pair[0] {
            case "wait": unknownWait = .milliseconds(milliseconds)
            case "patience": fallbackAfter = .milliseconds(milliseconds)
            default: continue
            }
        }
    }
}
