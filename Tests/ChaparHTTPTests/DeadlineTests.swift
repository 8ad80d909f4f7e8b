import NIOCore
import ChaparCore
import ChaparTesting
import Testing

@testable import ChaparHTTP

/// Deadlines, dead peers and callers that give up: every call ends, and the stage is the truth.
@Suite("Deadlines and cancellation", .serialized, .timeLimit(.minutes(1)))
struct DeadlineTests {
    @Test("A call on the wire ends at its deadline as unknown, and its stream is cancelled")
    func onTheWire() async throws {
        try await withServer(script: { _, _ in }) { server in
            try await withPool(port: server.port) { pool in
                var deadline = Duration.milliseconds(100)
                var failure: HTTPFailure?
                repeat {  // On a busy machine the first deadlines may be too short to get on the wire at all.
                    failure = await pool.failure(of: HTTPCall(.post(deadline: deadline), path: "/", body: [1]))
                    deadline *= 2
                } while failure?.stage == .notProcessed && deadline < .seconds(20)
                #expect(failure?.stage == .unknown)
                #expect(failure?.cause == .deadline)
                try await eventually("the stream is cancelled") { server.resets.last?.code == 8 }
                #expect(pool.status.connections == 1)
            }
        }
    }

    @Test("Time spent waiting counts, and calls of one batch end at their own deadlines")
    func mixedDeadlines() async throws {
        try await withServer({ $0.settings = [(3, 0)] }) { server in
            try await withPool(port: server.port, { $0.requestTimeout = .seconds(3600) }) { pool in
                let quick = HTTPCallTemplate(method: "GET", deadline: .milliseconds(50))
                let calls = (0..<6).map { HTTPCall($0.isMultiple(of: 2) ? quick : .get, path: "/") }
                let replies = Replies()
                async let sent: Void = pool.send(calls) { replies.take($0) }
                try await eventually("the quick ones are reported") { replies.all.count >= 3 }
                #expect(Set(replies.all.keys) == [0, 2, 4])
                #expect(pool.status.waiting == 3)
                await pool.shutdown(grace: .zero)
                await sent
                #expect(replies.failures.map(\.stage) == Array(repeating: .notProcessed, count: 6))
                #expect(replies.failures.filter { $0.cause == .cancelled }.count == 3)
                #expect(replies.doubled == 0)
            }
        }
    }

    @Test("A connection that is alive and answers nothing gets no more calls, another one takes over")
    func stalled() async throws {
        let script: @Sendable (ServerConnection, ServerEvent) -> Void = { connection, event in
            if connection.number > 1, case .request(let id) = event { connection.answer(id) }
        }
        var tuning = HTTP2Tuning.quick
        tuning.stalledAfter = .milliseconds(200)
        try await withServer(script: script) { server in
            try await withPool(port: server.port, tuning: tuning) { pool in
                let stuck = HTTPCall(.post(deadline: .seconds(3)), path: "/", body: [1])
                async let first = pool.failure(of: stuck)
                try await eventually("it has no place among the open connections") {
                    pool.status.connectionsOpened == 1 && pool.status.connections == 0
                }
                #expect(await pool.status(of: .post(bytes: 10)) == 200)
                #expect(pool.status.connectionsOpened == 2)
                #expect(await first?.cause == .deadline, "what is open there may still be answered")
            }
        }
    }

    @Test("A silent peer is pinged; without an answer its calls are unknown and another connection takes over")
    func deadPeer() async throws {
        let script: @Sendable (ServerConnection, ServerEvent) -> Void = { connection, event in
            if connection.number > 1, case .request(let id) = event { connection.answer(id) }
        }
        try await withServer({ $0.answersPings = false }, script: script) { server in
            let change: (inout HTTPPoolConfiguration) -> Void = {
                $0.pingAfterSilence = .milliseconds(50)
                // The second connection answers no ping either: its answer must come before this is over.
                $0.pingTimeout = .seconds(2)
            }
            try await withPool(port: server.port, change) { pool in
                let failure = await pool.failure(of: .post(bytes: 10))
                #expect(failure?.stage == .unknown)
                #expect(failure?.cause == .connectionLost)
                #expect(server.connections.first?.pings == 1)
                #expect(await pool.status(of: .post(bytes: 10)) == 200)
            }
        }
    }

    @Test("A slow peer that answers pings keeps its connection")
    func slowPeer() async throws {
        let script: @Sendable (ServerConnection, ServerEvent) -> Void = { connection, event in
            if case .ping = event, connection.pings == 3, let id = connection.pending.first { connection.answer(id) }
        }
        try await withServer(script: script) { server in
            try await withPool(port: server.port, { $0.pingAfterSilence = .milliseconds(20) }) { pool in
                #expect(await pool.status(of: .post(bytes: 10)) == 200)
                #expect(server.connections.count == 1)
            }
        }
    }

    @Test("Cancelling the sender fails what waits, not what is on the wire")
    func cancellation() async throws {
        try await withServer({ $0.settings = [(3, 2)] }, script: { _, _ in }) { server in
            try await withPool(port: server.port, { $0.maximumConnections = 1 }) { pool in
                let replies = Replies()
                let task = Task { await pool.send(.posts(10)) { replies.take($0) } }
                try await eventually("two calls are on the wire") { server.requests.count == 2 }
                task.cancel()
                try await eventually("the others are reported") { replies.all.count == 8 }
                #expect(replies.failures.allSatisfy { $0.stage == .notProcessed && $0.cause == .cancelled })
                server.onEach { connection in for id in connection.pending { connection.answer(id) } }
                await task.value
                #expect(replies.statuses == [200, 200])
                #expect(replies.doubled == 0)
            }
        }
    }

    @Test("A task that was cancelled before it sends gets its replies all the same")
    func cancelledBefore() async throws {
        try await withServer { server in
            try await withPool(port: server.port) { pool in
                let task = Task {
                    withUnsafeCurrentTask { $0?.cancel() }
                    return await pool.replies(to: .posts(3))
                }
                let replies = await task.value
                #expect(replies.failures.map(\.cause) == [.cancelled, .cancelled, .cancelled])
                #expect(server.requests.isEmpty)
            }
        }
    }

    @Test("Shutting down fails what waits, lets open calls end within the grace, and refuses new ones")
    func shutdown() async throws {
        try await withServer({ $0.settings = [(3, 2)] }, script: { _, _ in }) { server in
            let pool = try makePool(port: server.port) { $0.maximumConnections = 1 }
            let replies = Replies()
            async let sent: Void = pool.send(.posts(5)) { replies.take($0) }
            try await eventually("two calls are on the wire") { server.requests.count == 2 }
            async let ended: Void = pool.shutdown(grace: .seconds(10))
            try await eventually("what waited is reported") { replies.all.count == 3 }
            server.onEach { connection in for id in connection.pending { connection.answer(id) } }
            await sent
            await ended
            #expect(replies.statuses == [200, 200])
            #expect(replies.failures.map(\.cause) == [.cancelled, .cancelled, .cancelled])
            let late = await pool.failure(of: .post(bytes: 1))
            #expect(late?.cause == .cancelled)
            #expect(late?.stage == .notProcessed)
        }
    }

    @Test("When the grace is over open calls end as unknown")
    func shutdownWithoutGrace() async throws {
        try await withServer(script: { _, _ in }) { server in
            let pool = try makePool(port: server.port)
            async let failure = pool.failure(of: .post(bytes: 10))
            try await eventually("the call is on the wire") { server.requests.count == 1 }
            await pool.shutdown(grace: .milliseconds(20))
            #expect(await failure?.stage == .unknown)
            #expect(await failure?.cause == .cancelled)
        }
    }
}
