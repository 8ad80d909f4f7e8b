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

    /// Returns the plan that sends a message to all backends at the same time, by their names.
    ///
    /// Each recipient gets it from every backend that can address it. In a configuration file it is
    /// `fan_out: [ios, web]`.
    ///
    /// - Parameters:
    ///   - first: A backend.
    ///   - others: The other backends.
    ///   - need: The acceptances that the outcome of a recipient needs; in a gateway each delivery has its own outcome.
    /// - Returns: The plan.
    public static func all(_ first: String, _ others: String..., need: Need = .any) -> DeliveryPlan {
        var plan = DeliveryPlan([first] + others)
        plan.need = need
        return plan
    }

    /// Makes the plan that goes from each backend to the next, from the names that a block lists.
    ///
    /// ```swift
    /// let plan = DeliveryPlan {
    ///     "ios"
    ///     "android"
    ///     if hasTextMessages { "sms" }
    /// }
    /// ```
    public init(@PlanBuilder _ backends: () throws -> [String]) rethrows { self.init(try backends()) }

    /// Returns the plan with a number of attempts of its own, for all steps together, and with waits of its own between
    /// them.
    ///
    /// In a configuration file these are `max_attempts`, `first_retry` and `max_retry` of a route's `use`. A plan that
    /// sends to all backends gives each of them this number of attempts.
    public func retrying(_ policy: RetryPolicy = RetryPolicy()) -> DeliveryPlan {
        var plan = self
        plan.retry = policy
        return plan
    }

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

/// Lists the backends' names of a ``DeliveryPlan``, with conditions and loops.
@resultBuilder
public enum PlanBuilder {
    /// Takes a name.
    public static func buildExpression(_ name: String) -> [String] { [name] }

    /// Joins the names of a block.
    public static func buildBlock(_ parts: [String]...) -> [String] { parts.flatMap { $0 } }

    /// Takes the names of an `if` whose condition may not hold.
    public static func buildOptional(_ names: [String]?) -> [String] { names ?? [] }

    /// Takes the names of the first branch.
    public static func buildEither(first names: [String]) -> [String] { names }

    /// Takes the names of the other branch.
    public static func buildEither(second names: [String]) -> [String] { names }

    /// Joins the names of a loop.
    public static func buildArray(_ parts: [[String]]) -> [String] { parts.flatMap { $0 } }
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
