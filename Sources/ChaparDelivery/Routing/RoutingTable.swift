package import ChaparCore
package import ChaparComposition
internal import ChaparQueue

/// The table by which a recipient's backends are found: by name, by route, by the routes' matches, or by what backends
/// accept.
///
/// There is one for each configuration. It is a class because every notification uses it.
package final class RoutingTable: Sendable {
    /// The route or backend that a request names.
    package enum Choice: Sendable, Hashable {
        /// Neither: the routes' matches decide, then what backends accept.
        case automatic
        /// A route by its name; `default` without such a route is ``automatic``.
        case route(String)
        /// A backend by its name.
        case backend(String)
    }

    /// The reason why no plan was found.
    package enum Failure: Error, Sendable, Hashable {
        /// No route has the name; the nearest that exists.
        case unknownRoute(nearest: String?)
        /// No backend has the name; the nearest that exists.
        case unknownBackend(nearest: String?)
        /// The named backend, or those of the named route, cannot address such a recipient.
        case notAddressable([String])
        /// No configured backend can address such a recipient.
        case noBackend
        /// The recipient belongs to a platform, and several backends of such platforms could be meant.
        case ambiguous(backends: [String])
    }

    /// The plans for a recipient.
    package struct Routing: Sendable, Hashable {
        /// The backends that can address it, in order.
        package var plan: DeliveryPlan { plans[0] }
        /// Whether every backend gets its own delivery, instead of one after the other.
        package var isFanOut: Bool { plan.need != nil }
        /// The plans, in an array that many routings share.
        package let plans: [DeliveryPlan]

        init(plan: DeliveryPlan) { plans = [plan] }

        /// Returns it without some backends; nil when no other is left.
        func without(_ names: Set<String>) -> Routing? {
            plan.filtered { !names.contains($0) }.map(Routing.init)
        }
    }

    let routes: [GatewayConfiguration.Route]
    package let order: [(name: String, backend: any PushBackend)]
    /// For each backend of ``order``, the plan that has only this backend, and the backend's audience.
    ///
    /// They are prepared, since many recipients use them. The plan for tokens also has the backend of the other
    /// environment, as the second step.
    private let single: [(routing: Routing, forTokens: Routing, audience: BackendAudience)]
    /// The order in which a device's tokens are preferred.
    package let priority: [TokenService]
    private let named: [String: any PushBackend]

    /// Makes a table.
    init(
        routes: [GatewayConfiguration.Route],
        backends: [BackendRegistry.ConfiguredBackend],
        priority: [TokenService] = TokenService.priority
    ) {
        self.routes = routes
        self.priority = priority
        order = backends.map { ($0.name, $0.backend) }
        single = backends.map { configured in
            let audience = configured.backend.audience
            let other = backends.first { $0.backend.audience.isOtherEnvironment(of: audience) }
            let alone = Routing(plan: DeliveryPlan([configured.name]))
            let both = other.map { Routing(plan: DeliveryPlan([configured.name, $0.name])) }
            return (alone, both ?? alone, audience)
        }
        named = Dictionary(order.map { ($0.name, $0.backend) }) { first, _ in first }
    }

    /// Returns the backend of a name.
    package func backend(_ name: String) -> (any PushBackend)? { named[name] }

    /// Returns the plan for a recipient by a route that does not fan out: only backends that can address it, in order.
    package func plan(for recipient: Recipient, _ choice: Choice) throws(Failure) -> DeliveryPlan {
        try routing(for: recipient, choice).plan
    }

    /// Returns the backends for a recipient: only those that can address it.
    package func routing(for recipient: Recipient, _ choice: Choice) throws(Failure) -> Routing {
        switch choice {
        case .backend(let name):
            let backend = try named(name)
            guard backend.audience.contains(recipient) else { throw .notAddressable([name]) }
            return Routing(plan: DeliveryPlan([name]))
        case .route(let name):
            guard let route = try route(name) else { return try routing(for: recipient, .automatic) }
            if Self.needsBackend(recipient) { throw unnamed(recipient) }
            guard let plan = usable(route.plan, recipient) else {
                throw .notAddressable(route.plan.backends)
            }
            return Routing(plan: plan)
        case .automatic:
            if Self.needsBackend(recipient) { throw unnamed(recipient) }
            for route in routes where matches(route, recipient) {
                if let plan = usable(route.plan, recipient) { return Routing(plan: plan) }
            }
            if case .topic = recipient { return try topicRouting(recipient) }
            guard let first = single.first(where: { $0.audience.contains(recipient) }) else { throw .noBackend }
            if case .token = recipient { return first.forTokens }
            return first.routing
        }
    }

    /// Whether the platform itself keeps such recipients, so that the request must name the backend: a route is not
    /// enough.
    private static func needsBackend(_ recipient: Recipient) -> Bool {
        switch recipient {
        case .platformID, .tags, .everyone: true
        case .token, .device, .user, .topic: false
        }
    }

    /// Returns the failure for a recipient whose backend was not named.
    private func unnamed(_ recipient: Recipient) -> Failure {
        let able = able(recipient)
        return able.isEmpty ? .noBackend : .ambiguous(backends: able.map { order[$0].name })
    }

    /// Returns the only backend with topics: a topic of one platform has nothing to do with another's of the same name.
    private func topicRouting(_ recipient: Recipient) throws(Failure) -> Routing {
        let able = able(recipient)
        guard let first = able.first else { throw .noBackend }
        guard able.count == 1 else { throw .ambiguous(backends: able.map { order[$0].name }) }
        return single[first].routing
    }

    /// Returns the indices of the backends that can address a recipient.
    private func able(_ recipient: Recipient) -> [Int] {
        single.indices.filter { single[$0].audience.contains(recipient) }
    }

    private func matches(_ route: GatewayConfiguration.Route, _ recipient: Recipient) -> Bool {
        guard case .token(let token) = recipient else { return route.platform == nil && route.service == nil }
        return (route.platform ?? token.service.platform) == token.service.platform
            && (route.service ?? token.service) == token.service
    }

    private func usable(_ plan: DeliveryPlan, _ recipient: Recipient) -> DeliveryPlan? {
        usable(plan) { $1.audience.contains(recipient) }
    }

    /// Returns the backend of a name.
    func named(_ name: String) throws(Failure) -> any PushBackend {
        if let backend = named[name] { return backend }
        throw .unknownBackend(nearest: Suggestion.nearest(to: name, among: order.map(\.name)))
    }

    /// Returns the route of a name; nil for `default` when there is none.
    func route(_ name: String) throws(Failure) -> GatewayConfiguration.Route? {
        if let route = routes.first(where: { $0.name == name }) { return route }
        if name == "default" { return nil }
        throw .unknownRoute(nearest: Suggestion.nearest(to: name, among: routes.compactMap(\.name)))
    }

    /// Returns the backends that a choice names; nil for all of them, and for a name that does not exist.
    package func backends(of choice: Choice) -> [String]? {
        switch choice {
        case .automatic: nil
        case .backend(let name): [name]
        case .route(let name): (try? route(name))?.plan.backends
        }
    }

    /// Returns the backends whose check finds a fault in a message to a device: they would refuse it.
    package func backends(refusing notification: PushNotification) -> Set<String> {
        Set(
            order.filter { _, backend in
                let form: Recipient.Form = backend.audience.services.isEmpty ? .device : .token
                return !backend.check(notification, for: form).faults.isEmpty
            }.map(\.name)
        )
    }

    /// Returns a plan with the backends that fit; nil without any.
    func usable(_ plan: DeliveryPlan, by fits: (String, any PushBackend) -> Bool) -> DeliveryPlan? {
        plan.filtered { name in named[name].map { fits(name, $0) } ?? false }
    }
}
