public import ChaparCore

extension PushBackend {
    /// Returns this backend with retries: ``ChaparComposition/RetryingBackend``.
    @available(*, deprecated, message: "Add the plan DeliveryPlan.firstOf(name).retrying(…) to the client.")
    public func retrying(
        _ policy: RetryPolicy = RetryPolicy(),
        deadline: Duration = .seconds(120),
        onUnknown: DeliveryPlan.UnknownRule? = nil
    ) -> RetryingBackend {
        RetryingBackend(self, policy: policy, deadline: deadline, onUnknown: onUnknown, time: SystemTime())
    }

    /// Returns this backend with a rate limit: ``ChaparComposition/RateLimitedBackend``.
    public func paced(_ pacing: Pacing, maximumWait: Duration = .seconds(30)) -> RateLimitedBackend {
        RateLimitedBackend(self, pacing: pacing, maximumWait: maximumWait)
    }

    /// Returns this backend with a circuit breaker: ``ChaparComposition/CircuitBreakingBackend``.
    public func breaking(_ settings: Breaker.Settings = Breaker.Settings()) -> CircuitBreakingBackend {
        CircuitBreakingBackend(self, settings: settings)
    }

    /// Returns this backend with a limit on messages in flight: ``ChaparComposition/BulkheadBackend``.
    public func bounded(to limit: Int, waiting: Int = 1_000) -> BulkheadBackend {
        BulkheadBackend(self, limit: limit, waiting: waiting)
    }
}
