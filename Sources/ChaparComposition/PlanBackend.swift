public import ChaparCore

/// A backend that sends through several backends by a plan, which it interprets in memory.
///
/// A gateway interprets the same plan and keeps the current step in its store. Here nothing is written to disk:
/// messages that wait when the process ends are lost. A recipient gets a message only through backends that can address
/// it: a raw token goes only to backends of its service, and the ``RecipientResolver`` turns a
/// ``ChaparCore/Recipient/device(_:)`` into the token of a service that the backend takes.
public struct PlanBackend: BackendGroup {
    /// The plan.
    public let plan: DeliveryPlan
    /// The backends of the plan, in its order.
    public let members: [NamedBackend]
    /// The resolver that turns devices into tokens.
    public let resolver: RecipientResolver?
    /// The interpreter: a chain, or a group of one chain for each backend.
    private let group: any BackendGroup

    /// Makes a backend of a plan.
    ///
    /// - Parameters:
    ///   - plan: The plan.
    ///   - backends: The backends that it names; each name of the plan is there.
    ///   - retry: The retries for a plan that has none of its own, for all backends together, or for each one where a
    ///     message goes to all of them.
    ///   - deadline: The longest time for which a batch is tried; a shorter time to live ends it earlier.
    ///   - resolver: Turns devices into tokens; nil when only tokens are sent to.
    ///   - observe: Called with every attempt, including those whose outcome is not the final one, such as a dead
    ///     token.
    /// - Throws: `PushError.Code.invalidRequest` for a plan without a backend, with a name twice, or with a name that
    ///   is not among the backends.
    public init(
        _ plan: DeliveryPlan,
        _ backends: [NamedBackend],
        retry: RetryPolicy = RetryPolicy(),
        deadline: Duration = .seconds(120),
        resolver: RecipientResolver? = nil,
        observe: PlanObserver? = nil
    ) throws(PushError) {
        try self.init(
            plan,
            backends,
            retry: retry,
            deadline: deadline,
            resolver: resolver,
            time: SystemTime(),
            observe: observe
        )
    }

    /// Does the same with a clock of its own and numbers of its own, for tests.
    package init(
        _ plan: DeliveryPlan,
        _ backends: [NamedBackend],
        retry: RetryPolicy = RetryPolicy(),
        deadline: Duration = .seconds(120),
        resolver: RecipientResolver? = nil,
        time: any TimeSource,
        random: @escaping @Sendable () -> Double = { .random(in: 0...1) },
        observe: PlanObserver? = nil
    ) throws(PushError) {
        let members = try Self.members(of: plan, backends)
        self.plan = plan
        self.members = members
        self.resolver = resolver
        let chain = { (plan: DeliveryPlan, members: [NamedBackend], resolver: RecipientResolver?) in
            FallbackBackend(
                plan: plan,
                members,
                retry: retry,
                deadline: deadline,
                resolver: resolver,
                time: time,
                random: random,
                observe: observe
            )
        }
        guard let need = plan.need else {
            group = chain(plan, members, resolver)
            return
        }
        // Each backend retries by itself, as the deliveries of a gateway do.
        let chains = zip(plan.parts, members).map { part, member in
            NamedBackend(member.name, chain(part, [member], nil))
        }
        group = FanOutBackend(chains, rule: need, resolver: resolver, time: time)
    }

    private static func members(
        of plan: DeliveryPlan,
        _ backends: [NamedBackend]
    ) throws(PushError) -> [NamedBackend] {
        guard !plan.backends.isEmpty else { throw PushError(.invalidRequest, "plan: it has no backend: name one") }
        var members: [NamedBackend] = []
        for name in plan.backends {
            guard let backend = backends.first(where: { $0.name == name }) else {
                let nearest = Suggestion.nearest(to: name, among: backends.map(\.name).sorted())
                let fix = nearest.map { "did you mean \($0)?" } ?? "add it first"
                throw PushError(.invalidRequest, "plan: there is no backend \(name): \(fix)")
            }
            guard !members.contains(where: { $0.name == name }) else {
                throw PushError(.invalidRequest, "plan: \(name) is there twice: name each backend once")
            }
            members.append(backend)
        }
        return members
    }

    /// `fallback`, or `fan-out` where a message goes to all backends.
    public var kind: BackendKind { group.kind }

    /// Sends by the plan; reports each recipient once, with its final outcome.
    public func send(_ requests: [PushRequest], report: @escaping @Sendable ([DeliveryReport]) -> Void) async {
        await group.send(requests, report: report)
    }

    /// The window of the first backend, or the smallest where a message goes to all of them.
    public var window: Int? { group.window }

    /// The batching of the first backend; nil where a message goes to all of them.
    public var batching: RequestBatching? { group.batching }

    /// The pacing of the first backend, or the slowest where a message goes to all of them.
    public var pacing: Pacing? { group.pacing }

    /// Reports a fault when every backend that takes such recipients would refuse the message, or, where all backends
    /// must accept it, when one of them would.
    ///
    /// All other findings are warnings.
    public func check(_ notification: PushNotification, for recipient: Recipient.Form) -> PayloadCheck {
        group.check(notification, for: recipient)
    }

    /// Cancels the waits between attempts, then shuts every backend down.
    public func shutdown(grace: Duration) async { await group.shutdown(grace: grace) }
}
