import PushCore

/// Which backends a delivery goes through, and what is done after an attempt without an answer.
///
/// A value with two interpreters: the gateway's dispatcher, with the step of the plan in the store, and
/// ``FallbackBackend`` in memory. What an outcome means for a plan is ``PlanRules``, for both.
public struct DeliveryPlan: Sendable, Hashable {
    /// What is done when a message was sent and no answer came.
    @nonexhaustive
    public enum UnknownRule: String, Sendable, CaseIterable {
        /// Try again, with what makes a second copy harmless where the platform knows such a thing.
        case retry
        /// Stop; the outcome stays unknown.
        case stop
        /// Go on to the next backend.
        case next
        /// Wait for ``DeliveryPlan/unknownWait`` for a status from the platform that it arrived, then go on to the next
        /// backend.
        case wait
    }

    /// How long ``UnknownRule/wait`` waits unless the plan says otherwise: 30 s.
    public static let defaultUnknownWait = Duration.seconds(30)

    /// The backends' names, in order.
    ///
    /// Never empty.
    public var backends: [String]
    /// What is done when no answer came; nil leaves it to the backend: stop where a repeat does harm, else retry.
    public var onUnknown: UnknownRule?
    /// How long ``UnknownRule/wait`` waits for a status from the platform; kept to the millisecond.
    public var unknownWait: Duration
    /// How long trouble of an account or a platform is borne at each step before the next backend gets its turn.
    ///
    /// Kept to the millisecond. Nil leaves it to the interpreter; the last step has the whole time to live.
    public var fallbackDelay: Duration?

    /// Makes a plan.
    public init(
        _ backends: [String],
        onUnknown: UnknownRule? = nil,
        unknownWait: Duration = Self.defaultUnknownWait,
        fallbackDelay: Duration? = nil
    ) {
        self.backends = backends
        self.onUnknown = onUnknown
        self.unknownWait = unknownWait
        self.fallbackDelay = fallbackDelay
    }

    /// The steps after one whose backends `isUsable` accepts, in order: where a delivery can go on.
    public func laterSteps(after step: Int, where isUsable: (String) -> Bool = { _ in true }) -> [Int] {
        guard step + 1 < backends.count else { return [] }
        return backends.indices.dropFirst(step + 1).filter { isUsable(backends[$0]) }
    }

    /// One line of text that ``init(storedForm:)`` reads back.
    ///
    /// Backend names never hold `>` or `|`.
    public var storedForm: String {
        var text = backends.joined(separator: ">")
        let hasSpans = unknownWait != Self.defaultUnknownWait || fallbackDelay != nil
        if onUnknown != nil || hasSpans { text += "|" + (onUnknown?.rawValue ?? "") }
        if unknownWait != Self.defaultUnknownWait { text += "|wait=\(unknownWait.inMilliseconds)" }
        if let fallbackDelay { text += "|patience=\(fallbackDelay.inMilliseconds)" }
        return text
    }

    /// The backend of a step; of one that the plan does not have the nearest, and without a name for a plan without
    /// backends.
    package func backend(at step: Int) -> String {
        backends.isEmpty ? "" : backends[min(max(0, step), backends.count - 1)]
    }

    /// The step that a store has as a number; of one that the plan does not have the nearest.
    package func step(stored number: some BinaryInteger) -> Int {
        min(Int(count: Int64(clamping: number)), max(0, backends.count - 1))
    }

    /// Reads ``storedForm``.
    public init(storedForm text: String) {
        let parts = text.split(separator: "|", omittingEmptySubsequences: false)
        let backends = (parts.first ?? "").split(separator: ">").map(String.init)
        // A text that a damaged store has lost is the plan of a backend that there is not.
        self.init(backends.isEmpty ? [""] : backends)
        guard parts.count > 1 else { return }
        onUnknown = UnknownRule(rawValue: String(parts[1]))
        for part in parts.dropFirst(2) {
            let pair = part.split(separator: "=", maxSplits: 1)
            guard pair.count == 2, let milliseconds = Int64(pair[1]) else { continue }
            switch pair[0] {
            case "wait": unknownWait = .milliseconds(milliseconds)
            case "patience": fallbackDelay = .milliseconds(milliseconds)
            default: continue
            }
        }
    }
}

extension DeliveryPlan {
    /// The former name of ``fallbackDelay``.
    @available(*, deprecated, renamed: "fallbackDelay")
    public var patience: Duration? {
        get { fallbackDelay }
        set { fallbackDelay = newValue }
    }
}
