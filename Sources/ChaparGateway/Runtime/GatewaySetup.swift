public import Logging
internal import ChaparComposition
public import ChaparCore
public import ChaparModules
public import ChaparQueue
public import ChaparDelivery

extension Gateway {
    /// Builds a gateway for a program that composes it in code.
    ///
    /// ```swift
    /// let gateway = try await Gateway(store: store, logger: logger) {
    ///     try $0.add(ios, as: "ios")
    ///     $0.configuration.store.retention = .seconds(86_400)
    /// }
    /// ```
    ///
    /// It is `assemble` with what most programs need.
    ///
    /// - Parameters:
    ///   - store: An open store; the gateway closes it when it ends.
    ///   - logger: Logs failures.
    ///   - setUp: Adds the backends and changes the settings.
    /// - Throws: The error of `setUp`, `ConfigurationError` for a route to a backend that was not added, or the store's
    ///   failure.
    public convenience init(
        store: any NotificationStore & DeviceStore & OutboxStore,
        logger: Logger,
        _ setUp: (inout GatewaySetup) throws -> Void
    ) async throws {
        var setup = GatewaySetup()
        try setUp(&setup)
        try setup.checkRoutes()
        try await self.init(
            GatewaySnapshot(
                configuration: setup.configuration,
                backends: setup.backends,
                modules: setup.modules
            ),
            store: store,
            servesAPI: setup.servesAPI,
            logger: logger
        )
    }
}

/// The backends and settings of a gateway that a program composes in code.
public struct GatewaySetup: Sendable {
    /// The settings that a file would have, such as routes and `queue`; each has its default.
    public var configuration = GatewayConfiguration()
    /// The modules of plugins, which extend the API.
    public var modules: [any GatewayModule] = []
    /// Whether it listens on the configured address; by default it serves the program alone.
    public var servesAPI = false
    /// The backends that were added.
    public private(set) var backends: [BackendRegistry.ConfiguredBackend] = []

    /// Adds a backend under a name, which routes, calls, logs and metrics know it by.
    ///
    /// - Parameters:
    ///   - backend: The backend. The gateway shuts it down at its end, as a client does that made it.
    ///   - name: The name: letters, digits, `-` and `_`, at most 64.
    ///   - app: The app whose devices and users it reaches.
    ///   - pacing: The rate limit; nil takes the backend's own rate.
    /// - Throws: `ConfigurationError` for a text that is not a valid name, or a name that another backend has.
    public mutating func add(
        _ backend: any PushBackend,
        as name: String,
        app: AppName = .default,
        pacing: Pacing? = nil
    ) throws(ConfigurationError) {
        try add(BackendRegistry.ConfiguredBackend(name: name, backend: backend, app: app, pacing: pacing))
    }

    /// Adds a backend with further settings of its own.
    ///
    /// - Throws: `ConfigurationError` for a text that is not a valid name, or a name that another backend has.
    public mutating func add(_ configured: BackendRegistry.ConfiguredBackend) throws(ConfigurationError) {
        let name = configured.name
        guard BackendRegistry.isName(name) else {
            throw Self.mistake("backends", "\(name) is not a name", "Use letters, digits, - and _, at most 64.")
        }
        guard !backends.contains(where: { $0.name == name }) else {
            throw Self.mistake("backends.\(name)", "is there twice", "Give each backend a name of its own.")
        }
        backends.append(configured)
    }

    /// Throws when a route names a backend that was not added.
    fileprivate func checkRoutes() throws(ConfigurationError) {
        let names = backends.map(\.name)
        for (place, route) in configuration.routes.enumerated() {
            guard let unknown = route.plan.backends.first(where: { !names.contains($0) }) else { continue }
            let nearest = Suggestion.nearest(to: unknown, among: names).map { "Did you mean \($0)?" }
            throw Self.mistake("routes[\(place)].use", "no backend is named \(unknown)", nearest ?? "Add it first.")
        }
    }

    private static func mistake(_ path: String, _ problem: String, _ fix: String) -> ConfigurationError {
        ConfigurationError([ConfigIssue(path: path, origin: .builtIn, problem: problem, fix: fix)])
    }
}
