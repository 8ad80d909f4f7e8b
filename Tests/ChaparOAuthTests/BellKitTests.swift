import Foundation
import ChaparCore
import ChaparTesting
import Synchronization
import Testing

/// The kit is held to a stranger's plugin: ten faults of it that once passed must fail the check of their promise.
@Suite("The conformance kit and a plugin of WNS's shape", .timeLimit(.minutes(1)))
struct BellKitTests {
    private static func subject(_ fault: BellFault? = nil) throws -> BackendConformance.Subject {
        let platform = BellPlatform()
        let scripted = ScriptedTransport { platform.answer($0) }
        let sent = RecordedTransport(scripted)
        let time = InstantTime()
        var subject = BackendConformance.Subject(
            backend: try BellBackend(
                id: BellPlatform.id,
                secret: Secret(BellPlatform.secret),
                http: sent,
                time: time,
                fault: fault
            ),
            recipient: { BellPlatform.channel("a-\($0)", host: $0 % 3) },
            deadRecipient: BellPlatform.channel("gone-1"),
            foreignRecipient: .token(DeviceToken("00fc13adff785122", service: .iOSAPNs)),
            taken: { platform.state.withLock { $0.taken } },
            payloadLimit: BellBackend.maximumBytes,
            disturb: { disturbance in
                platform.state.withLock { $0.disturbance = disturbance }
                guard disturbance == .unreachable else { return }
                let failure = HTTPFailure(.notProcessed, .connect, "nothing answers")
                scripted.status = HTTPPoolStatus(lastConnectFailure: failure)
            }
        )
        subject.takesRepeatsOnce = false
        subject.sent = { sent.requests }
        subject.now = { time.now }
        subject.log = RecordedLog()
        subject.secrets = [Secret(BellPlatform.secret)]
        subject.deadline = .seconds(5)
        subject.refuseCredential = { platform.state.withLock { $0.isRefusing = true } }
        subject.expireCredential = { platform.state.withLock { $0.tokens = [] } }
        subject.throttle = { pause in platform.state.withLock { $0.pause = pause } }
        subject.refusedUnderSuccess = BellPlatform.channel("dropped-1")
        subject.hostileRecipients = [
            "https://elsewhere.example/?token=a-1", "https://\(BellBackend.domain).elsewhere.example/?token=a-1",
            "https://evil\(BellBackend.domain)/?token=a-1", "http://h0.\(BellBackend.domain)/?token=a-1",
            "https://h0.\(BellBackend.domain):8443/?token=a-1", "https://u:p@h0.\(BellBackend.domain)/?token=a-1",
        ]
        .map { Recipient.token(DeviceToken($0, service: .bell)) }
        return subject
    }

    @Test("The plugin keeps every promise", arguments: BackendConformance.checks)
    func good(check: BackendConformance.Check) async throws {
        let skip = try await check.run(try Self.subject())
        #expect(skip?.isUndeclared != false, "\(String(describing: skip))")
    }

    @Test("Each of ten faults fails the check of its promise", arguments: BellFault.allCases)
    func faults(fault: BellFault) async throws {
        let check = try #require(BackendConformance.checks.first { $0.name.hasPrefix(fault.promise) })
        let failure = await #expect(throws: ConformanceFailure.self) { try await check.run(try Self.subject(fault)) }
        let words = failure?.description ?? ""
        #expect(words.contains(check.name) && !words.contains(BellPlatform.secret))
    }

    @Test("There are ten, each about a promise of its own")
    func ten() {
        #expect(Set(BellFault.allCases.map(\.promise)).count == 10)
    }
}
