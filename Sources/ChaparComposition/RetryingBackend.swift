public import ChaparCore

/// A wrapper that retries messages that a backend could not send, with growing random waits.
///
/// The pause that the platform asked for is the shortest wait. A message is not retried after its time to live, after
/// the deadline, or after a final refusal. After an attempt without an answer `onUnknown` decides; with nil a message
/// is sent again only where a second copy does no harm. ``CircuitBreakingBackend`` handles pauses that the platform
/// wants for all messages.
public struct RetryingBackend: BackendWrapper {
    /// The wrapped backend.
    public let wrapped: any PushBackend
    private let interpreter: PlanInterpreter

    /// Wraps a backend.
    ///
    /// - Parameters:
    ///   - wrapped: The backend to wrap.
    ///   - policy: The number of attempts and the waits between them.
    ///   - deadline: The longest time for which a batch is tried; a shorter time to live ends it earlier.
    ///   - onUnknown: The rule after an attempt without an answer; the rule `next` ends the message, since there is no
    ///     next backend.
    ///   - unknownWait: The longest time the rule `wait` waits for the platform's report.
    ///   - observe: Called with every attempt.
    @available(*, deprecated, message: "Write PlanBackend(.firstOf(…).retrying(…), members), or add it to a client.")
    public init(
        _ wrapped: any PushBackend,
        policy: RetryPolicy = RetryPolicy(),
        deadline: Duration = .seconds(120),
        onUnknown: DeliveryPlan.UnknownRule? = nil,
        unknownWait: Duration = DeliveryPlan.defaultUnknownWait,
        observe: PlanObserver? = nil
    ) {
        self.init(
            wrapped,
            policy: policy,
            deadline: deadline,
            onUnknown: onUnknown,
            unknownWait: unknownWait,
            time: SystemTime(),
            random: { .random(in: 0...1) },
            observe: observe
        )
    }

    /// Does the same with a clock of its own and numbers of its own, for tests.
    package init(
        _ wrapped: any PushBackend,
        policy: RetryPolicy = RetryPolicy(),
        deadline: Duration = .seconds(120),
        onUnknown: DeliveryPlan.UnknownRule? = nil,
        unknownWait: Duration = DeliveryPlan.defaultUnknownWait,
        time: any TimeSource,
        random: @escaping @Sendable () -> Double = { .random(in: 0...1) },
        observe: PlanObserver? = nil
    ) {
        self.wrapped = wrapped
        interpreter = PlanInterpreter(
            steps: [NamedBackend(wrapped.kind.rawValue, wrapped)],
            plan: DeliveryPlan([wrapped.kind.rawValue], onUnknown: onUnknown, unknownWait: unknownWait),
            rules: PlanRules(retry: policy, waitsForOperator: false),
            deadline: deadline,
            skipsForeign: false,
            time: time,
            random: random,
            observe: observe
        )
    }

    /// Sends messages, with retries where they help; reports each recipient once, with its last outcome.
    public func send(_ requests: [PushRequest], report: @escaping @Sendable ([DeliveryReport]) -> Void) async {
        await interpreter.send(requests, report: report)
    }

    /// Cancels the waits between attempts, then shuts the wrapped backend down.
    public func shutdown(grace: Duration) async {
        interpreter.close()
        await wrapped.shutdown(grace: grace)
    }
}
