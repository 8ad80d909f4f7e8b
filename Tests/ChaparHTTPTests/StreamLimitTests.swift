import NIOCore
import ChaparCore
import ChaparTesting
import Testing

@testable import ChaparHTTP

/// The peer's stream limit, which moves, and above which nothing may be sent.
@Suite("Stream limit", .serialized, .timeLimit(.minutes(1)))
struct StreamLimitTests {
    @Test("No call is sent before the peer's first SETTINGS")
    func waitsForSettings() async throws {
        let script: @Sendable (ServerConnection, ServerEvent) -> Void = { connection, event in
            switch event {
            case .opened: connection.after(.milliseconds(50)) { $0.settings([(3, 10)]) }
            case .request(let id): connection.answer(id)
            default: break
            }
        }
        try await withServer({ $0.settings = nil }, script: script) { server in
            try await withPool(port: server.port) { pool in
                let replies = await pool.replies(to: .posts(20))
                #expect(replies.statuses.count == 20)
                #expect(server.violations == [])
            }
        }
    }

    @Test("The limit is obeyed at every moment: raised, lowered below what is open, zero")
    func movingLimit() async throws {
        // Answers only when the window is full or all that may come has come, and moves the limit as it goes.
        let script: @Sendable (ServerConnection, ServerEvent) -> Void = { connection, event in
            guard case .request(let id) = event else { return }
            switch connection.requestCount {
            case 1: connection.settings([(3, 10)])
            case 20: connection.settings([(3, 2)])
            case 60:
                connection.settings([(3, 0)])
                connection.after(.milliseconds(20)) { $0.settings([(3, 25)]) }
            default: break
            }
            connection.after(.milliseconds(1)) { $0.answer(id) }
        }
        try await withServer({ $0.settings = [(3, 1)] }, script: script) { server in
            try await withPool(port: server.port, { $0.maximumConnections = 1 }) { pool in
                let replies = await pool.replies(to: .posts(300))
                #expect(replies.statuses.count == 300)
                #expect(replies.doubled == 0)
                #expect(server.violations == [])
                #expect(server.requests.count == 300)
            }
        }
    }

    @Test("When the limit stays zero, calls are seen to wait")
    func zeroLimit() async throws {
        try await withServer({ $0.settings = [(3, 0)] }) { server in
            let pool = try makePool(port: server.port) { $0.maximumConnections = 1 }
            async let replies = pool.replies(to: .posts(3))
            try await eventually("three calls wait") { pool.status.waiting == 3 && pool.status.connections == 1 }
            #expect(pool.status.openStreams == 0)
            #expect(pool.status.streamLimit == 0)
            await pool.shutdown(grace: .zero)
            #expect(await replies.failures.count == 3)
        }
    }

    @Test("Calls that waited until their deadline are surely not processed")
    func waitedTooLong() async throws {
        try await withServer({ $0.settings = [(3, 0)] }) { server in
            try await withPool(port: server.port, { $0.maximumConnections = 1 }) { pool in
                let late = await pool.replies(to: .posts(3, template: .post(deadline: .milliseconds(100))))
                let failures = late.failures
                #expect(failures.map(\.cause) == [.deadline, .deadline, .deadline])
                #expect(failures.allSatisfy { $0.stage == .notProcessed })
                #expect(server.requests.isEmpty)
            }
        }
    }

    @Test("A call beyond the bound of the queue fails at once as queueFull; those before it are sent")
    func queueFull() async throws {
        try await withServer({ $0.settings = [(3, 2)] }) { server in
            try await withPool(port: server.port, { $0.maximumWaiting = 5 }) { pool in
                _ = try await pool.send(HTTPCall(.get, path: "/"))
                let replies = await pool.replies(to: .posts(20))
                #expect(replies.statuses.count == 7)
                #expect(replies.failures.map(\.cause) == Array(repeating: .queueFull, count: 13))
                #expect(replies.all[19].map { (try? $0.result.get()) == nil } == true, "the newest are turned away")
            }
        }
    }

    @Test("Another connection is opened when calls wait for long, up to the maximum; surplus ones close when idle")
    func growth() async throws {
        try await withServer(
            { $0.settings = [(3, 1)] },
            script: { connection, event in
                guard case .request(let id) = event else { return }
                connection.after(.milliseconds(20)) { $0.answer(id) }
            }
        ) { server in
            let change: (inout HTTPPoolConfiguration) -> Void = {
                $0.maximumConnections = 3
                $0.idleTimeout = .milliseconds(50)
            }
            try await withPool(port: server.port, change) { pool in
                let replies = await pool.replies(to: .posts(60))
                #expect(replies.statuses.count == 60)
                #expect(server.connections.count == 3)
                try await eventually("one connection stays") { pool.status.connections == 1 }
                try await eventually("the others are closed") { server.connections.filter(\.isClosed).count == 2 }
                #expect(await pool.status(of: HTTPCall(.get, path: "/")) == 200)
            }
        }
    }

    @Test("Another connection is opened for a caller that refills the queue only after answers, too")
    func growthWithGaps() async throws {
        try await withServer(
            { $0.settings = [(3, 1)] },
            script: { connection, event in
                guard case .request(let id) = event else { return }
                connection.after(.milliseconds(20)) { $0.answer(id) }
            }
        ) { server in
            try await withPool(port: server.port, { $0.maximumConnections = 2 }) { pool in
                // Of two calls one waits until the other is answered: half of the time none waits.
                for _ in 0..<100 where server.connections.count < 2 {
                    #expect(await pool.replies(to: .posts(2)).statuses.count == 2)
                }
                #expect(server.connections.count == 2)
            }
        }
    }

    @Test("A connection whose stream IDs are used up is replaced without losing a call")
    func exhaustion() async throws {
        var tuning = HTTP2Tuning.quick
        tuning.firstStreamID = Int32.max - 10
        try await withServer { server in
            try await withPool(port: server.port, tuning: tuning) { pool in
                let replies = await pool.replies(to: .posts(17))
                #expect(replies.statuses.count == 17)
                #expect(server.connections.count >= 3)
                #expect(server.requests.count == 17)
            }
        }
    }
}
