internal import PushCore

/// The plans of a notification's recipients: one for nearly every notification, several when its tokens are of services that
/// go through different backends.
struct PlanAssignment {
    /// The plans that differ, in the order they were needed.
    private(set) var plans: [DeliveryPlan] = []
    /// The place in ``plans`` for each recipient; empty when all have the first.
    private(set) var planOf: [UInt8] = []

    /// Finds the plan of every recipient of a draft, and reports those that no backend can address.
    init(_ draft: NotificationDraft, _ routing: RoutingTable, _ issues: inout RequestIssues) {
        guard !draft.isChoiceFaulty else { return }
        let choice = draft.choice
        guard let first = draft.recipients.first else {
            Self.checkName(choice, routing, &issues)
            return
        }
        if draft.recipients.count == 1 {
            _ = place(of: first, choice, routing, draft, 0, &issues)
            return
        }
        var known: [(service: TokenService?, place: UInt8?)] = []
        planOf.reserveCapacity(draft.recipients.count)
        for (index, recipient) in draft.recipients.enumerated() {
            var service: TokenService?
            if case .token(let token) = recipient { service = token.service }
            let place: UInt8?
            if let same = known.first(where: { $0.service == service }) {
                place = same.place
            } else {
                place = self.place(of: recipient, choice, routing, draft, index, &issues)
                known.append((service, place))
            }
            planOf.append(place ?? 0)
        }
        if plans.count < 2 { planOf = [] }
    }

    private mutating func place(
        of recipient: Recipient,
        _ choice: RoutingTable.Choice,
        _ routing: RoutingTable,
        _ draft: NotificationDraft,
        _ index: Int,
        _ issues: inout RequestIssues
    ) -> UInt8? {
        do throws(RoutingTable.Failure) {
            let plan = try routing.plan(for: recipient, choice)
            if let place = plans.firstIndex(of: plan) { return UInt8(place) }
            plans.append(plan)
            return UInt8(plans.count - 1)
        } catch {
            Self.report(error, recipient, draft.pointer(ofRecipient: index), &issues)
            return nil
        }
    }

    /// With no usable recipient, a route or backend that does not exist is a mistake all the same.
    private static func checkName(
        _ choice: RoutingTable.Choice,
        _ routing: RoutingTable,
        _ issues: inout RequestIssues
    ) {
        do throws(RoutingTable.Failure) {
            _ = try routing.plan(for: .everyone, choice)
        } catch {
            switch error {
            case .unknownRoute, .unknownBackend: report(error, .everyone, "#/to", &issues)
            case .notAddressable, .noBackend: break
            }
        }
    }

    private static func report(
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
        case .notAddressable(let backend):
            issues.add(pointer, "audience_not_supported", "\(backend) cannot address \(words(for: recipient)).")
        case .noBackend:
            issues.add(
                pointer,
                "audience_not_supported",
                "No configured backend can address \(words(for: recipient))."
            )
        }
    }

    private static func words(for recipient: Recipient) -> String {
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
    /// What the request asks for.
    var choice: RoutingTable.Choice {
        if let route { return .route(route) }
        if let backend { return .backend(backend) }
        return .automatic
    }

    /// The choice in a word of bounded variety, for metrics.
    ///
    /// Asked for after the names were found to exist.
    var routeLabel: String {
        switch choice {
        case .route(let name): name
        case .backend: "direct"
        case .automatic: "automatic"
        }
    }
}
