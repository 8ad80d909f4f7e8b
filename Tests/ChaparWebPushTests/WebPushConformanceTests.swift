import Foundation
import ChaparCore
import ChaparSandbox
import ChaparTesting
import Testing

@testable import ChaparWebPush

@Suite("The Web Push backend keeps every promise of a backend", .timeLimit(.minutes(1)))
struct WebPushConformanceTests {
    @Test("The conformance kit passes over a socket", arguments: BackendConformance.checks)
    func backend(check: BackendConformance.Check) async throws {
        let timeout = Duration.seconds(check.wantsHaste ? 3 : 60)
        let log = RecordedLog()
        try await Harness.run(.demonstration, timeout: timeout, logger: log.logger) { harness in
            let simulator = harness.simulator
            let subscription: @Sendable (Int) -> Recipient = { browser(simulator.subscription("kit-\($0)")) }
            _ = simulator.subscription("kit-dead")
            let dead = browser(simulator.subscription("sim-gone-1"))
            var subject = BackendConformance.Subject(
                backend: harness.backend,
                recipient: subscription,
                deadRecipient: dead,
                foreignRecipient: .token(DeviceToken("fcm:APA91", service: .androidFirebase)),
                taken: { simulator.counters.accepted },
                payloadLimit: WebPushEncryption.maximumPlaintext,
                disturb: {
                    simulator.removeRules()
                    let trouble = try #require(FaultRule.Trouble(rawValue: $0.rawValue))
                    simulator.add(FaultRule.trouble(trouble))
                }
            )
            subject.deadline = timeout
            subject.log = log
            subject.secrets = [try WebPushKey(Secret(simulator.vapidKeyPEM)).privateKey]
            // What leaves is encrypted, so the kit reads what a browser reads.
            subject.sent = {
                harness.sent.requests.map { request in
                    var plain = request
                    let id = request.path.split(separator: "/").last.map(String.init) ?? ""
                    if let text = simulator.decrypt(request.body, for: id) { plain.body = Array(text.utf8) }
                    return plain
                }
            }
            subject.takesRepeatsOnce = false
            subject.lacks = [.expiringCredentials, .refusalsUnderSuccess]
            subject.refuseCredential = { harness.fault(.plain, FaultAnswer(403)) }
            subject.throttle = { pause in
                harness.fault(.plain, FaultAnswer(429, retryAfter: Int(clamping: pause.components.seconds)))
            }
            let keys = simulator.subscription("kit-0").dropFirst(#"{"endpoint":"#.count).drop { $0 != "," }
            subject.hostileRecipients = [
                "https://10.0.0.1/push/kit-0", "https://push.example.test/push/kit-0", "https://localhost/push/kit-0",
                "http://127.0.0.1/push/kit-0", "https://user@fcm.googleapis.com/fcm/send/1",
                "https://fcm.googleapis.com.evil.test/fcm/send/1", "https://2130706433/", "https://0x7f.1/",
            ].map { browser(#"{"endpoint":"\#($0)"\#(keys)"#) }
            let skip = try await check.run(subject)
            #expect(
                skip?.isUndeclared != false,
                "the simulator can do all that the kit asks for: \(String(describing: skip))"
            )
        }
    }
}
