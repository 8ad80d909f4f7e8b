import HTTPTypes
import NIOCore
import NIOPosix
import ChaparCore
import ChaparTesting
import Testing

@testable import ChaparAPI
@testable import ChaparDelivery
@testable import ChaparGateway
@testable import ChaparServer

/// A gateway whose configuration says nothing of keys, and what stands before it.
@Suite("A gateway without keys and without auth.keyless", .timeLimit(.minutes(1)))
struct APIKeylessTests {
    private func harness(_ keys: [GatewayConfiguration.APIKey] = []) -> APIHarness {
        APIHarness(keys: keys) {
            $0.isKeyless = false
            $0.server.port = 0
        }
    }

    /// An attacker's request as proxies that add nothing pass it on: nginx with `proxy_http_version 1.1`, HAProxy in
    /// the mode `http`, which hands the sender's `Host` on, and one that keeps fields of its own for itself.
    private static let requests = [
        "GET /v1/backends HTTP/1.1\r\nHost: 127.0.0.1\r\nConnection: close\r\n\r\n",
        "GET /v1/backends HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n\r\n",
        "GET /metrics HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n\r\n",
        "GET /v1/backends HTTP/1.0\r\nHost: localhost\r\n\r\n",
        "POST /v1/notifications HTTP/1.1\r\nHost: localhost\r\nContent-Type: application/json\r\nContent-Length: 2\r\n"
            + "Connection: close\r\n\r\n{}",
    ]

    @Test("refuses every caller, straight or through a proxy that says nothing of itself", arguments: [false, true])
    func attack(hasFirstKey: Bool) async throws {
        let harness = harness(hasFirstKey ? [Self.first] : [])
        try await harness.serve { port, _ in
            try await Forwarder.run(to: port) { forwarded in
                for (position, request) in Self.requests.enumerated() {
                    for target in [port, forwarded] {
                        try await RawClient.run(target) { client in
                            try await client.send(request)
                            let answer = try await client.readToEnd()
                            #expect(answer.hasPrefix("HTTP/1.1 401 "), "\(position): \(answer)")
                            #expect(!answer.contains("first-key"), "no path to a stranger")
                        }
                    }
                }
                try await RawClient.run(forwarded) { client in
                    let key = "Authorization: Bearer chp_first\r\nConnection: close\r\n"
                    try await client.send("GET /v1/backends HTTP/1.1\r\nHost: localhost\r\n\(key)\r\n")
                    let answer = try await client.readToEnd()
                    #expect(answer.hasPrefix(hasFirstKey ? "HTTP/1.1 200 " : "HTTP/1.1 401 "))
                }
            }
        }
        #expect(harness.store.accepted.isEmpty)
    }

    @Test("says where the key is, and no path to a stranger")
    func sentence() async throws {
        let made = try await harness([Self.first]).send(.get, "/v1/backends")
        #expect(made.status == 401 && made.json["detail"]?.stringValue?.contains("its log names the file") ?? false)
        let none = try await harness().send(.get, "/v1/backends")
        #expect(none.status == 401 && none.json["detail"]?.stringValue?.contains("auth.api_keys") ?? false)
        let configured = try await harness([APIHarness.key("shop", [.send])]).send(.get, "/v1/backends")
        #expect(configured.json["detail"] == "An API key is needed.")
        #expect(try await harness().send(.get, "/readyz").status != 401, "what is open stays so")
    }

    private static var first: GatewayConfiguration.APIKey {
        var key = APIHarness.key("first", [.admin])
        key.isFirst = true
        return key
    }

    // MARK: - The dashboard's link

    private func exchange(_ harness: APIHarness, _ code: String) async throws -> APIHarness.Reply {
        try await harness.send(.post, "/v1/dashboard/session", JSONValue.object(["code": .string(code)]).text)
    }

    private static func bearer(_ token: String) -> HTTPFields { [.authorization: "Bearer \(token)"] }

    @Test("gives the dashboard a token for the code of its link, once, that reads and does nothing else")
    func link() async throws {
        let harness = harness([Self.first])
        let code = harness.api.own.dashboard.makeCode(at: harness.time.steady).reveal()
        #expect(try await exchange(harness, code + "x").status == 401)
        let answer = try await exchange(harness, code)
        let token = try #require(answer.json["token"]?.stringValue)
        #expect(answer.status == 200 && token != code && !token.hasPrefix("chp_"))
        #expect(try await exchange(harness, code).status == 401, "a second time")
        let fields = Self.bearer(token)
        #expect(try await harness.send(.get, "/v1/backends", headers: fields).status == 200)
        let own = try await harness.send(.get, "/v1/key", headers: fields)
        #expect(own.json["scopes"] == ["metrics", "read"], "\(own.text)")
        #expect(try await harness.post(APIHarness.sample(), headers: fields).status == 403)
        #expect(try await harness.send(.get, "/v1/keys", headers: fields).status == 403)
        #expect(try await harness.send(.get, "/v1/backends", headers: Self.bearer(code)).status == 401)
        harness.time.advance(by: .seconds(12 * 3600))
        #expect(try await harness.send(.get, "/v1/backends", headers: fields).status == 401)
    }

    @Test("has a code that ends after a minute, and one at a time")
    func codeEnds() async throws {
        let harness = harness([Self.first])
        let old = harness.api.own.dashboard.makeCode(at: harness.time.steady).reveal()
        let late = harness.api.own.dashboard.makeCode(at: harness.time.steady).reveal()
        #expect(try await exchange(harness, old).status == 401)
        harness.time.advance(by: .seconds(60))
        #expect(try await exchange(harness, late).status == 401)
        let next = harness.api.own.dashboard.makeCode(at: harness.time.steady).reveal()
        harness.time.advance(by: .seconds(59))
        #expect(try await exchange(harness, next).status == 200)
    }

    @Test("counts wrong codes as wrong keys, and compares none of an address over its limit")
    func guesses() async throws {
        let harness = harness([Self.first])
        let code = harness.api.own.dashboard.makeCode(at: harness.time.steady).reveal()
        for number in 0..<200 { #expect(try await exchange(harness, "chc_\(number)").status == 401) }
        let right = try await exchange(harness, code)
        let wrong = try await exchange(harness, "chc_wrong")
        #expect(right.status == 429 && right.json["detail"] == wrong.json["detail"])
        harness.time.advance(by: .milliseconds(120))
        #expect(try await exchange(harness, code).status == 200)
    }

    @Test("ends the dashboard's token when the configuration has keys")
    func tokenEnds() async throws {
        let harness = harness([Self.first])
        let code = harness.api.own.dashboard.makeCode(at: harness.time.steady).reveal()
        let unused = try #require(try await exchange(harness, code).json["token"]?.stringValue)
        let next = harness.api.own.dashboard.makeCode(at: harness.time.steady).reveal()
        var configuration = harness.state.snapshot.configuration
        configuration.apiKeys = [APIHarness.key("shop", [.read])]
        let before = harness.state.snapshot
        harness.state.replace(GatewaySnapshot(configuration: configuration, backends: before.backends))
        #expect(try await harness.send(.get, "/v1/backends", headers: Self.bearer(unused)).status == 401)
        #expect(try await exchange(harness, next).status == 401)
        #expect(try await harness.send(.get, "/v1/backends", headers: APIHarness.bearer("first")).status == 401)
        harness.state.replace(before)
        #expect(try await harness.send(.get, "/v1/backends", headers: APIHarness.bearer("first")).status == 200)
        #expect(try await harness.send(.get, "/v1/backends", headers: Self.bearer(unused)).status == 401)
        #expect(try await exchange(harness, next).status == 401)
    }
}

/// Hands bytes on between connections and says nothing of it, as a forwarded port does.
private enum Forwarder {
    static func run(to port: Int, _ body: (_ port: Int) async throws -> Void) async throws {
        let server = try await ServerBootstrap(group: .singletonMultiThreadedEventLoopGroup)
            .childChannelInitializer { near in
                ClientBootstrap(group: near.eventLoop)
                    .channelInitializer { far in
                        far.eventLoop.makeCompletedFuture {
                            try far.pipeline.syncOperations.addHandler(Glue(to: near))
                        }
                    }
                    .connect(host: "127.0.0.1", port: port)
                    .flatMapThrowing { far in try near.pipeline.syncOperations.addHandler(Glue(to: far)) }
            }
            .bind(host: "127.0.0.1", port: 0).get()
        do {
            try await body(server.localAddress?.port ?? 0)
        } catch {
            try await server.close()
            throw error
        }
        try await server.close()
    }

    private final class Glue: ChannelInboundHandler, Sendable {
        typealias InboundIn = ByteBuffer
        private let other: any Channel

        init(to other: any Channel) { self.other = other }

        func channelRead(context: ChannelHandlerContext, data: NIOAny) {
            other.writeAndFlush(unwrapInboundIn(data), promise: nil)
        }

        func channelInactive(context: ChannelHandlerContext) { other.close(promise: nil) }
    }
}
