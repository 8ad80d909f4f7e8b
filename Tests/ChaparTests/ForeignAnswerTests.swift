import Foundation
import ChaparCore
import Synchronization
import Testing

@testable import ChaparSandbox

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
        "/v1/notifications/batch": (202, ["accepted": .integer(.max), "notifications": [["id": "n"]]]),
        "/v1/notifications/n": (200, ["counts": ["accepted_by_platform": .integer(.max), "failed": 0]]),
        "/v1/users/ali": (
            202, ["complete": false, "devices": .integer(.max), "stays": ["the gateway goes on"]]
        ),
        "/v1/backends": (
            200,
            [
                "backends": [
                    ["name": "ios", "worker": ["waiting": .integer(.min), "claimed": .integer(.min), "in_flight": 0]]
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
            (["backends", "--json"], 0, "ios"), (["users", "erase", "ali"], 0, "- the gateway goes on"),
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

    /// Two requests of ten messages: how many of each are accepted, and how the message ends that each answer names.
    @Test(
        "bench ends with 0 only where all messages were accepted, and those that it looked at were taken",
        arguments: [
            (10, ["accepted_by_platform", "opened"], 0, #""looked_at":2,"taken":2"#),
            (10, ["failed", "failed"], 1, "of 2 messages that were looked at 2 were not taken"),
            (10, ["expired", "delivered"], 4, "of 2 messages that were looked at 1 were not taken"),
            (10, ["accepted_by_platform"], 0, #""looked_at":1,"taken":1"#),
            (10, [], 1, "name no message"), (4, ["delivered", "delivered"], 4, "refused 12 messages"),
            (0, [], 1, "refused 20 messages"),
        ] as [(Int64, [String], Int32, String)]
    )
    func bench(accepted: Int64, endings: [String], status: Int32, words: String) async throws {
        let requests = Mutex(0)
        let server = try await ControlServer.start(port: 0) { request in
            if request.path == "/v1/notifications/batch" {
                guard accepted > 0 else { return ControlAnswer(status: 422, body: ["code": "nothing_accepted"]) }
                let number = requests.withLock { count in
                    defer { count += 1 }
                    return count
                }
                let named: JSONValue = [["status": 422], ["status": 202, "id": .string("\(number)")]]
                return ControlAnswer(
                    status: 202,
                    body: ["accepted": .integer(accepted), "notifications": number < endings.count ? named : []]
                )
            }
            guard let number = request.path.split(separator: "/").last.flatMap({ Int($0) }),
                endings.indices.contains(number)
            else { return ControlAnswer(status: 200, body: ["status": "ok"]) }
            return ControlAnswer(status: 200, body: ["counts": [endings[number]: 1, "cancelled": 0]])
        }
        let result = try await Program.run(
            ["bench", "--messages", "20", "--batch", "10", "--json", "--url", "http://127.0.0.1:\(server.port)"]
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

    @Test("An export shows a terminal no control of a device's text, and a pipe all of it")
    func shownExport() async throws {
        let server = try await ControlServer.start(port: 0) { request in
            let device: JSONValue = ["id": "phone-1", "user": "x\u{1B}[31mred", "tokens": [:]]
            return ControlAnswer(status: 200, body: request.path == "/healthz" ? ["status": "ok"] : ["items": [device]])
        }
        let command = ["devices", "export", "--format", "csv", "--url", "http://127.0.0.1:\(server.port)"]
        let piped = try await Program.run(command)
        // script gives the program a terminal of its own.
        let words = ([Program.url.path] + command).map { "'\($0)'" }.joined(separator: " ")
        let child = try Child(["-qec", words, "/dev/null"], executable: URL(filePath: "/usr/bin/script"))
        defer { child.kill() }
        let shown = try await child.end()
        await server.shutdown()
        #expect(piped.output.contains("x\u{1B}[31mred"), "\(piped)")
        #expect(shown.output.contains("red") && !shown.output.contains("\u{1B}[31m"), "\(shown)")
    }
}
