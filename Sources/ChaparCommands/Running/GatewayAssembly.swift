import Foundation
import Logging
import ChaparCore
import ChaparGateway
import ChaparHTTP
import ChaparQueue
import ServiceLifecycle

/// The error of a start that ended before the gateway ran.
struct StartEnded: Error {}

/// A gateway put together from a configuration file: the one place where plugins, store and gateway meet.
///
/// Used by `serve`, `demo` and `loader`. Nothing listens before ``gateway`` runs.
struct GatewayAssembly: Sendable {
    /// The gateway.
    let gateway: Gateway
    /// The HTTP transport of all backends.
    let transport: NIOTransport
    private let loader: BackendLoader
    private let path: String
    private let log: LogOutput.Settings
    private let logger: Logger

    /// Reads the file, opens the store and connects the parts.
    ///
    /// - Parameters:
    ///   - path: The configuration file.
    ///   - log: The settings that loggers follow; the file's own are put in force.
    ///   - metrics: The metrics shown under `/metrics`.
    ///   - adjust: Changes the configuration that was read, for a demonstration's haste.
    ///   - mayGoOn: Asked once the store is open: with false it is closed again.
    ///   - onListening: Gets the port once requests are taken.
    /// - Throws: Every mistake of the file at once, or what is wrong with the store; ``StartEnded`` when it may not go
    ///   on.
    init(
        path: String,
        log: LogOutput.Settings,
        metrics: GatewayMetrics = GatewayMetrics(build: GatewayProgram.current.build),
        adjust: (inout GatewayConfiguration) -> Void = { _ in },
        mayGoOn: () -> Bool = { true },
        onListening: @escaping @Sendable (_ port: Int) async -> Void
    ) async throws {
        let logger = log.logger()
        let transport = NIOTransport(logger: logger)
        let (state, credentials) = (DeferredState(), DeferredState())
        let notices = EventSink()
        let loader = try BackendLoader(
            transport: transport,
            state: state,
            credentials: credentials,
            notices: notices,
            logger: logger
        )
        let loaded = try loader.load(path)
        var configuration = loaded.configuration
        adjust(&configuration)
        if let refusal = FirstKey.refusal(configuration, path) { throw refusal }
        log.replace(configuration.log)
        Self.logWarnings(of: loaded, logger)
        let keys: SealingKeys
        do {
            keys = try configuration.store.encryption.keys()
        } catch {
            throw CommandFailure("\(error)", .configuration)
        }
        let store = try await StoreOpening.open(configuration.store, logger: logger)
        guard mayGoOn() else {
            await store.close()
            throw StartEnded()
        }
        do {
            try FirstKey.put(into: &configuration, store: configuration.store, logger: logger)
            state.bind(store)
            credentials.bind(try await SealedState.prepared(store, keys: keys, logger: logger))
            gateway = try await Gateway.assemble(
                GatewaySnapshot(configuration: configuration, backends: loaded.backends, modules: loaded.modules),
                store: store,
                knownKinds: loader.registry.factories.map(\.kind.rawValue),
                platforms: loader.registry.factories,
                notices: notices,
                metrics: metrics,
                credentials: credentials,
                build: GatewayProgram.current.build,
                logger: logger,
                onListening: onListening
            )
        } catch {
            await store.close()
            throw error
        }
        self.transport = transport
        self.loader = loader
        self.path = path
        self.log = log
        self.logger = logger
    }

    /// The configuration in force.
    var configuration: GatewayConfiguration { gateway.state.snapshot.configuration }

    /// Reads the file again and puts it in force; with any mistake in it everything stays as it is, and each mistake is
    /// logged.
    func reload() async {
        do {
            try await loader.reload(path) { (loaded) throws(ConfigurationError) in
                let old = configuration
                var new = loaded.configuration
                try addFirstKey(to: &new, store: old.store)
                try gateway.reload(
                    GatewaySnapshot(
                        configuration: new,
                        backends: loaded.backends,
                        modules: loaded.modules
                    )
                )
                log.replace(loaded.configuration.log)
                Self.logWarnings(of: loaded, logger)
                warnOfRestart(from: old, to: loaded.configuration)
            }
        } catch {
            for issue in error.issues {
                logger.error("the new configuration is wrong", metadata: ["issue": "\(issue)"])
            }
            logger.error(
                "nothing was reloaded",
                metadata: ["file": "\(path)", "mistakes": .stringConvertible(error.issues.count)]
            )
        }
    }

    /// Adds the first key on a reload, as the start does, where the configuration has no keys.
    private func addFirstKey(
        to configuration: inout GatewayConfiguration,
        store: GatewayConfiguration.Store
    ) throws(ConfigurationError) {
        do throws(CommandFailure) {
            var started = configuration
            started.store = store
            if let refusal = FirstKey.refusal(started, path) { throw refusal }
            try FirstKey.put(into: &configuration, store: store, logger: logger)
        } catch {
            throw ConfigurationError([ConfigIssue(path: "auth", origin: .builtIn, problem: error.description)])
        }
    }

    /// Logs the warnings of a configuration that is put in force.
    private static func logWarnings(of loaded: LoadedConfiguration, _ logger: Logger) {
        for warning in loaded.warnings {
            logger.warning("the configuration needs a change", metadata: ["warning": "\(warning)"])
        }
    }

    /// Warns of changes in the new configuration that need a restart.
    private func warnOfRestart(from old: GatewayConfiguration, to new: GatewayConfiguration) {
        var sections: [String] = []
        if old.server != new.server { sections.append("server") }
        if old.store != new.store { sections.append("store") }
        guard !sections.isEmpty else { return }
        logger.warning(
            "some changes need a restart",
            metadata: ["sections": "\(sections.joined(separator: ", "))"]
        )
    }
}
