import Foundation
import Logging
import OneSignalBench
import ChaparCore
import ChaparHTTP
import ChaparSandbox
import ChaparTesting
import Synchronization
import Testing

@testable import ChaparIDPush
@testable import ChaparOneSignal
@testable import ChaparOneSignalDevices

/// Keeps every line that is logged, with its metadata.
private struct ListeningHandler: LogHandler {
    let lines: Recorder<String>
    var metadata: Logger.Metadata = [:]
    var logLevel = Logger.Level.trace
    subscript(metadataKey key: String) -> Logger.Metadata.Value? {
        get { metadata[key] }
        set { metadata[key] = newValue }
    }
    func log(event: LogEvent) { lines.add("\(event.level) \(event.message) \(event.metadata ?? [:]) \(metadata)") }
}

/// Section 24 of specs/idpush-onesignal.md: what never is in logs, notices and errors.
@Suite("OneSignal and IDPush: secrets", .timeLimit(.minutes(5)))
struct OneSignalSecretsTests {
    static let faults: [FaultAnswer?] = [
        nil, FaultAnswer(401), FaultAnswer(403, "Access denied."), FaultAnswer(500, "oops"), .htmlPage,
        FaultAnswer(200, body: Array("{".utf8)), FaultAnswer(302),
    ]

    @Test("No key, project, token, player id or text is in a log, a notice or an error", arguments: faults)
    func tellsNothing(fault: FaultAnswer?) async throws {
        let lines = Recorder<String>()
        let logger = Logger(label: "test") { _ in ListeningHandler(lines: lines) }
        try await Harness.run { harness in
            let transport = NIOTransport(logger: logger)
            let context = BackendContext(
                name: "campaigns",
                http: transport,
                time: harness.time,
                state: MemoryState(),
                logger: logger,
                announce: { lines.add("\($0)") }
            )
            let options = OneSignalOptions.sample(harness.simulator)
            let backend = try IDPushBackend(
                options: .sample(harness.simulator),
                context: context,
                sender: options.sender
            )
            let device = DeviceRecord.sample(user: "ali-8812")
            let player = try await #require(backend.devices).register(device)
            if let fault { harness.simulator.add([FaultRule(.answer(fault))]) }
            let message = PushNotification(title: "Order 4711")
            for outcome in await backend.send(message, to: [.platformID(player), .device(device.id)]) {
                lines.add("\(outcome)")
            }
            let errors = [
                await failure { () async throws(PushError) in
                    _ = try await backend.devices?.register(.sample("d-2", token: token(2)))
                },
                await failure { () async throws(PushError) in
                    try await backend.tags?.setTags(["city": "qom-77"], of: device)
                },
                await failure { () async throws(PushError) in
                    try await backend.subscriptions?.setStatus(.unsubscribed, of: device)
                },
            ]
            #expect(errors.allSatisfy { ($0 == nil) == (fault == nil) })
            for error in errors { lines.add("\(String(describing: error))") }
            await backend.shutdown(grace: .zero)
            await transport.shutdown(grace: .zero)
            #expect(!lines.all.isEmpty)
            let secrets = [
                "os_v2_app_sandbox", harness.simulator.rules.projectID, apnsToken, token(2), player, "Order 4711",
                "qom-77",
                "ali-8812",
            ]
            for secret in secrets {
                let telling = lines.all.filter { $0.contains(secret) }
                #expect(telling.isEmpty, "\(telling)")
            }
        }
    }
}
