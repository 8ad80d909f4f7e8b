import NIOCore
import ChaparCore
import ChaparTesting
import Testing

@testable import ChaparHTTP

/// Windows, frame sizes and header tables: what the peer may dictate.
@Suite("Flow control and frames", .serialized, .timeLimit(.minutes(1)))
struct FlowControlTests {
    @Test("A body keeps to its stream's window, also when INITIAL_WINDOW_SIZE moves")
    func streamWindow() async throws {
        let script: @Sendable (ServerConnection, ServerEvent) -> Void = { connection, event in
            switch event {
            case .data(let id, _):
                switch connection.bodyBytes[id] {
                case 100: connection.settings([(4, 500)])
                case 500: connection.windowUpdate(id, 500)
                default: break
                }
            case .request(let id): connection.answer(id)
            default: break
            }
        }
        try await withServer({ $0.settings = [(3, 10), (4, 100)] }, script: script) { server in
            try await withPool(port: server.port) { pool in
                #expect(await pool.status(of: .post(bytes: 1000)) == 200)
                #expect(server.connections.first?.bodyBytes[1] == 1000)
            }
        }
    }

    @Test("Bodies keep to the connection's window; the rest goes out when it grows, and nothing is lost")
    func connectionWindow() async throws {
        let script: @Sendable (ServerConnection, ServerEvent) -> Void = { connection, event in
            switch event {
            case .data:
                if connection.bodyBytes.values.reduce(0, +) == 65_535 { connection.windowUpdate(0, 1 << 20) }
            case .request(let id): connection.answer(id)
            default: break
            }
        }
        try await withServer(script: script) { server in
            try await withPool(port: server.port) { pool in
                let replies = await pool.replies(to: .posts(10, bytes: 10_000))
                #expect(replies.statuses.count == 10)
                #expect(server.connections.first?.bodyBytes.values.reduce(0, +) == 100_000)
            }
        }
    }

    @Test("With the connection's window empty, calls wait in the pool, where another connection can take them")
    func emptyWindow() async throws {
        let script: @Sendable (ServerConnection, ServerEvent) -> Void = { connection, event in
            if connection.number > 1, case .request(let id) = event { connection.answer(id) }
        }
        try await withServer(script: script) { server in
            try await withPool(port: server.port, { $0.maximumConnections = 2 }) { pool in
                let stuck = Replies()
                async let first: Void = pool.send([.post(bytes: 70_000)]) { stuck.take($0) }
                try await eventually("the window is empty") {
                    server.connections.first?.bodyBytes[1] == 65_535
                }
                #expect(await pool.status(of: .post(bytes: 10)) == 200)
                #expect(server.connections.count == 2)
                await pool.shutdown(grace: .zero)
                await first
                #expect(stuck.failures.map(\.stage) == [.unknown])
            }
        }
    }

    @Test("No frame is larger than the peer's MAX_FRAME_SIZE")
    func frameSize() async throws {
        try await withServer({ $0.settings = [(3, 10), (4, 1 << 20)] }) { server in
            try await withPool(port: server.port) { pool in
                #expect(await pool.status(of: .post(bytes: 60_000)) == 200)
                #expect(server.connections.first?.largestFrame == 16_384)
            }
        }
    }

    @Test("Fields that do not fit one frame go out as CONTINUATION and arrive whole")
    func continuation() async throws {
        try await withServer { server in
            try await withPool(port: server.port) { pool in
                let value = String(repeating: "a long value, ", count: 2500)
                var call = HTTPCall.post(bytes: 10)
                call.headers = [HTTPHeader("x-large", value)]
                #expect(await pool.status(of: call) == 200)
                #expect(server.connections.first.map { $0.continuations > 0 } == true)
                #expect(server.requests.first?.fields["x-large"]?.hasPrefix("a long value") == true)
            }
        }
    }

    @Test("Any header table size of the peer is obeyed", arguments: [0, 64, 4096, 65_536] as [UInt32])
    func tableSize(size: UInt32) async throws {
        let script: @Sendable (ServerConnection, ServerEvent) -> Void = { connection, event in
            if case .opened = event { connection.setTableSize(size) }
            if case .request(let id) = event { connection.answer(id) }
        }
        try await withServer({ $0.settings = [(1, size), (3, 100)] }, script: script) { server in
            try await withPool(port: server.port) { pool in
                let replies = await pool.replies(to: .posts(50))
                #expect(replies.statuses.count == 50)
                #expect(server.violations == [])
                let names = Set(server.requests.compactMap { $0.fields["x-id"] })
                #expect(names == Set((0..<50).map(String.init)))
                #expect(server.requests.allSatisfy { $0.fields["content-type"] == "application/json" })
            }
        }
    }

    @Test("A peer that stops reading leaves calls in the pool, not in memory of the connection")
    func backPressure() async throws {
        let script: @Sendable (ServerConnection, ServerEvent) -> Void = { connection, event in
            guard case .opened = event else { return }
            connection.windowUpdate(0, 1 << 30)
            connection.after(.zero) { $0.setReading(false) }
        }
        try await withServer({ $0.settings = [(3, 4000), (4, 1 << 20)] }, script: script) { server in
            try await withPool(port: server.port, { $0.maximumConnections = 1 }) { pool in
                let replies = Replies()
                async let sent: Void = pool.send(.posts(2000, bytes: 50_000)) { replies.take($0) }
                try await eventually("calls wait although streams are free") {
                    let status = pool.status
                    return status.openStreams > 0 && status.waiting > 0 && status.openStreams < status.streamLimit
                }
                await pool.shutdown(grace: .zero)
                await sent
                #expect(replies.all.count == 2000)
                #expect(replies.failures.contains { $0.stage == .notProcessed })
                #expect(replies.failures.contains { $0.stage == .unknown })
            }
        }
    }
}

extension HTTPCall {
    static func post(bytes: Int) -> HTTPCall { [HTTPCall].posts(1, bytes: bytes)[0] }
}
