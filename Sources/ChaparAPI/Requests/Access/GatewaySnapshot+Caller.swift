internal import ChaparDelivery
internal import ChaparComposition
internal import ChaparCore

/// The part of a gateway that a key may see and use. No other code decides it.
///
/// For a key that names an app or backends it is as if nothing else were configured. Every endpoint takes backends,
/// apps, routes and keys from this part (``RequestScope/gateway``), so that any other name gets the same answer as a
/// name that never existed, and no hint contains one.
extension GatewaySnapshot {
    /// Returns the gateway as the holder of a key sees it; nil is the whole gateway, for a key that names neither an
    /// app nor backends.
    ///
    /// Its apps are the key's app, or else the apps of the key's backends. A route keeps the backends that the key may
    /// use and disappears without any. The view has the other keys whose limits are within this key's.
    func seen(by key: GatewayConfiguration.APIKey) -> GatewaySnapshot? {
        guard let reach = Reach(key, backends) else { return nil }
        var own = configuration
        own.apps = reach.apps.sorted()
        own.routes = configuration.routes.compactMap { route in
            var route = route
            route.plan.backends.removeAll { !reach.backends.contains($0) }
            return route.plan.backends.isEmpty || !reach.apps.contains(route.app) ? nil : route
        }
        own.apiKeys = configuration.apiKeys.filter { other in
            other.name == key.name || Reach(other, backends).map(reach.includes) ?? false
        }
        return GatewaySnapshot(
            configuration: own,
            backends: backends.filter { reach.backends.contains($0.name) },
            modules: modules,
            elsewhere: elsewhere
        )
    }
}

/// The apps and backends of a key that names some.
private struct Reach {
    let apps: Set<AppName>
    let backends: Set<String>

    /// Returns nil for a key that is for the whole gateway.
    init?(_ key: GatewayConfiguration.APIKey, _ configured: [BackendRegistry.ConfiguredBackend]) {
        guard key.app != nil || key.backends != nil else { return nil }
        let own = configured.filter { backend in
            backend.app == key.app ?? backend.app && key.backends?.contains(backend.name) ?? true
        }
        apps = key.app.map { [$0] } ?? Set(own.map(\.app))
        backends = Set(own.map(\.name))
    }

    func includes(_ other: Reach) -> Bool { other.apps.isSubset(of: apps) && other.backends.isSubset(of: backends) }
}
