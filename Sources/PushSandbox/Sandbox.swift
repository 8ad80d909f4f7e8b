public import Foundation
public import PushCore
internal import Synchronization

/// All simulators together, as `chapar sandbox` and `chapar demo` start them.
///
/// ``writeFiles(to:gatewayPort:)`` leaves everything a gateway needs in a directory: the authority to trust, a signing
/// key, a configuration file that sends to these simulators.
public final class Sandbox: Sendable {
    /// How the sandbox is set up.
    public struct Configuration: Sendable {
        /// The APNs simulator; by default it takes any device token and honours magic tokens.
        public var apns = APNsSimulatorConfiguration.demonstration
        /// The port of the control API on `127.0.0.1`; 0 for a free one.
        public var controlPort = 0

        /// Makes the defaults.
        public init() {}
    }

    /// The app that the written configuration sends to.
    public static let topic = "com.example.chapar"

    /// Apple Push Notification service.
    public let apns: APNsSimulator
    private let configuration: Configuration
    private let control = Mutex<ControlServer?>(nil)

    /// Makes a sandbox that listens nowhere yet.
    public init(_ configuration: Configuration = Configuration(), time: any TimeSource = SystemTime()) throws {
        self.configuration = configuration
        apns = try APNsSimulator(configuration.apns, time: time)
    }

    /// Starts a sandbox, runs `body`, and shuts the sandbox down whatever happens.
    public static func run<Value>(
        _ configuration: Configuration = Configuration(),
        time: any TimeSource = SystemTime(),
        isolation: isolated (any Actor)? = #isolation,
        _ body: (Sandbox) async throws -> Value
    ) async throws -> Value {
        let sandbox = try Sandbox(configuration, time: time)
        try await sandbox.start()
        do {
            let value = try await body(sandbox)
            await sandbox.shutdown()
            return value
        } catch {
            await sandbox.shutdown()
            throw error
        }
    }

    /// Starts every simulator and the control API.
    ///
    /// Throws when a port is taken; then nothing listens.
    public func start() async throws {
        try await apns.start()
        do {
            let routes = APNsControl(simulator: apns)
            let server = try await ControlServer.start(port: configuration.controlPort) { routes.answer($0) }
            control.withLock { $0 = server }
        } catch {
            await apns.shutdown()
            throw SandboxError(
                description: "cannot listen on 127.0.0.1:\(configuration.controlPort) for control: \(error)"
            )
        }
    }

    /// Stops everything.
    ///
    /// Doing it twice is no mistake.
    public func shutdown() async {
        let server = control.withLock { server in
            defer { server = nil }
            return server
        }
        await server?.shutdown()
        await apns.shutdown()
    }

    /// The base URL of the control API.
    public var controlURL: String { "http://127.0.0.1:\(control.withLock { $0?.port } ?? 0)" }

    /// Writes the authority's certificate, the signing key (readable by the owner only) and a configuration file.
    ///
    /// - Parameters:
    ///   - directory: Made when it is not there. Files of the same names are replaced.
    ///   - gatewayPort: The port that the configuration gives the gateway.
    /// - Returns: What listens where, and the files.
    /// - Throws: When a file cannot be written.
    public func writeFiles(to directory: URL, gatewayPort: Int = 8080) throws -> SandboxDescription {
        let directory = directory.standardizedFileURL
        let files = FileManager.default
        try files.createDirectory(at: directory, withIntermediateDirectories: true)
        let ca = directory.appendingPathComponent("ca.pem")
        let key = directory.appendingPathComponent(apns.key.fileName)
        let yaml = directory.appendingPathComponent("chapar.yaml")
        try Data(apns.authority.certificatePEM.utf8).write(to: ca, options: .atomic)
        try writeSecret(apns.key.pem, to: key)
        let store = directory.appendingPathComponent("chapar.db")
        let text = configurationFile(store: store.path, key: key.path, ca: ca.path, gatewayPort: gatewayPort)
        try Data(text.utf8).write(to: yaml, options: .atomic)
        return SandboxDescription(
            seed: apns.seed,
            listeners: APNsListener.allCases.map { ("apns \($0.rawValue)", apns.url($0)) } + [("control", controlURL)],
            configurationFile: yaml,
            files: [ca, key, yaml]
        )
    }

    /// Writes a file that nobody but its owner can read at any moment.
    private func writeSecret(_ text: String, to file: URL) throws {
        // Fails when there is no such file, which is fine.
        try? FileManager.default.removeItem(at: file)
        let descriptor = open(file.path, O_WRONLY | O_CREAT | O_EXCL | O_NOFOLLOW, 0o600)
        guard descriptor >= 0 else { throw SandboxError(description: "cannot write \(file.path)") }
        let handle = FileHandle(fileDescriptor: descriptor, closeOnDealloc: false)
        try handle.write(contentsOf: Data(text.utf8))
        try handle.close()
    }

    private func configurationFile(store: String, key: String, ca: String, gatewayPort: Int) -> String {
        // JSON strings are YAML strings too, whatever the path holds.
        func quoted(_ text: String) -> String { JSONValue.string(text).text }
        return """
            # Written by the sandbox: everything here is made up and good for this machine only.
            server:
              host: 127.0.0.1
              port: \(gatewayPort)
            store:
              kind: sqlite
              path: \(quoted(store))
            backends:
              ios:
                kind: apns
                team_id: \(quoted(apns.key.teamID))
                key_id: \(quoted(apns.key.keyID))
                key_file: \(quoted(key))
                topic: \(quoted(Self.topic))
                environment: production
                base_url: \(quoted(apns.url(.production)))
                ca_file: \(quoted(ca))

            """
    }
}

/// What a sandbox offers and where, for people and for the command line.
public struct SandboxDescription: Sendable, CustomStringConvertible {
    /// The seed of everything random in this run.
    public let seed: UInt64
    /// Each listener's name and URL.
    public let listeners: [(name: String, url: String)]
    /// The gateway's configuration file.
    public let configurationFile: URL
    /// All files that were written.
    public let files: [URL]

    /// A few lines that say what listens where, which files there are, and which device tokens bring which answer.
    public var description: String {
        let width = (listeners.map(\.name.count).max() ?? 0) + 2
        var lines = listeners.map { $0.name.padding(toLength: width, withPad: " ", startingAt: 0) + $0.url }
        lines.append("seed".padding(toLength: width, withPad: " ", startingAt: 0) + "\(seed)")
        lines += files.map { "file".padding(toLength: width, withPad: " ", startingAt: 0) + $0.path }
        return lines.joined(separator: "\n")
    }
}
