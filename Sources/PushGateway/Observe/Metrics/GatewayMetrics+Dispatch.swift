package import PushCore

/// What the dispatcher reports, counted.
extension GatewayMetrics: DispatchObserver {
    /// Attempts ended alike.
    package func attempted(
        backend: String,
        app: AppName,
        kind: BackendKind,
        outcome: String,
        reason: String,
        count: Int
    ) {
        self.count(
            .deliveries,
            [backend, app.rawValue, kind.rawValue, outcome, reason],
            count
        )
    }

    /// Answers came so long after their messages were handed to the backend.
    package func answered(backend: String, kind: BackendKind, after duration: Duration, count: Int) {
        self.duration(
            .sendDuration,
            [backend, kind.rawValue],
            duration.inSeconds,
            count
        )
    }

    /// A delivery will be tried again in the same worker.
    package func retried(backend: String, reason: String) {
        count(
            .retries,
            [backend, reason],
            1
        )
    }

    /// A delivery went on to another backend.
    package func fellBack(from: String, to: String, reason: String) {
        count(
            .fallbacks,
            [from, to, reason],
            1
        )
    }

    /// A platform declared a token dead.
    package func invalidatedToken(backend: String, reason: String) {
        count(
            .tokensInvalidated,
            [backend, reason],
            1
        )
    }

    /// Verdicts were held back by the guard against mass invalidation.
    package func heldInvalidations(backend: String, reason: String, count amount: Int) {
        count(
            .invalidationsHeld,
            [backend, reason],
            amount
        )
    }

    /// An attempt at a call about a device ended.
    func operated(backend: String, kind: String, outcome: String) {
        count(
            .operations,
            [backend, kind, outcome],
            1
        )
    }

    /// Notices of backends were lost, because too many came or the store failed.
    func droppedNotices(_ amount: Int) {
        count(
            .noticesDropped,
            [],
            amount
        )
    }

    /// A worker waited for its quota.
    package func waitedForQuota(backend: String, _ span: Duration) {
        duration(
            .quotaWait,
            [backend],
            span.inSeconds,
            1
        )
    }
}
