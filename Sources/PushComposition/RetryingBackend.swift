public import PushCore

/// Tries again what a backend could not send, with waits that grow and are drawn at random.
///
/// How long the platform asked to wait is the floor; nothing is tried again after the time to live or the deadline, nor
/// what was refused for good. After no answer the rule decides; without one, only what does no harm is sent again.
/// A pause that the platform wants for all messages is ``CircuitBreakingBackend``'s business.
public struct RetryingBackend: BackendWrapper {
    /// The backend that is tried.
    public let wrapped: any PushBackend
    private let interpreter: PlanInterpreter

    /// Wraps a backend.
    ///
    /// - Parameters:
    ///   - wrapped: The backend that is tried.
    ///   - policy: How often and how long.
    ///   - deadline: How long a batch is tried at most; a shorter time to live ends it earlier.
    ///   - onUnknown: What is done after no answer; `next` has nowhere to go and stops.
    ///   - unknownWait: How long the rule `wait` waits for the platform's status.
    ///   - time: The clock.
    ///   - random: Numbers from 0 to 1.
    ///   - observe: Called with every attempt.
    public init(
        _ wrapped: any PushBackend,
        policy: RetryPolicy = RetryPolicy(),
        deadline: Duration = .seconds(120),
        onUnknown: DeliveryPlan.UnknownRule? = nil,
        unknownWait: Duration = DeliveryPlan.defaultUnknownWait,
        time: any TimeSource = SystemTime(),
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

    /// Sends, again where it helps; reports each recipient once, with its last outcome.
    public func send(_ requests: [PushRequest], report: @escaping @Sendable ([DeliveryReport]) -> Void) async {
        await interpreter.send(requests, report: report)
    }

    /// Ends waits between attempts, then the wrapped backend.
    public func shutdown(grace: Duration) async {
        interpreter.close()
        await wrapped.shutdown(grace: grace)
    }
}
