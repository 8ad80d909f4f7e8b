import Foundation
import PushCore
import Testing

@testable import PushSandbox

/// Commands against a server that answers as a gateway, with the highest numbers that JSON can hold.
@Suite("Commands and the numbers of answers", .timeLimit(.minutes(2)))
struct ForeignAnswerTests {
    private static let answers: [String: (status: Int, body: JSONValue)] = [
        "/v1/backends/ios/topics/news/subscribe": (
            200, ["done": .integer(.max), "refused": [["index": .integer(.max), "reason": "NOT_FOUND"]]]
        ),
        "/v1/backends/ios/tokens/import": (
            200,
            [
                "imported": [["index": .integer(.max), "imported_token": "t"], ["index": .integer(.min)]],
                "refused": [["index": .integer(.max), "reason": "NOT_FOUND"], ["index": .integer(.min)]],
            ]
        ),
        "/v1/devices/batch": (
            200, ["created": .integer(.max), "replaced": .integer(.max), "refused": .integer(.max), "devices": []]
        ),
        "/v1/notifications/batch": (202, ["accepted": .integer(.max), "notifications": []]),
        "/v1/backends": (
            200,
            [
                "backends": [
                    ["name": "ios", "lane": ["waiting": .integer(.min), "claimed": .integer(.min), "in_flight": 0]]
                ]
            ]
        ),
    ]

    @Test(
        "A command ends as it should, whatever number it gets",
        arguments: [
            (["topics", "subscribe", "news", "--backend", "ios", "--token", "ios-apns:ab"], 4, "refused: number"),
            (
                ["tokens", "import", "-", "--backend", "ios", "--application", "com.example"], 4,
                "2 imported, 2 refused"
            ),
            (["devices", "import", "-"], 4, "created"),
            (["bench", "--messages", "20", "--batch", "10", "--json"], 0, #""accepted":20,"refused":0"#),
            (["backends", "--json"], 0, "ios"),
        ] as [([String], Int32, String)]
    )
    func command(arguments: [String], status: Int32, words: String) async throws {
        let server = try await ControlServer.start(port: 0) { request in
            let (status, body) = Self.answers[request.path] ?? (200, ["status": "ok"])
            return ControlAnswer(status: status, body: body)
        }
        let input = arguments[0] == "devices" ? #"{"id":"phone-1"}"# : "aa01"
        let result = try await Program.run(
            arguments + ["--url", "http://127.0.0.1:\(server.port)"],
            input: input + "\n"
        )
        await server.shutdown()
        #expect(result.status == status, "\(result)")
        #expect((result.output + result.errors).contains(words), "\(result)")
    }

    @Test(
        "The text of an answer begins no line and sets no colour",
        arguments: [
            ["retry", "ios"], ["cancel", "01J0000000000000000000000A"], ["devices", "list"], ["users", "erase", "ali"],
            ["topics", "subscribe", "news", "--backend", "ios", "--token", "ios-apns:ab"],
        ]
    )
    func forgedLine(arguments: [String]) async throws {
        let server = try await ControlServer.start(port: 0) { request in
            request.path == "/healthz"
                ? ControlAnswer(status: 200, body: ["status": "ok"])
                : ControlAnswer(status: 422, body: ["title": "x\u{1B}[31m\r\nFORGED line"])
        }
        let result = try await Program.run(arguments + ["--url", "http://127.0.0.1:\(server.port)"])
        await server.shutdown()
        #expect(result.errors.contains("FORGED"), "\(result)")
        #expect(!result.errors.contains("\u{1B}") && !result.errors.contains("\nFORGED"), "\(result)")
    }
}
