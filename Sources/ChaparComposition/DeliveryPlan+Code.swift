public import ChaparCore

extension DeliveryPlan {
    /// Returns the plan that goes from each backend to the next, by their names.
    ///
    /// ```swift
    /// let plan = DeliveryPlan.firstOf("ios", "android", "sms").movingOn(after: .seconds(10)).onUnknown(.wait)
    /// ```
    ///
    /// It is the same value in code, in a configuration file (`fallback: [ios, android, sms]`) and in a store.
    public static func firstOf(_ first: String, _ others: String...) -> DeliveryPlan { DeliveryPlan([first] + others) }

    /// Returns the plan with a limit of the time for which trouble is tolerated at each step: ``fallbackAfter``.
    public func movingOn(after span: Duration) -> DeliveryPlan {
        var plan = self
        plan.fallbackAfter = span
        return plan
    }

    /// Returns the plan with a rule for an attempt without an answer.
    ///
    /// - Parameters:
    ///   - rule: The rule.
    ///   - span: The longest time that ``UnknownRule/wait`` waits for the platform's report.
    /// - Returns: The changed plan.
    public func onUnknown(_ rule: UnknownRule, waiting span: Duration = Self.defaultUnknownWait) -> DeliveryPlan {
        var plan = self
        plan.onUnknown = rule
        plan.unknownWait = span
        return plan
    }
}

extension PushAccount {
    /// Returns the account with a circuit breaker around its backend: ``ChaparComposition/CircuitBreakingBackend``.
    public func breaking(_ settings: Breaker.Settings = Breaker.Settings()) -> PushAccount<CircuitBreakingBackend> {
        map { backend, _ in backend.breaking(settings) }
    }

    /// Returns the account with a rate limit of its backend: ``ChaparComposition/RateLimitedBackend``.
    public func paced(
        _ pacing: Pacing,
        maximumWait: Duration = .seconds(30)
    ) -> PushAccount<RateLimitedBackend> {
        map { backend, _ in backend.paced(pacing, maximumWait: maximumWait) }
    }

    /// Returns the account with a limit on messages in flight: ``ChaparComposition/BulkheadBackend``.
    public func bounded(to limit: Int, waiting: Int = 1_000) -> PushAccount<BulkheadBackend> {
        map { backend, _ in backend.bounded(to: limit, waiting: waiting) }
    }
}
