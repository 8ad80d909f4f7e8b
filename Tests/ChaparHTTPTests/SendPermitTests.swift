import ChaparCore
import Synchronization
import Testing

@testable import ChaparHTTP

/// A sender that loses what it had claimed while its calls are on their way.
@Suite("Calls that may not be written any more", .serialized, .timeLimit(.minutes(1)))
struct SendPermitTests {
    /// The claims of a sender, which it has until the server has got so many requests.
    private final class Claims: Sendable {
        private let requests = Atomic(0)
        private let last: Int

        init(lostAt last: Int) { self.last = last }

        var count: Int { requests.load(ordering: .acquiring) }
        func note() { requests.wrappingAdd(1, ordering: .acquiringAndReleasing) }

        /// Returns the replies of a pool to calls that are sent under these claims.
        func replies(to calls: [HTTPCall], through pool: any HTTPPool) async -> Replies {
            await SendPermit.$current.withValue(SendPermit { self.count < self.last }) { await pool.replies(to: calls) }
        }
    }

    private static func expectFirstAlone(_ replies: Replies) {
        #expect(replies.statuses == [200])
        #expect(replies.failures.count == 3)
        for failure in replies.failures {
            #expect(failure.stage == .notProcessed)
            #expect(failure.cause == .cancelled, "an open breaker would be wrong: the platform did nothing")
        }
        #expect(replies.doubled == 0)
    }

    @Test("Over HTTP/2 a call that waits for a stream is not opened")
    func streams() async throws {
        let claims = Claims(lostAt: 2)
        let script: @Sendable (ServerConnection, ServerEvent) -> Void = { connection, event in
            guard case .request(let id) = event else { return }
            claims.note()
            connection.answer(id)
        }
        try await withServer({ $0.settings = [(3, 1)] }, script: script) { server in
            try await withPool(port: server.port) { pool in
                // By its answer the pool knows that one stream may be open at a time.
                #expect(await pool.status(of: .post(bytes: 10)) == 200)
                Self.expectFirstAlone(await claims.replies(to: .posts(4), through: pool))
                #expect(claims.count == 2)
                #expect(await pool.status(of: .post(bytes: 10)) == 200, "another sender's call")
            }
        }
    }

    @Test("Over HTTP/1.1 a call that waits for a connection is not written")
    func connections() async throws {
        let server = try await HTTP1Server.start()
        let endpoint = try #require(HTTPEndpoint(url: server.url))
        var configuration = HTTPPoolConfiguration(endpoint: endpoint, version: .http1)
        configuration.maximumConnections = 1
        let transport = NIOTransport(logger: quiet)
        let pool = try transport.pool(configuration)
        let replies = await SendPermit.$current.withValue(SendPermit { server.requests < 1 }) {
            await pool.replies(to: .posts(4))
        }
        Self.expectFirstAlone(replies)
        #expect(server.requests == 1)
        #expect(await pool.status(of: .post(bytes: 10)) == 200, "another sender's call")
        await transport.shutdown(grace: .zero)
        try await server.stop()
    }

    /// A permit that is lost after the first look, as when the process stands still between that look and the socket.
    private static func lostAfterTheFirstLook() -> SendPermit {
        let looks = Looks()
        return SendPermit { looks.count.wrappingAdd(1, ordering: .relaxed).oldValue == 0 }
    }

    private final class Looks: Sendable {
        let count = Atomic(0)
    }

    @Test("Over HTTP/2 a call that is framed does not reach the socket")
    func framed() async throws {
        let requests = Looks()
        let script: @Sendable (ServerConnection, ServerEvent) -> Void = { connection, event in
            guard case .request(let id) = event else { return }
            requests.count.wrappingAdd(1, ordering: .relaxed)
            connection.answer(id)
        }
        try await withServer(script: script) { server in
            try await withPool(port: server.port) { pool in
                #expect(await pool.status(of: .post(bytes: 10)) == 200)
                let replies = await SendPermit.$current.withValue(Self.lostAfterTheFirstLook()) {
                    await pool.replies(to: .posts(1))
                }
                #expect(replies.failures.map(\.cause) == [.cancelled], "an open breaker would be wrong")
                #expect(requests.count.load(ordering: .relaxed) == 1)
                #expect(await pool.status(of: .post(bytes: 10)) == 200, "another sender's call")
            }
        }
    }

    @Test("Over HTTP/1.1 a call whose connection is only made does not reach the socket")
    func connecting() async throws {
        let server = try await HTTP1Server.start()
        let endpoint = try #require(HTTPEndpoint(url: server.url))
        let transport = NIOTransport(logger: quiet)
        let pool = try transport.pool(HTTPPoolConfiguration(endpoint: endpoint, version: .http1))
        let replies = await SendPermit.$current.withValue(Self.lostAfterTheFirstLook()) {
            await pool.replies(to: .posts(1))
        }
        #expect(replies.failures.map(\.stage) == [.notProcessed])
        #expect(replies.failures.map(\.cause) == [.cancelled])
        #expect(server.requests == 0)
        #expect(await pool.status(of: .post(bytes: 10)) == 200, "another sender's call")
        await transport.shutdown(grace: .zero)
        try await server.stop()
    }
}
