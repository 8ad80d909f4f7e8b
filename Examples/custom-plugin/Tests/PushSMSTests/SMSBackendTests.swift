import Foundation
import Logging
import PushCore
import PushSMS
import PushTesting
import Testing

@Suite("Text messages", .timeLimit(.minutes(1)))
struct SMSBackendTests {
    private static func phone(_ number: String) -> Recipient {
        .token(number, service: .sms)
    }

    @Test("The backend keeps the promises of the core", arguments: BackendConformance.checks)
    func kit(check: BackendConformance.Check) async throws {
        try await SMSService.withBackend { service, backend in
            try await check.run(
                BackendConformance.Subject(
                    backend: backend,
                    recipient: { Self.phone("+98912\($0 + 1_000_000)7") },
                    deadRecipient: Self.phone("+989120000404"),
                    foreignRecipient: .token("ab", service: .iOSAPNs),
                    taken: { service.numbers.count },
                    payloadLimit: 600
                )
            )
        }
    }

    static let statuses: [(HTTPAnswer, Refusal.Kind, Refusal.Advice)] = [
        (HTTPAnswer(status: 422), .message, .never),
        (HTTPAnswer(status: 403), .account, .parkBackend),
        (HTTPAnswer(status: 503), .platform, .slowBackend(after: nil)),
        (
            HTTPAnswer(status: 429, headers: [HTTPHeader("retry-after", "7")]), .platform,
            .slowBackend(after: .seconds(7))
        ),
    ]

    @Test("A status is a refusal of every message, with the service's own pause", arguments: statuses)
    func refusals(answer: HTTPAnswer, kind: Refusal.Kind, advice: Refusal.Advice) async throws {
        try await SMSService.withBackend { service, backend in
            service.plan(answer)
            let outcomes = await backend.send(
                PushNotification(body: "Hello"),
                to: [Self.phone("+1"), Self.phone("+2")]
            )
            #expect(outcomes.count == 2)
            for outcome in outcomes {
                guard case .refused(let refusal) = outcome else {
                    Issue.record("\(outcome)")
                    continue
                }
                #expect(refusal.kind == kind && refusal.advice == advice && refusal.status == answer.status)
                #expect((refusal.detail != nil) == (advice == .parkBackend), "an operator reads it")
            }
        }
    }

    @Test("What may have been sent is unknown", arguments: [HTTPAnswer(status: 500), HTTPAnswer(status: 200)])
    func unknown(answer: HTTPAnswer) async throws {
        try await SMSService.withBackend { service, backend in
            service.plan(answer)
            let outcome = await backend.send(PushNotification(body: "Hello"), to: Self.phone("+1"))
            if case .unknown = outcome { return }
            Issue.record("\(outcome)")
        }
    }

    @Test("A number that is gone or does not want messages is the number's fault, and no other's")
    func numbers() async throws {
        try await SMSService.withBackend { service, backend in
            let people = ["+1404", "+1410", "+1", "nonsense"].map(Self.phone)
            let outcomes = await backend.send(PushNotification(title: "Order 42", body: "is on its way"), to: people)
            let kinds = outcomes.map { outcome -> Refusal.Kind? in
                if case .refused(let refusal) = outcome { refusal.kind } else { nil }
            }
            #expect(kinds == [.token, .token, nil, .message])
            #expect(service.numbers == ["+1"])
        }
    }

    @Test("A wrong key parks the backend, and is in no word of the refusal")
    func wrongKey() async throws {
        try await SMSService.withBackend(key: "wrong") { _, backend in
            let outcome = await backend.send(PushNotification(body: "Hello"), to: Self.phone("+1"))
            let words = "\(outcome)"
            #expect(words.contains("parkBackend") && !words.contains("wrong"))
        }
    }

    @Test("The doctor says whether the service takes the key", arguments: [(SMSService.key, true), ("wrong", false)])
    func doctor(key: String, isRight: Bool) async throws {
        try await SMSService.withBackend(key: key) { service, backend in
            let findings = await backend.diagnose()
            #expect(findings.map(\.check) == ["key"] && findings.map(\.verdict) == [isRight ? .ok : .failure])
            #expect((findings[0].fix == nil) == isRight && service.numbers.isEmpty)
            #expect(backend.health.status == .ok, "an answer came")
        }
    }

    @Test("The API takes tokens of our service")
    func service() {
        #expect(TokenService.named("x-sms") == .sms)
    }

    private static let context = BackendContext(
        name: "texts",
        http: ScriptedTransport { _ in .success(HTTPAnswer(status: 200)) },
        logger: Logger(label: "sms")
    )

    @Test("A wrong url is the only mistake beside a right key")
    func wrongURL() {
        let sample = SampleSection(["url": "http://sms.example.com", "key": "k", "timeout": 5])
        #expect(sample.make(.sms, Self.context) == nil)
        #expect(sample.issues.map(\.path) == ["backends.sample.url"])
    }

    @Test("A wrong section is refused with every mistake")
    func section() throws {
        let sample = SampleSection(["url": "http://sms.example.com", "kye": "x"])
        #expect(sample.make(.sms, Self.context) == nil)
        let words = sample.issues.map { "\($0)" }.joined(separator: "\n")
        for word in ["not encrypted", "key", "kye"] { #expect(words.contains(word), "\(words)") }
    }
}
