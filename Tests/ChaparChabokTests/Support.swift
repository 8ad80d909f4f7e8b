import Foundation
import Logging
import ChaparCore
import ChaparHTTP
import ChaparSandbox
import ChaparTesting
import Synchronization

@testable import ChaparChabok

let quiet = Logger(label: "test") { _ in SwiftLogNoOpLogHandler() }

/// The simulator and a backend that talks to it, over TLS on the loopback interface.
struct Harness: Sendable {
    let simulator: ChabokSimulator
    let backend: ChabokBackend
    /// The requests of the backend.
    let sent: RecordedTransport
    let time: InstantTime
    let notices: Recorder<BackendNotice>

    static func run(
        _ rules: ChabokSimulator.Rules = .init(),
        world: SandboxListener = ChabokSimulator.sandbox,
        state: (any StateStore)? = nil,
        display: ChabokDisplayPolicy? = nil,
        adjust: (inout ChabokOptions) -> Void = { _ in },
        logger: Logger = quiet,
        _ body: (Harness) async throws -> Void
    ) async throws {
        let time = InstantTime()
        try await ChabokSimulator.run(rules, time: time) { simulator in
            let transport = NIOTransport(logger: logger)
            let sent = RecordedTransport(transport)
            let notices = Recorder<BackendNotice>()
            let context = BackendContext(
                name: "chabok",
                http: sent,
                time: time,
                state: state,
                logger: logger,
                announce: { notices.add($0) }
            )
            let token = simulator.rules.accessTokens[world] ?? ""
            var options = ChabokOptions(appID: "shop", environment: .sandbox, accessToken: Secret(token))
            options.base =
                HTTPBaseURL(url: simulator.url(world)) ?? HTTPBaseURL(HTTPEndpoint(host: "127.0.0.1", port: 1))
            options.common.trustPEM = simulator.certificatePEM
            options.common.timeout = .seconds(10)
            options.requestsPerSecond = 10_000
            adjust(&options)
            let backend = try ChabokBackend(options: options, display: display, context: context)
            let harness = Harness(simulator: simulator, backend: backend, sent: sent, time: time, notices: notices)
            try await finally({ try await body(harness) }) { await harness.end(transport) }
        }
    }

    private func end(_ transport: NIOTransport) async {
        await backend.shutdown(grace: .milliseconds(50))
        await transport.shutdown(grace: .milliseconds(100))
    }

    /// The bodies that came to a path.
    func bodies(_ path: String) -> [JSONValue] {
        simulator.requests.filter { $0.path == "/api/\(path)" }.map(\.body)
    }

    /// Method and path of every request, without the base.
    var calls: [String] { simulator.requests.map { "\($0.method) \($0.path.dropFirst(5))" } }

    /// Reads what the stream holds until a shutdown.
    func events() async -> [ChabokEvent] {
        await backend.shutdown(grace: .zero)
        var events: [ChabokEvent] = []
        for await event in backend.stream.events { events.append(event) }
        return events
    }
}

extension DeviceRecord {
    static func sample(_ id: String = "d-1", user: String? = "u-1", token: String = "9f3c", tags: [String] = []) -> Self
    {
        DeviceRecord(
            id: id,
            user: user,
            tokens: [DeviceToken(token, service: .iOSAPNs)],
            tags: tags,
            attributes: [
                "app_version": "3.3.1", "os_version": "17.5", "model": "iPhone 15", "time_zone": "Asia/Tehran",
            ]
        )
    }
}

extension PushNotification {
    static let sample = PushNotification(title: "Parcel 7781", body: "Left Tabriz")
}

extension JSONValue {
    /// A document of a test.
    static func parsed(_ text: String) throws -> JSONValue { try JSONValue(parsing: Array(text.utf8)) }
}
