package import ChaparCore

/// Metrics of the dispatcher's reports.
extension GatewayMetrics: DispatchObserver {
    /// Counts attempts that ended alike.
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

    /// Records the time between handing messages to the backend and its answers.
    package func answered(backend: String, kind: BackendKind, after duration: Duration, count: Int) {
        self.duration(
            .sendDuration,
            [backend, kind.rawValue],
            duration.inSeconds,
            count
        )
    }

    /// Returns the histograms of a backend's deliveries.
    package func times(of backend: String) -> DeliveryTimes? { DeliveryTimes(of: backend, in: registry) }

    /// Counts a delivery that will be retried by the same worker.
    package func retried(backend: String, reason: String) {
        count(
            .retries,
            [backend, reason],
            1
        )
    }

    /// Counts a delivery that went on to another backend.
    package func fellBack(from: String, to: String, reason: String) {
        count(
            .fallbacks,
            [from, to, reason],
            1
        )
    }

    /// Counts deliveries that wait for a report before another backend takes over, or for which one did.
    package func escalated(backend: String, _ result: EscalationResult, count amount: Int) {
        guard amount > 0 else { return }
        count(
            .escalations,
            [backend, result.rawValue],
            amount
        )
    }

    /// Counts deliveries whose time to live ended, for counts over time.
    package func expired(backend: String, count: Int) { series.expired(count, at: backend) }

    /// Counts a token that a platform called dead.
    package func invalidatedToken(backend: String, reason: String) {
        count(
            .tokensInvalidated,
            [backend, reason],
            1
        )
    }

    /// Counts dead-token answers that the guard against mass invalidation quarantined.
    package func quarantinedInvalidations(backend: String, reason: String, count amount: Int) {
        for family in [MetricFamily.invalidationsQuarantined, .formerInvalidationsQuarantined] {
            count(family, [backend, reason], amount)
        }
    }

    /// Counts an attempt at a call about a device.
    func operated(backend: String, kind: String, outcome: String) {
        count(
            .operations,
            [backend, kind, outcome],
            1
        )
    }

    /// Counts spans by their outcome.
    func countSpans(_ outcome: String, _ amount: Int) { count(.spans, [outcome], amount) }

    /// Counts notices of backends that were lost, because there were too many or the store failed.
    func droppedNotices(_ amount: Int) {
        count(
            .noticesDropped,
            [],
            amount
        )
    }

    /// Records a worker's wait for its quota.
    package func waitedForQuota(backend: String, _ span: Duration) {
        duration(
            .quotaWait,
            [backend],
            span.inSeconds,
            1
        )
    }
}
