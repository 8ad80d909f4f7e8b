import Foundation
import ChaparCore
import ChaparSandbox
import ChaparTesting
import Testing

@testable import ChaparHMS

@Suite("The hms factory in a registry", .timeLimit(.minutes(1)))
struct HMSPluginTests {
    /// Files by name.
    struct Files: ConfigFileReader {
        struct Missing: Error {}
        var files: [String: String]
        func contents(of path: String) throws -> [UInt8] {
            guard let text = files[path] else { throw Missing() }
            return Array(text.utf8)
        }
    }

    static func load(_ values: [(String, ConfigNode.Value)]) throws -> (HMSBackend?, [String]) {
        let origin = ConfigOrigin(file: "chapar.yaml", line: 1, column: 1)
        func map(_ pairs: [(String, ConfigNode.Value)]) -> ConfigNode.Value {
            .map(pairs.map { .init(key: $0.0, keyOrigin: origin, node: ConfigNode($0.1, origin: origin)) })
        }
        let node = ConfigNode(map([("huawei", map([("kind", .scalar("hms"))] + values))]), origin: origin)
        let report = ConfigReport()
        let account = HMSSandboxServiceAccount()
        let files = Files(files: [
            "account.json": account.keyFile(projectID: "388421841221000001"), "text.json": "hello",
            "empty.json": "{}",
            "key.json": #"{"key_id":"k","sub_account":"s","private_key":"-----BEGIN PRIVATE KEY-----"}"#,
        ])
        let section = ConfigSection(node, path: "backends", report: report, files: files)
        let made = try BackendRegistry([.hms]).backends(in: section) { name in
            BackendContext(name: name, http: ScriptedTransport(), logger: quiet)
        }
        return (made.first?.backend as? HMSBackend, report.issues.map(\.description))
    }

    static let plain: [(String, ConfigNode.Value)] = [
        ("app_id", .scalar("100200300")), ("client_secret", .scalar("a+b")),
    ]

    @Test("An app's id and secret make a backend of v1, a project's one of v2")
    func generations() throws {
        let (v1, issues) = try Self.load(Self.plain)
        #expect(issues.isEmpty)
        #expect(v1?.options.sendPath == "/v1/100200300/messages:send")
        #expect(v1?.options.batchSize == 500)
        #expect(v1?.options.common.timeout == .seconds(15))
        #expect(v1?.topics != nil)
        #expect(v1?.receipts == nil)
        let (v2, _) = try Self.load(Self.plain + [("project_id", .scalar("7"))])
        #expect(v2?.options.sendPath == "/v2/7/messages:send")
        let (forced, _) = try Self.load(Self.plain + [("project_id", .scalar("7")), ("api", .scalar("v1"))])
        #expect(forced?.options.sendPath == "/v1/100200300/messages:send")
        let (account, accountIssues) = try Self.load([("service_account_file", .scalar("account.json"))])
        #expect(accountIssues.isEmpty)
        #expect(account?.options.sendPath == "/v2/388421841221000001/messages:send")
        #expect(account?.topics == nil)
    }

    @Test(
        "With v3 messages are taken back by client_id, or by app_id in its place",
        arguments: ["client_id", "app_id"]
    )
    func client(key: String) throws {
        let v3: [(String, ConfigNode.Value)] = [
            ("api", .scalar("v3")), ("service_account_file", .scalar("account.json")),
        ]
        let (backend, issues) = try Self.load(v3 + [(key, .scalar("77"))])
        #expect(issues.isEmpty, "\(issues)")
        #expect(backend?.options.revocationID == "77" && backend?.revocation != nil)
        #expect(try Self.load(v3).0?.revocation == nil)
    }

    @Test("Receipts are read when it is said how they are signed")
    func receipts() throws {
        let map = ConfigNode.Value.map(
            [
                ("user", "chapar"), ("secret", "MDEyMzQ1Njc4OWFiY2RlZg=="), ("id", "RCP1"),
            ].map { .init(key: $0.0, keyOrigin: .builtIn, node: ConfigNode(.scalar($0.1), origin: .builtIn)) }
        )
        let (backend, issues) = try Self.load(Self.plain + [("receipts", map)])
        #expect(issues.isEmpty)
        #expect(backend?.receipts != nil)
        #expect(backend?.options.receipts?.id == "RCP1")
    }

    struct Mistake: Sendable, CustomTestStringConvertible {
        var values: [(String, ConfigNode.Value)]
        var words: [String]
        var testDescription: String { words.joined(separator: ", ") }
    }

    static let mistakes: [Mistake] = [
        Mistake(values: [], words: ["client_secret: is missing", "app_id: is missing"]),
        Mistake(values: [("app_id", .scalar("com.example"))], words: ["app_id", "is not a number"]),
        Mistake(values: plain + [("api", .scalar("v3"))], words: ["client_secret", "v3", "service_account_file"]),
        Mistake(
            values: plain + [("default_category", .scalar("EXPRES"))],
            words: ["default_category", "Did you mean \"EXPRESS\"?"]
        ),
        Mistake(values: plain + [("api", .scalar("v2"))], words: ["project_id: is missing"]),
        Mistake(values: plain + [("base_url", .scalar("https://localhost:1"))], words: ["token_url: is missing"]),
        Mistake(
            values: plain + [
                ("base_url", .scalar("http://localhost:1")), ("token_url", .scalar("https://localhost:2")),
            ],
            words: ["base_url", "TLS only"]
        ),
        Mistake(values: plain + [("batch_size", .scalar("1001"))], words: ["batch_size", "1 to 1000"]),
        Mistake(values: plain + [("ios_target_user_type", .scalar("voice"))], words: ["ios_target_user_type"]),
        Mistake(
            values: plain + [("client_secrett", .scalar("x"))],
            words: ["client_secrett: unknown key", "client_secret"]
        ),
        Mistake(
            values: plain + [("service_account_file", .scalar("account.json"))],
            words: ["client_secret: stands beside service_account_file"]
        ),
        Mistake(
            values: [("service_account_file", .scalar("account.json")), ("client_id", .scalar("7"))],
            words: ["client_id: stands beside service_account_file", "only v3"]
        ),
        Mistake(values: [("service_account_file", .scalar("text.json"))], words: ["is not JSON"]),
        Mistake(values: [("service_account_file", .scalar("empty.json"))], words: ["has no key_id"]),
        Mistake(values: [("service_account_file", .scalar("key.json"))], words: ["private_key that is a damaged key"]),
        Mistake(
            values: plain + [("receipts", .map([]))],
            words: ["receipts.user: is missing", "receipts.secret: is missing"]
        ),
        Mistake(
            values: plain + [
                (
                    "receipts",
                    .map([
                        .init(key: "user", keyOrigin: .builtIn, node: ConfigNode(.scalar("u"), origin: .builtIn)),
                        .init(
                            key: "secret",
                            keyOrigin: .builtIn,
                            node: ConfigNode(.scalar("not base64!"), origin: .builtIn)
                        ),
                    ])
                )
            ],
            words: ["receipts.secret", "secret_encoding: raw"]
        ),
        shortSecret("c2VjcmV0", "base64", "6 bytes"), shortSecret("fifteen bytes!!", "raw", "15 bytes"),
    ]

    static func shortSecret(_ secret: String, _ encoding: String, _ words: String) -> Mistake {
        let entries = [("user", "u"), ("secret", secret), ("secret_encoding", encoding)].map {
            ConfigNode.Entry(key: $0.0, keyOrigin: .builtIn, node: ConfigNode(.scalar($0.1), origin: .builtIn))
        }
        return Mistake(
            values: plain + [("receipts", .map(entries))],
            words: ["receipts.secret: makes a key of \(words)"]
        )
    }

    @Test("A mistake stops the backend and is named", arguments: mistakes)
    func refuses(mistake: Mistake) throws {
        let (backend, issues) = try Self.load(mistake.values)
        #expect(backend == nil)
        let text = issues.joined(separator: "\n")
        for words in mistake.words { #expect(text.contains(words), "\(text)") }
        #expect(!text.contains("not base64!") && !text.contains("a+b"), "secrets are never shown")
    }
}
