package import PushCore

/// What the dispatcher reports to be counted: metrics in the gateway, nothing in a test.
///
/// Called from event loops with groups of deliveries: it must return at once. Labels are of bounded variety.
package protocol DispatchObserver: Sendable {
    /// Attempts ended alike.
    func attempted(backend: String, app: AppName, kind: BackendKind, outcome: String, reason: String, count: Int)
    /// Answers came so long after their messages were handed to the backend.
    func answered(backend: String, kind: BackendKind, after duration: Duration, count: Int)
    /// A delivery will be tried again in the same worker.
    func retried(backend: String, reason: String)
    /// A delivery went on to another backend.
    func fellBack(from: String, to: String, reason: String)
    /// A platform declared a token dead.
    func invalidatedToken(backend: String, reason: String)
    /// Verdicts that tokens are dead were held back by the guard against mass invalidation.
    func heldInvalidations(backend: String, reason: String, count: Int)
    /// A worker waited for its quota.
    func waitedForQuota(backend: String, _ duration: Duration)
}

/// Counts nothing.
package struct SilentObserver: DispatchObserver {
    /// Makes it.
    package init() {}
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
    /// Does nothing.
    package func retried(backend: String, reason: String) {}
    /// Does nothing.
    package func fellBack(from: String, to: String, reason: String) {}
    /// Does nothing.
    package func invalidatedToken(backend: String, reason: String) {}
    /// Does nothing.
    package func heldInvalidations(backend: String, reason: String, count: Int) {}
    /// Does nothing.
    package func waitedForQuota(backend: String, _ duration: Duration) {}
}
