public import PushCore

/// Several backends of which the next takes over when one cannot do it: a ``DeliveryPlan`` interpreted in memory.
///
/// A recipient goes to the first backend that can address it. When that refuses for good, or its trouble outlasts the
/// `fallbackDelay`, the next one gets its turn; after an attempt without an answer the plan's rule decides. A chain
/// hands each backend its own kind of recipient: a raw token only ever goes to backends of its service, and a
/// ``PushCore/Recipient/device(_:)`` becomes the token of a service that the backend takes, by the
/// ``RecipientResolver``.
///
/// Nothing is kept on disk: what waits when the process ends is lost. The gateway interprets the same plan with its
/// place in the store.
public struct FallbackBackend: BackendGroup {
    /// `fallback`.
    public var kind: BackendKind { "fallback" }
    /// The backends, the first tried first.
    public let members: [NamedBackend]
    /// How devices become tokens.
    public let resolver: RecipientResolver?
    private let interpreter: PlanInterpreter

    /// Makes a chain.
    ///
    /// - Parameters:
    ///   - members: The backends, the first tried first; each name once.
    ///   - onUnknown: What is done after no answer; nil stops where a repeat does harm, else tries again.
    ///   - unknownWait: How long the rule `wait` waits for the platform's status.
    ///   - fallbackDelay: How long a platform's trouble is borne while another backend is left.
    ///   - retry: How often is tried, over all backends together.
    ///   - deadline: How long a batch is tried at most; a shorter time to live ends it earlier.
    ///   - resolver: How devices become tokens; nil when only tokens are sent to.
    ///   - time: The clock.
    ///   - random: Numbers from 0 to 1.
    ///   - observe: Called with every attempt, also of those whose outcome is not the final one, such as a dead token.
    public init(
        _ members: [NamedBackend],
        onUnknown: DeliveryPlan.UnknownRule? = nil,
        unknownWait: Duration = DeliveryPlan.defaultUnknownWait,
        fallbackDelay: Duration = .zero,
        retry: RetryPolicy = RetryPolicy(),
        deadline: Duration = .seconds(120),
        resolver: RecipientResolver? = nil,
        time: any TimeSource = SystemTime(),
        random: @escaping @Sendable () -> Double = { .random(in: 0...1) },
        observe: PlanObserver? = nil
    ) {
        self.members = members
        self.resolver = resolver
        interpreter = PlanInterpreter(
            steps: members,
            plan: DeliveryPlan(
                members.map(\.name),
                onUnknown: onUnknown,
                unknownWait: unknownWait,
                fallbackDelay: fallbackDelay
            ),
            rules: PlanRules(retry: retry, waitsForOperator: false),
            deadline: deadline,
            resolver: resolver,
            skipsForeign: true,
            time: time,
            random: random,
            observe: observe
        )
    }

    /// Sends along the chain; reports each recipient once, with the outcome that ended its way.
    public func send(_ requests: [PushRequest], report: @escaping @Sendable ([DeliveryReport]) -> Void) async {
        await interpreter.send(requests, report: report)
    }

    /// The first backend's, for that is where messages enter.
    public var window: Int? { members.first?.backend.window }

    /// The first backend's, for that is where messages enter.
    public var batching: RequestBatching? { members.first?.backend.batching }

    /// The first backend's, for that is where messages enter.
    public var pacing: Pacing? { members.first?.backend.pacing }

    /// A fault is what every backend that takes such recipients would refuse; the rest are warnings.
    public func check(_ notification: PushNotification, for recipient: Recipient.Form) -> PayloadCheck {
        let checks = checks(notification, for: recipient)
        let isRefused = !checks.isEmpty && checks.allSatisfy { !$0.faults.isEmpty }
        return PayloadCheck(
            faults: isRefused ? checks[0].faults : [],
            warnings: isRefused ? checks.flatMap(\.warnings) : checks.flatMap { $0.faults + $0.warnings }
        )
    }

    /// Ends waits between attempts, then every backend.
    public func shutdown(grace: Duration) async {
        interpreter.close()
        await withDiscardingTaskGroup { tasks in
            for member in members { tasks.addTask { await member.backend.shutdown(grace: grace) } }
        }
    }
}
