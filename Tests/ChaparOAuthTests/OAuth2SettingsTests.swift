import Foundation
import ChaparCore
import ChaparOAuth
import ChaparTesting
import Testing

@Suite("OAuth 2: where tokens go, what refreshes them, and its configuration", .timeLimit(.minutes(1)))
struct OAuth2SettingsTests {
    static let addresses: [(String, Bool)] = [
        ("https://api.example.org/v1/push", true), ("HTTPS://API.EXAMPLE.ORG:443/v1/push", true),
        ("https://api.example.org/v1", true), ("https://api.example.org/v1?x=1", true),
        ("https://api.example.org/v1/a/../b", true), ("https://api.example.org/./v1/push", true),
        ("https://api.example.org/v10/push", false), ("http://api.example.org/v1/push", false),
        ("https://api.example.org.evil.test/v1/", false), ("https://api.example.org:8443/v1/", false),
        ("https://api.example.org/v1/../admin", false), ("https://api.example.org/v1/%2e%2E/admin", false),
        ("https://api.example.org/", false), ("https://user@api.example.org/v1/push", false),
        ("https://api.example.org@evil.test/v1/push", false), ("/v1/push", false), ("", false),
    ]

    @Test("Only addresses under the base are covered, by their parts", arguments: addresses)
    func covers(address: String, isCovered: Bool) throws {
        for text in ["https://api.example.org/v1/", "https://api.example.org/v1"] {
            let base = try #require(HTTPBaseURL(url: text))
            #expect(base.covers(url: address) == isCovered, "\(address)")
        }
    }

    static let wrong = [
        "api.example.org", "ftp://a.b/", "https://u:p@a.b/", "https://a.b/?q", "https://a.b/#f", "https://",
    ]

    @Test("A text that is no base address is none", arguments: wrong)
    func notAnAddress(_ text: String) { #expect(HTTPBaseURL(url: text) == nil) }

    private struct Plain: OAuth2Hooks {}

    @Test("The default refresh request is the original's: JSON, four fields, no credential")
    func defaultRequest() throws {
        let base = try #require(HTTPBaseURL(url: "https://api.example.org/v1"))
        let settings = OAuth2Settings(base: base, clientID: "public-ios")
        let request = try Plain().refreshRequest(for: OAuthCredentialTests.sample, settings: settings)
        #expect(request.method == "POST")
        #expect(request.endpoint == base.endpoint)
        #expect(request.path == "/v1/api/oauth2/token")
        #expect(request.headers.contains(HTTPHeader("content-type", "application/json")))
        #expect(!request.headers.contains { $0.name == "authorization" })
        let expected: JSONValue = [
            "access_token": "at-1", "refresh_token": "rt-1", "client_id": "public-ios", "grant_type": "refresh_token",
        ]
        #expect(try JSONValue(parsing: request.body) == expected)
    }

    @Test("Basic credentials are encoded before they are joined")
    func basic() throws {
        let base = try #require(HTTPBaseURL(url: "https://api.example.org/v1"))
        var settings = OAuth2Settings(base: base, clientID: "a:b")
        (settings.clientAuthentication, settings.encoding) = (.basic, .form)
        settings.clientSecret = Secret("s p")
        settings.extraParameters = [("uuid", "x&y")]
        let request = try Plain().refreshRequest(for: OAuthCredentialTests.sample, settings: settings)
        let pair = Data("a%3Ab:s%20p".utf8).base64EncodedString()
        #expect(request.headers.first { $0.name == "authorization" }?.value == "Basic \(pair)")
        #expect(
            String(decoding: request.body, as: UTF8.self)
                == "uuid=x%26y&grant_type=refresh_token&refresh_token=rt-1&access_token=at-1"
        )
    }

    // MARK: Configuration

    private struct NoFiles: ConfigFileReader {
        func contents(of path: String) throws -> [UInt8] { throw CancellationError() }
    }

    private func read(_ auth: JSONValue) throws -> (
        strategy: (any AuthStrategy)?, issues: [String], context: BackendContext
    ) {
        let report = ConfigReport()
        let section = ConfigSection(ConfigNode(["auth": auth]), path: "backends.crm", report: report, files: NoFiles())
        let context = BackendContext(name: "crm", http: ScriptedTransport(), time: ManualTime(), logger: quiet)
        let base = try #require(HTTPBaseURL(url: "https://crm.example.org/api"))
        let site = AuthContext(base: base, common: CommonBackendOptions(), context: context)
        let strategy = section.auth(for: site)
        section.finish()
        #expect(!report.settings.contains { $0.value?.contains("secret-value") ?? false })
        return (strategy, report.issues.map { "\($0.path): \($0.problem)" }, context)
    }

    @Test("A section of a configuration makes a strategy for any backend")
    func section() async throws {
        let (strategy, issues, context) = try read([
            "kind": "oauth2_refresh", "client_id": "gateway", "client_auth": "basic", "client_secret": "secret-value",
            "body_encoding": "form", "send_access_token": "false",
            "extra_parameters": ["os": "linux", "device_key": "secret-value"],
            "statuses": [401, 403], "cooldown": [1, 2.5], "refresh_token": "secret-value", "store": ["kind": "memory"],
        ])
        #expect(issues.isEmpty, "\(issues)")
        let made = try #require(strategy as? OAuth2RefreshToken)
        let endpoint = HTTPEndpoint(host: "crm.example.org")
        #expect(made.covers(endpoint, path: "/api/devices"))
        #expect(!made.covers(endpoint, path: "/other"))
        #expect(!made.covers(endpoint, path: "/api/api/oauth2/token"), "the token request itself goes without")
        #expect(made.isRefusal(HTTPAnswer(status: 403)))
        let http = try #require(context.authorized(by: made).http as? AuthorizedTransport)
        _ = try http.pool(HTTPPoolConfiguration(endpoint: endpoint, version: .http1))
    }

    static let mistakes: [(JSONValue, String)] = [
        (["kind": "oauth2"], "backends.crm.auth.kind: \"oauth2\" is not allowed"),
        ([:], "backends.crm.auth.kind: is missing"),
        (["kind": "oauth2_refresh"], "backends.crm.auth.client_id: is missing"),
        (["kind": "oauth2_refresh", "client_id": " "], "backends.crm.auth.client_id: is empty"),
        (
            ["kind": "oauth2_refresh", "client_id": "a", "client_auth": "basic"],
            "backends.crm.auth.client_secret: is missing"
        ),
        (
            ["kind": "oauth2_refresh", "client_id": "a", "base_url": "http://crm.example.org"],
            "backends.crm.auth.base_url: \"http://crm.example.org\" is not encrypted"
        ),
        (
            ["kind": "oauth2_refresh", "client_id": "a", "statuses": ["no"]],
            "backends.crm.auth.statuses: must be a list of statuses from 400 to 499"
        ),
        (
            ["kind": "oauth2_refresh", "client_id": "a", "store": ["kind": "file"]],
            "backends.crm.auth.store.path: is missing"
        ),
        (["kind": "oauth2_refresh", "client_id": "a", "token_pth": "x"], "backends.crm.auth.token_pth: unknown key"),
        (
            ["kind": "oauth2_refresh", "client_id": "a", "refresh_token": ""],
            "backends.crm.auth.refresh_token: is empty"
        ),
    ]

    @Test("A mistake is named with its path", arguments: mistakes)
    func mistake(auth: JSONValue, expected: String) throws {
        let (_, issues, _) = try read(auth)
        #expect(issues.contains(expected), "\(issues)")
    }
}
