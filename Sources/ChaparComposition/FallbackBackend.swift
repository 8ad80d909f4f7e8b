public import ChaparCore

/// Several backends, each of which takes over when the one before it fails: a ``DeliveryPlan`` interpreted in memory.
///
/// ``PlanBackend``, which takes the plan as a value, uses this interpreter.
///
/// A recipient goes to the first backend that can address it. When that backend refuses for good, or fails for longer
/// than `fallbackAfter`, the next backend is tried. After an attempt without an answer the plan's rule decides. Each
/// backend gets only recipients that it can address: a raw token goes only to backends of its service, and the
/// ``RecipientResolver`` turns a ``ChaparCore/Recipient/device(_:)`` into the token of a service that the backend
/// takes.
///
/// Nothing is written to disk: messages that wait when the process ends are lost. The gateway interprets the same plan
/// and keeps its position in the store.
public struct FallbackBackend: BackendGroup {
    /// `fallback`.
    public var kind: BackendKind { "fallback" }
    /// The backends, in the order in which they are tried.
    public let members: [NamedBackend]
    /// The resolver that turns devices into tokens.
    public let resolver: RecipientResolver?
    private let interpreter: PlanInterpreter

    /// Makes a chain.
    ///
    /// - Parameters:
    ///   - members: The backends, in the order in which they are tried; each name once.
    ///   - onUnknown: The rule after an attempt without an answer; with nil a message stops where a second copy does
    ///     harm, and is retried otherwise.
    ///   - unknownWait: The longest time the rule `wait` waits for the platform's report.
    ///   - fallbackAfter: The longest time for which a failing platform is retried while another backend is left.
    ///   - retry: The number of attempts, for all backends together, and the waits between them.
    ///   - deadline: The longest time for which a batch is tried; a shorter time to live ends it earlier.
    ///   - resolver: Turns devices into tokens; nil when only tokens are sent to.
    ///   - observe: Called with every attempt, including those whose outcome is not the final one, such as a dead
    ///     token.
    @available(*, deprecated, message: "Write PlanBackend(.firstOf(…), members), or add the plan to a client.")
    public init(
        _ members: [NamedBackend],
        onUnknown: DeliveryPlan.UnknownRule? = nil,
        unknownWait: Duration = DeliveryPlan.defaultUnknownWait,
        fallbackAfter: Duration = .zero,
        retry: RetryPolicy = RetryPolicy(),
        deadline: Duration = .seconds(120),
        resolver: RecipientResolver? = nil,
        observe: PlanObserver? = nil
    ) {
        self.init(
            members,
            onUnknown: onUnknown,
            unknownWait: unknownWait,
            fallbackAfter: fallbackAfter,
            retry: retry,
            deadline: deadline,
            resolver: resolver,
            time: SystemTime(),
            random: { .random(in: 0...1) },
            observe: observe
        )
    }

    /// Does the same with a clock of its own and numbers of its own, for tests.
    package init(
        _ members: [NamedBackend],
        onUnknown: DeliveryPlan.UnknownRule? = nil,
        unknownWait: Duration = DeliveryPlan.defaultUnknownWait,
        fallbackAfter: Duration = .zero,
        retry: RetryPolicy = RetryPolicy(),
        deadline: Duration = .seconds(120),
        resolver: RecipientResolver? = nil,
        time: any TimeSource,
        random: @escaping @Sendable () -> Double = { .random(in: 0...1) },
        observe: PlanObserver? = nil
    ) {
        self.init(
            plan: DeliveryPlan(
                members.map(\.name),
                onUnknown: onUnknown,
                unknownWait: unknownWait,
                fallbackAfter: fallbackAfter
            ),
            members,
            retry: retry,
            deadline: deadline,
            resolver: resolver,
            time: time,
            random: random,
            observe: observe
        )
    }

    /// Makes the chain of a plan, whose backends are `members` in the same order.
    init(
        plan: DeliveryPlan,
        _ members: [NamedBackend],
        retry: RetryPolicy,
        deadline: Duration,
        resolver: RecipientResolver?,
        time: any TimeSource,
        random: @escaping @Sendable () -> Double,
        observe: PlanObserver?
    ) {
        self.members = members
        self.resolver = resolver
        interpreter = PlanInterpreter(
            steps: members,
            plan: plan,
            rules: PlanRules(retry: retry, fallbackAfter: .zero, waitsForOperator: false),
            deadline: deadline,
            resolver: resolver,
            skipsForeign: true,
            time: time,
            random: random,
            observe: observe
        )
    }

    /// Sends along the chain; reports each recipient once, with its final outcome.
    public func send(_ requests: [PushRequest], report: @escaping @Sendable ([DeliveryReport]) -> Void) async {
        await interpreter.send(requests, report: report)
    }

    /// The first backend's window, since messages enter there.
    public var window: Int? { members.first?.backend.window }

    /// The first backend's batching, since messages enter there.
    public var batching: RequestBatching? { members.first?.backend.batching }

    /// The first backend's pacing, since messages enter there.
    public var pacing: Pacing? { members.first?.backend.pacing }

    /// Reports a fault when every backend that takes such recipients would refuse; everything else is a warning.
    public func check(_ notification: PushNotification, for recipient: Recipient.Form) -> PayloadCheck {
        let checks = checks(notification, for: recipient)
        let isRefused = !checks.isEmpty && checks.allSatisfy { !$0.faults.isEmpty }
        return PayloadCheck(
            faults: isRefused ? checks[0].faults : [],
            warnings: isRefused ? checks.flatMap(\.warnings) : checks.flatMap { $0.faults + $0.warnings }
        )
    }

    /// Cancels the waits between attempts, then shuts every backend down.
    public func shutdown(grace: Duration) async {
        interpreter.close()
        await withDiscardingTaskGroup { tasks in
            for member in members { tasks.addTask { await member.backend.shutdown(grace: grace) } }
        }
    }
}
