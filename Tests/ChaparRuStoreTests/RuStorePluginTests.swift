import Foundation
import ChaparCore
import ChaparTesting
import Testing

@testable import ChaparRuStore

@Suite("RuStore: the section of a configuration", .timeLimit(.minutes(1)))
struct RuStorePluginTests {
    private static let least: JSONObject = ["project_id": "aabbcc", "service_token": "AAAbbbCC123"]

    private static func make(_ keys: JSONObject) -> (backend: RuStoreBackend?, issues: [ConfigIssue]) {
        let sample = SampleSection(keys)
        let context = BackendContext(name: "rustore", http: ScriptedTransport(), logger: quiet)
        return (sample.make(.ruStore, context) as? RuStoreBackend, sample.issues)
    }

    @Test("A section makes a backend of either mode, each for tokens of its own")
    func good() {
        let (direct, issues) = Self.make(Self.least)
        #expect(issues.isEmpty)
        #expect(direct?.audience.services == [.androidRuStore] && direct?.audience.forms == [])
        #expect(direct?.options.endpoint == HTTPEndpoint(host: "vkpns.rustore.ru"))
        #expect(direct?.options.sendPath == "/v1/projects/aabbcc/messages:send")
        let universal = Self.make(
            Self.least.merging(["mode": "universal", "http_version": 1, "allow_broadcast": true])
        )
        #expect(universal.issues.isEmpty)
        #expect(universal.backend?.audience.services == [.androidRuStoreUniversal])
        #expect(universal.backend?.audience.forms == [.topic])
        #expect(universal.backend?.options.endpoint == HTTPEndpoint(host: "vkpns-universal.rustore.ru"))
    }

    @Test("Both services are known to everybody, Altcraft's provider of that name among them")
    func services() {
        #expect(TokenService.named("android-rustore") == .androidRuStore)
        #expect(TokenService.named("android-rustore-universal") == .androidRuStoreUniversal)
        #expect(TokenService.androidRuStore.platform == "android")
        let order = TokenService.known.filter { $0.platform == "android" }
        #expect(order == [.androidFirebase, .androidRuStore, .androidRuStoreUniversal, .androidHuawei])
    }

    static let bad: [(JSONObject, String, String)] = [
        (["project_id": nil], "project_id", "is missing"), (["project_id": "a/b"], "project_id", "not a project's id"),
        (["service_token": nil], "service_token", "is missing"), (["service_token": ""], "service_token", "is empty"),
        (["service_token": "a b"], "service_token", "characters"),
        (["mode": "both"], "mode", "\"both\" is not allowed"),
        (["base_url": "http://relay.test"], "base_url", "TLS only"),
        (["http_version": 3], "http_version", "from 1 to 2"),
        (["everyone_topics": ["a"]], "everyone_topics", "only mode: universal has"),
        (["priority": "high"], "priority", "unknown key"),
        (["mode": "universal", "auth": ["kind": "oauth2_refresh"]], "auth", "does not go with mode: universal"),
    ]

    @Test("A mistake is told with its key, and no secret", arguments: bad)
    func mistakes(change: JSONObject, key: String, words: String) {
        var keys = Self.least
        for (name, value) in change { keys[name] = value == .null ? nil : value }
        let (backend, issues) = Self.make(keys)
        #expect(backend == nil)
        #expect(issues.map(\.path) == ["backends.sample.\(key)"], "\(issues)")
        #expect(issues.first?.problem.contains(words) ?? false, "\(issues)")
        #expect(!issues.contains { "\($0)".contains("AAAbbbCC123") })
    }

    @Test(
        "A token is any printable text of at most 4,096 characters; blanks around it go",
        arguments: [
            ("bk3RNwTe3H", "bk3RNwTe3H"), (" a:b/c\"d ", "a:b/c\"d"), ("", nil), ("a b", nil), ("a\u{1}", nil),
            (String(repeating: "x", count: 4_096), String(repeating: "x", count: 4_096)),
            (String(repeating: "x", count: 4_097), nil),
        ] as [(String, String?)]
    )
    func tokens(text: String, expected: String?) {
        let provider = RuStoreTokenProvider { nil }
        #expect((try? provider.validate(text))?.value == expected)
    }
}
