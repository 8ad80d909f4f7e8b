public import PushCore

extension PushBackend {
    /// This backend, tried again where it helps: ``PushComposition/RetryingBackend``.
    public func retrying(
        _ policy: RetryPolicy = RetryPolicy(),
        deadline: Duration = .seconds(120),
        onUnknown: DeliveryPlan.UnknownRule? = nil
    ) -> RetryingBackend {
        RetryingBackend(self, policy: policy, deadline: deadline, onUnknown: onUnknown)
    }

    /// This backend, no faster than a quota: ``PushComposition/RateLimitedBackend``.
    public func paced(_ pacing: Pacing, maximumWait: Duration = .seconds(30)) -> RateLimitedBackend {
        RateLimitedBackend(self, pacing: pacing, maximumWait: maximumWait)
    }

    /// This backend, not called for a while after failures: ``PushComposition/CircuitBreakingBackend``.
    public func breaking(_ settings: Breaker.Settings = Breaker.Settings()) -> CircuitBreakingBackend {
        CircuitBreakingBackend(self, settings: settings)
    }

    /// This backend, with only so many messages under way at a time: ``PushComposition/BulkheadBackend``.
    public func bounded(to limit: Int, waiting: Int = 1_000) -> BulkheadBackend {
        BulkheadBackend(self, limit: limit, waiting: waiting)
    }
}
