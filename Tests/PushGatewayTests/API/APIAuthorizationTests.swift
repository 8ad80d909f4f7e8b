import HummingbirdCore
import Foundation
import HTTPTypes
import PushCore
import Testing

@testable import PushGateway

@Suite("An API key", .timeLimit(.minutes(1)))
struct APIAuthorizationTests {
    /// Every route with the scope it asks for; nil for the open ones.
    static let routes: [(HTTPRequest.Method, String, GatewayConfiguration.APIKey.Scope?)] = [
        (.post, "/v1/notifications", .send), (.post, "/v1/notifications/batch", .send),
        (.delete, "/v1/notifications/0000000000001", .send), (.get, "/v1/notifications/0000000000001", .read),
        (.get, "/v1/notifications/0000000000001/deliveries", .read), (.get, "/v1/events", .read),
        (.put, "/v1/devices/a", .devices), (.patch, "/v1/devices/a", .devices), (.delete, "/v1/devices/a", .devices),
        (.get, "/v1/devices/a", .devices), (.get, "/v1/devices", .devices), (.post, "/v1/devices/batch", .devices),
        (.post, "/v1/backends/crm/clicks", .devices),
        (.get, "/v1/backends", .read), (.get, "/metrics", .read), (.get, "/healthz", nil), (.get, "/readyz", nil),
        (.get, "/", nil),
    ]

    private func status(_ method: HTTPRequest.Method, _ path: String, _ headers: HTTPFields) async throws -> Int {
        let harness = APIHarness(
            keys: GatewayConfiguration.APIKey.Scope.allCases.map { APIHarness.key($0.rawValue, [$0]) }
        )
        let body = method == .post ? "{}" : nil as String?
        return try await harness.respond(method, path, body, headers: headers).status.code
    }

    @Test("is needed by every route but health, readiness and the dashboard's page", arguments: routes)
    func needed(
        method: HTTPRequest.Method,
        path: String,
        scope: GatewayConfiguration.APIKey.Scope?
    ) async throws {
        for headers in [[:], [.authorization: "Bearer chp_guessed"], [.authorization: "Basic c2hvcDpw"]] as [HTTPFields]
        {
            let status = try await status(method, path, headers)
            #expect(scope == nil ? status == 200 : status == 401)
        }
    }

    @Test("is good for its scopes only, and admin for all of them", arguments: routes)
    func scopes(
        method: HTTPRequest.Method,
        path: String,
        needed: GatewayConfiguration.APIKey.Scope?
    ) async throws {
        for scope in GatewayConfiguration.APIKey.Scope.allCases {
            let status = try await status(method, path, APIHarness.bearer(scope.rawValue))
            let isAllowed = needed == nil || scope == needed || scope == .admin
            #expect(isAllowed ? status != 401 && status != 403 : status == 403, "\(scope)")
        }
    }

    @Test("is asked for where there is nothing, too")
    func nothing() async throws {
        #expect(try await status(.get, "/v1/secrets", [:]) == 401)
        #expect(try await status(.get, "/v1/secrets", APIHarness.bearer("send")) == 404)
        #expect(try await status(.get, "/openapi.json", [:]) == 401)
        #expect(try await status(.get, "/openapi.json", APIHarness.bearer("send")) == 200)
    }

    @Test("that is missing, wrong or too weak gets a challenge that says which")
    func challenges() async throws {
        let harness = APIHarness(keys: [APIHarness.key("dash", [.read])])
        let missing = try await harness.post("{}")
        #expect(missing.status == 401)
        #expect(missing.headers[.wwwAuthenticate] == #"Bearer realm="chapar""#)
        #expect(missing.code == "unauthorized")
        let wrong = try await harness.post("{}", headers: APIHarness.bearer("other"))
        #expect(wrong.headers[.wwwAuthenticate] == #"Bearer realm="chapar", error="invalid_token""#)
        let weak = try await harness.post("{}", headers: APIHarness.bearer("dash"))
        #expect(weak.status == 403)
        #expect(
            weak.headers[.wwwAuthenticate] == #"Bearer realm="chapar", error="insufficient_scope", scope="send""#
        )
        #expect(!weak.text.contains("chp_"))
    }

    @Test("is taken from the configuration in force")
    func reload() async throws {
        let harness = APIHarness(keys: [APIHarness.key("old", [.send])])
        var configuration = GatewayConfiguration()
        configuration.apiKeys = [APIHarness.key("new", [.send])]
        let backends = harness.state.snapshot.backends
        harness.state.replace(GatewaySnapshot(configuration: configuration, backends: backends))
        #expect(try await harness.post(APIHarness.sample(), headers: APIHarness.bearer("old")).status == 401)
        #expect(try await harness.post(APIHarness.sample(), headers: APIHarness.bearer("new")).status == 202)
    }

    @Test("whose hash is malformed opens nothing", arguments: ["", "abc", String(repeating: "g", count: 64)])
    func malformed(hash: String) async throws {
        let harness = APIHarness(keys: [.init(name: "k", sha256: hash, scopes: [.admin])])
        #expect(try await harness.post(APIHarness.sample(), headers: APIHarness.bearer("k")).status == 401)
    }
}

@Suite("Without API keys", .timeLimit(.minutes(1)))
struct APIOriginTests {
    @Test(
        "requests for this machine are answered",
        arguments: [
            "localhost", "localhost:8080", "127.0.0.1:8080", "127.8.9.10", "[::1]:8080", "app.localhost:1",
        ]
    )
    func ours(host: String) async throws {
        #expect(try await APIHarness().send(.get, "/v1/backends", host: host).status == 200)
    }

    @Test(
        "requests for other names are refused: a page may have made its name point here",
        arguments: [
            "evil.example:8080", "localhost.evil.example", "127.0.0.1.evil.example", "10.0.0.1", "", "[::2]",
        ]
    )
    func rebinding(host: String) async throws {
        let reply = try await APIHarness().send(.get, "/v1/backends", host: host)
        #expect(reply.status == 403)
        #expect(reply.code == "host_not_allowed")
    }

    @Test("the host it listens on is its own")
    func boundHost() async throws {
        let harness = APIHarness { $0.server.host = "gateway.test" }
        #expect(try await harness.send(.get, "/v1/backends", host: "gateway.test:8080").status == 200)
    }

    @Test(
        "requests of pages of other sites are refused",
        arguments: [
            [.origin: "https://evil.example"], [.origin: "null"], [.origin: "http://localhost:9"],
            [.secFetchSite: "cross-site"], [.secFetchSite: "same-site"],
        ] as [HTTPFields]
    )
    func crossSite(headers: HTTPFields) async throws {
        let harness = APIHarness()
        let reply = try await harness.post(APIHarness.sample(), headers: headers)
        #expect(reply.status == 403)
        #expect(reply.code == "cross_site")
        #expect(harness.store.accepted.isEmpty)
    }

    @Test(
        "requests of its own pages are answered",
        arguments: [
            [.origin: "http://localhost:8080"], [.secFetchSite: "same-origin"], [.secFetchSite: "none"], [:],
        ] as [HTTPFields]
    )
    func ownPage(headers: HTTPFields) async throws {
        #expect(try await APIHarness().post(APIHarness.sample(), headers: headers).status == 202)
    }
}
