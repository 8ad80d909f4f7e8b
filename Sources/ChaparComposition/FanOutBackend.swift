internal import Synchronization
public import ChaparCore

/// Several backends that all get every message whose recipient they can address, at the same time.
///
/// A ``Rule`` combines the outcomes of a recipient into one. A raw token goes to backends of its service only; a device
/// becomes, for each backend, the token of a service that it takes.
public struct FanOutBackend: BackendGroup {
    private typealias Answer = (member: Int, outcome: DeliveryOutcome)

    /// The rule that combines the outcomes of one recipient.
    public typealias Rule = DeliveryPlan.Need

    /// `fan-out`.
    public var kind: BackendKind { "fan-out" }
    /// The backends.
    public let members: [NamedBackend]
    /// The resolver that turns devices into tokens.
    public let resolver: RecipientResolver?
    private let rule: Rule
    private let time: any TimeSource
    private let observe: (@Sendable (_ backend: String, Addressee, DeliveryOutcome) -> Void)?

    /// Makes a group.
    ///
    /// - Parameters:
    ///   - members: The backends; of two equal outcomes, that of the earlier member is reported.
    ///   - rule: Combines the outcomes of one recipient.
    ///   - resolver: Turns devices into tokens; nil when only tokens are sent to.
    ///   - observe: Called with every backend's outcome; called from any thread, must not block.
    @available(*, deprecated, message: "Write PlanBackend(.all(…), members), or add the plan to a client.")
    public init(
        _ members: [NamedBackend],
        rule: Rule = .any,
        resolver: RecipientResolver? = nil,
        observe: (@Sendable (_ backend: String, Addressee, DeliveryOutcome) -> Void)? = nil
    ) {
        self.init(members, rule: rule, resolver: resolver, time: SystemTime(), observe: observe)
    }

    /// Makes a group with a clock of its own, for tests.
    package init(
        _ members: [NamedBackend],
        rule: Rule = .any,
        resolver: RecipientResolver? = nil,
        time: any TimeSource,
        observe: (@Sendable (_ backend: String, Addressee, DeliveryOutcome) -> Void)? = nil
    ) {
        self.members = members
        self.rule = rule
        self.resolver = resolver
        self.time = time
        self.observe = observe
    }

    /// Sends through all members; reports a recipient when the last of its backends has answered.
    public func send(_ requests: [PushRequest], report: @escaping @Sendable ([DeliveryReport]) -> Void) async {
        let requests = requests.fixingExpiry(at: time.now)
        let resolved = await ResolvedBatch(requests, resolver: resolver)
        let indices = BatchIndex.all(in: requests)
        var batches = members.map { _ in SubBatch() }
        var asked: [BatchIndex: Int] = [:]
        var refused: [DeliveryReport] = []
        let audiences = members.map(\.backend.audience)
        for index in indices {
            var addressee = resolved.localized(requests[index.request].recipients[index.recipient])
            let recipient = addressee.recipient
            for (number, audience) in audiences.enumerated() {
                let use = members[number].backend.tokenUse(of: requests[index.request].notification)
                guard let address = resolved.address(recipient, for: audience, use) else { continue }
                addressee.recipient = address
                batches[number].add(addressee, at: index, of: requests)
                asked[index, default: 0] += 1
            }
            if asked[index] == nil { refused.append(index.report(.refused(resolved.refusal(of: recipient)))) }
        }
        if !refused.isEmpty { report(refused) }
        let gathered = Gathered(asked)
        await withDiscardingTaskGroup { tasks in
            for (number, batch) in batches.enumerated() {
                tasks.addTask {
                    await batch.send(through: members[number].backend) { outcomes in
                        if let observe {
                            for (index, outcome) in outcomes {
                                observe(
                                    members[number].name,
                                    requests[index.request].recipients[index.recipient],
                                    outcome
                                )
                            }
                        }
                        let done = gathered.add(outcomes, of: number)
                        if !done.isEmpty { report(done.map { $0.index.report(combine($0.answers)) }) }
                    }
                }
            }
        }
    }

    /// The smallest window of the members, since each message goes to all of them.
    public var window: Int? { members.compactMap(\.backend.window).min() }

    /// The slowest pacing of the members, since each message goes to all of them.
    public var pacing: Pacing? { members.compactMap(\.backend.pacing).min { $0.perSecond < $1.perSecond } }

    /// Reports a fault of one backend under `all`, and under `any` only when all backends have faults.
    public func check(_ notification: PushNotification, for recipient: Recipient.Form) -> PayloadCheck {
        let checks = checks(notification, for: recipient)
        let faulty = checks.filter { !$0.faults.isEmpty }
        let isRefused = rule == .all ? !faulty.isEmpty : !faulty.isEmpty && faulty.count == checks.count
        return PayloadCheck(
            faults: isRefused ? faulty[0].faults : [],
            warnings: isRefused ? checks.flatMap(\.warnings) : checks.flatMap { $0.faults + $0.warnings }
        )
    }

    private func combine(_ answers: [Answer]) -> DeliveryOutcome {
        var accepted: [(name: String, outcome: DeliveryOutcome)] = []
        var unknown: DeliveryOutcome?
        var refusal: (name: String, Refusal)?
        for (member, outcome) in answers {
            switch outcome {
            case .accepted: accepted.append((members[member].name, outcome))
            case .unknown: unknown = unknown ?? outcome
            case .refused(let new):
                if refusal.map({ new.advice.hope > $0.1.advice.hope }) ?? true { refusal = (members[member].name, new) }
            }
        }
        if let first = accepted.first, rule == .any || accepted.count == answers.count { return first.outcome }
        if let unknown { return unknown }
        guard case (let name, var chosen)? = refusal else { return .unknown(UnknownOutcome(reason: "not_reported")) }
        if !accepted.isEmpty {
            chosen.advice = .never
            chosen.detail =
                "\(accepted.map(\.name).joined(separator: ", ")) took the message, \(name) refused it"
                + (chosen.detail.map { ": " + $0 } ?? "")
        }
        return .refused(chosen)
    }
}

/// The answers of one batch, collected until each recipient has all of its own.
private final class Gathered: Sendable {
    private let asked: [BatchIndex: Int]
    private let answers = Mutex<[BatchIndex: [(member: Int, outcome: DeliveryOutcome)]]>([:])

    init(_ asked: [BatchIndex: Int]) { self.asked = asked }

    /// Adds answers of a member; returns the recipients that now have the answers of all members, with these answers in
    /// the order of the members.
    func add(_ outcomes: [(index: BatchIndex, outcome: DeliveryOutcome)], of member: Int)
        -> [(index: BatchIndex, answers: [(member: Int, outcome: DeliveryOutcome)])]
    {
        answers.withLock { answers in
            outcomes.compactMap { index, outcome in
                answers[index, default: []].append((member, outcome))
                guard let all = answers[index], all.count == asked[index] else { return nil }
                answers[index] = nil
                return (index, all.sorted { $0.member < $1.member })
            }
        }
    }
}

extension Refusal.Advice {
    /// The likelihood that another attempt helps, to choose among refusals.
    fileprivate var hope: Int {
        switch self {
        case .never: 0
        case .parkBackend: 1
        case .slowBackend: 2
        case .slowRecipient: 3
        case .retry: 4
        }
    }
}
