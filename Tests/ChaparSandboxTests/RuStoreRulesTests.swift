import Foundation
import Logging
import ChaparCore
import ChaparHTTP
import ChaparSandbox
import Testing

/// RuStore's rules, one request at a time, over real sockets and without the plugin that is tested against them.
@Suite("RuStore's rules, one request at a time", .serialized, .timeLimit(.minutes(1)))
struct RuStoreRulesTests {
    /// A simulator with one live token, and a way to ask each listener.
    private struct Bench {
        let simulator: RuStoreSimulator
        private let pools: [RuStoreListener: any HTTPPool]

        init(_ simulator: RuStoreSimulator) throws {
            self.simulator = simulator
            let transport = NIOTransport(logger: Logger(label: "test"))
            var pools: [RuStoreListener: any HTTPPool] = [:]
            for listener in RuStoreListener.allCases {
                let endpoint = try #require(HTTPEndpoint(url: simulator.url(listener)))
                var configuration = HTTPPoolConfiguration(endpoint: endpoint, version: .http2)
                configuration.extraTrustPEM = simulator.authority.certificatePEM
                configuration.maximumConnections = 1
                pools[listener] = try transport.pool(configuration)
            }
            self.pools = pools
            simulator.register(tokens: ["good"])
        }

        func ask(
            _ listener: RuStoreListener,
            _ path: String,
            _ headers: [HTTPHeader] = [],
            _ body: String
        ) async throws -> (status: Int, body: JSONValue) {
            let pool = try #require(pools[listener])
            let call = HTTPCall(HTTPCallTemplate(method: "POST", headers: headers), path: path, body: Array(body.utf8))
            let answer = try await pool.send(call)
            return (answer.status, (try? JSONValue(parsing: answer.body)) ?? .null)
        }

        /// Sends a message through the direct API; the status and the status word.
        func send(_ message: String, bearer: String? = nil, project: String? = nil) async throws -> String {
            let path = "/v1/projects/\(project ?? simulator.projectID)/messages:send"
            let headers = [HTTPHeader("authorization", "Bearer \(bearer ?? simulator.serviceToken)")]
            let (status, body) = try await ask(.direct, path, headers, #"{"message":\#(message)}"#)
            return ["\(status)", body["status"]?.stringValue].compactMap(\.self).joined(separator: " ")
        }
    }

    private func run(_ body: (Bench) async throws -> Void) async throws {
        try await RuStoreSimulator.run { try await body(try Bench($0)) }
    }

    static let messages: [(String, String)] = [
        (#"{"token":"good","data":{"a":"b"}}"#, "200"), (#"{"token":"good","notification":{"title":"x"}}"#, "200"),
        (
            ##"{"token":"good","data":{"a":"b"},"android":{"ttl":"3.5s","notification":{"color":"#00ff7f"}}}"##,
            "200"
        ),
        (#"{"token":"good"}"#, "400 INVALID_ARGUMENT"), (#"{"data":{"a":"b"}}"#, "400 INVALID_ARGUMENT"),
        (#"{"token":"good","data":{"a":1}}"#, "400 INVALID_ARGUMENT"),
        (#"{"token":"good","data":{"a":"b"},"android":{"priority":"HIGH"}}"#, "400 INVALID_ARGUMENT"),
        (#"{"token":"good","data":{"a":"b"},"android":{"ttl":3600}}"#, "400 INVALID_ARGUMENT"),
        (#"{"token":"good","data":{"a":"b"},"android":{"ttl":"2419201s"}}"#, "400 INVALID_ARGUMENT"),
        (#"{"token":"good","data":{"a":"b"},"android":{"notification":{"color":"red"}}}"#, "400 INVALID_ARGUMENT"),
        (#"{"token":"good","data":{"a":"\#(String(repeating: "x", count: 4_096))"}}"#, "400 INVALID_ARGUMENT"),
        (#"{"token":"good","data":{"a":"b"},"fcm_options":{}}"#, "400 INVALID_ARGUMENT"),
        (#"7"#, "400 INVALID_ARGUMENT"),
        (#"{"token":"sim-dead-1","data":{"a":"b"}}"#, "404 NOT_FOUND"),
        (#"{"token":"nobody","data":{"a":"b"}}"#, "400 INVALID_ARGUMENT"),
    ]

    @Test("of the direct API", arguments: messages)
    func direct(message: String, answer: String) async throws {
        try await run { bench in
            let given = try await bench.send(message)
            #expect(given == answer)
        }
    }

    @Test("A wrong credential and a wrong project are refused, an unknown path is a page")
    func credentials() async throws {
        try await run { bench in
            let good = #"{"token":"good","data":{"a":"b"}}"#
            let wrong = [try await bench.send(good, bearer: "x"), try await bench.send(good, project: "x")]
            #expect(wrong == ["403 PERMISSION_DENIED", "403 PERMISSION_DENIED"])
            let lost = try await bench.ask(.direct, "/v1/send", [], "{}")
            #expect(lost.status == 404)
        }
    }

    @Test("Zero seconds are recorded as four weeks, and a token of the other SDK gets nothing")
    func traps() async throws {
        try await run { bench in
            _ = try await bench.send(#"{"token":"good","data":{"a":"b"},"android":{"ttl":"0s"}}"#)
            #expect(bench.simulator.inbox.map(\.timeToLive) == [2_419_200])
            let thrownAway = try await bench.send(#"{"token":"sim-universal-1","data":{"a":"b"}}"#)
            #expect(thrownAway == "200")
            #expect(bench.simulator.inbox.count == 1 && bench.simulator.counters.thrownAway == 1)
        }
    }

    @Test("The universal API says of several tokens together that one is invalid, by six characters")
    func universal() async throws {
        try await run { bench in
            let simulator = bench.simulator
            func body(_ tokens: String, secret: String? = nil, message: String = #"{"data":{"a":"b"}}"#) -> String {
                #"{"providers":{"rustore":{"project_id":"\#(simulator.projectID)","#
                    + #""auth_token":"\#(secret ?? simulator.serviceToken)"}},"message":\#(message),"tokens":\#(tokens)}"#
            }
            let good = try await bench.ask(.universal, "/v1/send", [], body(#"{"rustore":["good"]}"#))
            #expect(good.status == 200 && good.body == ["Status": "OK"])
            let mixed = try await bench.ask(.universal, "/v1/send", [], body(#"{"rustore":["good","sim-dead-1"]}"#))
            #expect(mixed.status == 400 && mixed.body["errors"] == ["rustore: invalid tokens sim-de"])
            let foreign = try await bench.ask(.universal, "/v1/send", [], body(#"{"rustore":["good"]}"#, secret: "x"))
            #expect(foreign.body["errors"] == ["rustore: invalid auth token"])
            let half = body(#"{"rustore":["good"]}"#, message: #"{"notification":{"title":"x"}}"#)
            let lacking = try await bench.ask(.universal, "/v1/send", [], half)
            #expect(lacking.body["status"] == "VALIDATION_ERROR")
        }
    }

    @Test("Tests in other languages control it by the sandbox's HTTP API")
    func control() async throws {
        var configuration = Sandbox.Configuration()
        configuration.platforms = ["rustore"]
        try await Sandbox.run(configuration) { sandbox in
            let url = try #require(HTTPEndpoint(url: sandbox.controlURL))
            let simulator = sandbox.ruStore
            let transport = NIOTransport(logger: Logger(label: "test"))
            let pool = try transport.pool(HTTPPoolConfiguration(endpoint: url, version: .http1))
            func call(_ method: String, _ path: String, _ body: String = "") async throws -> JSONValue {
                let call = HTTPCall(HTTPCallTemplate(method: method), path: path, body: Array(body.utf8))
                let answer = try await pool.send(call)
                return (try? JSONValue(parsing: answer.body)) ?? .null
            }
            let overview = try await call("GET", "/rustore")
            #expect(overview["listeners"]?["direct"]?.stringValue == simulator.url(.direct))
            _ = try await call("POST", "/rustore/tokens", #"{"tokens":["gone"],"state":"dead"}"#)
            _ = try await call("POST", "/rustore/answers", #"{"errors":"nested","success":"empty","provider_code":3}"#)
            #expect(simulator.answers.errorShape == .nested && simulator.answers.providerCode == 3)
            let wrong = try await call("POST", "/rustore/answers", #"{"errors":"sideways"}"#)
            #expect(wrong["error"]?.stringValue?.contains("top or nested") == true)
            let items = try await call("GET", "/rustore/inbox")["items"]
            #expect(items == [])
            _ = try await call("POST", "/rustore/reset")
            let counters = try await call("GET", "/rustore/counters")
            #expect(counters["sends"] == 0)
            await pool.shutdown(grace: .zero)
        }
    }
}
