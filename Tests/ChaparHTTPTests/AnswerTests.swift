import ChaparCore
import Testing

@testable import ChaparHTTP

/// Answers of every shape, and their results.
@Suite("Answers", .serialized, .timeLimit(.minutes(1)))
struct AnswerTests {
    @Test("Status, fields and body arrive whole; an error's body too")
    func whole() async throws {
        let script: @Sendable (ServerConnection, ServerEvent) -> Void = { connection, event in
            guard case .request(let id) = event else { return }
            connection.answer(id, status: 410, fields: [("apns-id", "ABC")], body: Array(#"{"reason":"x"}"#.utf8))
        }
        try await withServer(script: script) { server in
            try await withPool(port: server.port) { pool in
                let answer = try await pool.send(.post(bytes: 10))
                #expect(answer.status == 410)
                #expect(answer.header("apns-id") == "ABC")
                #expect(answer.body == Array(#"{"reason":"x"}"#.utf8))
            }
        }
    }

    @Test("The request arrives as it was asked for")
    func request() async throws {
        try await withServer { server in
            try await withPool(port: server.port) { pool in
                _ = try await pool.send([HTTPCall].posts(1)[0])
                let fields = server.requests.first?.fields
                #expect(fields?[":method"] == "POST")
                #expect(fields?[":scheme"] == "https")
                #expect(fields?[":authority"] == "127.0.0.1:\(server.port)")
                #expect(fields?[":path"] == "/call/0")
                #expect(fields?["content-type"] == "application/json")
                #expect(fields?["x-id"] == "0")
                #expect(server.connections.first?.bodyBytes[1] == 200)
            }
        }
    }

    @Test("Informational answers are passed over; trailers come with the fields")
    func informational() async throws {
        let script: @Sendable (ServerConnection, ServerEvent) -> Void = { connection, event in
            guard case .request(let id) = event else { return }
            connection.frame(.headers, flags: 4, stream: id, connection.fields([(":status", "103"), ("link", "a")]))
            connection.frame(.headers, flags: 4, stream: id, connection.fields([(":status", "100")]))
            connection.frame(.headers, flags: 4, stream: id, connection.fields([(":status", "200"), ("x", "y")]))
            connection.frame(.data, stream: id, Array("body".utf8))
            connection.frame(.headers, flags: 5, stream: id, connection.fields([("x-trailer", "z")]))
        }
        try await withServer(script: script) { server in
            try await withPool(port: server.port) { pool in
                let answer = try await pool.send(.post(bytes: 10))
                #expect(answer.status == 200)
                #expect(answer.header("link") == nil)
                #expect(answer.header("x") == "y")
                #expect(answer.header("x-trailer") == "z")
                #expect(answer.body == Array("body".utf8))
            }
        }
    }

    @Test(
        "A status that answers nothing fails its own call as badAnswer",
        arguments: ["000", "099", "101", "20", "abc"]
    )
    func statusOfNoAnswer(status: String) async throws {
        let script: @Sendable (ServerConnection, ServerEvent) -> Void = { connection, event in
            guard case .request(let id) = event else { return }
            guard id == 1 else { return connection.answer(id) }
            connection.frame(.headers, flags: 5, stream: id, connection.fields([(":status", status)]))
        }
        try await withServer(script: script) { server in
            try await withPool(port: server.port) { pool in
                let replies = await pool.replies(to: .posts(3))
                #expect(replies.failures.map(\.cause) == [.badAnswer])
                #expect(replies.failures.map(\.stage) == [.unknown])
                #expect(replies.statuses == [200, 200])
                #expect(server.connections.count == 1)
            }
        }
    }

    @Test(
        "A body or fields above the limit fail the call as badAnswer and cancel its stream",
        arguments: [true, false]
    )
    func tooLarge(inBody: Bool) async throws {
        let script: @Sendable (ServerConnection, ServerEvent) -> Void = { connection, event in
            guard case .request(let id) = event else { return }
            if inBody {
                connection.answer(id, body: [UInt8](repeating: 1, count: 101))
            } else {
                let value = String(repeating: "v", count: 8000)
                let block = connection.fields([(":status", "200")] + (0..<2).map { ("x-\($0)", value) })
                connection.frame(.headers, flags: 0, stream: id, block)
                for index in 2..<10 {
                    let more = connection.fields([("x-\(index)", value)])
                    connection.frame(.continuation, flags: index == 9 ? 4 : 0, stream: id, more)
                }
            }
        }
        try await withServer(script: script) { server in
            try await withPool(port: server.port, { $0.maximumAnswerBytes = 100 }) { pool in
                let failure = await pool.failure(of: .post(bytes: 10))
                #expect(failure?.cause == .badAnswer)
                #expect(failure?.stage == .unknown)
                #expect(pool.status.connections == 1, "the connection goes on")
            }
        }
    }

    @Test(
        "Answers that a peer begins and does not end share a bounded memory, of fields and of bodies",
        arguments: [true, false]
    )
    func unfinished(inFields: Bool) async throws {
        let script: @Sendable (ServerConnection, ServerEvent) -> Void = { connection, event in
            guard case .request(let id) = event else { return }
            let large = [("x-large", String(repeating: "x", count: inFields ? 8_000 : 1))]
            connection.frame(.headers, flags: 4, stream: id, connection.fields([(":status", "200")] + large))
            if !inFields { connection.frame(.data, stream: id, Array(repeating: 120, count: 8_000)) }
            // Only of the first calls the answer never ends.
            if id > 40 { connection.frame(.data, flags: 1, stream: id, []) }
        }
        var tuning = HTTP2Tuning.quick
        tuning.answerBudget = 100_000
        try await withServer(script: script) { server in
            func change(_ configuration: inout HTTPPoolConfiguration) {
                configuration.requestTimeout = .milliseconds(500)
                configuration.maximumAnswerBytes = 10_000
            }
            try await withPool(port: server.port, tuning: tuning, change) { pool in
                let replies = await pool.replies(to: (0..<20).map { HTTPCall(.get, path: "/\($0)") })
                #expect(replies.failures.count { $0.cause == .badAnswer } >= 8, "\(replies.failures)")
                #expect(replies.failures.count { $0.cause == .deadline } == 12, "\(replies.failures)")
                // What was given up is free again.
                let others = await pool.replies(to: (20..<32).map { HTTPCall(.get, path: "/\($0)") })
                #expect(others.statuses == Array(repeating: 200, count: 12), "\(others.failures)")
            }
        }
    }

    static let forbidden: [(String, [HTTPHeader])] = [
        ("/a b", []), ("no-slash", []), ("", []), ("/ok", [HTTPHeader("x", "line\r\nbreak")]),
        ("/ok", [HTTPHeader("Upper", "case")]), ("/ok", [HTTPHeader("", "nameless")]),
    ]

    @Test("A call that HTTP forbids is refused alone, before anything is sent", arguments: forbidden)
    func invalid(path: String, headers: [HTTPHeader]) async throws {
        try await withServer { server in
            try await withPool(port: server.port) { pool in
                let bad = HTTPCall(.get, path: path, headers: headers)
                let replies = await pool.replies(to: [HTTPCall(.get, path: "/1"), bad, HTTPCall(.get, path: "/2")])
                #expect(replies.statuses == [200, 200])
                #expect(replies.failures.map(\.cause) == [.invalidCall])
                #expect(replies.failures.map(\.stage) == [.notProcessed])
                #expect(server.connections.count == 1)
            }
        }
    }
}
