public import PushCore

/// One configuration in force: the settings, the backends built from them, and the routes between them.
///
/// A reload makes a new one and swaps it in whole; a request works with the one it began with.
public final class GatewaySnapshot: Sendable {
    /// The settings.
    public let configuration: GatewayConfiguration
    /// The backends, in the order of the file.
    public let backends: [BackendRegistry.ConfiguredBackend]
    /// Which backends a recipient goes through.
    public let routing: RoutingTable
    /// What plugins bring to the API beside platforms.
    public let modules: [any GatewayModule]
    /// Which platforms are told what about devices.
    let teller: DeviceTeller

    /// Puts settings, backends and modules together.
    public init(
        configuration: GatewayConfiguration,
        backends: [BackendRegistry.ConfiguredBackend],
        modules: [any GatewayModule] = []
    ) {
        self.modules = modules
        self.configuration = configuration
        self.backends = backends
        routing = RoutingTable(
            routes: configuration.routes,
            backends: backends,
            priority: configuration.tokenPriority
        )
        teller = DeviceTeller(backends, priority: configuration.tokenPriority)
    }
}
