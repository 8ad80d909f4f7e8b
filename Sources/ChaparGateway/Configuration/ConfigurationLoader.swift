public import Foundation
public import Logging
public import ChaparDelivery
internal import ChaparAPI
internal import ChaparServer
public import ChaparCore
public import ChaparModules
public import ChaparQueue

/// The loader of a configuration file, which also builds the settings, routes and backends that it describes.
///
/// Reading does not stop at the first mistake: the error has all of them, with their places and the nearest existing
/// name. Only the file itself and the files that it names are opened. Used at start, at a reload, and by
/// `chapar check`.
public struct ConfigurationLoader {
    /// The largest configuration file, and the largest file it may name, in bytes.
    public static let maximumBytes = 1 << 20

    private let registry: BackendRegistry
    private let modules: [ModuleFactory]
    private let environment: [String: String]
    /// The check of `store.url`, in a program that contains the PostgreSQL store: it returns the mistake, or nil when
    /// the text is right.
    ///
    /// It checks the text only, and connects to nothing.
    package var databaseMistake: @Sendable (GatewayConfiguration.Store.Postgres) -> String? = { _ in nil }

    /// Makes a loader.
    ///
    /// - Parameters:
    ///   - registry: The kinds of backends that the file can choose.
    ///   - modules: The modules that can have sections of their own.
    ///   - environment: The values for `${NAME}`.
    public init(
        registry: BackendRegistry,
        modules: [ModuleFactory] = [],
        environment: [String: String] = ProcessInfo.processInfo.environment
    ) {
        self.registry = registry
        self.modules = modules
        self.environment = environment
    }

    /// Reads the file at `path`, YAML or JSON.
    ///
    /// - Parameters:
    ///   - path: The file. Paths in it are relative to its folder.
    ///   - context: Returns the context that a backend of a name is built with.
    /// - Returns: The settings, the backends and where every value came from.
    /// - Throws: Every mistake at once.
    public func load(
        _ path: String,
        context: (String) -> BackendContext
    ) throws(ConfigurationError) -> LoadedConfiguration {
        let folder = FolderPath.folder(of: path)
        let files = FolderFiles(folder: folder)
        let bytes: [UInt8]
        do {
            bytes = try files.contents(of: (path as NSString).lastPathComponent)
        } catch {
            let fix =
                (error as? FolderFiles.Unreadable)?.fix ?? "Give the file with --config, or write one: chapar init."
            throw ConfigurationError([ConfigIssue(path: "", origin: .builtIn, problem: "\(error)", fix: fix)])
        }
        return try load(text: bytes, name: path, folder: folder, context: context)
    }

    /// Reads the file for a program that opened its store itself; backends keep their state there, and credentials are
    /// encrypted under `store.encryption`.
    ///
    /// - Parameters:
    ///   - path: The file, as for ``load(_:context:)``.
    ///   - store: The store of the gateway; credentials in it are brought to the current key.
    ///   - logger: Logs which credentials were encrypted, and which cannot be read.
    ///   - context: Returns the context that a backend of a name is built with; its `credentials` are not used.
    /// - Returns: The settings, the backends and where every value came from.
    /// - Throws: `ConfigurationError` with every mistake at once, `KeyUnavailable`, or the store's failure.
    public func load(
        _ path: String,
        store: any NotificationStore,
        logger: Logger,
        context: (String) -> BackendContext
    ) async throws -> LoadedConfiguration {
        let credentials = DeferredState()
        let loaded = try load(path) { context($0).keeping(in: store, credentials: credentials) }
        let keys = try loaded.configuration.store.encryption.keys()
        credentials.bind(try await SealedState.prepared(store, keys: keys, logger: logger))
        return loaded
    }

    /// Reads a configuration from memory.
    ///
    /// - Parameters:
    ///   - text: The text, YAML or JSON in UTF-8.
    ///   - name: The name of the text in places.
    ///   - folder: The folder that relative paths start from.
    ///   - context: Returns the context that a backend of a name is built with.
    /// - Returns: The settings, the backends and where every value came from.
    /// - Throws: Every mistake at once.
    public func load(
        text: [UInt8],
        name: String,
        folder: String,
        context: (String) -> BackendContext
    ) throws(ConfigurationError) -> LoadedConfiguration {
        let files = FolderFiles(folder: folder)
        let report = ConfigReport()
        var interpolation = Interpolation(environment: environment, files: files)
        let root: ConfigNode
        do throws(UnreadableDocument) {
            var document = ConfigDocument(name: name, interpolation: interpolation)
            root = try document.read(text)
            interpolation = document.interpolation
            for issue in document.issues { report.add(issue) }
            for warning in document.warnings { report.warn(warning) }
        } catch {
            throw ConfigurationError([error.issue])
        }
        let section = ConfigSection(root, report: report, files: files)
        if ConfigurationReader.isGorush(section) {
            let problem = "is a configuration of gorush, not of Chapar"
            let fix = "docs/FromGorush.md says how to convert it."
            throw ConfigurationError([ConfigIssue(path: "", origin: root.origin, problem: problem, fix: fix)])
        }
        var reader = ConfigurationReader(root: section, files: files, registry: registry, factories: modules)
        reader.databaseMistake = databaseMistake
        reader.file = name
        var keepsPlain = false
        let (configuration, backends, modules) = reader.read { name in
            let own = context(name)
            if let credentials = own.credentials, !(credentials is any EncryptingState) { keepsPlain = true }
            return own
        }
        if keepsPlain, configuration.store.encryption != GatewayConfiguration.Encryption() {
            section.section("store")?.reject(
                "encryption",
                "would not be in force: the store that backends keep their credentials in does not encrypt",
                fix: "A program that opened its store itself hands it over: load(_:store:logger:context:)."
            )
        }
        let issues = interpolation.presentable(report.issues)
        guard issues.isEmpty else { throw ConfigurationError(issues) }
        return LoadedConfiguration(
            configuration: configuration,
            backends: backends,
            modules: modules,
            settings: report.settings.map(interpolation.presentable),
            keys: report.keys,
            warnings: report.warnings
        )
    }
}

extension ConfigurationLoader {
    /// Reads only the settings by which commands on the gateway's machine find its first key; mistakes in other
    /// settings, and variables that only the service has, do not matter.
    ///
    /// - Returns: Nil when there is no such file, or it cannot be read as YAML.
    package func access(_ path: String) -> GatewayAccess? {
        let files = FolderFiles(folder: FolderPath.folder(of: path))
        guard let bytes = try? files.contents(of: (path as NSString).lastPathComponent) else { return nil }
        return access(text: bytes, name: path)
    }

    /// Reads the same values from a text that will be written to `path`.
    ///
    /// - Returns: Nil when it cannot be read as YAML.
    package func access(text: [UInt8], name path: String) -> GatewayAccess? {
        let files = FolderFiles(folder: FolderPath.folder(of: path))
        var document = ConfigDocument(
            name: path,
            interpolation: Interpolation(environment: environment, files: files)
        )
        guard let root = try? document.read(text) else { return nil }
        let section = ConfigSection(root, report: ConfigReport(), files: files)
        return ConfigurationReader(root: section, files: files, registry: registry, factories: modules).readAccess()
    }
}

/// The settings by which programs on the same machine reach a gateway.
package struct GatewayAccess: Sendable {
    /// The section `server`.
    package let server: GatewayConfiguration.Server
    /// The section `store`, with its full path.
    package let store: GatewayConfiguration.Store
    /// Whether there is a section `auth`, also an empty one.
    package let hasAuth: Bool
    /// Whether there are no keys and `auth.keyless` does not say that none are needed.
    package let needsFirstKey: Bool
}

/// The result of reading a configuration file.
public struct LoadedConfiguration: Sendable {
    /// The settings.
    public let configuration: GatewayConfiguration
    /// The backends, in the order of the file.
    public let backends: [BackendRegistry.ConfiguredBackend]
    /// The modules that plugins made from the file's sections.
    public let modules: [any GatewayModule]
    /// Every value in force with its origin, including defaults; secrets without their value.
    public let settings: [ConfigReport.Setting]
    /// Every key that was read, whether or not the file has it.
    let keys: [ConfigKey]
    /// The warnings about values in force, such as a key under its former name.
    package let warnings: [ConfigIssue]
}

/// The reader of the files that a configuration names, relative to its folder.
struct FolderFiles: ConfigFileReader {
    let folder: String

    func contents(of path: String) throws -> [UInt8] {
        let full = Self.resolve(path, in: folder)
        let descriptor = open(full, O_RDONLY | O_NONBLOCK | O_CLOEXEC)
        guard descriptor >= 0 else { throw Unreadable("cannot read \(full): \(Self.reason)") }
        defer { close(descriptor) }
        let limit = ConfigurationLoader.maximumBytes
        var bytes = [UInt8](repeating: 0, count: limit + 1)
        var count = 0
        let deadline = ContinuousClock.now + Self.pipeTimeout
        while count < bytes.count {
            // A file can be read at once, a pipe (`<(…)`, /dev/stdin) once another program has written into it.
            guard Self.waits(for: descriptor, until: deadline) else {
                throw Unreadable(
                    "cannot read \(full): it is a pipe whose writer has not closed it",
                    fix: "Write it to its end within five seconds, or give a file."
                )
            }
            let part = bytes.withUnsafeMutableBytes {
                read(descriptor, $0.baseAddress?.advanced(by: count), $0.count - count)
            }
            if part < 0, errno == EINTR || errno == EAGAIN { continue }
            guard part >= 0 else { throw Unreadable("cannot read \(full): \(Self.reason)") }
            if part == 0 { break }
            count += part
        }
        guard count <= limit else {
            throw Unreadable(
                "\(full) is larger than \(limit) bytes",
                fix: "Take out what it does not need; keys and certificates can be files of their own."
            )
        }
        bytes.removeLast(bytes.count - count)
        return bytes
    }

    /// The longest wait for the end of a pipe: a reload that waits delays the gateway's stop.
    private static let pipeTimeout = Duration.seconds(5)

    /// Waits until there is something to read; false after the deadline.
    private static func waits(for descriptor: Int32, until deadline: ContinuousClock.Instant) -> Bool {
        while true {
            let rest = ContinuousClock.now.duration(to: deadline).boundedMilliseconds
            guard rest > 0 else { return false }
            var entry = pollfd(fd: descriptor, events: Int16(clamping: POLLIN), revents: 0)
            if poll(&entry, 1, Int32(clamping: rest)) != 0 { return true }
        }
    }

    /// Returns the path, relative to the folder unless it is absolute.
    static func resolve(_ path: String, in folder: String) -> String {
        if path.hasPrefix("/") || folder.isEmpty { return path }
        let tail = path.hasPrefix("./") ? String(path.dropFirst(2)) : path
        return folder.hasSuffix("/") ? folder + tail : folder + "/" + tail
    }

    private static var reason: String {
        let text = String(cString: strerror(errno))
        return text.prefix(1).lowercased() + text.dropFirst()
    }

    /// The reason why a file cannot be read.
    struct Unreadable: Error, CustomStringConvertible {
        let description: String
        /// The fix for the configuration file itself; nil when the file may be a wrong one.
        let fix: String?
        init(_ description: String, fix: String? = nil) {
            self.description = description
            self.fix = fix
        }
    }
}
