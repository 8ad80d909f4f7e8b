import Foundation
import ChaparCore
import ChaparModules
import ChaparQueue
import Synchronization
import Testing

@testable import ChaparGorush

/// Requests and answers of `POST /api/push`: specs/gorush.md sections 2, 4 and 13.
@Suite("gorush's door: requests and answers", .timeLimit(.minutes(1)))
struct PushTests {
    private static func nested(_ levels: Int) -> String {
        String(repeating: "[", count: levels) + String(repeating: "]", count: levels)
    }

    private static let missing = #"{"code":400,"message":"Missing notifications field."}"#

    static let refused: [(String, String)] = [
        ("", missing), ("{}", missing), (#"{"notifications":null}"#, missing), ("text", missing),
        ("[]", missing), (#"{"notifications":{}}"#, missing), (#"{"notifications":["x"]}"#, missing),
        (#"{"notifications":[{"tokens":["a"],"platform":1,"mutable_content":1}]}"#, missing),
        (#"{"notifications":[{"tokens":["a"],"platform":1,"alert":"text"}]}"#, missing),
        (#"{"notifications":[{"tokens":["a"],"platform":"ios"}]}"#, missing),
        (#"{"notifications":[{"tokens":"a","platform":1}]}"#, missing),
        (#"{"notifications":[{"tokens":["a",1],"platform":1}]}"#, missing),
        (#"{"notifications":[{"tokens":["a"],"platform":1,"badge":1.5}]}"#, missing),
        (#"{"notifications":[{"tokens":["a"],"platform":2,"data":"x"}]}"#, missing),
        (#"{"notifications":[{"tokens":["a"],"platform":1}],"notifications":{"#, missing),
        (#"{"notifications":[]}"#, #"{"code":400,"message":"Notifications field is empty."}"#),
        (
            #"{"notifications":[{"tokens":["a"],"platform":2,"data":{"x":\#(nested(100))}}]}"#,
            #"{"code":400,"message":"The JSON nests more than 64 levels deep."}"#
        ),
        (#"{"notifications":[{"tokens":["a"],"platform":2,"data":{"x":\#(nested(100))"#, missing),
        (
            #"{"notifications":[\#(Array(repeating: "{}", count: 101).joined(separator: ","))]}"#,
            #"{"code":400,"message":"Number of notifications(101) over limit(100)"}"#
        ),
    ]

    @Test("The refusals of a body, byte for byte", arguments: refused)
    func refusals(body: String, expected: String) async throws {
        let door = Door()
        let answer = try await door.push(body)
        #expect(answer.status == 400 && answer.text == expected)
        #expect(answer.header("content-type") == "application/json; charset=utf-8")
        #expect(answer.header("x-gorush-version")?.hasPrefix("1.") == true)
        #expect(door.gate.accepted.isEmpty)
    }

    static let taken: [String] = [
        #"{"Notifications":[{"Tokens":["a"],"PLATFORM":2,"Title":"T","unknown":{"x":[1]}}],"more":1}"#,
        #"{"notifications":[{"tokens":["a"],"platform":2,"title":"T","message":null}]}"#,
        "  {\"notifications\":[{\"tokens\":[\"a\"],\"platform\":2,\"title\":\"T\"}]}\n}] text",
        #"{"notifications":[{"tokens":["a"],"platform":2,"title":"T","thread_id":5,"sound":7}]}"#,
    ]

    @Test("Half a character is U+FFFD, as Go reads it, and a whole one stays")
    func surrogates() async throws {
        let door = Door()
        let entry =
            #"{"tokens":["a"],"platform":2,"title":"\ud83d\ude00 \ud83d","message":"\\ud83d \udc00x \ud83d\u0041"}"#
        let answer = try await door.push(#"{"notifications":[\#(entry),{"tokens":["b"],"platform":1,"message":"m"}]}"#)
        #expect(answer.json["counts"] == 2 && answer.logs.isEmpty, "\(answer.text)")
        let content = door.gate.accepted.first?["content"]
        #expect(
            content?["title"] == "😀 \u{FFFD}" && content?["body"] == "\\ud83d \u{FFFD}x \u{FFFD}A",
            "\(content?.text ?? "")"
        )
    }

    @Test("Names in any case, unknown members, null, and what stands behind the object", arguments: taken)
    func lenient(body: String) async throws {
        let door = Door()
        let answer = try await door.push(body)
        #expect(answer.text == #"{"counts":1,"logs":[],"success":"ok"}"#)
        #expect(door.gate.accepted.count == 1)
    }

    @Test(
        "A platform that is unknown, absent or not configured counts nothing and has one log entry",
        arguments: [#""platform":9,"#, "", #""platform":3,"#, #""platform":0,"#]
    )
    func platforms(member: String) async throws {
        let door = Door { $0.huawei = nil }
        let answer = try await door.push(#"{"notifications":[{"tokens":["a","b"],\#(member)"message":"m"}]}"#)
        #expect(answer.status == 200 && answer.json["counts"] == 0 && answer.json["success"] == "ok")
        #expect(answer.logs.count == 1 && answer.logs[0]["platform"] == "" && answer.logs[0]["type"] == "failed-push")
        #expect(door.gate.accepted.isEmpty)
    }

    @Test("A backend that the caller's key may not use is as one that is not configured")
    func backends() async throws {
        let door = Door(FakeGate(["ios"]))
        let answer = try await door.push(#"{"notifications":[{"tokens":["a"],"platform":2,"message":"m"}]}"#)
        #expect(answer.json["counts"] == 0 && answer.logs.count == 1)
        // The names of what the key may not use are others'.
        #expect(answer.logs[0]["error"]?.stringValue?.contains("android") == false, "\(answer.text)")
    }

    static let counts: [(String, Int64, Int)] = [
        (#"{"tokens":["a","b"],"platform":1,"message":"m"}"#, 2, 1),
        (#"{"topic":"x","platform":2,"message":"m"}"#, 1, 1),
        (#"{"topic":"/topics/x","platform":2,"message":"m"}"#, 1, 1),
        (#"{"condition":"'x' in topics","platform":2,"message":"m"}"#, 0, 1),
        (#"{"tokens":["a"],"topic":"x","platform":2,"message":"m"}"#, 2, 2),
        (#"{"tokens":["a"],"to":"b","platform":2,"message":"m"}"#, 1, 1),
        (#"{"to":"/topics/foo-bar","platform":2,"message":"m"}"#, 0, 1),
        (#"{"topic":"x","to":"/topics/y","platform":2,"message":"m"}"#, 1, 2),
        (#"{"topic":"x","to":"/topics/x","platform":3,"message":"m"}"#, 1, 1),
        (#"{"tokens":["a"],"topic":"com.example.news","platform":1,"message":"m"}"#, 2, 1),
    ]

    @Test("Tokens and a topic count, a condition and \"to\" do not", arguments: counts)
    func counting(entry: String, count: Int64, messages: Int) async throws {
        let door = Door()
        let answer = try await door.push(#"{"notifications":[\#(entry)]}"#)
        #expect(answer.json["counts"] == .integer(count) && answer.logs.isEmpty, "\(answer.text)")
        #expect(door.gate.accepted.count == messages)
    }

    @Test("More tokens than one message takes are several, none is lost")
    func many() async throws {
        let door = Door()
        let tokens = (0..<25_000).map { "\"t\($0)\"" }.joined(separator: ",")
        let answer = try await door.push(#"{"notifications":[{"tokens":[\#(tokens)],"platform":2,"message":"m"}]}"#)
        #expect(answer.json["counts"] == 25_000)
        let sent = door.gate.accepted.map { $0["to"]?["tokens"]?.arrayValue?.count }
        #expect(sent == [10_000, 10_000, 5000])
    }

    static let failures: [(String, String, Int)] = [
        (#"{"tokens":["a",""],"platform":1,"message":"m"}"#, "malformed_token", 1),
        (#"{"platform":1,"message":"m"}"#, "no_target", 0),
        (#"{"tokens":[],"platform":2,"message":"m"}"#, "no_target", 0),
        (#"{"topic":"a","condition":"'a' in topics","platform":2,"message":"m"}"#, "topic_and_condition", 0),
        (#"{"condition":"a","platform":2,"message":"m"}"#, "malformed_condition", 0),
        (#"{"tokens":["a"],"platform":1,"message":"m","priority":"urgent"}"#, "unknown_priority", 0),
        (
            #"{"tokens":["a"],"platform":1,"topic":"com.example.news","development":true,"message":"m"}"#,
            "no_environment", 0
        ),
        (#"{"tokens":["a"],"platform":1,"message":"m","dry_run":"true"}"#, "wrong_value: dry_run: ", 0),
        (#"{"tokens":["a"],"platform":2,"message":"m","time_to_live":-1}"#, "wrong_value: time_to_live: ", 0),
        (#"{"tokens":["a"],"platform":2,"message":"m","time_to_live":1.5}"#, "wrong_value: time_to_live: ", 0),
        (#"{"tokens":["a"],"platform":2,"message":"m","collapse_key":5}"#, "wrong_value: collapse_key: ", 0),
    ]

    @Test("A notification that cannot be sent is a log entry, and the others are sent", arguments: failures)
    func logs(entry: String, code: String, sent: Int) async throws {
        let door = Door()
        let own = entry.dropLast() + #","notif_id":"n1"}"#
        let answer = try await door.push(
            #"{"notifications":[\#(own),{"tokens":["c"],"platform":2,"message":"m"}]}"#
        )
        #expect(answer.status == 200 && answer.logs.count == 1, "\(answer.text)")
        let log = try #require(answer.logs.first)
        #expect(log["error"]?.stringValue?.hasPrefix(code) == true, "\(log.text)")
        #expect(log.objectValue?.members.map(\.name) == ["notif_id", "type", "platform", "token", "message", "error"])
        #expect(log["notif_id"] == "n1" && log["message"] == "m")
        #expect(door.gate.accepted.count == sent + 1)
    }

    @Test("A notification that the gateway refuses has a log entry for each of its tokens")
    func refusedByGateway() async throws {
        let door = Door()
        door.gate.contents.withLock { contents in
            contents.refuse = { $0["content"]?["data"]?["aps"] == nil ? nil : "reserved_key: \"aps\" is Apple's." }
        }
        let answer = try await door.push(
            #"{"notifications":[{"tokens":["a","b"],"platform":1,"message":"m","data":{"aps":1}}]}"#
        )
        #expect(answer.json["counts"] == 2)
        #expect(answer.logs.map { $0["token"] } == ["a", "b"] && answer.logs.allSatisfy { $0["platform"] == "ios" })
    }

    @Test("Trouble of the whole request is a status with a code body, and the caller's key covers the request")
    func whole() async throws {
        let door = Door()
        let body = #"{"notifications":[{"tokens":["a"],"platform":2,"message":"m"}]}"#
        _ = try await door.push(body, headers: [HTTPHeader("idempotency-key", "k1")])
        #expect(door.gate.contents.withLock { $0.keys } == ["k1"])
        let full = ModuleProblem(503, "queue_full", "The queue is full", retryAfter: .milliseconds(1500))
        door.gate.contents.withLock { $0.problem = full }
        await #expect(throws: ModuleProblem.self) { _ = try await door.push(body) }
        let answer = try #require(door.module.answer(to: full))
        #expect(answer.status == 503 && answer.text == #"{"code":503,"message":"The queue is full"}"#)
        #expect(answer.header("retry-after") == "2")
        let values = "[" + String(repeating: "[],", count: GorushModule.maximumValues) + "[]]"
        await #expect(throws: ModuleProblem.self) { _ = try await door.push(#"{"notifications":\#(values)}"#) }
    }

    @Test("sync waits for a bounded time, logs each failure once with the platform's word, and counts what goes on")
    func sync() async throws {
        let door = Door {
            $0.isSync = true
            $0.syncTimeout = .seconds(7)
        }
        door.gate.contents.withLock {
            $0.ends = ["dead": (.failed, "Unregistered"), "slow": (.retrying, nil), "late": (.expired, "expired")]
        }
        let answer = try await door.push(
            #"{"notifications":[{"notif_id":"n","tokens":["good","dead","slow","late"],"platform":1,"message":"m"}]}"#
        )
        #expect(answer.json["counts"] == 4 && answer.header("x-chapar-pending") == "1")
        #expect(answer.logs.map { $0["token"] } == ["dead", "late"])
        #expect(answer.logs[0]["error"] == "Unregistered" && answer.logs[0]["platform"] == "ios")
        #expect(door.gate.contents.withLock { $0.waited } == .seconds(7))
        let other = Door()
        other.gate.contents.withLock { $0.ends = ["dead": (.failed, "Unregistered")] }
        let async = try await other.push(#"{"notifications":[{"tokens":["dead"],"platform":1,"message":"m"}]}"#)
        #expect(async.logs.isEmpty && other.gate.contents.withLock { $0.waited } == nil)
    }

    @Test("Tokens are shown whole, or masked as gorush masks them")
    func masks() async throws {
        #expect(GorushTokens.masked("short") == "*****")
        #expect(GorushTokens.masked("abcdefghij-middle-0123456789") == "**********-middle-**********")
        let door = Door { $0.hidesTokens = true }
        let answer = try await door.push(#"{"notifications":[{"tokens":["a b"],"platform":1,"message":"m"}]}"#)
        #expect(answer.logs.first?["token"] == "***")
    }

    @Test("Paths with and without a prefix or a slash at the end, their methods, and who may use them")
    func endpoints() {
        let door = Door()
        #expect(door.module.prefix == "/")
        #expect(door.module.endpoint("/api/push")?.methods == ["POST": .send])
        #expect(door.module.endpoint("/api/push/")?.pattern == "/api/push")
        #expect(door.module.endpoint("/api/stat/app")?.methods == ["GET": .metrics])
        #expect(door.module.endpoint("/api/config")?.methods == ["GET": .admin])
        #expect(door.module.endpoint("/version")?.methods == ["GET": .open])
        #expect(door.module.endpoint("/api/stat/go") == nil && door.module.endpoint("/api") == nil)
        let other = Door {
            $0.prefix = "/gorush"
            $0.paths = [.push: "/send"]
        }
        #expect(other.module.prefix == "/gorush/" && other.module.endpoint("/api/push") == nil)
        #expect(other.module.endpoint("/gorush/api/push") == nil)
        #expect(other.module.endpoint("/gorush/send")?.takesBasicCredentials == true)
        #expect(other.module.endpoint("/gorush/healthz")?.methods == ["GET": .open])
        #expect(other.module.endpoint("/gorush/") != nil)
    }

    @Test("Health, version, welcome, statistics and metrics have gorush's shapes")
    func reading() async throws {
        let door = Door { $0.prefix = "/gorush" }
        let metrics = """
            # TYPE chapar_deliveries_total counter
            chapar_deliveries_total{backend="ios",app="",kind="apns",outcome="accepted",reason=""} 3
            chapar_deliveries_total{backend="ios",app="",kind="apns",outcome="refused",reason="Unregistered"} 2
            chapar_deliveries_total{backend="a",app="",kind="fcm",outcome="accepted",reason=""} 5
            chapar_ledger_accepted_total 11
            chapar_ledger_ended_total{state="accepted_by_platform"} 8
            chapar_ledger_ended_total{state="failed"} 2
            chapar_notifications_accepted_total{route="direct",app=""} 4
            chapar_inflight{backend="ios"} 1
            chapar_http_requests_total{route="/x",method="GET",status="200"} 6
            chapar_http_requests_total{route="/x",method="GET",status="404"} 1

            """
        door.gate.contents.withLock { $0.metrics = metrics }
        let health = try await door.get("/gorush/healthz")
        #expect(health.status == 200 && health.body.isEmpty)
        #expect(try await door.get("/gorush").json["text"] == "Welcome to notification server.")
        let version = try await door.get("/gorush/version")
        #expect(version.json["source"] == "https://github.com/appleboy/gorush")
        let statistics = try await door.get("/gorush/api/stat/app").json
        #expect(
            statistics["ios"] == ["push_success": 3, "push_error": 2]
                && statistics["android"] == ["push_success": 5, "push_error": 0]
                && statistics["huawei"] == ["push_success": 0, "push_error": 0]
        )
        let expected: [String: Int64] = [
            "busy_workers": 1, "success_tasks": 8, "failure_tasks": 2, "submitted_tasks": 4, "total_count": 11,
        ]
        for (name, value) in expected { #expect(statistics[name] == .integer(value), "\(name)") }
        let system = try await door.get("/gorush/sys/stats").json
        #expect(system["count"] == 7 && system["status_code_count"] == ["200": 6, "404": 1])
        let text = try await door.get("/gorush/metrics").text
        let names = text.split(separator: "\n").filter { $0.hasPrefix("gorush_") }
        #expect(names.count == 11 && text.hasSuffix(metrics))
        #expect(names.contains("gorush_ios_error 2") && names.contains("gorush_busy_workers 1"))
        let configuration = try await door.get("/gorush/api/config").text
        #expect(configuration.contains("push_uri: /gorush/api/push") && configuration.contains("max_notification: 100"))
    }
}
