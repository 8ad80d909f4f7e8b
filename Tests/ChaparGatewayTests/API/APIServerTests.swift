import HTTPTypes
import Hummingbird
import NIOCore
import ChaparCore
import ServiceLifecycle
import Testing

@testable import ChaparAPI
@testable import ChaparDelivery
@testable import ChaparGateway
@testable import ChaparServer

@Suite("The server", .timeLimit(.minutes(1)))
struct APIServerTests {
    private func harness() -> APIHarness {
        APIHarness {
            $0.server.port = 0
            $0.server.maximumBodyBytes = 2000
        }
    }

    private func request(_ body: String) -> String {
        "POST /v1/notifications HTTP/1.1\r\nHost: localhost\r\nContent-Type: application/json\r\n"
            + "Content-Length: \(body.utf8.count)\r\n\r\n\(body)"
    }

    @Test("listens on a free port and answers one request after another on a connection")
    func keepAlive() async throws {
        let harness = harness()
        try await harness.serve { port, _ in
            try await RawClient.run(port) { client in
                for _ in 0..<3 {
                    try await client.send(request(APIHarness.sample()))
                    let answer = try await client.read(until: "\"warnings\":[]}")
                    #expect(answer.hasPrefix("HTTP/1.1 202 Accepted\r\n"))
                }
            }
        }
        #expect(harness.store.accepted.count == 3)
    }

    @Test("tells a client that waits for it to send its body, and one whose body is too large that it need not")
    func expectContinue() async throws {
        let harness = harness()
        let body = APIHarness.sample()
        func head(_ length: Int, _ expect: String) -> String {
            "POST /v1/notifications HTTP/1.1\r\nHost: localhost\r\nContent-Type: application/json\r\n"
                + "Content-Length: \(length)\r\nExpect: \(expect)\r\n\r\n"
        }
        try await harness.serve { port, _ in
            try await RawClient.run(port) { client in
                for expect in ["100-continue", "100-Continue"] {
                    try await client.send(head(body.utf8.count, expect))
                    #expect(try await client.read(until: "\r\n\r\n") == "HTTP/1.1 100 Continue\r\n\r\n")
                    try await client.send(body)
                    let answer = try await client.read(until: "\"warnings\":[]}")
                    #expect(answer.hasPrefix("HTTP/1.1 202 Accepted\r\n"), "\(answer)")
                }
            }
            try await RawClient.run(port) { client in
                try await client.send(head(1 << 20, "100-continue"))
                let answer = try await client.read(until: "}")
                #expect(answer.hasPrefix("HTTP/1.1 413"), "\(answer)")
            }
        }
        #expect(harness.store.accepted.count == 2)
    }

    @Test("refuses a body that turns out too large, though no length said so")
    func chunkedTooLarge() async throws {
        let harness = harness()
        try await harness.serve { port, _ in
            try await RawClient.run(port) { client in
                let chunk = String(repeating: " ", count: 1024)
                try await client.send(
                    "POST /v1/notifications HTTP/1.1\r\nHost: localhost\r\nContent-Type: application/json\r\n"
                        + "Transfer-Encoding: chunked\r\n\r\n400\r\n\(chunk)\r\n400\r\n\(chunk)\r\n0\r\n\r\n"
                )
                let answer = try await client.read(until: "}")
                #expect(answer.hasPrefix("HTTP/1.1 413"))
            }
        }
    }

    @Test("stores nothing of a request whose connection ends before its body does")
    func truncated() async throws {
        let harness = harness()
        let body = APIHarness.sample()
        try await harness.serve { port, _ in
            try await RawClient.run(port) { client in
                let whole = request(body + "   ")  // What is missing is only white space: the JSON is complete.
                try await client.send(String(whole.dropLast(3)))
                try await client.finish()
                _ = try await client.readToEnd()
            }
            try await RawClient.run(port) { client in
                try await client.send(request(body))
                _ = try await client.read(until: "\"warnings\":[]}")
            }
        }
        #expect(harness.store.accepted.count == 1)
    }

    @Test("at a graceful shutdown ends event streams and lets requests in progress finish")
    func shutdown() async throws {
        let harness = harness()
        try await harness.serve { port, group in
            try await RawClient.run(port) { stream in
                try await stream.send("GET /v1/events?workers=1 HTTP/1.1\r\nHost: localhost\r\n\r\n")
                _ = try await stream.read(until: "event: gateway.lanes")
                try await RawClient.run(port) { poster in
                    harness.store.hold()
                    try await poster.send(request(APIHarness.sample()))
                    await harness.store.heldOne()
                    await group.triggerGracefulShutdown()
                    let rest = try await stream.readToEnd()
                    #expect(rest.hasSuffix("0\r\n\r\n"), "the stream is ended, not cut")
                    harness.store.release()
                    let answer = try await poster.readToEnd()
                    #expect(answer.contains("HTTP/1.1 202 Accepted\r\n"))
                }
            }
        }
        #expect(harness.store.accepted.count == 1)
    }
}

extension APIHarness {
    /// Runs the API on a real socket of a free port, then ends it gracefully.
    func serve(
        limits: ConnectionHandler.Limits = ConnectionHandler.Limits(),
        _ body: (Int, ServiceGroup) async throws -> Void
    ) async throws {
        let (ports, continuation) = AsyncStream.makeStream(of: Int.self)
        let application = api.makeApplication(limits: limits) { continuation.yield($0) }
        let group = ServiceGroup(services: [application], logger: quiet)
        try await withThrowingTaskGroup(of: Void.self) { tasks in
            tasks.addTask { try await group.run() }
            do {
                let port = try #require(await ports.first { _ in true })
                #expect(port > 0)
                try await body(port, group)
            } catch {
                await group.triggerGracefulShutdown()
                throw error
            }
            await group.triggerGracefulShutdown()
            try await tasks.waitForAll()
        }
    }
}
