import Foundation
import ChaparCore
import Testing

@testable import ChaparSandbox

@Suite("The control API", .timeLimit(.minutes(1)))
struct ControlTests {
    static let token = String(repeating: "a1", count: 32)

    /// Calls the API without a socket.
    private func call(_ simulator: APNsSimulator, _ method: String, _ target: String, _ body: String = "")
        -> ControlAnswer
    {
        SandboxControl(platforms: [simulator]).answer(
            ControlRequest(method: method, target: target, body: Array(body.utf8))
        )
    }

    /// Every step of the fault table, as it is written in JSON, and what it must become.
    static let steps: [(String, FaultStep)] = [
        (#"{"do":"delay","seconds":0.5}"#, .delay(.milliseconds(500))),
        (#"{"do":"delay_settings","seconds":2}"#, .delaySettings(.seconds(2))),
        (
            #"{"do":"answer","status":503,"reason":"ServiceUnavailable","retry_after":3}"#,
            .answer(FaultAnswer(503, "ServiceUnavailable", retryAfter: 3))
        ),
        (
            #"{"do":"answer","status":410,"reason":"Unregistered","timestamp":17}"#,
            .answer(FaultAnswer(410, "Unregistered", timestamp: .milliseconds(17)))
        ),
        (
            #"{"do":"answer","status":410,"reason":"Unregistered","timestamp_offset":-60}"#,
            .answer(FaultAnswer(410, "Unregistered", timestamp: .now(offset: .seconds(-60))))
        ),
        (#"{"do":"answer","status":502,"body":"<html>"}"#, .answer(FaultAnswer(502, body: Array("<html>".utf8)))),
        (
            #"{"do":"answer","status":429,"headers":{"Retry-After":"soon","date":"never"}}"#,
            .answer(FaultAnswer(429, headers: [HTTPHeader("retry-after", "soon"), HTTPHeader("date", "never")]))
        ),
        (#"{"do":"distort","how":"upper_case_id"}"#, .distort(.upperCaseID)), (#"{"do":"silence"}"#, .silence),
        (#"{"do":"reset_stream","code":7}"#, .resetStream(code: 7)),
        (
            #"{"do":"go_away","last":"middle","code":2,"reason":"Shutdown","ending":"linger"}"#,
            .goAway(SandboxGoAway(reason: "Shutdown", last: .middle, code: 2, ending: .linger))
        ),
        (
            #"{"do":"go_away","last":5,"debug_data":"{\"rea","ending":"now"}"#,
            .goAway(SandboxGoAway(last: .stream(5), debugData: Array("{\"rea".utf8), ending: .now))
        ),
        (#"{"do":"maximum_streams","count":0}"#, .maximumStreams(0)),
        (#"{"do":"initial_window","bytes":10}"#, .initialWindow(10)),
        (#"{"do":"end","how":"half_close"}"#, .end(.halfClose)),
        (#"{"do":"black_hole"}"#, .blackHole), (#"{"do":"ignore_pings"}"#, .ignorePings),
        (#"{"do":"throttle","bytes_per_second":9}"#, .throttle(bytesPerSecond: 9)),
        (#"{"do":"wedge_after_expiry"}"#, .wedgeAfterExpiry),
    ]

    @Test("Every fault can be written in JSON", arguments: steps)
    func step(_ json: String, _ expected: FaultStep) throws {
        let simulator = try APNsSimulator()
        #expect(call(simulator, "POST", "/rules", #"{"steps":[\#(json)]}"#).status == 200)
        #expect(simulator.rules.first?.rule == FaultRule(expected))
    }

    @Test("Every condition can be written in JSON")
    func match() throws {
        let simulator = try APNsSimulator()
        let json = #"""
            [{"name":"n","at":"processed","steps":[{"do":"silence"}],
              "match":{"listener":"development","token_prefix":"AB","topic":"t","path_prefix":"/4","connection":2,
                       "first_request":3,"last_request":4,"every":5,"share":0.25,"from":1,"until":2.5,"count":6}}]
            """#
        #expect(call(simulator, "POST", "/rules", json).body["added"] == 1)
        let match = FaultMatch(
            listener: .development,
            tokenPrefix: "ab",
            topic: "t",
            pathPrefix: "/4",
            connection: 2,
            requests: 3...4,
            every: 5,
            share: 0.25,
            from: .seconds(1),
            until: .milliseconds(2500),
            count: 6
        )
        #expect(simulator.rules.first?.rule == FaultRule(name: "n", at: .processed, match: match, .silence))
        #expect(call(simulator, "DELETE", "/rules?name=other").body["removed"] == 0)
        #expect(call(simulator, "DELETE", "/rules?name=n").body["removed"] == 1)
    }

    static let mistakes: [(String, String, String, Int, String)] = [
        ("GET", "/nowhere", "", 404, "no such call: GET /nowhere"),
        ("POST", "/rules", "{", 400, "not JSON at byte 1: expected a string"),
        ("POST", "/rules", "{}", 400, "rule.steps: expected a list"),
        ("POST", "/rules", #"{"steps":[{"do":"explode"}]}"#, 400, "step.do: explode is unknown"),
        ("POST", "/rules", #"{"steps":[{"do":"delay"}]}"#, 400, "step.seconds: missing"),
        ("POST", "/rules", #"{"steps":[{"do":"delay","seconds":1,"second":2}]}"#, 400, "step.second: unknown"),
        (
            "POST", "/rules", #"{"steps":[{"do":"silence"}],"match":{"share":"all"}}"#, 400,
            "match.share: expected a number"
        ),
        ("POST", "/rules", #"{"steps":[{"do":"answer","status":99}]}"#, 400, "step.status: expected 200 to 599"),
        ("POST", "/end", #"{"how":"softly"}"#, 400, "end.how: expected one of reset, fin, half_close, close"),
        ("POST", "/tokens", #"{"tokens":"aa"}"#, 400, "tokens.tokens: expected a list of strings"),
    ]

    /// The first of these once ended the process.
    @Test(
        "A query without a name, a value or both is a call like any other",
        arguments: ["/?=", "/?", "/?=&=", "/?&&", "/?a", "/?a=", "/?==", "/counters?=x", "?=", "?", "=", ""]
    )
    func emptyQuery(target: String) throws {
        #expect([200, 404].contains(call(try APNsSimulator(), "GET", target).status))
        let query = ControlRequest(method: "GET", target: "/?=x&b==c&d").query
        #expect(query == ["": "x", "b": "=c", "d": ""])
    }

    @Test("A number of any size is taken", arguments: [Int64.max, .min, 0, -1])
    func numbers(number: Int64) throws {
        let simulator = try APNsSimulator()
        for step in [
            #""do":"throttle","bytes_per_second""#, #""do":"maximum_streams","count""#, #""do":"delay","seconds""#,
        ] {
            #expect(call(simulator, "POST", "/rules", #"{"steps":[{\#(step):\#(number)}]}"#).status < 500)
        }
        let match =
            #"{"steps":[{"do":"silence"}],"match":{"every":\#(number),"count":\#(number),"first_request":\#(number)}}"#
        #expect(call(simulator, "POST", "/rules", match).status < 500)
    }

    @Test("A mistake is named, with its place", arguments: mistakes)
    func mistake(_ method: String, _ target: String, _ body: String, _ status: Int, _ message: String) throws {
        let answer = call(try APNsSimulator(), method, target, body)
        #expect(answer.status == status)
        #expect(answer.body["error"]?.stringValue == message)
    }

    static let origins: [([String], String)] = [
        (["host: evil.example"], "403"), (["origin: https://evil.example"], "403"),
        (["sec-fetch-site: cross-site"], "403"),
        (["host: localhost"], "200"), (["sec-fetch-site: same-origin"], "200"), ([], "200"),
    ]

    @Test("A web page does not control the simulators", .enabled(if: Shell.hasCurlWithHTTP2), arguments: origins)
    func pages(headers: [String], status: String) async throws {
        try await Sandbox.run { sandbox in
            let fields = headers.flatMap { ["-H", $0] }
            let arguments = [
                "curl", "-sS", "-o", "/dev/null", "-w", "%{http_code}", "-d", "{}", sandbox.controlURL + "/reset",
            ]
            let output = try await Shell.run(arguments + fields).output
            #expect(output == status, "\(headers)")
        }
    }

    @Test("Tokens, inbox, counters and reset, over HTTP", .enabled(if: Shell.hasCurlWithHTTP2))
    func overHTTP() async throws {
        try await Sandbox.run { sandbox in
            func curl(_ path: String, _ body: String? = nil) async throws -> JSONValue {
                let data = body.map { ["-d", $0] } ?? []
                let text = try await Shell.run(["curl", "-sS", sandbox.controlURL + path] + data).output
                return try JSONValue(parsing: Array(text.utf8))
            }
            let simulator = sandbox.apns
            #expect(try await curl("/")["listeners"]?["production"]?.stringValue == simulator.url(.production))
            #expect(try await curl("/")["platforms"]?.arrayValue?.first == "apns")
            #expect(try await curl("/apns")["seed"]?.stringValue == "\(simulator.seed)")
            #expect(try await curl("/apns/counters")["requests"] == 0)
            let tokens = #"{"tokens":["\#(Self.token)"],"state":"expired","at":1790000000000}"#
            #expect(try await curl("/tokens", tokens)["changed"] == 1)
            let client = try await RawClient.connect(to: simulator)
            let jwt = try simulator.key.providerToken(issuedAt: Date())
            client.push(1, to: Self.token, jwt: jwt)
            #expect(await client.answer(1)?.body == #"{"reason":"ExpiredToken","timestamp":1790000000000}"#)
            _ = try await curl("/tokens", #"{"tokens":["\#(Self.token)"],"topic":"com.example.app"}"#)
            client.push(3, to: Self.token, jwt: jwt, body: #"{"aps":{"alert":"Hi"}}"#)
            #expect(await client.answer(3)?.status == "200")
            let inbox = try await curl("/inbox?limit=10")
            #expect(inbox["next"] == 1)
            #expect(inbox["items"]?.arrayValue?.first?["payload"] == #"{"aps":{"alert":"Hi"}}"#)
            #expect(inbox["items"]?.arrayValue?.first?["token"]?.stringValue == Self.token)
            #expect(try await curl("/inbox?from=1")["items"] == [])
            let counters = try await curl("/counters")
            #expect(counters["accepted"] == 1)
            #expect(counters["refused"] == ["ExpiredToken": 1])
            _ = try await curl("/settings", #"{"maximum_streams":3,"clock_offset":7200}"#)
            #expect(await client.first { if case .settings(let all) = $0, all[3] == 3 { true } else { nil } } == true)
            #expect(simulator.clockOffset == .seconds(7200))
            _ = try await curl("/goaway", #"{"reason":"Shutdown"}"#)
            #expect(await client.end() == "")
            #expect(try await curl("/reset", "") == [:])
            #expect(simulator.counters.accepted == 0)
            #expect(simulator.inbox.isEmpty)
        }
    }
}
