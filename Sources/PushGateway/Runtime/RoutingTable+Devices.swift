internal import PushCore

/// Routing for devices of the registry, which may be reached by several services.
extension RoutingTable {
    /// The backends for a device: those that take one of its live tokens, or devices as such.
    ///
    /// The route that matches its platform, when there is one. Else one backend for each service that the device has a
    /// live token of, in the order of the token priority, then those it does not name (services of one's own); of several
    /// backends the one that stands first, since a token of one app is refused, and so declared dead, by the backend of
    /// another.
    func routing(for device: Device, _ choice: Choice) throws(Failure) -> Routing {
        switch choice {
        case .backend(let name):
            let backend = try named(name)
            guard Self.reaches(backend, device) else { throw .notAddressable(backend: name) }
            return Routing(plan: DeliveryPlan([name]))
        case .route(let name):
            guard let route = try route(name) else { return try routing(for: device, .automatic) }
            guard let plan = usable(route.plan, by: { Self.reaches($0, device) }) else {
                throw .notAddressable(backend: route.plan.backends.joined(separator: ", "))
            }
            return Routing(plan: plan, isFanOut: route.isFanOut)
        case .automatic:
            for route in routes where Self.matches(route, device) {
                guard let plan = usable(route.plan, by: { Self.reaches($0, device) }) else { continue }
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
        for service in priority + others where device.liveToken(of: service) != nil {
            guard let first = order.first(where: { $0.backend.audience.services.contains(service) }) else { continue }
            if !names.contains(first.name) { names.append(first.name) }
        }
        guard names.isEmpty else { return names }
        return order.first { $0.backend.audience.forms.contains(.device) }.map { [$0.name] } ?? []
    }

    private static func reaches(_ backend: any PushBackend, _ device: Device) -> Bool {
        let audience = backend.audience
        return audience.forms.contains(.device)
            || device.tokens.contains { $0.isAlive && audience.services.contains($0.token.service) }
    }

    private static func matches(_ route: GatewayConfiguration.Route, _ device: Device) -> Bool {
        if let platform = route.platform, platform != device.effectivePlatform { return false }
        guard let service = route.service else { return true }
        return device.liveToken(of: service) != nil
    }
}
