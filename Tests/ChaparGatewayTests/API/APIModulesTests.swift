import Foundation
import HTTPTypes
import ChaparCore
import ChaparModules
import ChaparQueue
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

    @Test("What it sends goes the normal way, once for a key, and is refused as usual")
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
}
