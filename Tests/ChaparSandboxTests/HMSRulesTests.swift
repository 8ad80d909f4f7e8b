import Foundation
import Logging
import ChaparCore
import ChaparHTTP
import ChaparSandbox
import ChaparTesting
import Testing

/// The simulator against the examples of Huawei's reference and of its specification, without Chapar's plugin.
@Suite("The HMS simulator's rules", .timeLimit(.minutes(1)))
struct HMSRulesTests {
    /// A simulator and plain HTTPS clients of it.
    struct Bench {
        let simulator: HMSSimulator
        let push: any HTTPPool
        let token: any HTTPPool

        static func run(
            _ configuration: HMSSimulatorConfiguration = HMSSimulatorConfiguration(),
            version: HTTPPoolConfiguration.Version = .http1,
            time: any TimeSource = SystemTime(),
            _ body: (Bench) async throws -> Void
        ) async throws {
            try await HMSSimulator.run(configuration, time: time) { simulator in
                let transport = NIOTransport(logger: Logger(label: "test") { _ in SwiftLogNoOpLogHandler() })
                func pool(_ listener: SandboxListener) throws -> any HTTPPool {
                    let endpoint = try #require(HTTPEndpoint(url: simulator.url(listener)))
                    var configuration = HTTPPoolConfiguration(endpoint: endpoint, version: version)
                    configuration.extraTrustPEM = simulator.authority.certificatePEM
                    return try transport.pool(configuration)
                }
                let bench = Bench(
                    simulator: simulator,
                    push: try pool(HMSSimulator.push),
                    token: try pool(HMSSimulator.token)
                )
                do {
                    try await body(bench)
                } catch {
                    await transport.shutdown(grace: .zero)
                    throw error
                }
                await transport.shutdown(grace: .seconds(1))
            }
        }

        /// Posts a form to the token endpoint.
        func fetch(_ form: String, type: String = "application/x-www-form-urlencoded") async throws -> (Int, JSONValue)
        {
            let template = HTTPCallTemplate(method: "POST", headers: [HTTPHeader("content-type", type)])
            let answer = try await token.send(HTTPCall(template, path: "/oauth2/v3/token", body: Array(form.utf8)))
            return (answer.status, (try? JSONValue(parsing: answer.body)) ?? .null)
        }

        /// An access token of the app.
        func bearer() async throws -> String {
            let (_, body) = try await fetch(HMSRulesTests.goodForm)
            return "Bearer " + (body["access_token"]?.stringValue ?? "")
        }

        /// Posts JSON to the push endpoint.
        func post(
            _ body: String,
            to path: String = "/v1/100200300/messages:send",
            bearer: String?,
            more: [HTTPHeader] = []
        ) async throws -> (status: Int, json: JSONValue) {
            var headers = [HTTPHeader("content-type", "application/json;charset=utf-8")] + more
            if let bearer { headers.append(HTTPHeader("authorization", bearer)) }
            let template = HTTPCallTemplate(method: "POST", headers: headers)
            let answer = try await push.send(HTTPCall(template, path: path, body: Array(body.utf8)))
            return (answer.status, (try? JSONValue(parsing: answer.body)) ?? .null)
        }
    }

    static let goodForm =
        "grant_type=client_credentials&client_id=100200300&client_secret=a%2Bb%2Fc%26d%3De%25f%3D%3D"
    /// The request of the specification, section 3.
    static let recorded = """
        {"validate_only":false,
         "message":{
           "notification":{"title":"Parcel","body":"Out for delivery"},
           "android":{"urgency":"HIGH","category":"EXPRESS","ttl":"3600s","collapse_key":3,
                      "bi_tag":"delivery-2026-01","receipt_id":"RCP1",
                      "notification":{"click_action":{"type":3},"tag":"order-4711"}},
           "token":["IQAAAACy0sampleA","IQAAAACy0sampleB"]}}
        """

    static let forms: [(String, Int64)] = [
        ("grant_type=password&client_id=100200300&client_secret=x", 20182),
        ("grant_type=client_credentials&client_secret=x", 20001),
        ("grant_type=client_credentials&client_id=com.example&client_secret=x", 20002),
        ("grant_type=client_credentials&client_id=1&client_secret=x", 20003),
        ("grant_type=client_credentials&client_id=100200300", 20171),
        ("grant_type=client_credentials&client_id=100200300&client_secret=x", 20173),
        // The mistake of many clients: the secret as it stands.
        ("grant_type=client_credentials&client_id=100200300&client_secret=a+b/c&d=e%f==", 20173),
    ]

    @Test("The token endpoint names what is wrong with a form", arguments: forms)
    func tokenRefusals(form: String, subError: Int64) async throws {
        try await Bench.run { bench in
            let (status, body) = try await bench.fetch(form)
            #expect(status == 400)
            #expect(body["error"] == 1101)
            #expect(body["sub_error"] == .integer(subError))
            #expect(bench.simulator.counters.tokensRefused == 1)
        }
    }

    @Test(
        "The recorded request is accepted over both versions of HTTP",
        arguments: [HTTPPoolConfiguration.Version.http1, .http2]
    )
    func accepts(version: HTTPPoolConfiguration.Version) async throws {
        try await Bench.run(version: version) { bench in
            bench.simulator.setDevice(HMSDevice(), tokens: ["IQAAAACy0sampleA", "IQAAAACy0sampleB"])
            let bearer = try await bench.bearer()
            let answer = try await bench.post(Self.recorded, bearer: bearer)
            #expect(answer.status == 200)
            #expect(answer.json["code"] == "80000000")
            #expect(answer.json["requestId"]?.stringValue?.isEmpty == false)
            let inbox = bench.simulator.inbox()
            #expect(inbox.map(\.token) == ["IQAAAACy0sampleA", "IQAAAACy0sampleB"])
            #expect(inbox.allSatisfy { $0.tag == "order-4711" && $0.batch == 2 && !$0.isDuplicate })
            _ = try await bench.post(Self.recorded, bearer: bearer)
            #expect(bench.simulator.counters.duplicates == 2)
        }
    }

    @Test("A partial success lists the bad tokens in JSON within a string, and all bad ones have a code of their own")
    func partial() async throws {
        try await Bench.run { bench in
            bench.simulator.setDevice(HMSDevice(), tokens: ["IQAAAACy0sampleA"])
            let bearer = try await bench.bearer()
            let answer = try await bench.post(Self.recorded, bearer: bearer)
            #expect(answer.status == 200)
            #expect(answer.json["code"] == "80100000")
            #expect(
                answer.json["msg"] == .string(#"{"success":1,"failure":1,"illegal_tokens":["IQAAAACy0sampleB"]}"#)
            )
            bench.simulator.setDevice(nil, tokens: ["IQAAAACy0sampleA"])
            #expect(try await bench.post(Self.recorded, bearer: bearer).json["code"] == "80300007")
        }
    }

    @Test("Who asks and where decides first")
    func authorization() async throws {
        try await Bench.run { bench in
            let bearer = try await bench.bearer()
            let none = try await bench.post(Self.recorded, bearer: nil)
            #expect((none.status, none.json["code"]) == (401, "80200001"))
            #expect(try await bench.post(Self.recorded, bearer: "Bearer x").json["code"] == "80200001")
            #expect(try await bench.post(Self.recorded, bearer: "Bearer eyJ.x.y").json["code"] == "80200001")
            let path = "/v1/999/messages:send"
            #expect(try await bench.post(Self.recorded, to: path, bearer: bearer).json["code"] == "80300002")
            #expect(try await bench.post(Self.recorded, to: "/v1/100200300/send", bearer: bearer).status == 404)
            bench.simulator.expireTokens()
            #expect(try await bench.post(Self.recorded, bearer: bearer).json["code"] == "80200003")
            bench.simulator.revokeTokens()
            #expect(try await bench.post(Self.recorded, bearer: bearer).json["code"] == "80200001")
        }
    }

    struct Body: Sendable, CustomTestStringConvertible {
        var message: String
        var code: String
        var testDescription: String { String(message.prefix(80)) + " → " + code }
    }

    static let bodies: [Body] = [
        Body(message: "not json", code: "80100003"),
        Body(message: #"{"data":"x"}"#, code: "80100003"),
        Body(message: #"{"data":"x","token":["a"],"topic":"t"}"#, code: "80100003"),
        Body(message: #"{"data":"x","token":[]}"#, code: "80300010"),
        Body(message: #"{"data":{"a":1},"token":["a"]}"#, code: "80100001"),
        Body(message: #"{"unknown":1,"data":"x","token":["a"]}"#, code: "80100001"),
        Body(message: #"{"notification":{"title":"t","body":"b"},"token":["a"]}"#, code: "80100001"),
        Body(
            message: #"{"android":{"notification":{"title":"t","click_action":{"type":1}}},"token":["a"]}"#,
            code: "80100001"
        ),
        Body(message: #"{"data":"x","android":{"ttl":"3600"},"token":["a"]}"#, code: "80100001"),
        Body(message: #"{"data":"x","android":{"ttl":"1296001s"},"token":["a"]}"#, code: "80100001"),
        Body(message: #"{"data":"x","android":{"collapse_key":101},"token":["a"]}"#, code: "80100013"),
        Body(message: #"{"data":"x","android":{"urgency":"LOUD"},"token":["a"]}"#, code: "80100001"),
        Body(message: #"{"data":"x","token":["a"]}"#, code: "80000000"),
        Body(message: #"{"data":"x","topic":"news"}"#, code: "80000000"),
        Body(message: #"{"data":"x","condition":"'news' in topics"}"#, code: "80000000"),
        Body(message: #"{"apns":{"payload":{"aps":{}}},"token":["a"]}"#, code: "80100001"),
        Body(
            message: #"{"apns":{"payload":{"aps":{}},"hms_options":{"target_user_type":2}},"token":["a"]}"#,
            code: "80000000"
        ),
    ]

    @Test("A body is held to the reference", arguments: bodies)
    func holds(body: Body) async throws {
        try await Bench.run { bench in
            bench.simulator.setDevice(HMSDevice(), tokens: ["a"])
            let text = body.message.hasPrefix("{") ? #"{"message":\#(body.message)}"# : body.message
            let answer = try await bench.post(text, bearer: try await bench.bearer())
            #expect(answer.json["code"] == .string(body.code), "\(answer.json.text)")
        }
    }

    @Test("Size and number of recipients are bounded, and a message without the right to urgency is refused")
    func limits() async throws {
        var configuration = HMSSimulatorConfiguration()
        configuration.hasUrgentRight = false
        configuration.acceptsAnyToken = true
        try await Bench.run(configuration) { bench in
            let bearer = try await bench.bearer()
            let many = (0...1000).map { "\"t\($0)\"" }.joined(separator: ",")
            #expect(
                try await bench.post(#"{"message":{"data":"x","token":[\#(many)]}}"#, bearer: bearer).json["code"]
                    == "80300010"
            )
            let long = String(repeating: "x", count: 4097)
            #expect(
                try await bench.post(#"{"message":{"data":"\#(long)","token":["a"]}}"#, bearer: bearer).json["code"]
                    == "80300008"
            )
            #expect(try await bench.post(Self.recorded, bearer: bearer).json["code"] == "80300011")
        }
    }

    @Test("A quota of devices a second brings 503, by devices and not by requests")
    func flow() async throws {
        var configuration = HMSSimulatorConfiguration()
        configuration.devicesPerSecond = 2
        configuration.flowRetryAfter = 9
        configuration.acceptsAnyToken = true
        let time = ManualTime()
        try await Bench.run(configuration, time: time) { bench in
            let bearer = try await bench.bearer()
            #expect(try await bench.post(Self.recorded, bearer: bearer).status == 200)
            #expect(try await bench.post(Self.recorded, bearer: bearer).status == 503)
            time.advance(by: .seconds(1))
            #expect(try await bench.post(Self.recorded, bearer: bearer).status == 200)
        }
    }

    @Test("Magic tokens say themselves what comes back")
    func magic() async throws {
        var configuration = HMSSimulatorConfiguration.demonstration
        configuration.magicDelay = .milliseconds(1)
        try await Bench.run(configuration) { bench in
            let bearer = try await bench.bearer()
            func send(_ token: String) async throws -> String {
                let answer = try await bench.post(#"{"message":{"data":"x","token":["\#(token)"]}}"#, bearer: bearer)
                return answer.json["code"]?.stringValue ?? "\(answer.status)"
            }
            #expect(try await send("anything") == "80000000")
            #expect(try await send("sim-dead-1") == "80300007")
            #expect(try await send("sim-v3-1") == "80300007")
            #expect(try await send("sim-503once-1") == "503")
            #expect(try await send("sim-503once-1") == "80000000")
            #expect(try await send("sim-expired-once-1") == "80200003")
            #expect(try await send("sim-expired-once-1") == "80000000")
            #expect(try await send("sim-slow5-1") == "80000000")
            #expect(HMSMagicToken("sim-r102-x") == .receipt(102))
            #expect(HMSMagicToken("IQAAAACy0sampleA") == nil)
        }
    }

    @Test("v3 takes no access token of OAuth")
    func v3() async throws {
        try await Bench.run(.demonstration) { bench in
            let path = "/v3/\(bench.simulator.app.projectID)/messages:send"
            let body = #"{"payload":{},"target":{"token":["sim-v3-1"]}}"#
            let type = [HTTPHeader("push-type", "0")]
            let answer = try await bench.post(body, to: path, bearer: try await bench.bearer(), more: type)
            #expect(answer.json["code"] == "80200001")
        }
    }

    @Test("Devices join and leave topics, and counts may come as text")
    func topics() async throws {
        try await Bench.run { bench in
            bench.simulator.setDevice(HMSDevice(), tokens: ["a", "b"])
            bench.simulator.setDevice(HMSDevice(isApple: true), tokens: ["apple"])
            let bearer = try await bench.bearer()
            let answer = try await bench.post(
                #"{"topic":"news","tokenArray":["a","apple","b"]}"#,
                to: "/v1/100200300/topic:subscribe",
                bearer: bearer
            )
            #expect(answer.json["code"] == "82000010")
            #expect(answer.json["successCount"] == "2")
            #expect(answer.json["errors"]?.arrayValue?.map { $0["index"] } == [1])
            #expect(bench.simulator.subscribers(of: "news") == ["a", "b"])
            let list = try await bench.post(#"{"token":"a"}"#, to: "/v1/100200300/topic:list", bearer: bearer)
            #expect(list.json["topics"]?.arrayValue?.map { $0["name"] } == ["news"])
            let bad = try await bench.post(
                #"{"topic":"not a name","tokenArray":["a"]}"#,
                to: "/v1/100200300/topic:subscribe",
                bearer: bearer
            )
            #expect(bad.json["code"] == "82000007")
        }
    }

    @Test("The sandbox's control API steers it, and what it writes names it")
    func control() async throws {
        try await Sandbox.run { sandbox in
            func call(_ method: String, _ path: String, _ body: String? = nil) async throws -> JSONValue {
                var arguments = ["-sS", "-X", method, sandbox.controlURL + path]
                if let body { arguments += ["-d", body] }
                let result = try await Shell.run(["curl"] + arguments)
                return try JSONValue(parsing: Array(result.output.utf8))
            }
            let overview = try await call("GET", "/hms")
            #expect(overview["listeners"]?["push"]?.stringValue == sandbox.hms.url(HMSSimulator.push))
            _ = try await call("POST", "/hms/rules", #"{"steps":[{"do":"answer","status":200,"reason":"80100016"}]}"#)
            #expect(try await call("GET", "/hms/rules")["rules"]?.arrayValue?.count == 1)
            _ = try await call("POST", "/hms/tokens", #"{"tokens":["gone"],"state":"refused"}"#)
            _ = try await call("POST", "/hms/limits", #"{"devices_per_second":5,"urgent_right":false}"#)
            #expect(sandbox.hms.settings.devicesPerSecond == 5)
            #expect(!sandbox.hms.settings.hasUrgentRight)
            _ = try await call(
                "POST",
                "/hms/receipts",
                #"{"url":"http://127.0.0.1:9/x","form":"old","statuses":{"a":5}}"#
            )
            #expect(sandbox.hms.receipts.form == .old)
            #expect(sandbox.hms.receipts.statuses == ["a": 5])
            #expect(
                try await call("POST", "/hms/limits", #"{"typo":1}"#)["error"]?.stringValue?.contains("typo") == true
            )
            #expect(try await call("GET", "/hms/inbox")["items"] == [])
            _ = try await call("POST", "/hms/reset")
            #expect(try await call("GET", "/hms/rules")["rules"]?.arrayValue?.isEmpty == true)
            #expect(try await call("GET", "/hms/counters")["sends"] == 0)
        }
    }
}
