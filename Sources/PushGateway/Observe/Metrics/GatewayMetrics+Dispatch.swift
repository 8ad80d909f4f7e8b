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
            "chapar_deliveries_total",
            "Attempts, by what the platform answered.",
            [
                ("backend", backend), ("app", app.rawValue), ("kind", kind.rawValue), ("outcome", outcome),
                ("reason", reason),
            ],
            count
        )
    }

    /// Answers came so long after their messages were handed to the backend.
    package func answered(backend: String, kind: BackendKind, after duration: Duration, count: Int) {
        self.duration(
            "chapar_send_duration_seconds",
            "Time from handing a message to its backend to the platform's answer.",
            [("backend", backend), ("kind", kind.rawValue)],
            duration.inSeconds,
            count
        )
    }

    /// A delivery will be tried again in the same worker.
    package func retried(backend: String, reason: String) {
        count(
            "chapar_retries_total",
            "Deliveries that wait for another attempt at the same backend.",
            [("backend", backend), ("reason", reason)],
            1
        )
    }

    /// A delivery went on to another backend.
    package func fellBack(from: String, to: String, reason: String) {
        count(
            "chapar_fallbacks_total",
            "Deliveries that went on to the next backend of their plan.",
            [("from", from), ("to", to), ("reason", reason)],
            1
        )
    }

    /// A platform declared a token dead.
    package func invalidatedToken(backend: String, reason: String) {
        count(
            "chapar_tokens_invalidated_total",
            "Device tokens that a platform declared dead.",
            [("backend", backend), ("reason", reason)],
            1
        )
    }

    /// Verdicts were held back by the guard against mass invalidation.
    package func heldInvalidations(backend: String, reason: String, count amount: Int) {
        count(
            "chapar_invalidations_held_total",
            "Verdicts that tokens are dead which were held back because there were too many of them.",
            [("backend", backend), ("reason", reason)],
            amount
        )
    }

    /// An attempt at a call about a device ended.
    func operated(backend: String, kind: String, outcome: String) {
        count(
            "chapar_operations_total",
            "Attempts to tell a platform something about a device, by what they came to.",
            [("backend", backend), ("kind", kind), ("outcome", outcome)],
            1
        )
    }

    /// Notices of backends were lost, because too many came or the store failed.
    func droppedNotices(_ amount: Int) {
        count(
            "chapar_notices_dropped_total",
            "Notices of backends that did not reach the stream of events.",
            [],
            amount
        )
    }

    /// A worker waited for its quota.
    package func waitedForQuota(backend: String, _ span: Duration) {
        duration(
            "chapar_quota_wait_seconds",
            "How long a lane waited at a time because its rate limit was used up.",
            [("backend", backend)],
            span.inSeconds,
            1
        )
    }
}
