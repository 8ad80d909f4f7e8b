internal import ChaparCore
internal import ChaparComposition
package import ChaparQueue

/// Routing for devices of the registry, which several services may reach.
extension RoutingTable {
    /// Returns the backends for a device: those that take one of its live tokens, or devices as such.
    ///
    /// Without a named backend or route, the first route that matches the device and has a usable backend decides. If
    /// only the route's backends that take over (``ChaparComposition/Escalation``) reach the device, the route decides
    /// only where the device has no live token for another backend. Without such a route the plan has the backends of
    /// each live token (``backends(for:)``), with the services in the order of the token priority; services that the
    /// priority does not name, such as the operator's own, come last. If there is no such backend, a backend that takes
    /// devices as such is used.
    package func routing(
        for device: Device,
        _ choice: Choice,
        _ uses: TokenUses = .ordinary
    ) throws(Failure) -> Routing {
        switch choice {
        case .backend(let name):
            let backend = try named(name)
            guard reaches(name, backend, device, uses) else { throw .notAddressable([name]) }
            return Routing(plan: DeliveryPlan([name]))
        case .route(let name):
            guard let route = try route(name) else { return try routing(for: device, .automatic, uses) }
            guard let plan = usable(route.plan, by: { reaches($0, $1, device, uses) }) else {
                throw .notAddressable(route.plan.backends)
            }
            return Routing(plan: plan)
        case .automatic:
            var takeOver: DeliveryPlan?
            for route in routes where Self.matches(route, device) {
                guard let plan = usable(route.plan, by: { reaches($0, $1, device, uses) }) else { continue }
                guard plan.isEscalated(at: 0) else { return Routing(plan: plan) }
                takeOver = takeOver ?? plan
            }
            let backends = backends(for: device, uses)
            if let takeOver, backends.allSatisfy(takeOver.backends.contains) { return Routing(plan: takeOver) }
            guard !backends.isEmpty else { throw .noBackend }
            return Routing(plan: DeliveryPlan(backends))
        }
    }

    /// The effect of a message to an audience on one of its devices.
    package enum Reach {
        /// It gets the message by these backends.
        case reached(Routing)
        /// It gets none.
        case skipped(AudienceSkip)
    }

    /// Returns how a message to an audience reaches a device; `refusing` has the backends that would refuse the
    /// message.
    ///
    /// - Throws: An error for a route or a backend that the configuration no longer has.
    package func reach(
        of device: Device,
        _ choice: Choice,
        _ uses: TokenUses,
        refusing: Set<String>
    ) throws(Failure) -> Reach {
        let found: Routing
        do throws(Failure) {
            found = try routing(for: device, choice, uses)
        } catch {
            switch error {
            case .unknownRoute, .unknownBackend: throw error
            case .notAddressable, .noBackend, .ambiguous: return .skipped(.noToken)
            }
        }
        if refusing.isEmpty { return .reached(found) }
        return found.without(refusing).map { .reached($0) } ?? .skipped(.messageRefused)
    }

    private func backends(for device: Device, _ uses: TokenUses) -> [String] {
        var names: [String] = []
        let others = device.tokens.map(\.token.service).filter { !priority.contains($0) }
        for service in priority + others {
            for token in device.tokens where token.token.service == service {
                for name in backends(for: token, uses) where !names.contains(name) { names.append(name) }
            }
        }
        guard names.isEmpty else { return names }
        return order.first { uses[$0.name] != nil && $0.backend.audience.forms.contains(.device) }.map { [$0.name] }
            ?? []
    }

    /// Returns the backends for a token that have not refused it: the first backend of each environment, beginning with
    /// the token's own environment.
    private func backends(for token: RegisteredToken, _ uses: TokenUses) -> [String] {
        var found: [(name: String, environment: TokenEnvironment)] = []
        for (name, backend) in order where token.isUsable(by: name) && uses[name]?.kind == token.kind {
            let audience = backend.audience
            guard audience.services.contains(token.token.service) else { continue }
            if found.allSatisfy({ $0.environment.conflicts(with: audience.environment) }) {
                found.append((name, audience.environment))
            }
        }
        // Backends of the other environment follow: the app may have reported a wrong one.
        let fitting = found.filter { !token.environment.conflicts(with: $0.environment) }
        return (fitting + found.filter { token.environment.conflicts(with: $0.environment) }).map(\.name)
    }

    private func reaches(_ name: String, _ backend: any PushBackend, _ device: Device, _ uses: TokenUses) -> Bool {
        guard let kind = uses[name]?.kind else { return false }
        let audience = backend.audience
        return audience.forms.contains(.device)
            || device.tokens.contains {
                $0.kind == kind && audience.services.contains($0.token.service) && $0.isUsable(by: name)
            }
    }

    private static func matches(_ route: GatewayConfiguration.Route, _ device: Device) -> Bool {
        if let platform = route.platform, platform != device.effectivePlatform { return false }
        guard let service = route.service else { return true }
        return device.liveToken(of: service) != nil
    }
}
