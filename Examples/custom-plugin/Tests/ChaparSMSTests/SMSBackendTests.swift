import Foundation
import ChaparSMS
import ChaparSMSSimulator
import ChaparCore
import ChaparHTTP
import ChaparSimulator
import ChaparTesting
import Testing

@Suite("SMS", .timeLimit(.minutes(1)))
struct SMSBackendTests {
    /// Runs `body` with the platform's simulator and a backend that sends to it.
    private static func withBackend(
        key: String = SMSService.key,
        timeout: Duration = .seconds(20),
        log: RecordedLog = RecordedLog(),
        _ body: (Simulator<SMSService>, SMSBackend, RecordedTransport) async throws -> Void
    ) async throws {
        try await Simulator.run(SMSService()) { simulator in
            let common = CommonBackendOptions(trustPEM: simulator.certificatePEM, timeout: timeout)
            let address = simulator.section(caFile: "ca.pem")["url"]?.stringValue
            let url = try #require(HTTPBaseURL(url: address ?? ""))
            let transport = NIOTransport(logger: log.logger)
            let options = SMSOptions(url: url, key: Secret(key), common: common)
            let sent = RecordedTransport(transport)
            let backend = try SMSBackend(options, http: sent)
            let result: Result<Void, any Error>
            do { result = .success(try await body(simulator, backend, sent)) } catch { result = .failure(error) }
            await backend.shutdown(grace: .zero)
            await transport.shutdown(grace: .milliseconds(100))
            try result.get()
        }
    }

    private static func address(_ text: String) -> Recipient { .token(text, service: .sms) }

    @Test("The backend keeps the promises of the core", arguments: BackendConformance.checks)
    func kit(check: BackendConformance.Check) async throws {
        let (log, timeout) = (RecordedLog(), Duration.seconds(check.wantsHaste ? 3 : 60))
        try await Self.withBackend(timeout: timeout, log: log) { simulator, backend, sent in
            var subject = BackendConformance.Subject(
                backend: backend,
                recipient: { Self.address("address-\($0)") },
                deadRecipient: Self.address("gone-away-1"),
                foreignRecipient: .token("00fc13adff785122", service: .iOSAPNs),
                taken: { simulator.service.taken },
                requests: { simulator.requests },
                payloadLimit: SMSBackend.maximumBytes,
                disturb: { try simulator.disturb($0.rawValue) }
            )
            subject.takesRepeatsOnce = true
            subject.sent = { sent.requests }
            subject.refuseCredential = { simulator.add(FaultRule(.answer(FaultAnswer(401)))) }
            subject.throttle = { pause in
                let answer = FaultAnswer(429, retryAfter: Int(pause.components.seconds))
                simulator.add(FaultRule(.answer(answer)))
            }
            // The platform's key does not end, its status says what became of a message, and an address is a word.
            subject.lacks = [.expiringCredentials, .refusalsUnderSuccess, .addresses]
            subject.deadline = timeout
            subject.secrets = [Secret(SMSService.key)]
            subject.log = log
            // What the kit could not ask is shown as skipped, with what to give.
            if let skip = try await check.run(subject) { try Test.cancel("\(skip)") }
        }
    }

    static let addresses: [(String, Refusal.Kind, Refusal.Advice)] = [
        ("gone-1", .token, .never), ("out-1", .token, .never), ("fast-1", .platform, .slowBackend(after: .seconds(1))),
    ]

    @Test("A refusal says whose fault it is and what to do next", arguments: addresses)
    func refusals(address: String, kind: Refusal.Kind, advice: Refusal.Advice) async throws {
        try await Self.withBackend { _, backend, _ in
            let outcome = await backend.send(PushNotification(body: "Hello"), to: Self.address(address))
            guard case .refused(let refusal) = outcome else {
                Issue.record("\(outcome)")
                return
            }
            #expect(refusal.kind == kind && refusal.advice == advice)
            #expect((refusal.invalidation != nil) == address.hasPrefix("gone-"))
        }
    }

    @Test("A wrong key parks the backend; the doctor says so, and neither shows it")
    func wrongKey() async throws {
        try await Self.withBackend(key: "not-the-key") { _, backend, _ in
            let outcome = await backend.send(PushNotification(body: "Hello"), to: Self.address("address-1"))
            let findings = await backend.diagnose()
            #expect("\(outcome)".contains("parkBackend") && findings.map(\.verdict) == [.failure])
            #expect(!"\(outcome)\(findings)".contains("not-the-key"))
        }
    }

    @Test("The API takes tokens of our service")
    func service() {
        #expect(TokenService.named("x-sms") == .sms)
    }

    @Test("A section with a wrong url, no key and an unknown key is refused with every mistake")
    func section() {
        let context = BackendContext(
            name: "sample",
            http: ScriptedTransport { _ in .success(HTTPAnswer(status: 200)) },
            logger: RecordedLog().logger
        )
        let sample = SampleSection(["url": "http://sms.example.com", "kye": "x"])
        #expect(sample.make(.sms, context) == nil)
        let mistakes = sample.issues.map { "\($0)" }.joined(separator: "\n")
        for word in ["not encrypted", "key", "kye"] { #expect(mistakes.contains(word), "\(mistakes)") }
    }
}
