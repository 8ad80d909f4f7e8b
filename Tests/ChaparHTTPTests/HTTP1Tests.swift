import NIOCore
import NIOHTTP1
import NIOPosix
import NIOSSL
import ChaparCore
import ChaparTesting
import Synchronization
import Testing

@testable import ChaparHTTP

/// The HTTP/1.1 pool: the same promises over another protocol.
@Suite("HTTP/1.1", .serialized, .timeLimit(.minutes(1)))
struct HTTP1Tests {
    func withPool<Result>(
        _ url: String,
        _ change: (inout HTTPPoolConfiguration) -> Void = { _ in },
        _ body: (any HTTPPool) async throws -> Result
    ) async throws -> Result {
        let endpoint = try #require(HTTPEndpoint(url: url))
        var configuration = HTTPPoolConfiguration(endpoint: endpoint, version: .http1)
        configuration.extraTrustPEM = try TestAuthority.shared.certificatePEM
        change(&configuration)
        let transport = NIOTransport(logger: quiet)
        let pool = try transport.pool(configuration)
        do {
            let result = try await body(pool)
            await transport.shutdown(grace: .zero)
            return result
        } catch {
            await transport.shutdown(grace: .zero)
            throw error
        }
    }

    @Test("Calls go out over at most as many connections as allowed, and all come back", arguments: [false, true])
    func happy(withTLS: Bool) async throws {
        let server = try await HTTP1Server.start(withTLS: withTLS)
        try await withPool(server.url, { $0.maximumConnections = 3 }) { pool in
            let replies = await pool.replies(to: .posts(200))
            #expect(replies.statuses.filter { $0 == 200 }.count == 200)
            #expect(server.connections <= 3)
            let answer = try #require(try replies.all[7]?.result.get())
            #expect(answer.header("x-path") == "/call/7")
            #expect(answer.header("x-length") == "200")
            #expect(answer.body == Array("hello".utf8))
        }
        try await server.stop()
    }

    @Test("No server listens: calls whose deadline comes before the next attempt fail as surely not processed")
    func refused() async throws {
        let port = try await PeerProcess.freePort()
        let endpoint = HTTPEndpoint(scheme: .http, host: "127.0.0.1", port: port)
        var configuration = HTTPPoolConfiguration(endpoint: endpoint, version: .http1)
        configuration.reconnectBackoff = .seconds(3600) ... .seconds(3600)
        let pool = try HTTP1Pool(
            configuration,
            loop: MultiThreadedEventLoopGroup.singleton.next(),
            logger: quiet,
            jitter: { 1 }
        )
        let replies = await pool.replies(to: .posts(10))
        #expect(replies.failures.count == 10)
        #expect(replies.failures.allSatisfy { $0.stage == .notProcessed && $0.cause == .connect })
        for detail in replies.failures.map(\.detail) {
            #expect(detail.contains("Connection refused") && !detail.contains("reset"), "\(detail)")
        }
        #expect(pool.status.lastConnectFailure?.cause == .connect)
        await pool.shutdown(grace: .zero)
    }

    @Test("A server that comes up later gets the calls that waited")
    func comesUp() async throws {
        let port = try await PeerProcess.freePort()
        let change: (inout HTTPPoolConfiguration) -> Void = {
            $0.reconnectBackoff = .milliseconds(20) ... .milliseconds(40)
        }
        try await withPool("http://127.0.0.1:\(port)", change) { pool in
            async let replies = pool.replies(to: .posts(10))
            try await eventually("an attempt failed") { pool.status.lastConnectFailure?.cause == .connect }
            let server = try await HTTP1Server.start(port: port)
            #expect(await replies.statuses.count == 10)
            try await server.stop()
        }
    }

    @Test("A certificate that is not trusted fails the calls at once as tls")
    func distrusted() async throws {
        let server = try await HTTP1Server.start(withTLS: true, identity: try TestAuthority.stranger.identity())
        try await withPool(server.url) { pool in
            let failure = await pool.failure(of: .post(bytes: 1))
            #expect(failure?.stage == .notProcessed)
            #expect(failure?.cause == .tls, "\(failure?.description ?? "")")
        }
        try await server.stop()
    }

    @Test("A connection lost after the request leaves the outcome unknown, and it is not repeated")
    func lost() async throws {
        let server = try await HTTP1Server.start { _, context in context.close(promise: nil) }
        try await withPool(server.url) { pool in
            let failure = await pool.failure(of: .post(bytes: 1))
            #expect(failure?.stage == .unknown)
            #expect(failure?.cause == .connectionLost)
            #expect(server.requests == 1)
        }
        try await server.stop()
    }

    @Test("The deadline: unknown for what is on the wire, surely not processed for what waits")
    func deadline() async throws {
        let server = try await HTTP1Server.start { _, _ in }
        var timeout = Duration.milliseconds(200)
        var failures: [HTTPFailure] = []
        repeat {  // On a busy machine the first deadline may be too short to get on the wire at all.
            let change: (inout HTTPPoolConfiguration) -> Void = {
                $0.maximumConnections = 1
                $0.requestTimeout = timeout
            }
            failures = try await withPool(server.url, change) { await $0.replies(to: .posts(3)).failures }
            #expect(failures.map(\.cause) == [.deadline, .deadline, .deadline])
            timeout *= 2
        } while failures.allSatisfy { $0.stage == .notProcessed } && timeout < .seconds(20)
        #expect(failures.filter { $0.stage == .unknown }.count == 1)
        try await server.stop()
    }

    @Test(
        "A status that answers nothing fails the call as badAnswer, and the next one gets its answer",
        arguments: [0, 99, 101]
    )
    func statusOfNoAnswer(status: Int) async throws {
        let isFirst = Mutex(true)
        let server = try await HTTP1Server.start(withPipelining: false) { _, context in
            let status = isFirst.withLock { isFirst in
                defer { isFirst = false }
                return isFirst ? status : 200
            }
            let text = "HTTP/1.1 \(status / 100)\(status / 10 % 10)\(status % 10) OK\r\ncontent-length: 4\r\n\r\nbody"
            let encoder = try? context.pipeline.syncOperations.context(handlerType: HTTPResponseEncoder.self)
            encoder?.writeAndFlush(NIOAny(ByteBuffer(string: text)), promise: nil)
        }
        try await withPool(server.url) { pool in
            let failure = await pool.failure(of: .post(bytes: 1))
            #expect(failure?.cause == .badAnswer)
            #expect(failure?.stage == .unknown)
            #expect(await pool.status(of: .post(bytes: 1)) == 200)
        }
        try await server.stop()
    }

    @Test("A body above the limit fails the call as badAnswer")
    func tooLarge() async throws {
        let server = try await HTTP1Server.start()
        try await withPool(server.url, { $0.maximumAnswerBytes = 3 }) { pool in
            let failure = await pool.failure(of: .post(bytes: 1))
            #expect(failure?.cause == .badAnswer)
            #expect(failure?.stage == .unknown)
        }
        try await server.stop()
    }

    @Test("A full queue, a forbidden path and a cancelled caller are told apart")
    func refusals() async throws {
        let server = try await HTTP1Server.start { _, _ in }
        let change: (inout HTTPPoolConfiguration) -> Void = {
            $0.maximumConnections = 1
            $0.maximumWaiting = 2
        }
        try await withPool(server.url, change) { pool in
            #expect(await pool.failure(of: HTTPCall(.get, path: "/a b"))?.cause == .invalidCall)
            let replies = Replies()
            let task = Task { await pool.send(.posts(5)) { replies.take($0) } }
            try await eventually("two are turned away") { replies.failures.map(\.cause) == [.queueFull, .queueFull] }
            try await eventually("one is on the wire") { server.requests == 1 }
            task.cancel()
            try await eventually("two are cancelled") { replies.failures.filter { $0.cause == .cancelled }.count == 2 }
            await pool.shutdown(grace: .milliseconds(10))
            await task.value
            #expect(replies.failures.filter { $0.stage == .unknown }.map(\.cause) == [.cancelled])
        }
        try await server.stop()
    }

    @Test("Through a proxy TLS runs inside the tunnel")
    func throughProxy() async throws {
        let proxy = try await proxy()
        let server = try await HTTP1Server.start(withTLS: true)
        let change: (inout HTTPPoolConfiguration) -> Void = {
            $0.proxy = HTTPEndpoint(scheme: .http, host: "127.0.0.1", port: proxy.port)
        }
        try await withPool(server.url, change) { pool in
            #expect(await pool.status(of: .post(bytes: 1)) == 200)
            #expect(proxy.connections == 1)
        }
        try await proxy.close()
        try await server.stop()
    }

    @Test("A proxy gets the user and the password", arguments: [true, false])
    func proxyCredentials(isRight: Bool) async throws {
        let proxy = try await proxy(credentials: "dXNlcjpwYXNzOnfDtnJk")
        let server = try await HTTP1Server.start(withTLS: true)
        let change: (inout HTTPPoolConfiguration) -> Void = {
            $0.proxy = HTTPEndpoint(scheme: .http, host: "127.0.0.1", port: proxy.port)
            let password = Secret(isRight ? "pass:wörd" : "planted")
            $0.proxyCredentials = HTTPProxyCredentials(user: "user", password: password)
        }
        try await withPool(server.url, change) { pool in
            guard !isRight else {
                #expect(await pool.status(of: .post(bytes: 1)) == 200)
                return
            }
            let failure = await pool.failure(of: .post(bytes: 1))
            #expect(failure?.cause == .proxy)
            #expect(failure?.detail.contains("user and password in proxy") == true, "\(failure as Any)")
            #expect(failure?.detail.contains("planted") == false)
        }
        try await proxy.close()
        try await server.stop()
    }

    @Test("The policy's fields are sent; a retired connection is replaced")
    func policy() async throws {
        let policy = PolicyTests.Policy(retiring: 200 + 3)
        let server = try await HTTP1Server.start()
        try await withPool(server.url, { $0.policy = policy }) { pool in
            let answer = try await pool.send(.post(bytes: 1))
            #expect(answer.header("x-authorization") == "bearer first")
            pool.replaceConnections()
            #expect(await pool.status(of: .post(bytes: 1)) == 200)
            #expect(server.connections == 2)
            #expect(Set(policy.asked.withLock { $0 }).count == 2)
        }
        try await server.stop()
    }
}
