internal import ChaparComposition
public import ChaparCore
public import ChaparModules

/// A configuration in force: the settings, the backends built from them, and the routes between them.
///
/// A reload makes a new one and replaces the whole; a request works with the one that it started with.
public final class GatewaySnapshot: Sendable {
    /// The settings.
    public let configuration: GatewayConfiguration
    /// The backends, in the order of the file.
    public let backends: [BackendRegistry.ConfiguredBackend]
    private let names: Set<String>
    /// The routes of all apps' backends.
    package let routing: RoutingTable
    /// The apps with backends, by name.
    package let apps: [AppName]
    private let routings: [AppName: RoutingTable]
    /// The modules of plugins, which extend the API beside platforms.
    public let modules: [any GatewayModule]
    /// The rules that decide which platforms get which changes of devices.
    let deviceSync: DeviceSync
    /// The backends that other gateways on the same store have.
    package let elsewhere: BackendsElsewhere

    /// Makes a snapshot of settings, backends and modules.
    public convenience init(
        configuration: GatewayConfiguration,
        backends: [BackendRegistry.ConfiguredBackend],
        modules: [any GatewayModule] = []
    ) {
        self.init(configuration: configuration, backends: backends, modules: modules, elsewhere: BackendsElsewhere())
    }

    package init(
        configuration: GatewayConfiguration,
        backends: [BackendRegistry.ConfiguredBackend],
        modules: [any GatewayModule],
        elsewhere: BackendsElsewhere
    ) {
        self.elsewhere = elsewhere
        self.modules = modules
        self.configuration = configuration
        self.backends = backends
        names = Set(backends.map(\.name))
        routing = RoutingTable(
            routes: configuration.routes,
            backends: backends,
            priority: configuration.tokenPriority
        )
        apps = Set(backends.map(\.app)).sorted()
        var routings: [AppName: RoutingTable] = [:]
        for app in apps {
            routings[app] =
                apps.count == 1
                ? routing
                : RoutingTable(
                    routes: configuration.routes.filter { $0.app == app },
                    backends: backends.filter { $0.app == app },
                    priority: configuration.tokenPriority
                )
        }
        self.routings = routings
        deviceSync = DeviceSync(backends, priority: configuration.tokenPriority)
    }

    /// Returns the routes of an app's backends.
    package func routing(of app: AppName) -> RoutingTable {
        routings[app] ?? RoutingTable(routes: [], backends: [], priority: configuration.tokenPriority)
    }

    /// Returns the routes of an app's backends, of those that a sender may use; nil stands for all.
    func routing(of app: AppName, within names: [String]?) -> RoutingTable {
        guard let names else { return routing(of: app) }
        let routes = configuration.routes.compactMap { route in
            var route = route
            route.plan.backends.removeAll { !names.contains($0) }
            return route.app != app || route.plan.backends.isEmpty ? nil : route
        }
        return RoutingTable(
            routes: routes,
            backends: backends(of: app).filter { names.contains($0.name) },
            priority: configuration.tokenPriority
        )
    }

    /// Whether a backend is gone: no gateway has it in its configuration, so no worker sends the deliveries that wait
    /// for it.
    ///
    /// Only this function decides it, for the handling of such deliveries and for answers about them.
    package func isGone(_ backend: String) -> Bool { !names.contains(backend) && !elsewhere.mayHave(backend) }

    /// Whether this gateway has a backend of this name.
    func has(_ backend: String) -> Bool { names.contains(backend) }

    /// Returns the app of a backend; nil when there is none of this name.
    package func app(ofBackend name: String) -> AppName? { backends.first { $0.name == name }?.app }

    /// Returns the backends of an app, in the order of the file.
    package func backends(of app: AppName) -> [BackendRegistry.ConfiguredBackend] { backends.filter { $0.app == app } }
}

extension GatewaySnapshot {
    /// Returns the services whose tokens an app's backends take, sorted.
    package func services(of app: AppName) -> [String] {
        Set(backends(of: app).flatMap { $0.backend.audience.services.map(\.rawValue) }).sorted()
    }
}
