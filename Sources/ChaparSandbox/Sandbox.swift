public import Foundation
public import ChaparAPNsSimulator
public import ChaparAltcraftSimulator
public import ChaparChabokSimulator
public import ChaparCore
public import ChaparFCMSimulator
public import ChaparHMSSimulator
public import ChaparOAuthSimulator
public import ChaparOneSignalSimulator
internal import ChaparReleaseNotesSimulator
public import ChaparRuStoreSimulator
public import ChaparServiceSimulator
public import ChaparSimulator
public import ChaparWebPushSimulator
internal import Synchronization

/// All simulators together, as `chapar sandbox` and `chapar demo` start them.
///
/// ``writeFiles(to:gatewayPort:kinds:sections:)`` writes everything a gateway needs into a directory: the authority to
/// trust, a signing key, a configuration file that sends to these simulators.
public final class Sandbox: Sendable {
    /// The configuration of a sandbox.
    public struct Configuration: Sendable {
        /// The APNs simulator; by default it takes any device token and honours magic tokens.
        public var apns = APNsSimulatorConfiguration.demonstration
        /// The FCM simulator; by default it takes any token and honours magic tokens.
        public var fcm = FCMSimulatorConfiguration.demonstration
        /// The HMS simulator; by default it takes any device token and honours magic tokens.
        public var hms = HMSSimulatorConfiguration.demonstration
        /// The RuStore simulator; by default it takes any device token and honours magic tokens.
        public var ruStore = RuStoreSimulatorConfiguration.demonstration
        /// The rules of the simulators of OneSignal and IDPush.
        public var oneSignal = OneSignalSimulator.Rules()
        /// The rules of the simulator of Altcraft; it accepts JWTs of the sandbox's own key unless they name others.
        public var altcraft = AltcraftSimulator.Rules()
        /// The rules of the Chabok simulator; by default users without a registered device count as one device.
        public var chabok = ChabokSimulator.Rules.demonstration
        /// The simulator of browsers' push services; by default it takes any subscription and honours magic ids.
        public var webPush = WebPushSimulator.Configuration.demonstration
        /// The rules of platforms outside this package; each is simulated beside the others.
        public var services: [any SimulatedService] = []
        /// The names of the simulators that are started, such as `apns`; nil means all.
        ///
        /// IDPush belongs to `onesignal`.
        public var platforms: Set<String>?
        /// The port of the control API on `127.0.0.1`; 0 for a free one.
        public var controlPort = 0

        /// Makes the defaults.
        public init() {}
    }

    /// The app that the written configuration sends to.
    public static let topic = APNsSimulator.topic

    /// Apple Push Notification service.
    public let apns: APNsSimulator
    /// Firebase Cloud Messaging.
    public let fcm: FCMSimulator
    /// Huawei Push Kit.
    public let hms: HMSSimulator
    /// RuStore, with both of its APIs.
    public let ruStore: RuStoreSimulator
    /// OneSignal, and IDPush in front of it.
    public let oneSignal: OneSignalSimulator
    /// Altcraft.
    public let altcraft: AltcraftSimulator
    /// A token endpoint; the written configuration has a backend that sends to OneSignal with its access tokens.
    public let oauth2: OAuth2Simulator
    /// Chabok, in both of its states.
    public let chabok: ChabokSimulator
    /// A service that the backend `http` posts batches to.
    public let service: ServiceSimulator
    /// The push services of browsers.
    public let webPush: WebPushSimulator
    /// The authority that every client must trust.
    public let authority: SandboxCertificateAuthority
    private let configuration: Configuration
    private let platforms: [any SimulatedPlatform]
    private let control = Mutex<ControlServer?>(nil)

    /// Makes a sandbox that does not listen yet.
    public init(_ configuration: Configuration = Configuration(), time: any TimeSource = SystemTime()) throws {
        self.configuration = configuration
        let authority = try SandboxCertificateAuthority()
        self.authority = authority
        apns = try APNsSimulator(configuration.apns, authority: authority, time: time)
        fcm = try FCMSimulator(configuration.fcm, authority: authority, time: time)
        hms = try HMSSimulator(configuration.hms, authority: authority, time: time)
        ruStore = try RuStoreSimulator(configuration.ruStore, authority: authority, time: time)
        oneSignal = try OneSignalSimulator(configuration.oneSignal, authority: authority, time: time)
        chabok = try ChabokSimulator(configuration.chabok, authority: authority, time: time)
        altcraft = try AltcraftSimulator(configuration.altcraft, authority: authority, time: time)
        altcraft.acceptOwnKey()
        var rules = OAuth2Simulator.Rules()
        rules.rotates = false  // A gateway that starts again begins with the refresh token of the file.
        oauth2 = try OAuth2Simulator(rules, relayed: oneSignal, authority: authority, time: time)
        service = try ServiceSimulator(authority: authority, time: time)
        webPush = try WebPushSimulator(configuration.webPush, authority: authority, time: time)
        let all: [any SimulatedPlatform] =
            [apns, fcm, hms, ruStore, oneSignal, oauth2, altcraft, chabok, service, webPush]
            + (try configuration.services.map { try $0.simulator(authority, time) })
        let unknown = (configuration.platforms ?? []).subtracting(all.map(\.name)).sorted()
        if let name = unknown.first {
            let names = all.map(\.name).joined(separator: ", ")
            throw SandboxError(description: "there is no simulator \"\(name)\", only \(names)")
        }
        platforms = all.filter { configuration.platforms?.contains($0.name) ?? true }
    }

    /// The rules of platforms outside this package, as they were given.
    public var services: [any SimulatedService] { configuration.services }

    /// Starts a sandbox, runs `body`, and shuts the sandbox down, also after an error.
    public static func run<Value>(
        _ configuration: Configuration = Configuration(),
        time: any TimeSource = SystemTime(),
        isolation: isolated (any Actor)? = #isolation,
        _ body: (Sandbox) async throws -> Value
    ) async throws -> Value {
        try await Sandbox(configuration, time: time).whileRunning(body)
    }

    /// Starts every simulator and the control API.
    ///
    /// Throws when a port is taken; then nothing listens.
    public func start() async throws {
        do {
            for platform in platforms { try await platform.start() }
            try await startControl()
        } catch {
            for platform in platforms { await platform.shutdown() }
            throw error
        }
    }

    private func startControl() async throws {
        let routes = SandboxControl(platforms: platforms)
        do {
            let server = try await ControlServer.start(port: configuration.controlPort) { routes.answer($0) }
            control.withLock { $0 = server }
        } catch {
            throw SandboxError(
                description: "cannot listen on 127.0.0.1:\(configuration.controlPort) for control: \(error)"
            )
        }
    }

    /// Stops everything.
    ///
    /// A second call does nothing.
    public func shutdown() async {
        let server = control.withLock { server in
            defer { server = nil }
            return server
        }
        await server?.shutdown()
        for platform in platforms { await platform.shutdown() }
    }

    /// The base URL of the control API.
    public var controlURL: String { "http://127.0.0.1:\(control.withLock { $0?.port } ?? 0)" }

    /// Writes the authority's certificate, each platform's credentials (readable by the owner only) and a configuration
    /// file.
    ///
    /// - Parameters:
    ///   - directory: Made when it is not there. Files of the same names are replaced.
    ///   - gatewayPort: The port that the configuration gives the gateway.
    ///   - kinds: The kinds of backends that the gateway knows; nothing is written for others. Nil means all.
    ///   - sections: The sections other than backends that the gateway knows, such as `release_notes`. Nil means all.
    /// - Returns: The listeners with their addresses, and the files; no file is written when none of `kinds` is
    ///   simulated.
    /// - Throws: When a file cannot be written.
    public func writeFiles(
        to directory: URL,
        gatewayPort: Int = 8080,
        kinds: Set<BackendKind>? = nil,
        sections: Set<String>? = nil
    ) throws -> SandboxDescription {
        let directory = directory.standardizedFileURL
        if gatewayPort > 0 { hms.callBack(gatewayPort: gatewayPort) }
        let folder = SandboxFolder(path: directory.path)
        var files = [SandboxFile(name: "ca.pem", text: authority.certificatePEM)]
        var configuration = SandboxFile(name: "chapar.yaml", text: head(in: folder, port: gatewayPort))
        var written: (kinds: Set<BackendKind>, files: [URL]) = ([], [])
        let simulated = Set(platforms.flatMap { $0.backends(in: folder).map(\.kind) })
        let missing = kinds.map(simulated.subtracting) ?? []
        for platform in platforms {
            let backends = platform.backends(in: folder).filter { missing.isDisjoint(with: $0.neededKinds) }
            if backends.isEmpty { continue }
            written.kinds.formUnion(backends.map(\.kind))
            files += platform.files
            configuration.text += backends.flatMap(\.lines).map { $0 + "\n" }.joined()
        }
        if sections?.contains(SandboxReleaseNotes.key) ?? true {
            files += SandboxReleaseNotes.files
            configuration.text += SandboxReleaseNotes.section
        }
        if sections?.contains(SandboxGorush.key) ?? true {
            configuration.text += SandboxGorush.section(written.kinds)
        }
        let isEmpty = written.kinds.isEmpty && kinds != nil
        if !isEmpty { written.files = try write(files + [configuration], to: directory) }
        return SandboxDescription(
            seed: apns.seed,
            listeners: platforms.flatMap(\.listeners) + [("control", controlURL)],
            configurationFile: directory.appendingPathComponent(configuration.name),
            files: written.files,
            kinds: written.kinds
        )
    }

    /// Writes the files, and makes their folder.
    private func write(_ files: [SandboxFile], to directory: URL) throws(SandboxError) -> [URL] {
        do {
            try FileManager.default.createDirectory(at: directory, withIntermediateDirectories: true)
            for file in files {
                let url = directory.appendingPathComponent(file.name)
                if file.isSecret {
                    try writeSecret(file.contents, to: url)
                } else {
                    try Data(file.contents.utf8).write(to: url, options: .atomic)
                }
            }
        } catch let error as SandboxError {
            throw error
        } catch {
            let cause = (error as NSError).userInfo[NSUnderlyingErrorKey] as? POSIXError
            let reason = cause.map { String(cString: strerror($0.code.rawValue)) } ?? error.localizedDescription
            throw SandboxError(
                description: "cannot write files into \(directory.path): \(reason). Name a folder that can be written"
            )
        }
        return files.map { directory.appendingPathComponent($0.name) }
    }

    /// Writes a file that only its owner can read at any moment.
    private func writeSecret(_ text: String, to file: URL) throws {
        // Removal fails when the file does not exist, which is fine.
        try? FileManager.default.removeItem(at: file)
        let descriptor = open(file.path, O_WRONLY | O_CREAT | O_EXCL | O_NOFOLLOW, 0o600)
        guard descriptor >= 0 else { throw SandboxError(description: "cannot write \(file.path)") }
        let handle = FileHandle(fileDescriptor: descriptor, closeOnDealloc: false)
        try handle.write(contentsOf: Data(text.utf8))
        try handle.close()
    }

    /// Returns the configuration up to its backends.
    private func head(in folder: SandboxFolder, port: Int) -> String {
        """
        # Written by the sandbox: everything here is made up and good for this machine only.
        server:
          host: 127.0.0.1
          port: \(port)
        store:
          kind: sqlite
          path: \(JSONValue.string(folder.file("chapar.db")).text)
        auth:
          keyless: true   # Every program on this machine may do everything, since nothing here is real.
        backends:

        """
    }
}

extension Sandbox: Running {}

/// The listeners, files and seed of a sandbox, for people and for the command line.
public struct SandboxDescription: Sendable, CustomStringConvertible {
    /// The seed of the APNs simulator's randomness.
    public let seed: UInt64
    /// Each listener's name and URL.
    public let listeners: [(name: String, url: String)]
    /// The gateway's configuration file.
    public let configurationFile: URL
    /// All files that were written.
    public let files: [URL]
    /// The kinds of the backends in the configuration file.
    public let kinds: Set<BackendKind>

    /// The listeners, the seed and the files, a line for each.
    public var description: String {
        let width = (listeners.map(\.name.count).max() ?? 0) + 2
        var lines = listeners.map { $0.name.padding(toLength: width, withPad: " ", startingAt: 0) + $0.url }
        lines.append("seed".padding(toLength: width, withPad: " ", startingAt: 0) + "\(seed)")
        lines += files.map { "file".padding(toLength: width, withPad: " ", startingAt: 0) + $0.path }
        return lines.joined(separator: "\n")
    }
}
