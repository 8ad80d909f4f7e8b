/// Which backends a delivery goes through, and what is done after an attempt without an answer.
public struct DeliveryPlan: Sendable, Hashable {
    /// What is done when a message was sent and no answer came.
    public enum UnknownRule: String, Sendable, CaseIterable {
        /// Try again, with what makes a second copy harmless where the platform knows such a thing.
        case retry
        /// Stop; the outcome stays unknown.
        case stop
        /// Go on to the next backend.
        case next
    }

    /// The backends' names, in order.
    ///
    /// Never empty.
    public var backends: [String]
    /// What is done when no answer came; nil leaves it to the backend: stop where a repeat does harm, else retry.
    public var onUnknown: UnknownRule?

    /// Makes a plan.
    public init(_ backends: [String], onUnknown: UnknownRule? = nil) {
        self.backends = backends
        self.onUnknown = onUnknown
    }

    /// One line of text that ``init(storedForm:)`` reads back.
    ///
    /// Backend names never hold `>` or `|`.
    public var storedForm: String {
        backends.joined(separator: ">") + (onUnknown.map { "|" + $0.rawValue } ?? "")
    }

    /// Reads ``storedForm``.
    public init(storedForm text: String) {
        let parts = text.split(separator: "|", maxSplits: 1)
        backends = (parts.first ?? "").split(separator: ">").map(String.init)
        onUnknown = parts.count > 1 ? UnknownRule(rawValue: String(parts[1])) : nil
    }
}
