public import ArgumentParser
internal import Foundation
internal import Logging
internal import ChaparCore
internal import ChaparGateway
internal import ChaparHTTP
public import ChaparModules

/// The flag that names the configuration file, `--config`, as an option group of a command.
public struct ConfigOption: ParsableArguments {
    @Option(
        name: [.customLong("config"), .customShort("c")],
        help: "The configuration file, YAML or JSON. Default: $CHAPAR_CONFIG, else chapar.yaml.",
        completion: .file(extensions: ["yaml", "yml", "json"])
    )
    var named: String?

    /// Makes the group without a value; the parser fills it in.
    public init() {}

    /// Makes the option of a command without the flag.
    init(path: String?) { named = path }

    /// The path of the configuration file: the flag, else `CHAPAR_CONFIG`, else `chapar.yaml`.
    public var path: String {
        named ?? ProcessInfo.processInfo.environment["CHAPAR_CONFIG"].flatMap { $0.isEmpty ? nil : $0 } ?? "chapar.yaml"
    }

    /// Reads the file and returns the modules that plugins made of their sections.
    ///
    /// - Returns: The modules; a command looks for its plugin's own by a cast.
    /// - Throws: Every mistake of the file at once.
    public func modules() throws -> [any GatewayModule] { try load().modules }

    /// Reads the file and builds the backends that it names, for a command that sends nothing.
    func load() throws -> LoadedConfiguration { try BackendLoader.offline().load(path) }
}

/// The flag that chooses the form of results.
struct OutputForm: ParsableArguments {
    @Flag(name: .customLong("json"), help: "Write results as JSON, one value a line.")
    var isJSON = false
}

/// Builds the backends of a command, with its transport and loggers.
///
/// `serve`, `check`, `doctor` and similar commands load the file through one, so that all of them read a configuration
/// alike. It starts nothing.
struct BackendLoader {
    let registry: BackendRegistry
    let modules: [ModuleFactory]
    let transport: any HTTPTransport
    let state: (any StateStore)?
    let credentials: (any StateStore)?
    let logger: Logger
    /// The sink for notices of backends to the stream of events; nil where nothing reads them.
    let notices: EventSink?

    init(
        transport: any HTTPTransport,
        state: (any StateStore)? = nil,
        credentials: (any StateStore)? = nil,
        notices: EventSink? = nil,
        logger: Logger
    ) throws {
        self.notices = notices
        registry = try BackendRegistry(GatewayProgram.current.backends)
        modules = GatewayProgram.current.modules
        self.transport = transport
        self.state = state
        self.credentials = credentials
        self.logger = logger
    }

    /// Makes a loader for commands that only look: real backends, none of which sends.
    static func offline() throws -> BackendLoader {
        let silent = Logger(label: "chapar") { _ in SwiftLogNoOpLogHandler() }
        return try BackendLoader(transport: NIOTransport(logger: silent), logger: silent)
    }

    /// Reads a configuration file and builds its backends.
    func load(_ path: String) throws(ConfigurationError) -> LoadedConfiguration { try load(path, transport) }

    /// Reads from a configuration where its gateway is and keeps its first key; nil when the file cannot be read.
    func access(_ path: String) -> GatewayAccess? {
        loader.access(path)
    }

    /// Reads where the gateway is from a text that is to be written to `path`; nil when it cannot be read.
    func access(_ text: String, as path: String) -> GatewayAccess? {
        loader.access(text: Array(text.utf8), name: path)
    }

    /// Reads a configuration that is to be written to `path`, and throws its mistakes; nothing that was built is kept.
    @discardableResult
    func check(_ text: String, as path: String) throws(ConfigurationError) -> LoadedConfiguration {
        try loader.load(
            text: Array(text.utf8),
            name: path,
            folder: FolderPath.folder(of: path)
        ) { context($0, transport) }
    }

    /// Reads a configuration file, builds its backends and hands them to `install`; if that or the file is refused, all
    /// that was built is shut down.
    func reload(
        _ path: String,
        install: (LoadedConfiguration) throws(ConfigurationError) -> Void
    ) async throws(ConfigurationError) {
        let made = PoolTally(transport)
        do throws(ConfigurationError) {
            try install(try load(path, made))
        } catch {
            await made.shutdown(grace: .zero)
            throw error
        }
    }

    private func load(
        _ path: String,
        _ transport: any HTTPTransport
    ) throws(ConfigurationError) -> LoadedConfiguration {
        do throws(ConfigurationError) {
            return try loader.load(path) { context($0, transport) }
        } catch {
            // Its keys would be named as unknown ones, one by one.
            throw GorushFile.mistake(in: path).map { ConfigurationError([$0]) } ?? error
        }
    }

    /// Makes the reader of configuration files for this program: its kinds of backends, its sections, its stores.
    private var loader: ConfigurationLoader {
        var loader = ConfigurationLoader(registry: registry, modules: modules)
        loader.databaseMistake = StoreOpening.mistake
        return loader
    }

    /// Returns the context in which a backend of this name is built.
    private func context(_ name: String, _ transport: any HTTPTransport) -> BackendContext {
        var logger = logger
        logger[metadataKey: "backend"] = "\(name)"
        var announce: @Sendable (BackendNotice) -> Void = { _ in }
        if let notices { announce = notices.announcer(for: name) }
        return BackendContext(
            name: name,
            http: transport,
            state: state,
            credentials: credentials,
            logger: logger,
            announce: announce
        )
    }
}
