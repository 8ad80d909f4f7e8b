import Foundation
import HTTPTypes
import ChaparCore
import ChaparModules
import ChaparQueue
import ChaparStoreContract
import ChaparTesting
import Testing

@testable import ChaparAPI
@testable import ChaparDelivery
@testable import ChaparGateway
@testable import ChaparServer

@Suite("A plugin's module in the API", .timeLimit(.minutes(1)))
struct APIModulesTests {
    /// Shows what it was asked, sends what it is told, and refuses.
    struct Module: GatewayModule {
        let prefix = "/v1/echo/"

        func endpoint(_ path: Substring) -> ModuleEndpoint? {
            switch path.dropFirst(prefix.count) {
            case "open": ModuleEndpoint("/v1/echo/open", ["GET": .open, "POST": .admin])
            case "read": ModuleEndpoint("/v1/echo/read", ["GET": .read])
            case "app/shop": ModuleEndpoint("/v1/echo/app/{app}", ["POST": .admin], app: "shop")
            default: nil
            }
        }

        func answer(_ request: ModuleRequest, through gate: any ModuleGate) async throws(ModuleProblem) -> ModuleAnswer
        {
            if request.query["fail"] != nil {
                let wrong = Finding(pointer: "#/x", code: "bad", detail: "Bad.")
                throw ModuleProblem(422, "invalid_request", "One field is wrong", errors: [wrong])
            }
            var text = "\(request.method) \(request.query["q"] ?? "-") \(request.header("x-word") ?? "-")"
            if let body = try? JSONValue(parsing: request.body), let wish = body.objectValue {
                do throws(PushError) {
                    let id = try await gate.accept(wish, idempotencyKey: "key")
                    let states = try await gate.states(of: id)
                    let page = try await gate.devices(of: "shop", after: nil, limit: 10)
                    let backend = page.devices.first.flatMap { gate.backend(for: $0, among: nil) }
                    let other = page.devices.first.flatMap { gate.backend(for: $0, among: ["android"]) }
                    text =
                        "\(id) \(states) \(page.devices.map(\.id)) \(backend ?? "-") \(other ?? "-") \(gate.backends)"
                } catch {
                    text = "\(error.code.rawValue) \(error.reason ?? "-")"
                }
            }
            return ModuleAnswer(200, headers: [HTTPHeader("content-type", "text/plain")], body: Array(text.utf8))
        }
    }

    private static func harness(keys: [GatewayConfiguration.APIKey] = []) -> APIHarness {
        let backends = [StubBackend.ios, .android].map { ($0.name, $0 as any PushBackend) }
        return APIHarness(platforms: backends, modules: [Module()], keys: keys)
    }

    @Test("It is asked with method, query and header fields, and answers as it likes; HEAD is a GET without a body")
    func asks() async throws {
        let harness = Self.harness()
        let headers: HTTPFields = [HTTPField.Name("X-Word") ?? .accept: "hi"]
        let get = try await harness.send(.get, "/v1/echo/open?q=a%20b+c", headers: headers)
        #expect(get.status == 200 && get.text == "GET a b c hi" && get.headers[.contentType] == "text/plain")
        #expect(get.headers[.xContentTypeOptions] == "nosniff")
        let head = try await harness.send(.head, "/v1/echo/open")
        #expect(head.status == 200 && head.bytes.isEmpty)
        let failed = try await harness.send(.get, "/v1/echo/open?fail")
        #expect(failed.status == 422 && failed.errors == ["#/x bad"])
        #expect(failed.headers[.contentType] == "application/problem+json")
        #expect(try await harness.send(.get, "/v1/echo/nothing").status == 404)
        #expect(try await harness.send(.put, "/v1/echo/open", "{}").status == 405)
    }

    @Test("Who may use it is its own to say")
    func access() async throws {
        let harness = Self.harness(keys: [APIHarness.key("r", [.read]), APIHarness.key("a", [.admin])])
        #expect(try await harness.send(.get, "/v1/echo/open").status == 200)
        #expect(try await harness.send(.get, "/v1/echo/read").status == 401)
        #expect(try await harness.send(.get, "/v1/echo/read", headers: APIHarness.bearer("r")).status == 200)
        var headers = APIHarness.bearer("r")
        headers[.contentType] = "application/json"
        #expect(try await harness.send(.post, "/v1/echo/open", "{}", headers: headers).status == 403)
        headers[.authorization] = APIHarness.bearer("a")[.authorization]
        #expect(try await harness.send(.post, "/v1/echo/open", "[]", headers: headers).status == 200)
    }

    @Test("A key of another app is told that there is no such app, by its path and by what it asks of the gateway")
    func apps() async throws {
        let (shop, forum) = (AppName(rawValue: "shop"), AppName(rawValue: "forum"))
        var keys = ["boss", "of-shop", "of-forum"].map { APIHarness.key($0, [.admin]) }
        (keys[1].app, keys[2].app) = (shop, forum)
        let harness = APIHarness(
            platforms: [("ios", StubBackend.ios), ("android", StubBackend.android)],
            apps: ["ios": shop, "android": forum],
            modules: [Module()],
            keys: keys
        )
        let token = RegisteredToken(DeviceToken("ab12", service: .iOSAPNs), registeredAt: harness.time.now)
        _ = try await harness.devices.put([Device(id: shop.key("d1"), tokens: [token], createdAt: harness.time.now)])
        func post(_ path: String, _ body: String, _ key: String) async throws -> APIHarness.Reply {
            var headers = APIHarness.bearer(key)
            headers[.contentType] = "application/json"
            return try await harness.send(.post, path, body, headers: headers)
        }
        for (key, status) in [("boss", 200), ("of-shop", 200), ("of-forum", 404)] {
            #expect(try await post("/v1/echo/app/shop", "[]", key).status == status, "\(key)")
        }
        let body = #"{"to":{"devices":["d1"]},"content":{"title":"T"}}"#
        #expect(try await post("/v1/echo/open", body, "of-shop").text.contains("[\"shop/d1\"] ios"))
        // It asks for the devices of the shop, whatever its path is.
        let other = #"{"to":{"tokens":[{"token":"a","service":"android-firebase"}]},"content":{"title":"T"}}"#
        #expect(try await post("/v1/echo/open", other, "of-forum").text == "invalid-request unknown_app")
    }

    @Test("A module's messages are sent as others, once for a key, and refused for the same reasons")
    func sends() async throws {
        let harness = Self.harness()
        let token = RegisteredToken(DeviceToken("ab12", service: .iOSAPNs), registeredAt: harness.time.now)
        _ = try await harness.devices.put([Device(id: "d1", tokens: [token], createdAt: harness.time.now)])
        let body = #"{"to":{"devices":["d1"]},"content":{"title":"T"}}"#
        let headers: HTTPFields = [.contentType: "application/json"]
        let first = try await harness.send(.post, "/v1/echo/open", body, headers: headers)
        #expect(first.text.hasSuffix("[\"d1\": ChaparCore.DeliveryState.queued] [\"d1\"] ios - [\"ios\", \"android\"]"))
        let again = try await harness.send(.post, "/v1/echo/open", body, headers: headers)
        #expect(again.text == first.text)
        let wrong = try await harness.send(.post, "/v1/echo/open", #"{"to":{}}"#, headers: headers)
        #expect(wrong.text == "invalid-request invalid_request")
        let plain: HTTPFields = [.contentType: "text/plain"]
        #expect(try await harness.send(.post, "/v1/echo/open", "{}", headers: plain).status == 415)
    }

    /// The module of another system's callers: any content type, Basic credentials, refusals of its own form.
    struct Door: GatewayModule {
        let prefix = "/door/"
        let span: Duration

        func endpoint(_ path: Substring) -> ModuleEndpoint? {
            if path == "/door" { return ModuleEndpoint("/door", ["GET": .metrics]) }
            guard path == "/door/send" else { return nil }
            var endpoint = ModuleEndpoint("/door/send", ["POST": .send, "GET": .metrics])
            endpoint.takesAnyContentType = true
            endpoint.takesBasicCredentials = true
            endpoint.largestBody = 4096
            return endpoint
        }

        func answer(_ request: ModuleRequest, through gate: any ModuleGate) async throws(ModuleProblem) -> ModuleAnswer
        {
            guard request.method == "POST" else {
                return ModuleAnswer(200, body: Array(await gate.metrics().utf8))
            }
            let list = (try? JSONValue(parsing: request.body))?.arrayValue?.compactMap(\.objectValue) ?? []
            let key = request.header("idempotency-key")
            let results = try await gate.accept(list, idempotencyKey: key, request: request.body)
            var lines: [String] = []
            for result in results {
                switch result {
                case .refused(let sentence): lines.append(sentence)
                case .accepted(let id):
                    let ends = try? await gate.outcomes(of: [id], within: span)
                    let states = (ends?[id] ?? []).map { "\($0.state.rawValue) \($0.reason ?? "-")" }
                    lines.append(states.joined(separator: ","))
                @unknown default: break
                }
            }
            lines.append(gate.problem(with: DeviceToken(" ", service: .iOSAPNs)) ?? "good")
            return ModuleAnswer(200, body: Array(lines.joined(separator: "\n").utf8))
        }

        func answer(to problem: ModuleProblem) -> ModuleAnswer? {
            ModuleAnswer(problem.status, body: Array("own \(problem.code)".utf8))
        }
    }

    private static func door(
        _ span: Duration = .milliseconds(50),
        keys: [GatewayConfiguration.APIKey] = []
    ) -> APIHarness {
        APIHarness(platforms: [("ios", StubBackend.ios)], modules: [Door(span: span)], keys: keys)
    }

    @Test("A module may take any content type and a key as a password, and words its refusals")
    func foreignCallers() async throws {
        let harness = Self.door(keys: [APIHarness.key("s", [.send]), APIHarness.key("m", [.metrics])])
        let plain: HTTPFields = [.contentType: "text/plain"]
        func send(_ authorization: String?, _ more: [(String, String)] = []) async throws -> APIHarness.Reply {
            var headers = plain
            headers[.authorization] = authorization
            for (name, value) in more { headers[HTTPField.Name(name) ?? .accept] = value }
            return try await harness.send(.post, "/door/send", "[\(APIHarness.sample())]", headers: headers)
        }
        func basic(_ text: String) -> String { "Basic " + Data(text.utf8).base64EncodedString() }
        for good in ["Bearer chp_s", basic("push:chp_s"), basic("chp_s:"), basic("chp_s")] {
            #expect(try await send(good).status == 200, "\(good)")
        }
        for wrong in [nil, "Bearer chp_x", basic("push:chp_x"), basic("chp_s:x"), "Basic ***"] {
            let answer = try await send(wrong)
            #expect(answer.status == 401 && answer.text == "own unauthorized", "\(wrong ?? "none")")
        }
        #expect(try await send(basic("push:chp_m")).text == "own forbidden")
        // A browser adds such credentials to the requests of any page.
        for field in [("Origin", "https://other.example"), ("Sec-Fetch-Site", "cross-site")] {
            let answer = try await send(basic("push:chp_s"), [field])
            #expect(answer.status == 403 && answer.text == "own cross_site")
        }
        #expect(try await send("Bearer chp_s", [("Origin", "https://other.example")]).status == 200)
        let large = String(repeating: " ", count: 5000)
        let tooLarge = try await harness.send(.post, "/door/send", large, headers: APIHarness.bearer("s"))
        #expect(tooLarge.status == 413 && tooLarge.text.hasPrefix("own "))
        for (path, status) in [("/door", 200), ("/doors", 404), ("/doo", 404)] {
            #expect(try await harness.send(.get, path, headers: APIHarness.bearer("m")).status == status, "\(path)")
        }
        let metrics = try await harness.send(.get, "/door/send", headers: APIHarness.bearer("m"))
        #expect(metrics.status == 200 && metrics.text.contains("chapar_notifications_accepted_total"))
    }

    @Test("A module sends many notifications at once: each has its result, and a repetition gets the first one")
    func many() async throws {
        let harness = Self.door()
        let wrong = #"{"to":{"tokens":[{"token":"4f1c","service":"ios-apns"}]},"content":{"badge":-1}}"#
        let body = "[\(APIHarness.sample()),\(wrong)]"
        let headers: HTTPFields = [HTTPField.Name("Idempotency-Key") ?? .accept: "k"]
        let first = try await harness.send(.post, "/door/send", body, headers: headers)
        let lines = first.text.split(separator: "\n")
        #expect(lines.count == 3 && lines[0] == "queued -", "\(first.text)")
        #expect(lines[1].hasPrefix("out_of_range: #/content/badge: Must be "), "\(first.text)")
        #expect(lines[2] == "malformed_token: it is blank")
        let again = try await harness.send(.post, "/door/send", body, headers: headers)
        #expect(again.text == first.text)
        let other = try await harness.send(.post, "/door/send", "[\(APIHarness.sample())]", headers: headers)
        #expect(other.status == 422 && other.text.hasPrefix("own "))
        let none = try await harness.send(.post, "/door/send", "[\(wrong)]")
        #expect(none.status == 200 && none.text.split(separator: "\n")[0] == lines[1])
        #expect(harness.store.accepted.count == 1)
    }

    @Test("A wait for outcomes ends when they are there, and at its end without them")
    func outcomes() async throws {
        let harness = Self.door(.seconds(20))
        async let answer = harness.send(.post, "/door/send", "[\(APIHarness.sample())]")
        let end = ContinuousClock.now + .seconds(10)
        var claims: [ClaimedDelivery] = []
        while claims.isEmpty, ContinuousClock.now < end {
            claims = try await harness.store.claim(backend: "ios", limit: 1, wait: .milliseconds(50))
        }
        let claim = try #require(claims.first)
        let attempt = #"{"outcome":"refused","reason":"Unregistered"}"#
        let start = ContinuousClock.now
        try await harness.store.record([
            Resolution(of: claim, .end(.failed), attempt: Array(attempt.utf8), event: Array("{}".utf8))
        ])
        #expect(try await answer.text.hasPrefix("failed Unregistered"))
        let short = try await Self.door(.milliseconds(200)).send(.post, "/door/send", "[\(APIHarness.sample())]")
        #expect(start.duration(to: .now) < .seconds(10) && short.text.hasPrefix("queued -"))
    }
}
