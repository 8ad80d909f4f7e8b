import Foundation
import ChaparCore
import ChaparHTTP
import ChaparTesting
import Testing

@testable import ChaparService

@Suite("A service of one's own: configuration and signature", .timeLimit(.minutes(1)))
struct ServicePluginTests {
    private static let least: JSONObject = [
        "url": "https://push.example/in", "secret": "whsec_c2FuZGJveC1zZWNyZXQtb2YtdGhlLXNlcnZpY2U=",
        "services": ["x-pager", "ios-apns"],
    ]

    private static func make(_ keys: JSONObject) async -> (backend: ServiceBackend?, issues: [ConfigIssue]) {
        let sample = SampleSection(keys)
        let transport = NIOTransport(logger: quiet)
        let context = BackendContext(name: "pager", http: transport, logger: quiet)
        let backend = sample.make(.service, context) as? ServiceBackend
        await backend?.shutdown(grace: .zero)
        await transport.shutdown(grace: .zero)
        return (backend, sample.issues)
    }

    @Test("A section makes a backend")
    func good() async throws {
        let (backend, issues) = await Self.make(Self.least)
        #expect(issues.isEmpty)
        #expect(backend?.audience == BackendAudience(services: [TokenService(rawValue: "x-pager"), .iOSAPNs]))
        let more = await Self.make([
            "url": "http://127.0.0.1:8080", "secret": "a text of at least 24 bytes",
            "recipients": ["user", "everyone"],
            "batch_size": 1_000, "max_message_bytes": 256, "repeats_harm": true, "timeout": 5,
        ])
        #expect(more.issues.isEmpty)
        #expect(more.backend?.audience == BackendAudience(forms: [.user, .everyone]))
        #expect(more.backend?.isRepeatHarmful(.sample) == true)
    }

    static let bad: [(JSONObject, String, String)] = [
        (["url": nil], "url", "is missing"), (["url": "push.example"], "url", "not an address"),
        (["secret": nil], "secret", "is missing"), (["secret": "short"], "secret", "has 5 bytes"),
        (["secret": "whsec_c2hvcnQ="], "secret", "has 5 bytes"), (["secret": "whsec_***"], "secret", "no base64"),
        (["services": ["ios-apn"]], "services", "\"ios-apn\" is not allowed"),
        (["services": ["x-"]], "services", "\"x-\" is not allowed"), (["services": nil], "services", "is missing"),
        (["recipients": ["token"]], "recipients", "\"token\" is not allowed"),
        (["batch_size": 0], "batch_size", "from 1 to 1000"), (["batchsize": 3], "batchsize", "unknown key"),
    ]

    @Test("A mistake is told with its key, and no secret", arguments: bad)
    func mistakes(change: JSONObject, key: String, words: String) async {
        var keys = Self.least
        for (name, value) in change { keys[name] = value == .null ? nil : value }
        let (backend, issues) = await Self.make(keys)
        #expect(backend == nil)
        #expect(issues.map(\.path) == ["backends.sample.\(key)"], "\(issues)")
        #expect(issues.first?.problem.contains(words) ?? false, "\(issues)")
        #expect(!issues.contains { "\($0)".contains("c2FuZGJveC1") })
    }

    @Test("The signature is that of the specification's example")
    func signature() throws {
        // From the test vectors of Standard Webhooks: secret, id, time, body, signature.
        let signature = try ServiceAuth([Secret("whsec_MfKQ9r8GKYqrTwjUPD8ILPZIo2LaLaSw")])
        let fields = signature.fields(
            id: "msg_p5jXN8AQM9LWM0D4loKWxJek",
            seconds: 1_614_265_330,
            body: Array(#"{"test": 2432232314}"#.utf8)
        )
        #expect(
            fields.map(\.value) == [
                "msg_p5jXN8AQM9LWM0D4loKWxJek", "1614265330", "v1,g0hM9SsE+OTPJTGt/tmIKtSyZlE3uFJELVlNIOLJ1OE=",
            ]
        )
    }

    @Test(
        "Platforms that Chapar does not know may bring token services of their own",
        arguments: [
            ("ios-apns", true), ("x-web-push", true), ("x-9", true), ("x-", false), ("x-Web", false), ("x-a_b", false),
            ("web", false), ("x-" + String(repeating: "a", count: 31), false), ("", false),
        ]
    )
    func services(name: String, isService: Bool) {
        #expect((TokenService.named(name) != nil) == isService)
    }
}
