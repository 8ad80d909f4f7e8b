import Foundation
import Logging
import ChaparCore
import ChaparHTTP
import ChaparSandbox
import ChaparTesting
import Testing

@testable import ChaparHMS

let quiet = Logger(label: "test") { _ in SwiftLogNoOpLogHandler() }

func androidToken(_ number: Int) -> String { "IQAAAACy0sample\(number)-AaBbCcDdEeFf" }

func android(_ token: String) -> Recipient { .token(DeviceToken(token, service: .androidHuawei)) }

/// An HMS simulator and a backend that talks to it, over TLS and HTTP/1.1 on the loopback interface.
struct Harness: Sendable {
    let simulator: HMSSimulator
    let backend: HMSBackend
    /// The requests of the backend.
    let sent: RecordedTransport

    /// Starts both, runs `body`, and ends both whatever happens.
    static func run(
        _ configuration: HMSSimulatorConfiguration = HMSSimulatorConfiguration(),
        timeout: Duration = .seconds(45),
        time: any TimeSource = SystemTime(),
        change: (inout HMSOptions, HMSSimulator) throws -> Void = { _, _ in },
        logger: Logger = quiet,
        _ body: (Harness) async throws -> Void
    ) async throws {
        try await HMSSimulator.run(configuration, time: time) { simulator in
            let app = simulator.app
            var options = HMSOptions(
                credential: .client(id: app.appID, secret: Secret(app.clientSecret)),
                api: .v1(appID: app.appID)
            )
            options.common.address = try .simulator(simulator.url(HMSSimulator.push))
            options.tokenEndpoint = try #require(HTTPEndpoint(url: simulator.url(HMSSimulator.token)))
            options.common.trustPEM = simulator.authority.certificatePEM
            options.common.timeout = timeout
            try change(&options, simulator)
            let sent = RecordedTransport(NIOTransport(logger: logger))
            let backend = try HMSBackend(
                options: options,
                context: BackendContext(name: "huawei", http: sent, time: time, logger: logger)
            )
            try await finally({ try await body(Harness(simulator: simulator, backend: backend, sent: sent)) }) {
                await backend.shutdown(grace: .milliseconds(100))
            }
        }
    }

    /// Makes so many devices known.
    @discardableResult
    func register(_ numbers: Range<Int>) -> [Recipient] {
        simulator.setDevice(HMSDevice(), tokens: numbers.map(androidToken))
        return numbers.map { android(androidToken($0)) }
    }

    /// Sends one message to recipients of one request.
    func send(_ recipients: [Recipient], title: String = "Parcel") async -> [DeliveryOutcome] {
        await backend.send(PushNotification(title: .plain(title), body: "Out for delivery"), to: recipients)
    }

    /// Sends one message to one registered device.
    @discardableResult
    func sendOne(_ number: Int = 0) async -> DeliveryOutcome { await send(register(number..<(number + 1)))[0] }
}
