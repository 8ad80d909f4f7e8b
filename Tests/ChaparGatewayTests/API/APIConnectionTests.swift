import HTTPTypes
import Hummingbird
import NIOCore
import ChaparCore
import ChaparQueue
import ChaparTesting
import ServiceLifecycle
import Synchronization
import Testing

@testable import ChaparAPI
@testable import ChaparDelivery
@testable import ChaparGateway
@testable import ChaparServer

/// Requests on one connection, in each way that they can go.
@Suite("A connection", .timeLimit(.minutes(1)))
struct APIConnectionTests {
    private func harness(_ change: (inout GatewayConfiguration) -> Void = { _ in }) -> APIHarness {
        APIHarness {
            $0.server.port = 0
            change(&$0)
        }
    }

    private func post(
        _ body: String,
        _ fields: String = "",
        path: String = "/v1/notifications",
        declared: Int? = nil
    ) -> String {
        "POST \(path) HTTP/1.1\r\nHost: localhost\r\nContent-Type: application/json\r\n\(fields)"
            + "Content-Length: \(declared ?? body.utf8.count)\r\n\r\n\(body)"
    }

    private func batch(_ count: Int) -> String {
        let items = Array(repeating: APIHarness.sample(), count: count).joined(separator: ",")
        return #"{"notifications":[\#(items)]}"#
    }

    /// Reads one answer, to the end of its body.
    private func answer(_ client: RawClient) async throws -> (head: String, body: String) {
        let head = try await client.read(until: "\r\n\r\n")
        let length = head.split(separator: "\r\n").first { $0.lowercased().hasPrefix("content-length:") }
            .flatMap { Int($0.dropFirst("content-length:".count).drop { $0 == " " }) }
        return (head, try await client.read(count: length ?? 0))
    }

    /// An IPv4 address of this machine that others can reach; nil where there is none.
    private static let ownAddress: String? = {
        (try? System.enumerateDevices())?.lazy.compactMap(\.address)
            .first { $0.protocol == .inet && !$0.isLoopback }?.ipAddress
    }()

    @Test(
        "without keys is refused at an address that others reach, whatever the request",
        .enabled(if: ownAddress != nil)
    )
    func exposed() async throws {
        let harness = harness { $0.server.host = "0.0.0.0" }
        try await harness.serve { port, _ in
            for request in [post(APIHarness.sample()), "GET /healthz HTTP/1.1\r\nHost: localhost\r\n\r\n"] {
                try await RawClient.run(port, host: Self.ownAddress ?? "") { client in
                    try await client.send(request)
                    let answer = try await client.readToEnd()
                    #expect(answer.hasPrefix("HTTP/1.1 403 "))
                    #expect(answer.contains("keys_needed"))
                }
            }
            try await RawClient.run(port) { client in
                try await client.send(post(APIHarness.sample()))
                #expect(try await answer(client).head.hasPrefix("HTTP/1.1 202 "))
            }
            // Keys that came with a reload open it.
            var configuration = harness.state.snapshot.configuration
            configuration.apiKeys = [APIHarness.key("shop", [.send])]
            let backends = harness.state.snapshot.backends
            harness.state.replace(GatewaySnapshot(configuration: configuration, backends: backends))
            try await RawClient.run(port, host: Self.ownAddress ?? "") { client in
                try await client.send(post(APIHarness.sample(), "Authorization: Bearer chp_shop\r\n"))
                #expect(try await answer(client).head.hasPrefix("HTTP/1.1 202 "))
            }
        }
        #expect(harness.store.accepted.count == 2)
    }

    @Test(
        "ends with a request that does not end in time, though something of it comes all the while",
        arguments: [
            "PUT /v1/devices/d HTTP/1.1\r\nHost: localhost\r\nContent-Type: application/json\r\nContent-Length: 100000\r\n\r\n",
            "POST /v1/notifications HTTP/1.1\r\nHost: localhost\r\nContent-Type: application/json\r\nContent-Length: 5000\r\n\r\n",
            "PUT /v1/devices/d HTTP/1.1\r\nX-Slow: ",
        ]
    )
    func trickle(beginning: String) async throws {
        let harness = harness()
        var limits = ConnectionHandler.Limits()
        limits.request = .milliseconds(200)
        limits.refusedBody = .milliseconds(50)
        try await harness.serve(limits: limits) { port, _ in
            try await RawClient.run(port) { client in
                try await client.send(beginning)
                try await eventually("the other side ends the connection", every: .milliseconds(20)) {
                    do {
                        try await client.send("x")
                        return false
                    } catch {
                        return true
                    }
                }
            }
        }
        #expect(harness.api.responder.load.requests == 0)
    }

    @Test("ends with a refused request whose body goes on")
    func refusedBody() async throws {
        let harness = APIHarness(keys: [APIHarness.key("shop", [.send])]) { $0.server.port = 0 }
        var limits = ConnectionHandler.Limits()
        limits.refusedBody = .milliseconds(50)
        try await harness.serve(limits: limits) { port, _ in
            try await RawClient.run(port) { client in
                try await client.send(
                    "PUT /v1/devices/d HTTP/1.1\r\nHost: localhost\r\nContent-Type: application/json\r\nContent-Length: 100000\r\n\r\n"
                )
                #expect(try await client.readToEnd().hasPrefix("HTTP/1.1 401 "))
            }
        }
    }

    @Test("without keys is refused when a proxy passed the request on, on the short way as well")
    func proxied() async throws {
        let harness = harness()
        try await harness.serve { port, _ in
            for fields in ["Via: 1.1 proxy\r\n", "X-Forwarded-For: 192.0.2.1\r\n", "FORWARDED: for=192.0.2.1\r\n"] {
                try await RawClient.run(port) { client in
                    try await client.send(post(APIHarness.sample(), fields))
                    let answer = try await answer(client)
                    #expect(answer.head.hasPrefix("HTTP/1.1 403 ") && answer.body.contains("keys_needed"))
                }
            }
            // As some proxies speak unless they are told otherwise, without any field that names them.
            try await RawClient.run(port) { client in
                let old = post(APIHarness.sample(), "Connection: close\r\n").replacing(" HTTP/1.1", with: " HTTP/1.0")
                try await client.send(old)
                #expect(try await client.readToEnd().contains("keys_needed"))
            }
        }
        #expect(harness.store.accepted.isEmpty)
    }

    @Test("answers an acceptance alike on the short way and on the long way")
    func alike() async throws {
        let harness = harness()
        try await harness.serve { port, _ in
            try await RawClient.run(port) { client in
                // Expect is nothing the short way deals with.
                var answers: [(fields: [String], members: [String])] = []
                for fields in ["", "Expect: nothing\r\n"] {
                    for (path, body) in [("", APIHarness.sample()), ("/batch", batch(2))] {
                        try await client.send(post(body, fields, path: "/v1/notifications" + path))
                        let answer = try await answer(client)
                        #expect(answer.head.hasPrefix("HTTP/1.1 202 Accepted\r\n"))
                        let names = answer.head.lowercased().split(separator: "\r\n").dropFirst()
                            .map { String($0.prefix { $0 != ":" }) }
                        let json = try JSONValue(parsing: Array(answer.body.utf8))
                        answers.append((names.sorted(), json.objectValue?.map(\.name) ?? []))
                    }
                }
                #expect(answers[0].fields == answers[2].fields)
                #expect(answers[0].members == answers[2].members)
                #expect(answers[1].fields == answers[3].fields)
                #expect(answers[1].members == answers[3].members)
            }
        }
        #expect(harness.store.accepted.count == 6)
        let text = try await harness.send(.get, "/metrics").text
        #expect(text.contains(#"chapar_http_requests_total{route="/v1/notifications",method="POST",status="202"} 2"#))
        #expect(text.contains(#"chapar_notifications_accepted_total{route="automatic",app="default"} 6"#))
    }

    @Test("answers requests that were sent ahead in their order, whichever way each goes")
    func sentAhead() async throws {
        let harness = harness()
        try await harness.serve { port, _ in
            try await RawClient.run(port) { client in
                let wrong = post(#"{"to":{}}"#)
                let get = "GET /healthz HTTP/1.1\r\nHost: localhost\r\n\r\n"
                let long = post(APIHarness.sample(), "Expect: nothing\r\n")
                let requests = [
                    post(APIHarness.sample()), get, wrong, post(APIHarness.sample()), long, get,
                    post(batch(3), path: "/v1/notifications/batch"),
                ]
                try await client.send(requests.joined())
                var statuses: [String] = []
                for _ in requests { statuses.append(String(try await answer(client).head.dropFirst(9).prefix(3))) }
                #expect(statuses == ["202", "200", "422", "202", "202", "200", "202"])
            }
        }
        #expect(harness.store.accepted.count == 6)
    }

    @Test("takes a body in pieces")
    func pieces() async throws {
        let harness = harness()
        try await harness.serve { port, _ in
            try await RawClient.run(port) { client in
                let body = APIHarness.sample()
                try await client.send(post(String(body.prefix(10)), declared: body.utf8.count))
                try await client.send(String(body.dropFirst(10).prefix(7)))
                try await client.send(String(body.dropFirst(17)))
                #expect(try await answer(client).head.hasPrefix("HTTP/1.1 202"))
            }
        }
        #expect(harness.store.accepted.count == 1)
    }

    @Test("gives the same answer to a repeated idempotency key, and says so")
    func replay() async throws {
        let harness = harness()
        try await harness.serve { port, _ in
            try await RawClient.run(port) { client in
                let request = post(APIHarness.sample(), "Idempotency-Key: order-42\r\n")
                try await client.send(request)
                let first = try await answer(client)
                try await client.send(request)
                let second = try await answer(client)
                #expect(second.body == first.body)
                #expect(!first.head.lowercased().contains("idempotency-replayed"))
                #expect(second.head.lowercased().contains("idempotency-replayed: true\r\n"))
                try await client.send(post(APIHarness.sample(#","route":"default""#), "Idempotency-Key: order-42\r\n"))
                #expect(try await answer(client).head.hasPrefix("HTTP/1.1 422"))
            }
        }
        #expect(harness.store.accepted.count == 1)
    }

    @Test("says what is wrong when the store takes nothing")
    func refused() async throws {
        let harness = harness()
        harness.store.fail(.full(reason: "the disk is full", retryAfter: .seconds(7)))
        try await harness.serve { port, _ in
            try await RawClient.run(port) { client in
                try await client.send(post(APIHarness.sample()))
                let refusal = try await answer(client)
                #expect(refusal.head.hasPrefix("HTTP/1.1 503 Service Unavailable\r\n"))
                #expect(refusal.head.lowercased().contains("retry-after: 7\r\n"))
                #expect(refusal.body.contains(#""code":"store_full""#))
                harness.store.fail(nil)
                try await client.send(post(APIHarness.sample()))
                #expect(try await answer(client).head.hasPrefix("HTTP/1.1 202"))
            }
        }
    }

    @Test("asks for an API key on the short way too")
    func keys() async throws {
        let harness = APIHarness(keys: [APIHarness.key("app", [.send]), APIHarness.key("viewer", [.read])]) {
            $0.server.port = 0
        }
        try await harness.serve { port, _ in
            try await RawClient.run(port) { client in
                for (fields, status) in [
                    ("", "401"), ("Authorization: Bearer chp_app\r\n", "202"),
                    ("Authorization: Bearer chp_viewer\r\n", "403"),
                ] {
                    try await client.send(post(APIHarness.sample(), fields))
                    #expect(try await answer(client).head.dropFirst(9).hasPrefix(status))
                }
            }
        }
        #expect(harness.store.accepted.map(\.caller) == ["app"])
    }

    @Test("is closed after an answer when the client asks for it")
    func close() async throws {
        let harness = harness()
        try await harness.serve { port, _ in
            try await RawClient.run(port) { client in
                try await client.send(post(APIHarness.sample(), "Connection: close\r\n"))
                #expect(try await client.readToEnd().hasPrefix("HTTP/1.1 202"))
            }
        }
    }

    @Test(
        "is closed after the answer to a request for another protocol, so that nothing after it is left unanswered",
        arguments: [
            "GET /healthz HTTP/1.1\r\nHost: localhost\r\nConnection: Upgrade, HTTP2-Settings\r\nUpgrade: h2c\r\nHTTP2-Settings: AAMAAABk\r\n\r\n",
            "GET /healthz HTTP/1.1\r\nHost: localhost\r\nConnection: upgrade\r\nUpgrade: websocket\r\n\r\n",
            "CONNECT localhost:443 HTTP/1.1\r\nHost: localhost\r\n\r\n",
        ]
    )
    func upgrade(request: String) async throws {
        try await harness().serve(limits: .init(request: .seconds(5))) { port, _ in
            try await RawClient.run(port) { client in
                try await client.send(request)
                #expect(try await answer(client).head.lowercased().contains("connection: close\r\n"))
                #expect(try await client.readToEnd() == "")
            }
        }
    }

    private static let noRequests: [String] = [
        "nonsense\r\n\r\n",
        "GET /healthz HTTP/2.0\r\nHost: localhost\r\n\r\n",
        "GET /healthz HTTP/1.1\r\nHost: localhost\r\nX: \(String(repeating: "x", count: 100_000))\r\n\r\n",
        // The first bytes of TLS.
        "\u{16}\u{3}\u{1}\u{0}\u{5}\u{1}\u{0}\u{0}\u{1}\u{3}",
        "POST /v1/events HTTP/1.1\r\nHost: localhost\r\nContent-Length: 1\r\nContent-Length: 2\r\n\r\n{}",
    ]

    @Test(
        "answers what is no request with problem details, after the answers to the requests before it, and is closed",
        arguments: noRequests,
        ["", "GET /healthz HTTP/1.1\r\nHost: localhost\r\n\r\n", "POST"]
    )
    func malformed(request: String, before: String) async throws {
        let first = before == "POST" ? post(APIHarness.sample()) : before
        try await harness().serve { port, _ in
            try await RawClient.run(port) { client in
                try await client.send(first + request)
                if !first.isEmpty {
                    let good = try await answer(client)
                    #expect(good.head.hasPrefix("HTTP/1.1 20"), "\(good.head)")
                }
                let text = try await client.readToEnd()
                #expect(text.hasPrefix("HTTP/1.1 400 Bad Request\r\n"), "\(text)")
                #expect(text.contains("\r\nContent-Type: application/problem+json\r\n"), "\(text)")
                #expect(text.contains("\r\nConnection: close\r\n"))
                #expect(text.contains(#""code":"malformed_request""#) && text.hasSuffix("}"), "\(text)")
            }
        }
    }

    @Test(
        "takes no body with a transfer coding that it does not undo",
        arguments: [
            "Transfer-Encoding: gzip, chunked\r\n", "Transfer-Encoding: gzip\r\nTransfer-Encoding: chunked\r\n",
        ]
    )
    func transferCoding(fields: String) async throws {
        let harness = harness()
        try await harness.serve { port, _ in
            try await RawClient.run(port) { client in
                let body = APIHarness.sample()
                try await client.send(
                    "POST /v1/notifications HTTP/1.1\r\nHost: localhost\r\nContent-Type: application/json\r\n\(fields)\r\n"
                        + "\(String(body.utf8.count, radix: 16))\r\n\(body)\r\n0\r\n\r\n"
                )
                let text = try await client.readToEnd()
                #expect(text.hasPrefix("HTTP/1.1 501 "), "\(text)")
                #expect(text.contains(#""code":"transfer_coding_unknown""#), "\(text)")
            }
        }
        #expect(harness.store.accepted.isEmpty)
    }

    @Test("reads nothing more of a client that asked for another protocol, while its request is in progress")
    func upgradeFlood() async throws {
        let harness = harness()
        try await harness.serve { port, _ in
            harness.store.hold()
            let request = post(APIHarness.sample(), "Connection: Upgrade\r\nUpgrade: h2c\r\n")
            let sent = Sent()
            async let answer = RawClient.converse(port) { outbound in
                try await outbound.write(ByteBuffer(string: request))
                await harness.store.heldOne()
                for _ in 0..<Sent.most {
                    try await outbound.write(ByteBuffer(repeating: 0x78, count: 1 << 20))
                    sent.count.withLock { $0 += 1 }
                }
            }
            await harness.store.heldOne()
            var before = -1
            try await eventually("all of it is taken, or nothing of it any more", every: .milliseconds(500)) {
                let now = sent.count.withLock { $0 }
                defer { before = now }
                return now == before || now >= Sent.most
            }
            harness.store.release()
            #expect(try await answer.text.hasPrefix("HTTP/1.1 202 "))
            #expect(sent.count.withLock { $0 } < Sent.most)
        }
    }

    /// How many MiB a client has got rid of.
    private final class Sent: Sendable {
        /// More than the buffers of two sockets hold.
        static let most = 100
        let count = Mutex(0)
    }

    @Test("answers a client that has ended its side")
    func halfClosed() async throws {
        let harness = harness()
        try await harness.serve { port, _ in
            try await RawClient.run(port) { client in
                harness.store.hold()
                try await client.send(post(APIHarness.sample()))
                await harness.store.heldOne()
                try await client.finish()
                harness.store.release()
                #expect(try await client.readToEnd().hasPrefix("HTTP/1.1 202"))
            }
        }
    }

    @Test("counts a request out whose client is gone before its answer")
    func gone() async throws {
        let harness = harness { $0.server.maximumRequests = 1 }
        try await harness.serve { port, _ in
            harness.store.hold()
            try await RawClient.run(port) { client in
                try await client.send(post(APIHarness.sample()))
                await harness.store.heldOne()
            }
            harness.store.release()
            try await RawClient.run(port) { client in
                var status = ""
                while status != "202" {  // Until the first is counted out there is no room for another.
                    try await client.send(post(APIHarness.sample()))
                    status = String(try await answer(client).head.dropFirst(9).prefix(3))
                    #expect(["202", "503"].contains(status))
                }
            }
        }
    }

    @Test("is closed when no request comes in time")
    func idle() async throws {
        let harness = harness()
        try await harness.serve(limits: .init(request: .seconds(2))) { port, _ in
            try await RawClient.run(port) { client in
                try await client.send(post(APIHarness.sample()))
                #expect(try await answer(client).head.hasPrefix("HTTP/1.1 202"))
                #expect(try await client.readToEnd() == "")
            }
        }
    }

    @Test("tells a client whose body does not come in time, and is closed")
    func slowBody() async throws {
        let harness = harness()
        try await harness.serve(limits: .init(request: .seconds(2))) { port, _ in
            try await RawClient.run(port) { client in
                try await client.send(post("{", declared: 100))
                let answer = try await client.readToEnd()
                #expect(answer.hasPrefix("HTTP/1.1 408 Request Timeout\r\n"))
                #expect(answer.contains("Connection: close\r\n"))
            }
        }
        #expect(harness.store.accepted.isEmpty)
    }
}
