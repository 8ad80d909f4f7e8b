import Foundation
import Logging
import ChaparCore
import ChaparHTTP
import ChaparSandbox
import ChaparTesting
import Synchronization

@testable import ChaparFCM

let quiet = Logger(label: "test") { _ in SwiftLogNoOpLogHandler() }
let goodToken = "dR3v0Q:APA91bSampleToken-with_signs"

/// Registration tokens that differ.
func deviceToken(_ number: Int) -> String { "fT0k3n\(number):APA91bSample" }

func recipient(_ token: String = goodToken, _ service: TokenService = .androidFirebase) -> Recipient {
    .token(DeviceToken(token, service: service))
}

/// One account for all tests that need none of their own.
func sampleAccount(tokenURI: String = "https://oauth2.googleapis.com/token") throws -> GoogleServiceAccount {
    let key = try FCMServiceAccountKey(projectID: "courier-demo")
    return try GoogleServiceAccount(json: Secret(key.json(tokenURI: tokenURI)))
}

extension FCMBackend {
    /// A backend that talks to a scripted platform; access tokens come from the test itself.
    static func scripted(
        _ transport: ScriptedTransport,
        time: any TimeSource = ManualTime()
    ) throws -> FCMBackend {
        var options = FCMOptions(
            credential: .accessToken { AccessToken(Secret("ya29.sample"), lifetime: .seconds(3599)) },
            projectID: "courier-demo"
        )
        options.analyticsLabel = nil
        return try FCMBackend(
            options: options,
            context: BackendContext(name: "android", http: transport, time: time, logger: quiet)
        )
    }
}

extension HTTPAnswer {
    /// A success as Google writes it.
    static let fcmAccepted = HTTPAnswer(
        status: 200,
        body: Array(#"{"name":"projects/courier-demo/messages/0:1767225600123456%abc"}"#.utf8)
    )
}

/// An FCM simulator and a backend that talks to it, over TLS and HTTP/2 on the loopback interface.
struct SocketHarness: Sendable {
    let simulator: FCMSimulator
    let backend: FCMBackend
    /// The requests of the backend.
    let sent: RecordedTransport

    /// Starts both, runs `body`, and ends both whatever happens.
    static func run(
        _ configuration: FCMSimulatorConfiguration = FCMSimulatorConfiguration(),
        timeout: Duration = .seconds(30),
        connections: Int = 4,
        projectID: String? = nil,
        time: any TimeSource = SystemTime(),
        credential: ((FCMSimulator) throws -> FCMOptions.Credential)? = nil,
        trusts: Bool = true,
        logger: Logger = quiet,
        _ body: (SocketHarness) async throws -> Void
    ) async throws {
        try await FCMSimulator.run(configuration, time: time) { simulator in
            let account = try GoogleServiceAccount(json: Secret(simulator.credentialsFile))
            var options = FCMOptions(
                credential: try credential?(simulator) ?? .serviceAccount(account),
                projectID: projectID ?? account.projectID
            )
            options.common.address = try .simulator(simulator.url(.send))
            options.common.trustPEM = trusts ? simulator.authority.certificatePEM : nil
            options.common.timeout = timeout
            options.common.maximumConnections = connections
            options.instanceIDEndpoint = try HTTPEndpoint(simulator.url(.instanceID))
            let sent = RecordedTransport(NIOTransport(logger: logger))
            let backend = try FCMBackend(
                options: options,
                context: BackendContext(
                    name: "android",
                    http: sent,
                    time: time,
                    logger: logger
                )
            )
            try await finally({ try await body(SocketHarness(simulator: simulator, backend: backend, sent: sent)) }) {
                await backend.shutdown(grace: .milliseconds(100))
            }
        }
    }

    /// Registers so many devices.
    func register(_ count: Int, _ service: TokenService = .androidFirebase) -> [Recipient] {
        let tokens = (0..<count).map(deviceToken)
        simulator.register(tokens: tokens)
        return tokens.map { recipient($0, service) }
    }

    /// Sends one message to one registered device, so that the connection is up and the access token there.
    @discardableResult
    func warmUp() async -> DeliveryOutcome {
        simulator.register(tokens: [goodToken])
        return await send()
    }

    /// Sends one message.
    func send(
        _ token: String = goodToken,
        _ service: TokenService = .androidFirebase,
        title: String = "Parcel"
    ) async -> DeliveryOutcome {
        await backend.send(PushNotification(title: .plain(title)), to: [recipient(token, service)])[0]
    }
}

/// A section of a configuration file, and the files it names.
struct SampleConfiguration: ConfigFileReader {
    struct NoSuchFile: Error, CustomStringConvertible { let description = "cannot be read: no such file" }

    var values: [(String, String)]
    var files: [String: String] = [:]

    func contents(of path: String) throws -> [UInt8] {
        guard let text = files[path] else { throw NoSuchFile() }
        return Array(text.utf8)
    }

    /// The section, with the report of its mistakes.
    var section: ConfigSection {
        let origin = ConfigOrigin(file: "chapar.yaml", line: 1, column: 1)
        let entries = values.map {
            ConfigNode.Entry(key: $0.0, keyOrigin: origin, node: ConfigNode(.scalar($0.1), origin: origin))
        }
        return ConfigSection(ConfigNode(.map(entries), origin: origin), report: ConfigReport(), files: self)
    }

    /// Reads the section the way the registry does, and gives back every issue as `key: problem. fix`.
    func read() -> (options: FCMOptions?, issues: [String]) {
        let section = section
        let options = FCMOptions(section)
        section.finish()
        return (
            options,
            section.report.issues.map { issue in
                "\(issue.path): \(issue.problem)" + (issue.fix.map { ". \($0)" } ?? "")
            }
        )
    }
}
