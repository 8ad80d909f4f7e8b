import Crypto
import Foundation
import ChaparCore
import ChaparHTTP
import ChaparSandbox
import ChaparTesting
import Testing

@testable import ChaparWebPush

@Suite("The section of Web Push", .timeLimit(.minutes(1)))
struct WebPushPluginTests {
    private static let key = WebPushKey()
    private static var least: JSONObject {
        ["vapid_key": .string(key.privateKey.reveal()), "subject": "mailto:ops@example.com"]
    }

    private static func make(
        _ keys: JSONObject,
        files: [String: String] = [:]
    ) -> (backend: WebPushBackend?, issues: [ConfigIssue]) {
        let sample = SampleSection(keys, files: files)
        let context = BackendContext(name: "browsers", http: ScriptedTransport(), logger: quiet)
        return (sample.make(.webPush, context) as? WebPushBackend, sample.issues)
    }

    @Test("A section makes a backend")
    func good() throws {
        let (backend, issues) = Self.make(Self.least)
        #expect(issues.isEmpty)
        #expect(backend?.applicationServerKey == Self.key.publicKey)
        #expect(backend?.audience == BackendAudience(services: [.webPush]))
        let old = WebPushKey()
        let more = Self.make(
            [
                "vapid_key_file": "vapid.pem", "subject": "https://example.com/contact",
                "previous_vapid_keys": [["file": "old.pem"], ["key": .string(WebPushKey().privateKey.reveal())]],
                "allow_hosts": ["browsers", "push.example.org:8443"], "declarative": false, "allow_silent": true,
                "navigate": "https://example.com/", "icon": "https://example.com/i.png", "ttl": 3_600,
                "token_life": 3_600,
                "max_connections": 4,
            ],
            files: ["vapid.pem": Self.key.pem.reveal(), "old.pem": old.pem.reveal()]
        )
        #expect(more.issues.isEmpty, "\(more.issues)")
        #expect(more.backend?.options.keys.map(\.publicKey).prefix(2) == [Self.key.publicKey, old.publicKey])
    }

    static let bad: [(JSONObject, String, String)] = [
        (["vapid_key": nil], "vapid_key_file", "is missing"), (["vapid_key": "AAAA"], "vapid_key", "i"),
        (["vapid_key": .string(P384.Signing.PrivateKey().pemRepresentation)], "vapid_key", "P-256 only"),
        (["subject": nil], "subject", "is missing"),
        (["subject": "ops@example.com"], "subject", "neither with mailto:"),
        (["subject": "mailto:ops@localhost"], "subject", "no mail address of a domain"),
        (["subject": "mailto: ops@example.com"], "subject", "holds blanks"),
        (["subject": "https://localhost/"], "subject", "this machine"),
        (["allow_hosts": ["https://push.example.org"]], "allow_hosts", "is no host"),
        (["allow_hosts": ["*.com"]], "allow_hosts", "no domain"),
        (["allow_hosts": []], "allow_hosts", "is empty"),
        (["allow_hosts": ["any"], "proxy": "http://proxy.example:3128"], "allow_hosts", "through a proxy"),
        (["previous_vapid_keys": [["file": "gone.pem"]]], "previous_vapid_keys[0].file", "gone.pem"),
        (["previous_vapid_keys": [[:]]], "previous_vapid_keys[0].file", "is missing"),
        (["navigate": "/o"], "navigate", "no absolute address"), (["token_life": 90_000], "token_life", "86400"),
        (["ttl": 2_419_201], "ttl", "2419200"), (["base_url": "https://example.com"], "base_url", "unknown key"),
    ]

    @Test("A mistake is told with its key, and no secret", arguments: bad)
    func mistakes(change: JSONObject, key: String, words: String) {
        var keys = Self.least
        for (name, value) in change { keys[name] = value == .null ? nil : value }
        let (backend, issues) = Self.make(keys)
        #expect(backend == nil)
        #expect(issues.map(\.path) == ["backends.sample.\(key)"], "\(issues)")
        #expect(issues.first?.problem.contains(words) ?? false, "\(issues)")
        #expect(!issues.contains { "\($0)".contains(Self.key.privateKey.reveal()) })
    }

    @Test("The doctor looks at the key, the subject and each service")
    func doctor() async throws {
        try await Harness.run { harness in
            let findings = await harness.backend.diagnose()
            #expect(findings.map(\.check) == ["key", "subject"] + Array(repeating: "reachability", count: 5))
            #expect(findings.allSatisfy { $0.verdict == .ok }, "\(findings)")
            harness.simulator.add(FaultRule.refuseConnections(listener: WebPushService.apple.listener))
            harness.simulator.end(.reset, listener: WebPushService.apple.listener)
            // A connection from before may answer once more.
            var worse = await harness.backend.diagnose()
            for _ in 0..<20 where !worse.contains(where: { $0.verdict == .failure }) {
                try await Task.sleep(for: .milliseconds(100))
                worse = await harness.backend.diagnose()
            }
            #expect(worse.filter { $0.verdict == .failure }.count == 1, "\(worse)")
        }
    }

    @Test("No row of the table is without a sentence")
    func reasons() {
        let rules = WebPushRejections.rules
        #expect(rules.count > 30)
        #expect(rules.allSatisfy { $0.detail?.hasSuffix(".") ?? false })
        #expect(Set(rules.map(\.reason)).count == rules.count)
    }
}
