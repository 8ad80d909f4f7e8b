import Foundation
import Logging
import ChaparCore
import ChaparHTTP
import ChaparSandbox
import Testing

/// Google's rules, one request at a time, over real sockets and without the plugin that is tested against them.
///
/// Source: specs, FCM, section 12.2, after Firebase's REST reference, read 2026-08.
@Suite("FCM's rules, one request at a time", .serialized, .timeLimit(.minutes(1)))
struct FCMRulesTests {
    /// A simulator with one live token and one access token, and a way to ask each listener.
    struct Bench {
        let simulator: FCMSimulator
        let token: String
        private let pools: [FCMListener: any HTTPPool]

        init(_ simulator: FCMSimulator) throws {
            self.simulator = simulator
            let transport = NIOTransport(logger: Logger(label: "test"))
            var pools: [FCMListener: any HTTPPool] = [:]
            for listener in FCMListener.allCases {
                let endpoint = try #require(HTTPEndpoint(url: simulator.url(listener)))
                var configuration = HTTPPoolConfiguration(endpoint: endpoint, version: .http2)
                configuration.extraTrustPEM = simulator.authority.certificatePEM
                configuration.maximumConnections = 1
                pools[listener] = try transport.pool(configuration)
            }
            self.pools = pools
            token = simulator.issueAccessToken()
            simulator.register(tokens: ["good"])
        }

        func ask(
            _ listener: FCMListener,
            _ method: String = "POST",
            _ path: String,
            _ headers: [HTTPHeader] = [],
            _ body: String = ""
        ) async throws -> (status: Int, body: JSONValue) {
            let pool = try #require(pools[listener])
            let answer = try await pool.send(
                HTTPCall(HTTPCallTemplate(method: method, headers: headers), path: path, body: Array(body.utf8))
            )
            return (answer.status, (try? JSONValue(parsing: answer.body)) ?? .null)
        }

        /// Sends a message; the status, the error code and the first field that is complained about.
        func send(_ message: String, bearer: String? = nil) async throws -> String {
            let path = "/v1/projects/\(simulator.account.projectID)/messages:send"
            let headers = [HTTPHeader("authorization", "Bearer \(bearer ?? token)")]
            let (status, body) = try await ask(.send, "POST", path, headers, #"{"message":\#(message)}"#)
            let details = body["error"]?["details"]?.arrayValue ?? []
            let code = details.compactMap { $0["errorCode"]?.stringValue ?? $0["reason"]?.stringValue }.first
            let field = details.compactMap { $0["fieldViolations"]?.arrayValue?.first?["field"]?.stringValue }.first
            return ["\(status)", code, field].compactMap { $0 }.joined(separator: " ")
        }
    }

    private func run(
        _ configuration: FCMSimulatorConfiguration = FCMSimulatorConfiguration(),
        _ body: (Bench) async throws -> Void
    ) async throws {
        try await FCMSimulator.run(configuration) { try await body(try Bench($0)) }
    }

    static let messages: [(String, String)] = [
        (#"{"token":"good"}"#, "200"), (#"{"token":"good","data":{"a":"b"}}"#, "200"),
        (#"{"topic":"news"}"#, "200"), (#"{"condition":"'a' in topics && !('b' in topics)"}"#, "200"),
        (#"{"token":"good","fcmOptions":{"analyticsLabel":"x"}}"#, "200"),
        (#"{"token":"good","android":{"collapseKey":"x","notification":{"channelId":"y"}}}"#, "200"),
        (#"{"token":"good","android":{"ttl":"0s"}}"#, "200"), (#"{"token":"good","android":{"ttl":"3.5s"}}"#, "200"),
        (#"{}"#, "400 INVALID_ARGUMENT message"), (#"{"token":"good","topic":"news"}"#, "400 message"),
        // A bad token is told by the message alone: Firebase, "FCM error codes", example 2.
        (#"{"token":"unknown"}"#, "400 INVALID_ARGUMENT"), (#"{"fid":"unknown"}"#, "400 INVALID_ARGUMENT"),
        (#"{"token":"good","colour":"red"}"#, "400 message"),
        (#"{"token":"good","android":{"notification":{"colour":"red"}}}"#, "400 message.android.notification"),
        (#"{"token":"good","data":{"a":1}}"#, "400 message.data[0].value"),
        (#"{"token":"good","data":{"from":"x"}}"#, "400 INVALID_ARGUMENT message.data.from"),
        (#"{"token":"good","data":{"google.x":"x"}}"#, "400 INVALID_ARGUMENT message.data.google.x"),
        (#"{"token":"good","android":{"ttl":"3600"}}"#, "400 INVALID_ARGUMENT message.android.ttl"),
        (#"{"token":"good","android":{"ttl":"2419201s"}}"#, "400 INVALID_ARGUMENT message.android.ttl"),
        (#"{"token":"good","android":{"ttl":60}}"#, "400 message.android.ttl"),
        (#"{"token":"good","android":{"priority":"high"}}"#, "200"),
        (#"{"token":"good","android":{"priority":"urgent"}}"#, "400 message.android.priority"),
        (
            #"{"token":"good","android":{"notification":{"color":"red"}}}"#,
            "400 INVALID_ARGUMENT message.android.notification.color"
        ),
        (#"{"topic":"/topics/news"}"#, "400 INVALID_ARGUMENT message.topic"),
        (#"{"condition":"'a' in topic"}"#, "400 INVALID_ARGUMENT message.condition"),
        (
            #"{"condition":"'a' in topics||'b' in topics||'c' in topics||'d' in topics||'e' in topics||'f' in topics"}"#,
            "400 INVALID_ARGUMENT message.condition"
        ),
        (#"{"token":"good","apns":{"payload":{}}}"#, "400 INVALID_ARGUMENT message.apns.payload"),
        (#"{"token":"good","apns":{"headers":{"apns-priority":10}}}"#, "400 message.apns.headers[0].value"),
        (
            #"{"token":"good","webpush":{"fcm_options":{"link":"http://e.com"}}}"#,
            "400 INVALID_ARGUMENT message.webpush.fcm_options.link"
        ),
        (
            #"{"token":"good","fcm_options":{"analytics_label":"two words"}}"#,
            "400 INVALID_ARGUMENT message.fcm_options.analytics_label"
        ),
        (#"{"token":"good","data":{"k":"\#(String(repeating: "x", count: 4100))"}}"#, "400 INVALID_ARGUMENT"),
        (#"{"topic":"news","data":{"k":"\#(String(repeating: "x", count: 2100))"}}"#, "400 INVALID_ARGUMENT"),
        (#"{"token":"good","data":{"k":"\#(String(repeating: "x", count: 4000))"}}"#, "200"),
    ]

    @Test("A message is taken or refused as Google does it, naming the field")
    func judges() async throws {
        try await run { bench in
            for (message, expected) in Self.messages {
                let answer = try await bench.send(message)
                #expect(answer == expected, "\(message.prefix(100))")
            }
        }
    }

    /// The two examples of Firebase's page "FCM error codes", with what else is known of Google's own words.
    @Test("Refusals are worded as Google words them")
    func words() async throws {
        try await run { bench in
            let path = "/v1/projects/\(bench.simulator.account.projectID)/messages:send"
            let headers = [HTTPHeader("authorization", "Bearer \(bench.token)")]
            func error(_ message: String) async throws -> JSONValue? {
                try await bench.ask(.send, "POST", path, headers, #"{"message":\#(message)}"#).body["error"]
            }
            let wrong = try await error(#"{"token":"good","data":{"a":12}}"#)
            let text: JSONValue = "Invalid value at 'message.data[0].value' (TYPE_STRING), 12"
            #expect(wrong?["message"] == text)
            let violation: JSONValue = ["field": "message.data[0].value", "description": text]
            #expect(
                wrong?["details"] == [
                    ["@type": "type.googleapis.com/google.rpc.BadRequest", "fieldViolations": [violation]]
                ]
            )
            let bad = try await error(#"{"token":"unknown"}"#)
            #expect(bad?["message"] == "The registration token is not a valid FCM registration token")
            #expect(bad?["details"]?.arrayValue?.map { $0["errorCode"] } == ["INVALID_ARGUMENT"])
            let unknown = try await error(#"{"token":"good","colour":"red"}"#)
            #expect(unknown?["message"]?.stringValue?.hasPrefix("Invalid JSON payload received. Unknown name") == true)
            let apple = try await error(#"{"token":"sim-apnsauth-1"}"#)
            #expect(apple?["message"]?.stringValue?.contains("Expected OAuth 2 access token") == true)
        }
    }

    @Test("Access tokens are known, alive and of the project; paths are exact")
    func authorization() async throws {
        try await run { bench in
            #expect(
                try await bench.send(#"{"token":"good"}"#, bearer: "made-up") == "401 ACCESS_TOKEN_TYPE_UNSUPPORTED"
            )
            bench.simulator.revokeAccessTokens()
            #expect(try await bench.send(#"{"token":"good"}"#) == "401 ACCESS_TOKEN_EXPIRED")
            let headers = [HTTPHeader("authorization", "Bearer \(bench.simulator.issueAccessToken())")]
            let body = #"{"message":{"token":"good"}}"#
            let paths = [
                ("/v1/projects/somebody-elses-project/messages:send", 403), ("/v1/projects/none/messages:send", 404),
                ("/v1/projects/\(FCMSimulatorConfiguration().projectNumber)/messages:send", 200), ("/fcm/send", 404),
            ]
            for (path, status) in paths {
                let answer = try await bench.ask(.send, "POST", path, headers, body)
                #expect(answer.status == status, "\(path)")
            }
            #expect(bench.simulator.counters.accepted == 1)
        }
    }

    @Test("The token endpoint takes what the key signs, and nothing else")
    func tokens() async throws {
        try await run { bench in
            let form = [HTTPHeader("content-type", "application/x-www-form-urlencoded")]
            let grant = "grant_type=urn%3Aietf%3Aparams%3Aoauth%3Agrant-type%3Ajwt-bearer&assertion="
            let asked: [(String, [HTTPHeader], String, String)] = [
                ("/token", [], grant + "a.b.c", "invalid_request"), ("/token", form, "", "invalid_request"),
                ("/token", form, "grant_type=password", "unsupported_grant_type"),
                ("/token", form, grant + "a.b", "invalid_grant"),
                ("/token", form, grant + "e30.e30.AA", "invalid_grant"),
                ("/token", form, "grant_type=refresh_token&refresh_token=x", "invalid_grant"),
                ("/other", form, "", "not_found"),
            ]
            for (path, headers, body, error) in asked {
                let answer = try await bench.ask(.oauth, "POST", path, headers, body)
                #expect(answer.body["error"]?.stringValue == error, "\(body)")
            }
            #expect(bench.simulator.counters.tokensIssued == 0)
        }
    }

    @Test("Instance ID wants both header fields and the prefix of topics")
    func instanceID() async throws {
        try await run { bench in
            let bearer = HTTPHeader("authorization", "Bearer \(bench.token)")
            let both = [bearer, HTTPHeader("access_token_auth", "true")]
            let good = #"{"to":"/topics/news","registration_tokens":["good"]}"#
            let asked: [([HTTPHeader], String, Int)] = [
                (both, good, 200), ([bearer], good, 401), ([], good, 401),
                (both, #"{"to":"news","registration_tokens":["good"]}"#, 400),
                (both, #"{"to":"/topics/news","registration_tokens":[]}"#, 400), (both, "{", 400),
            ]
            for (headers, body, status) in asked {
                let answer = try await bench.ask(.instanceID, "POST", "/iid/v1:batchAdd", headers, body)
                #expect(answer.status == status, "\(body)")
            }
            #expect(bench.simulator.members(of: "news") == ["good"])
            let single = try await bench.ask(.instanceID, "POST", "/iid/v1/good/rel/topics/other", both)
            #expect(single.status == 200)
            let info = try await bench.ask(.instanceID, "GET", "/iid/info/good?details=true", both)
            #expect(info.body["rel"]?["topics"]?.objectValue?.map(\.name) == ["news", "other"])
        }
    }

    @Test("Details come in any order: the same seed gives the same one")
    func shuffled() async throws {
        var orders: [[String]] = []
        for _ in 0..<2 {
            var configuration = FCMSimulatorConfiguration()
            configuration.seed = 7
            try await run(configuration) { bench in
                var types: [String] = []
                for _ in 0..<8 {
                    let path = "/v1/projects/\(bench.simulator.account.projectID)/messages:send"
                    let headers = [HTTPHeader("authorization", "Bearer \(bench.token)")]
                    let body = #"{"message":{}}"#
                    let answer = try await bench.ask(.send, "POST", path, headers, body)
                    types.append(answer.body["error"]?["details"]?.arrayValue?.first?["@type"]?.stringValue ?? "")
                }
                orders.append(types)
            }
        }
        #expect(orders[0] == orders[1])
        #expect(Set(orders[0]).count == 2, "not always the same one first")
    }

    @Test("The control API steers it: tokens, faults, inbox, counters, reset")
    func control() async throws {
        try await Sandbox.run { sandbox in
            let bench = try Bench(sandbox.fcm)
            func call(_ path: String, _ body: String? = nil) async throws -> JSONValue {
                let data = body.map { ["-d", $0] } ?? []
                let text = try await Shell.run(["curl", "-sS", sandbox.controlURL + "/fcm" + path] + data).output
                return try JSONValue(parsing: Array(text.utf8))
            }
            #expect(try await call("")["project_id"]?.stringValue == sandbox.fcm.account.projectID)
            #expect(try await call("/credentials")["type"] == "service_account")
            _ = try await call("/tokens", #"{"tokens":["Gone"],"state":"unregistered"}"#)
            #expect(try await bench.send(#"{"token":"Gone"}"#) == "404 UNREGISTERED")
            let rule =
                #"{"match":{"token_prefix":"Busy","listener":"send"},"steps":[{"do":"answer","status":503,"reason":"UNAVAILABLE"}]}"#
            #expect(try await call("/rules", rule)["added"] == 1)
            #expect(try await bench.send(#"{"token":"Busy1"}"#) == "503 UNAVAILABLE")
            #expect(try await bench.send(#"{"token":"good"}"#) == "200")
            #expect(try await call("/inbox")["items"]?.arrayValue?.first?["value"] == "good")
            let counters = try await call("/counters")
            #expect(counters["accepted"] == 1)
            #expect(counters["refused"]?["UNREGISTERED"] == 1)
            let wrong = try await call("/rules", #"{"match":{"listener":"production"},"steps":[{"do":"silence"}]}"#)
            #expect(wrong["error"]?.stringValue?.contains("send, oauth, instance_id") == true)
            _ = try await call("/oauth", #"{"revoke":true}"#)
            #expect(try await bench.send(#"{"token":"good"}"#) == "401 ACCESS_TOKEN_EXPIRED")
            _ = try await call("/reset", "{}")
            #expect(sandbox.fcm.inbox.isEmpty)
            #expect(try await call("/rules")["rules"] == [])
        }
    }
}
