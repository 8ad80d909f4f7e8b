import NIOCore
import ChaparCore
import ChaparTesting
import Synchronization
import Testing

@testable import ChaparHTTP

/// The demands of a platform on its connections.
@Suite("Connection policy", .serialized, .timeLimit(.minutes(1)))
struct PolicyTests {
    /// A policy whose answers a test sets.
    final class Policy: HTTPConnectionPolicy {
        let token = Mutex("first")
        let failure = Mutex<HTTPFailure?>(nil)
        let asked = Mutex<[UInt64]>([])
        let retiring: Int

        init(retiring: Int = 0) { self.retiring = retiring }

        func headers(for connection: HTTPConnectionInfo) throws(HTTPFailure) -> [HTTPHeader] {
            asked.withLock { $0.append(connection.id) }
            if let failure = failure.withLock({ $0 }) { throw failure }
            return [HTTPHeader("authorization", "bearer \(token.withLock { $0 })")]
        }

        func verdict(on answer: HTTPAnswer, from connection: HTTPConnectionInfo) -> HTTPConnectionVerdict {
            answer.status == retiring ? .retire : .keep
        }
    }

    @Test("The policy's fields go with every call and it is asked at most once a second")
    func fields() async throws {
        let policy = Policy()
        try await withServer { server in
            try await withPool(port: server.port, { $0.policy = policy }) { pool in
                let replies = await pool.replies(to: .posts(50))
                #expect(replies.statuses.count == 50)
                #expect(server.requests.allSatisfy { $0.fields["authorization"] == "bearer first" })
                #expect(policy.asked.withLock { $0.count } < 5)
            }
        }
    }

    @Test("A replaced token is taken up by itself, on the same connection")
    func replacedToken() async throws {
        let policy = Policy()
        try await withServer { server in
            try await withPool(port: server.port, { $0.policy = policy }) { pool in
                #expect(await pool.status(of: .post(bytes: 1)) == 200)
                policy.token.withLock { $0 = "second" }
                try await eventually("the second token is sent") {
                    #expect(await pool.status(of: .post(bytes: 1)) == 200)
                    return server.requests.last?.fields["authorization"] == "bearer second"
                }
                #expect(server.connections.count == 1)
            }
        }
    }

    @Test("Without credentials the calls fail with the policy's own failure, and nothing is sent")
    func noCredentials() async throws {
        let policy = Policy()
        let failure = HTTPFailure(.notProcessed, .credentials, "the key cannot sign")
        policy.failure.withLock { $0 = failure }
        try await withServer { server in
            try await withPool(port: server.port, { $0.policy = policy }) { pool in
                let replies = await pool.replies(to: .posts(3))
                #expect(replies.failures == [failure, failure, failure])
                #expect(server.requests.isEmpty)
            }
        }
    }

    @Test("A connection that the policy retires is closed in order and replaced; earlier answers are kept")
    func retire() async throws {
        let policy = Policy(retiring: 403)
        let script: @Sendable (ServerConnection, ServerEvent) -> Void = { connection, event in
            guard case .request(let id) = event else { return }
            connection.answer(id, status: connection.number == 1 && connection.requestCount == 3 ? 403 : 200)
        }
        try await withServer({ $0.settings = [(3, 1)] }, script: script) { server in
            let change: (inout HTTPPoolConfiguration) -> Void = {
                $0.policy = policy
                $0.maximumConnections = 1
            }
            try await withPool(port: server.port, change) { pool in
                let replies = await pool.replies(to: .posts(10))
                #expect(replies.statuses.filter { $0 == 200 }.count == 9)
                #expect(replies.statuses.filter { $0 == 403 }.count == 1)
                #expect(server.connections.count == 2)
                #expect(server.requests.filter { $0.connection == 1 }.count == 3)
                #expect(Set(policy.asked.withLock { $0 }).count == 2)
            }
        }
    }

    @Test("Replacing the connections sends new calls over new ones while open calls end")
    func replace() async throws {
        let script: @Sendable (ServerConnection, ServerEvent) -> Void = { connection, event in
            guard case .request(let id) = event else { return }
            if connection.number > 1 { connection.answer(id) }
        }
        try await withServer(script: script) { server in
            try await withPool(port: server.port) { pool in
                async let open = pool.status(of: .post(bytes: 1))
                try await eventually("the call is on the wire") { server.requests.count == 1 }
                pool.replaceConnections()
                #expect(await pool.status(of: .post(bytes: 1)) == 200)
                #expect(server.connections.count == 2)
                server.onEach { connection in for id in connection.pending { connection.answer(id) } }
                #expect(await open == 200)
            }
        }
    }
}
