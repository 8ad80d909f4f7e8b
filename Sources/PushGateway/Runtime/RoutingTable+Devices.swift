internal import PushCore

/// Routing for devices of the registry, which may be reached by several services.
extension RoutingTable {
    /// The backends for a device: those that take one of its live tokens, or devices as such.
    ///
    /// The route that matches its platform, when there is one. Else for each service that the device has a live token of, in
    /// the order of the token priority, then those it does not name (services of one's own), the backends for that token
    /// (``backends(for:)``).
    func routing(for device: Device, _ choice: Choice) throws(Failure) -> Routing {
        switch choice {
        case .backend(let name):
            let backend = try named(name)
            guard reaches(name, backend, device) else { throw .notAddressable(backend: name) }
            return Routing(plan: DeliveryPlan([name]))
        case .route(let name):
            guard let route = try route(name) else { return try routing(for: device, .automatic) }
            guard let plan = usable(route.plan, by: { reaches($0, $1, device) }) else {
                throw .notAddressable(backend: route.plan.backends.joined(separator: ", "))
            }
            return Routing(plan: plan, isFanOut: route.isFanOut)
        case .automatic:
            for route in routes where Self.matches(route, device) {
                guard let plan = usable(route.plan, by: { reaches($0, $1, device) }) else { continue }
                return Routing(plan: plan, isFanOut: route.isFanOut)
            }
            let backends = backends(for: device)
            guard !backends.isEmpty else { throw .noBackend }
            return Routing(plan: DeliveryPlan(backends))
        }
    }

    private func backends(for device: Device) -> [String] {
        var names: [String] = []
        let others = device.tokens.map(\.token.service).filter { !priority.contains($0) }
        for service in priority + others {
            guard let token = device.token(of: service) else { continue }
            for name in backends(for: token) where !names.contains(name) { names.append(name) }
        }
        guard names.isEmpty else { return names }
        return order.first { $0.backend.audience.forms.contains(.device) }.map { [$0.name] } ?? []
    }

    /// The backends for a token, as long as they have not refused it: the first of each environment, that of the token first.
    private func backends(for token: RegisteredToken) -> [String] {
        var found: [(name: String, environment: TokenEnvironment)] = []
        for (name, backend) in order where token.isUsable(by: name) {
            let audience = backend.audience
            guard audience.services.contains(token.token.service) else { continue }
            if found.allSatisfy({ $0.environment.conflicts(with: audience.environment) }) {
                found.append((name, audience.environment))
            }
        }
        // The others stay behind them: what the app told may be wrong.
        let fitting = found.filter { !token.environment.conflicts(with: $0.environment) }
        return (fitting + found.filter { token.environment.conflicts(with: $0.environment) }).map(\.name)
    }

    private func reaches(_ name: String, _ backend: any PushBackend, _ device: Device) -> Bool {
        let audience = backend.audience
        return audience.forms.contains(.device)
            || device.tokens.contains { audience.services.contains($0.token.service) && $0.isUsable(by: name) }
    }

    private static func matches(_ route: GatewayConfiguration.Route, _ device: Device) -> Bool {
        if let platform = route.platform, platform != device.effectivePlatform { return false }
        guard let service = route.service else { return true }
        return device.liveToken(of: service) != nil
    }
}
