import NIOCore
import ChaparCore
import ChaparTesting
import Testing

@testable import ChaparHTTP

/// GOAWAY, RST_STREAM and lost connections: what surely was not processed is sent again, the rest is "unknown".
@Suite("Ends of streams and connections", .serialized, .timeLimit(.minutes(1)))
struct EndOfStreamTests {
    /// Answers on every connection but the first; there it collects `count` requests and then does `action`.
    static func firstConnection(
        collects count: Int,
        _ action: @escaping @Sendable (ServerConnection) -> Void
    ) -> @Sendable (ServerConnection, ServerEvent) -> Void {
        { connection, event in
            guard case .request(let id) = event else { return }
            if connection.number > 1 { return connection.answer(id) }
            if connection.pending.count == count { action(connection) }
        }
    }

    @Test("Above a graceful GOAWAY's last stream calls move to a new connection; below it they end normally")
    func graceful() async throws {
        let script = Self.firstConnection(collects: 10) { connection in
            connection.goAway(last: connection.pending[3], debug: #"{"reason":"Shutdown"}"#)
            for id in connection.pending.prefix(4) { connection.answer(id) }
        }
        try await withServer(script: script) { server in
            try await withPool(port: server.port) { pool in
                let replies = await pool.replies(to: .posts(10))
                #expect(replies.statuses.count == 10)
                #expect(server.connections.count == 2)
                #expect(replies.all.values.filter { $0.connection == replies.all[0]?.connection }.count == 4)
                let repeated = server.requests.filter { $0.connection == 2 }.compactMap { $0.fields["x-id"] }
                #expect(Set(repeated) == ["4", "5", "6", "7", "8", "9"])
                try await eventually("the first connection is closed") {
                    server.connections.first?.isClosed == true
                }
            }
        }
    }

    @Test("After an abrupt GOAWAY what may have been processed is unknown, with the peer's reason in the detail")
    func abrupt() async throws {
        let script = Self.firstConnection(collects: 10) { connection in
            connection.goAway(last: connection.pending[3], code: 2, debug: #"{"reason":"BadCertificate"}"#)
            connection.close()
        }
        try await withServer(script: script) { server in
            try await withPool(port: server.port) { pool in
                let replies = await pool.replies(to: .posts(10))
                #expect(replies.statuses.count == 6)
                #expect(replies.failures.count == 4)
                #expect(replies.failures.allSatisfy { $0.stage == .unknown && $0.cause == .connectionLost })
                #expect(replies.failures.allSatisfy { $0.detail.contains("BadCertificate") })
                #expect(replies.failures.allSatisfy { $0.detail.contains("INTERNAL_ERROR") })
            }
        }
    }

    @Test("Of two GOAWAY in a row the lower last stream counts")
    func twice() async throws {
        let script = Self.firstConnection(collects: 10) { connection in
            connection.goAway(last: .max)
            connection.goAway(last: connection.pending[1])
            for id in connection.pending.prefix(2) { connection.answer(id) }
        }
        try await withServer(script: script) { server in
            try await withPool(port: server.port) { pool in
                let replies = await pool.replies(to: .posts(10))
                #expect(replies.statuses.count == 10)
                #expect(server.requests.filter { $0.connection == 2 }.count == 8)
            }
        }
    }

    @Test("A connection that said GOAWAY gets no further call")
    func afterGoAway() async throws {
        let script: @Sendable (ServerConnection, ServerEvent) -> Void = { connection, event in
            guard case .request(let id) = event else { return }
            // Before the answer: with it the next call comes.
            if connection.number == 1 { connection.goAway(last: id) }
            connection.answer(id)
        }
        try await withServer(script: script) { server in
            try await withPool(port: server.port) { pool in
                for _ in 0..<5 { #expect(await pool.status(of: .post(bytes: 10)) == 200) }
                #expect(server.requests.filter { $0.connection == 1 }.count == 1)
            }
        }
    }

    @Test("A call that every connection turns away by GOAWAY is reported as not processed after three tries")
    func goAwayForEver() async throws {
        let script: @Sendable (ServerConnection, ServerEvent) -> Void = { connection, event in
            if case .request = event { connection.goAway(last: 0, debug: #"{"reason":"Shutdown"}"#) }
        }
        try await withServer(script: script) { server in
            let change: (inout HTTPPoolConfiguration) -> Void = {
                $0.reconnectBackoff = .milliseconds(1) ... .milliseconds(2)
            }
            try await withPool(port: server.port, change) { pool in
                let failure = await pool.failure(of: .post(bytes: 10))
                #expect(failure?.stage == .notProcessed)
                #expect(failure?.cause == .goAway)
                #expect(failure?.detail.contains("Shutdown") == true)
                #expect(server.requests.count == 3)
            }
        }
    }

    @Test("A refused stream is sent again by itself, at most three times in all", arguments: [1, 2, 3])
    func refused(times: Int) async throws {
        let script: @Sendable (ServerConnection, ServerEvent) -> Void = { connection, event in
            guard case .request(let id) = event else { return }
            connection.requestCount <= times ? connection.reset(id, 7) : connection.answer(id)
        }
        try await withServer(script: script) { server in
            try await withPool(port: server.port) { pool in
                let failure = await pool.failure(of: .post(bytes: 10))
                if times < 3 {
                    #expect(failure == nil)
                    #expect(server.requests.count == times + 1)
                } else {
                    #expect(failure?.stage == .notProcessed)
                    #expect(failure?.cause == .refusedStream)
                    #expect(server.requests.count == 3)
                }
            }
        }
    }

    @Test("A call whose answer had begun is unknown, whatever the peer says afterwards", arguments: [true, false])
    func answerBegun(byGoAway: Bool) async throws {
        let script: @Sendable (ServerConnection, ServerEvent) -> Void = { connection, event in
            guard case .request(let id) = event else { return }
            connection.frame(.headers, flags: 4, stream: id, connection.fields([(":status", "200")]))
            byGoAway ? connection.goAway(last: 0) : connection.reset(id, 7)
        }
        try await withServer(script: script) { server in
            try await withPool(port: server.port) { pool in
                let failure = await pool.failure(of: .post(bytes: 10))
                #expect(failure?.stage == .unknown)
                #expect(server.requests.count == 1)
            }
        }
    }

    @Test("Any other reset leaves the outcome unknown and is not repeated", arguments: [1, 2, 8, 11] as [UInt32])
    func reset(code: UInt32) async throws {
        let script: @Sendable (ServerConnection, ServerEvent) -> Void = { connection, event in
            if case .request(let id) = event { connection.reset(id, code) }
        }
        try await withServer(script: script) { server in
            try await withPool(port: server.port) { pool in
                let failure = await pool.failure(of: .post(bytes: 10))
                #expect(failure?.stage == .unknown)
                #expect(failure?.cause == .reset(code))
                #expect(server.requests.count == 1)
            }
        }
    }

    @Test("An answer that comes before the body is through counts; the rest of the body is not sent")
    func earlyAnswer() async throws {
        let script: @Sendable (ServerConnection, ServerEvent) -> Void = { connection, event in
            if case .headers(let id) = event { connection.answer(id, status: 413, body: Array("too large".utf8)) }
        }
        try await withServer(script: script) { server in
            try await withPool(port: server.port) { pool in
                let answer = try await pool.send(.post(bytes: 100_000))
                #expect(answer.status == 413)
                #expect(answer.body == Array("too large".utf8))
                try await eventually("the stream is cancelled") { server.resets.map(\.code) == [8] }
                #expect(pool.status.connections == 1)
            }
        }
    }

    @Test("Calls on a connection that is lost are unknown; calls that wait go to the next one")
    func lost() async throws {
        let script: @Sendable (ServerConnection, ServerEvent) -> Void = { connection, event in
            guard case .request(let id) = event else { return }
            if connection.number > 1 { return connection.answer(id) }
            if connection.pending.count == 5 { connection.close() }
        }
        try await withServer({ $0.settings = [(3, 5)] }, script: script) { server in
            try await withPool(port: server.port, { $0.maximumConnections = 1 }) { pool in
                let replies = await pool.replies(to: .posts(20))
                #expect(replies.failures.count == 5)
                #expect(replies.failures.allSatisfy { $0.stage == .unknown && $0.cause == .connectionLost })
                #expect(replies.statuses.count == 15)
            }
        }
    }

    @Test("An answer that breaks HTTP fails its own call only")
    func malformed() async throws {
        let script: @Sendable (ServerConnection, ServerEvent) -> Void = { connection, event in
            guard case .request(let id) = event else { return }
            if id == 1 {
                connection.frame(.headers, flags: 5, stream: id, connection.fields([("no-status", "here")]))
            } else {
                connection.answer(id)
            }
        }
        try await withServer(script: script) { server in
            try await withPool(port: server.port) { pool in
                let replies = await pool.replies(to: .posts(5))
                #expect(replies.failures.map(\.cause) == [.badAnswer])
                #expect(replies.failures.map(\.stage) == [.unknown])
                #expect(replies.statuses.count == 4)
                #expect(server.connections.count == 1)
            }
        }
    }

    @Test("Calls that wait for a stream do not lose their tries on a connection whose peer broke a rule")
    func waitingAmidTrouble() async throws {
        let script: @Sendable (ServerConnection, ServerEvent) -> Void = { connection, event in
            guard case .request(let id) = event else { return }
            connection.answer(id)
            if connection.number == 1 { connection.frame(.data, flags: 1, stream: 2, [1]) }
        }
        try await withServer({ $0.settings = [(3, 1)] }, script: script) { server in
            try await withPool(port: server.port, { $0.maximumConnections = 1 }) { pool in
                let replies = await pool.replies(to: .posts(10))
                #expect(replies.failures.allSatisfy { $0.stage == .unknown })
                #expect(replies.failures.count <= 1, "one at most had been written")
                #expect(replies.all.count == 10)
            }
        }
    }

    @Test("A peer that breaks the framing loses the connection, and no call hangs")
    func brokenFraming() async throws {
        let script: @Sendable (ServerConnection, ServerEvent) -> Void = { connection, event in
            guard case .request(let id) = event else { return }
            if connection.number > 1 { return connection.answer(id) }
            connection.frame(.settings, flags: 0, [1, 2, 3])
        }
        try await withServer(script: script) { server in
            try await withPool(port: server.port) { pool in
                let failure = await pool.failure(of: .post(bytes: 10))
                #expect(failure?.stage == .unknown)
                #expect(failure?.cause == .connectionLost)
                #expect(await pool.failure(of: .post(bytes: 10)) == nil)
            }
        }
    }
}
