package import ChaparCore

/// The receiver of the dispatcher's reports for metrics; the receiver in tests counts nothing.
///
/// Called from event loops with groups of deliveries, so it must return at once. Labels have a bounded number of
/// values.
package protocol DispatchObserver: Sendable {
    /// Counts attempts that ended alike.
    func attempted(backend: String, app: AppName, kind: BackendKind, outcome: String, reason: String, count: Int)
    /// Records the time between handing messages to the backend and its answers.
    func answered(backend: String, kind: BackendKind, after duration: Duration, count: Int)
    /// Returns the histograms of a backend's deliveries; nil where none are kept.
    func times(of backend: String) -> DeliveryTimes?
    /// Counts a delivery that will be retried by the same worker.
    func retried(backend: String, reason: String)
    /// Counts a delivery that went on to another backend.
    func fellBack(from: String, to: String, reason: String)
    /// Counts deliveries that wait for a report before another backend takes over, or for which one did.
    func escalated(backend: String, _ result: EscalationResult, count: Int)
    /// Counts deliveries whose time to live ended while they waited for a backend.
    func expired(backend: String, count: Int)
    /// Counts a token that a platform called dead.
    func invalidatedToken(backend: String, reason: String)
    /// Counts dead-token answers that the guard against mass invalidation quarantined.
    func quarantinedInvalidations(backend: String, reason: String, count: Int)
    /// Records a worker's wait for its quota.
    func waitedForQuota(backend: String, _ duration: Duration)
}

/// The result for deliveries for which backends take over when no report came in time.
package enum EscalationResult: String, Sendable, CaseIterable {
    /// The backend took the message, and it waits for a report.
    case awaited
    /// The backend took over.
    case sent
    /// The backend would have taken over, and the limit of the day was reached.
    case limited
}

/// An observer that counts nothing.
package struct SilentObserver: DispatchObserver {
    /// Makes an observer.
    init() {}
    /// Does nothing.
    package func attempted(
        backend: String,
        app: AppName,
        kind: BackendKind,
        outcome: String,
        reason: String,
        count: Int
    ) {}
    /// Does nothing.
    package func answered(backend: String, kind: BackendKind, after duration: Duration, count: Int) {}
    /// Returns nil.
    package func times(of backend: String) -> DeliveryTimes? { nil }
    /// Does nothing.
    package func retried(backend: String, reason: String) {}
    /// Does nothing.
    package func fellBack(from: String, to: String, reason: String) {}
    /// Does nothing.
    package func escalated(backend: String, _ result: EscalationResult, count: Int) {}
    /// Does nothing.
    package func expired(backend: String, count: Int) {}
    /// Does nothing.
    package func invalidatedToken(backend: String, reason: String) {}
    /// Does nothing.
    package func quarantinedInvalidations(backend: String, reason: String, count: Int) {}
    /// Does nothing.
    package func waitedForQuota(backend: String, _ duration: Duration) {}
}
