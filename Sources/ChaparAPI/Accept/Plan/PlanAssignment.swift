package import ChaparDelivery
package import ChaparCore
package import ChaparComposition

/// The delivery plans of a notification's recipients: usually one; several when its tokens belong to services that go
/// through different backends, or when a route fans out.
package struct PlanAssignment {
    /// The distinct plans, in the order in which they were first needed.
    package var plans: [DeliveryPlan] = []
    /// The index in ``plans`` for each recipient; empty when all have the first.
    package var planOf: [UInt8] = []
    /// The recipients that a backend reaches; when the route fans out, each recipient once for each backend.
    ///
    /// Nil when they are the same as those of the draft.
    package var recipients: [Recipient]?
    /// Warnings about devices that get no message.
    var warnings: [Finding] = []

    /// The indices in ``plans`` of one recipient, which are adjacent.
    typealias PlanRange = Range<UInt8>
    /// The most plans of a notification.
    private static let maximumPlans = 255

    /// Finds the plan of every recipient of a draft, and reports those that no backend can address or that the caller
    /// may not address.
    package init(
        _ draft: borrowing NotificationDraft,
        _ routing: RoutingTable,
        _ caller: Caller,
        _ issues: inout RequestIssues
    ) {
        guard !draft.isChoiceFaulty else { return }
        guard draft.devices.isEmpty else {
            assign(draft, routing, &issues)
            return
        }
        // A check without a registry must not take devices for a platform's own recipients.
        guard !draft.needsRegistry(routing) else {
            let sentence = "Only a gateway knows devices and users of the registry; give its address."
            issues.add("#/to/\(draft.audienceField)", "needs_gateway", sentence)
            return
        }
        let choice = draft.choice
        guard let first = draft.recipients.first else {
            Self.checkName(choice, routing, &issues)
            return
        }
        if draft.recipients.count == 1 {
            guard let positions = positions(of: first, choice, routing, draft, 0, &issues) else { return }
            if positions.count > 1 {
                planOf = Array(positions)
                recipients = Array(repeating: first, count: positions.count)
            }
            checkTopic(first, routing, draft, &issues)
            checkBroadcast(first, routing, caller, draft, &issues)
            return
        }
        if case .platformID = first, draft.backend == nil {
            _ = positions(of: first, choice, routing, draft, 0, &issues)  // Reports one mistake, not one per recipient.
            return
        }
        var known: [(service: TokenService?, positions: PlanRange?)] = []
        planOf.reserveCapacity(draft.recipients.count)
        for (index, recipient) in draft.recipients.enumerated() {
            var service: TokenService?
            if case .token(let token) = recipient { service = token.service }
            let positions: PlanRange?
            if let same = known.first(where: { $0.service == service }) {
                positions = same.positions
            } else {
                positions = self.positions(of: recipient, choice, routing, draft, index, &issues)
                known.append((service, positions))
            }
            add(recipient, positions ?? 0..<1, after: draft.recipients[..<index])
        }
        if plans.count < 2 { planOf = [] }
    }

    /// Records the plans of a recipient.
    private mutating func add(_ recipient: Recipient, _ positions: PlanRange, after earlier: ArraySlice<Recipient>) {
        planOf.append(contentsOf: positions)
        if positions.count > 1, recipients == nil { recipients = Array(earlier) }
        guard recipients != nil else { return }
        for _ in positions { recipients?.append(recipient) }
    }

    private mutating func positions(
        of recipient: Recipient,
        _ choice: RoutingTable.Choice,
        _ routing: RoutingTable,
        _ draft: NotificationDraft,
        _ index: Int,
        _ issues: inout RequestIssues
    ) -> PlanRange? {
        do throws(RoutingTable.Failure) {
            return positions(of: try routing.routing(for: recipient, choice), &issues)
        } catch {
            Self.report(error, recipient, draft.pointer(ofRecipient: draft.position(ofRecipient: index)), &issues)
            return nil
        }
    }

    /// Returns the indices of a routing's plans, and adds those that are new.
    mutating func positions(of found: RoutingTable.Routing, _ issues: inout RequestIssues) -> PlanRange {
        if plans.isEmpty, !found.isFanOut {
            plans = found.plans  // The usual case reuses an existing array.
            return 0..<1
        }
        if !found.isFanOut, let position = plans.firstIndex(of: found.plan) {
            return UInt8(clamping: position)..<UInt8(clamping: position) + 1
        }
        let count = found.isFanOut ? found.plan.backends.count : 1
        guard plans.count + count <= Self.maximumPlans else {
            if issues.isEmpty {
                issues.add("#/to", "too_many_plans", "The recipients need too many different plans; send in parts.")
            }
            return 0..<1
        }
        let first = UInt8(clamping: plans.count)
        plans += found.plan.parts
        return first..<UInt8(clamping: plans.count)
    }

    /// Refuses a topic or condition that the platform of a plan's first backend cannot have: every attempt would fail.
    private func checkTopic(
        _ recipient: Recipient,
        _ routing: RoutingTable,
        _ draft: NotificationDraft,
        _ issues: inout RequestIssues
    ) {
        guard case .topic(let name) = recipient else { return }
        for backend in Set(plans.compactMap(\.backends.first)).sorted() {
            guard let problem = routing.backend(backend)?.problem(withTopic: name) else { continue }
            issues.add(draft.pointer(ofRecipient: 0), "malformed_topic", "\(backend): \(problem)")
        }
    }

    /// Refuses a message to every user of a platform unless the caller has the scope and each backend's section allows
    /// it.
    ///
    /// Backends check it again when they send. Here the caller is known, and a notification that a backend would refuse
    /// is not accepted.
    private func checkBroadcast(
        _ recipient: Recipient,
        _ routing: RoutingTable,
        _ caller: Caller,
        _ draft: NotificationDraft,
        _ issues: inout RequestIssues
    ) {
        switch recipient {
        case .token, .device, .user, .platformID: return
        case .topic, .tags, .everyone: break
        }
        let addressed = plans.flatMap(\.backends).compactMap { name in
            routing.backend(name).map { (name: name, rule: $0.audience.broadcast) }
        }
        .filter { $0.rule.isEveryone(recipient) }
        guard !addressed.isEmpty else { return }
        let pointer = draft.pointer(ofRecipient: 0)
        guard caller.has(.broadcast) else { return issues.add(pointer, lacking: .broadcast) }
        for (name, rule) in addressed where !rule.isAllowed {
            let sentence =
                "This addresses every user of the platform of \(name): its section must say allow_broadcast: true."
            issues.add(pointer, BroadcastRule.refusalReason, sentence)
        }
    }

    /// Reports a route or backend that does not exist, also when there is no usable recipient.
    static func checkName(
        _ choice: RoutingTable.Choice,
        _ routing: RoutingTable,
        _ issues: inout RequestIssues
    ) {
        do throws(RoutingTable.Failure) {
            _ = try routing.plan(for: .everyone, choice)
        } catch {
            switch error {
            case .unknownRoute, .unknownBackend: report(error, .everyone, "#/to", &issues)
            case .notAddressable, .noBackend, .ambiguous: break
            }
        }
    }

    static func report(
        _ failure: RoutingTable.Failure,
        _ recipient: Recipient,
        _ pointer: String,
        _ issues: inout RequestIssues
    ) {
        switch failure {
        case .unknownRoute(let nearest):
            let hint = nearest.map { "Did you mean \"\($0)\"?" } ?? "The configuration names no such route."
            issues.add("#/route", "unknown_route", hint)
        case .unknownBackend(let nearest):
            let hint = nearest.map { "Did you mean \"\($0)\"?" } ?? "The configuration names no such backend."
            issues.add("#/backend", "unknown_backend", hint)
        case .notAddressable(let backends):
            issues.add(
                pointer,
                "audience_not_supported",
                "\(backends.joined(separator: ", ")) cannot address \(description(of: recipient))."
            )
        case .noBackend:
            issues.add(
                pointer,
                "audience_not_supported",
                "No configured backend can address \(description(of: recipient))."
            )
        case .ambiguous(let backends):
            let names = backends.joined(separator: ", ")
            if case .topic = recipient {
                let sentence = "Each of \(names) has topics of its own: name the backend or a route."
                issues.add(pointer, "backend_missing", sentence)
            } else {
                let sentence = "A platform knows \(description(of: recipient)), so name the backend: \(names)."
                issues.add("#/backend", "backend_missing", sentence)
            }
        }
    }

    private static func description(of recipient: Recipient) -> String {
        switch recipient {
        case .token(let token): "tokens of \(token.service.rawValue)"
        case .device: "devices of the registry"
        case .user: "users of the registry"
        case .platformID: "ids of a platform"
        case .topic: "topics"
        case .tags: "tags"
        case .everyone: "everyone"
        }
    }
}

extension NotificationDraft {
    /// The route or backend that the request names.
    var choice: RoutingTable.Choice {
        if let route { return .route(route) }
        if let backend { return .backend(backend) }
        return .automatic
    }

    /// The choice as a metric's label.
    ///
    /// It is used only when the names exist, so the label has a bounded number of values.
    var routeLabel: String {
        switch choice {
        case .route(let name): name
        case .backend: "direct"
        case .automatic: "automatic"
        }
    }
}
