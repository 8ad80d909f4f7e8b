import HTTPTypes
import Hummingbird
import NIOCore
import NIOPosix
import PushCore
import ServiceLifecycle
import Testing

@testable import PushGateway

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
                try await stream.send("GET /v1/events?lanes=1 HTTP/1.1\r\nHost: localhost\r\n\r\n")
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

/// A client that sends what it is told to and reads what comes, on one TCP connection.
struct RawClient {
    private let outbound: NIOAsyncChannelOutboundWriter<ByteBuffer>
    private let inbound: Inbound

    struct Ended: Error {}

    /// Reads the connection on behalf of one test.
    private final class Inbound {
        var iterator: NIOAsyncChannelInboundStream<ByteBuffer>.AsyncIterator
        var text = ""
        init(_ iterator: NIOAsyncChannelInboundStream<ByteBuffer>.AsyncIterator) { self.iterator = iterator }
    }

    static func run(_ port: Int, host: String = "127.0.0.1", _ body: (RawClient) async throws -> Void) async throws {
        let channel = try await ClientBootstrap(group: .singletonMultiThreadedEventLoopGroup)
            .channelOption(.allowRemoteHalfClosure, value: true)
            .connect(host: host, port: port) { channel in
                channel.eventLoop.makeCompletedFuture {
                    try NIOAsyncChannel<ByteBuffer, ByteBuffer>(
                        wrappingChannelSynchronously: channel,
                        configuration: .init(isOutboundHalfClosureEnabled: true)
                    )
                }
            }
        try await channel.executeThenClose { inbound, outbound in
            try await body(RawClient(outbound: outbound, inbound: Inbound(inbound.makeAsyncIterator())))
        }
    }

    func send(_ text: String) async throws { try await outbound.write(ByteBuffer(string: text)) }

    /// Ends our side of the connection.
    func finish() async throws { outbound.finish() }

    /// Everything up to and with a text.
    func read(until end: String) async throws -> String {
        while true {
            if let range = inbound.text.firstRange(of: end) {
                defer { inbound.text.removeSubrange(..<range.upperBound) }
                return String(inbound.text[..<range.upperBound])
            }
            guard let part = try await inbound.iterator.next() else { throw Ended() }
            inbound.text += String(buffer: part)
        }
    }

    /// So many bytes.
    func read(count: Int) async throws -> String {
        while inbound.text.utf8.count < count {
            guard let part = try await inbound.iterator.next() else { throw Ended() }
            inbound.text += String(buffer: part)
        }
        let end = inbound.text.utf8.index(inbound.text.startIndex, offsetBy: count)
        defer { inbound.text.removeSubrange(..<end) }
        return String(inbound.text[..<end])
    }

    /// Everything until the server ends the connection.
    func readToEnd() async throws -> String {
        while let part = try await inbound.iterator.next() { inbound.text += String(buffer: part) }
        return inbound.text
    }
}
