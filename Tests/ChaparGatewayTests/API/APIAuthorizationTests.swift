import HummingbirdCore
import Foundation
import HTTPTypes
import ChaparCore
import ChaparTesting
import Testing

@testable import ChaparAPI
@testable import ChaparDelivery
@testable import ChaparGateway
@testable import ChaparServer

@Suite("An API key", .timeLimit(.minutes(1)))
struct APIAuthorizationTests {
    /// Every route there is: the table itself is the list.
    static let routes = APIHarness().api.responder.table.routes.map(Case.init)

    struct Case: Sendable, CustomTestStringConvertible {
        let route: Route
        var testDescription: String { "\(route.method) \(route.path)" }

        /// The path with something in its variable steps.
        var path: String {
            route.path.split(separator: "/").map { step in
                switch step {
                case "{id}": "0000000000001"
                case "{name}": "ios"
                default: step.first == "{" ? "x" : String(step)
                }
            }.reduce("") { $0 + "/" + $1 }
        }
    }

    private func status(_ route: Case, _ headers: HTTPFields) async throws -> Int {
        let harness = APIHarness(
            keys: GatewayConfiguration.APIKey.Scope.allCases.map { APIHarness.key($0.rawValue, [$0]) }
        )
        let body = route.route.method == .get ? nil as String? : #"{"device":"a"}"#
        let path = route.path.isEmpty ? "/" : route.path
        return try await harness.respond(route.route.method, path, body, headers: headers).status.code
    }

    private func status(_ method: HTTPRequest.Method, _ path: String, _ headers: HTTPFields) async throws -> Int {
        try await APIHarness(keys: [APIHarness.key("send", [.send])]).respond(method, path, headers: headers).status
            .code
    }

    @Test("is needed by every route that is not open", arguments: routes)
    func needed(route: Case) async throws {
        for headers in [[:], [.authorization: "Bearer chp_guessed"], [.authorization: "Basic c2hvcDpw"]] as [HTTPFields]
        {
            let status = try await status(route, headers)
            #expect(route.route.access == .open ? status != 401 && status != 403 : status == 401)
        }
    }

    @Test("is needed but for these routes")
    func open() {
        let open = Self.routes.filter { $0.route.access == .open }.map(\.testDescription)
        #expect(
            open.sorted() == [
                "GET /", "GET /healthz", "GET /readyz", "POST /v1/backends/{name}/receipts",
                "POST /v1/backends/{name}/webhook/{secret}", "POST /v1/dashboard/session",
                "POST /v1/receipts/{id}",
            ]
        )
    }

    @Test("is good for its scopes only, and admin for all of them", arguments: routes)
    func scopes(route: Case) async throws {
        for scope in GatewayConfiguration.APIKey.Scope.allCases {
            let status = try await status(route, APIHarness.bearer(scope.rawValue))
            let needed = route.route.access.scopes
            let isAllowed = needed.isEmpty || needed.contains { scope == $0 || scope.includes($0) }
            #expect(isAllowed ? status != 401 && status != 403 : status == 403, "\(scope)")
        }
    }

    @Test("has in the API's description the scope of each route, and each operation there is a route")
    func described() async throws {
        let description = try await APIHarness().send(.get, "/openapi.json").json
        var described: Set<String> = []
        for (path, item) in description["paths"]?.objectValue ?? [:] where !path.hasPrefix("/v1/apps/") {
            for (method, operation) in item.objectValue ?? [:]
            where method.allSatisfy(\.isLetter) && method != "parameters" {
                let security = operation["security"] ?? description["security"]
                described.insert(
                    "\(method.uppercased()) \(path) \(security.map { String(decoding: $0.bytes, as: UTF8.self) } ?? "")"
                )
            }
        }
        let routes = Self.routes.map { one in
            let security =
                switch one.route.access {
                case .open: "[{}]"
                case .anyKey: #"[{"apiKey":[]},{}]"#
                case .scope, .either:
                    "[" + one.route.access.scopes.map { #"{"apiKey":["\#($0.rawValue)"]},"# }.joined() + "{}]"
                }
            return "\(one.testDescription) \(security)"
        }
        #expect(described.sorted() == routes.sorted())
    }

    @Test("has its scope for each route in docs/Security.md, and no route is missing there")
    func documented() throws {
        let root = URL(filePath: #filePath).deletingLastPathComponent().deletingLastPathComponent()
            .deletingLastPathComponent().deletingLastPathComponent()
        let text = try String(contentsOf: root.appending(path: "docs/Security.md"), encoding: .utf8)
        let rows = text.split(separator: "\n").filter { line in
            ["GET", "POST", "PUT", "PATCH", "DELETE"].contains { line.hasPrefix("| `\($0) /") }
        }
        let routes = Self.routes.map { one in
            let needs =
                switch one.route.access {
                case .open: "nothing"
                case .anyKey: "any key"
                case .scope, .either: one.route.access.scopes.map { "`\($0.rawValue)`" }.joined(separator: " or ")
                }
            return "| `\(one.testDescription)` | \(needs) |"
        }
        #expect(rows.map(String.init).sorted() == routes.sorted())
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
        let harness = APIHarness(keys: [.init(name: "k", hashes: [hash], scopes: [.admin])])
        #expect(try await harness.post(APIHarness.sample(), headers: APIHarness.bearer("k")).status == 401)
    }

    @Test("opens until its time, and not after it")
    func expiry() async throws {
        let start = Date(timeIntervalSince1970: 1_800_000_000)
        let harness = APIHarness(keys: [APIHarness.key("shop", [.send], notAfter: start + 60)])
        #expect(try await harness.post(APIHarness.sample(), headers: APIHarness.bearer("shop")).status == 202)
        harness.time.advance(by: .seconds(61))
        let late = try await harness.post(APIHarness.sample(), headers: APIHarness.bearer("shop"))
        #expect(late.status == 401)
        #expect(late.json["detail"] == "The API key has expired.")
    }

    @Test("that is being rotated opens by its old value and by its new one, under one name")
    func rotation() async throws {
        let key = GatewayConfiguration.APIKey(
            name: "shop",
            hashes: [APIHarness.hash(of: "new"), APIHarness.hash(of: "old")],
            scopes: [.send, .read]
        )
        let harness = APIHarness(keys: [key])
        let sent = try await harness.post(APIHarness.sample(), headers: APIHarness.bearer("old"))
        #expect(sent.status == 202)
        let id = try #require(sent.json["id"]?.stringValue)
        #expect(
            try await harness.send(.get, "/v1/notifications/\(id)", headers: APIHarness.bearer("new")).status == 200
        )
    }

    @Test("is listed with what it may do and when it was used last, also after a restart")
    func lastUse() async throws {
        let keys = [APIHarness.key("admin", [.admin]), APIHarness.key("shop", [.send], backends: ["ios"])]
        let harness = APIHarness(keys: keys)
        let before = try await harness.send(.get, "/v1/keys", headers: APIHarness.bearer("admin"))
        #expect(before.json["keys"]?.arrayValue?[1]["last_used"] == nil)
        #expect(before.json["keys"]?.arrayValue?[1]["backends"] == ["ios"])
        #expect(!before.text.contains(APIHarness.hash(of: "shop").prefix(8)))
        _ = try await harness.post(APIHarness.sample(), headers: APIHarness.bearer("shop"))
        let after = try await harness.send(.get, "/v1/keys", headers: APIHarness.bearer("admin"))
        #expect(after.json["keys"]?.arrayValue?[1]["last_used"] == "2027-01-15T08:00:00.000Z")

        try await harness.api.own.keyUses.save(["shop"], to: harness.store)
        let later = KeyUses()
        try await later.load(from: harness.store)
        #expect(later.use(of: "shop").last == Date(timeIntervalSince1970: 1_800_000_000))
        #expect(later.use(of: "admin").last == nil)
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

    @Test(
        "requests that came through a proxy are refused: every caller of the proxy would be let in",
        arguments: ["via", "forwarded", "x-forwarded-for", "X-Forwarded-Proto", "x-real-ip"]
    )
    func proxied(field: String) async throws {
        let harness = APIHarness()
        let name = try #require(HTTPField.Name(field))
        let reply = try await harness.post(APIHarness.sample(), headers: [name: "192.0.2.1"])
        #expect(reply.status == 403)
        #expect(reply.code == "keys_needed")
        #expect(harness.store.accepted.isEmpty)
        let open = APIHarness(keys: [APIHarness.key("shop", [.send])])
        let headers: HTTPFields = [name: "192.0.2.1", .authorization: "Bearer chp_shop"]
        #expect(try await open.post(APIHarness.sample(), headers: headers).status == 202)
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
