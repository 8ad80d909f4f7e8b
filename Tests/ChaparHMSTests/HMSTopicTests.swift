import ChaparCore
import ChaparSandbox
import ChaparTesting
import Testing

@testable import ChaparHMS

@Suite("Topics of Huawei", .timeLimit(.minutes(1)))
struct HMSTopicTests {
    static func tokens(_ numbers: Range<Int>, _ service: TokenService = .androidHuawei) -> [DeviceToken] {
        numbers.map { DeviceToken(androidToken($0), service: service) }
    }

    /// The places of the tokens with which it is not done.
    static func wrong(_ outcomes: [TokenOutcome]) -> [Int] {
        outcomes.indices.filter { if case .done = outcomes[$0] { false } else { true } }
    }

    @Test("Devices join and leave in calls of a thousand, and wrong ones are named by their place")
    func change() async throws {
        try await Harness.run { harness in
            harness.register(0..<1500)
            let topics = try #require(harness.backend.topics)
            var tokens = Self.tokens(0..<1500)
            tokens[1200] = DeviceToken("dead", service: .androidHuawei)
            #expect(Self.wrong(try await topics.subscribe(tokens, to: "news")) == [1200])
            #expect(harness.simulator.subscribers(of: "news").count == 1499)
            #expect(try await topics.topics(of: tokens[0])?.map(\.name) == ["news"])
            #expect(Self.wrong(try await topics.unsubscribe(Self.tokens(0..<1000), from: "news")) == [])
            #expect(harness.simulator.subscribers(of: "news").count == 499)
            #expect(try await topics.topics(of: tokens[0]) == [])
            let chinese = try await topics.subscribe(Self.tokens(0..<1), to: "天气")
            #expect(Self.wrong(chinese) == [], "Huawei takes Chinese names")
            #expect(try await topics.topics(of: tokens[0])?.map(\.name) == ["天气"])
        }
    }

    @Test("When a later call fails, what the earlier ones did is told, and the rest failed")
    func later() async throws {
        try await Harness.run { harness in
            harness.register(0..<2500)
            let topics = try #require(harness.backend.topics)
            let later = FaultMatch(listener: HMSSimulator.push, requests: 2...9)
            harness.simulator.add(FaultRule(match: later, .answer(FaultAnswer(200, "80300002"))))
            let outcomes = try await topics.subscribe(Self.tokens(0..<2500), to: "news")
            #expect(Self.wrong(outcomes) == Array(1000..<2500))
            guard case .failed(let error)? = outcomes.last else {
                Issue.record("\(String(describing: outcomes.last))")
                return
            }
            #expect(error.code == .credentialsRefused)
            #expect(harness.simulator.subscribers(of: "news").count == 1000)
        }
    }

    @Test("Apple's devices and bad names are refused before anything is sent")
    func refuses() async throws {
        try await Harness.run { harness in
            let topics = try #require(harness.backend.topics)
            let apple = await #expect(throws: PushError.self) {
                try await topics.subscribe(Self.tokens(0..<1, .iOSHuawei), to: "news")
            }
            #expect(apple?.code == .unsupported)
            let name = await #expect(throws: PushError.self) {
                try await topics.subscribe(Self.tokens(0..<1), to: "not a name")
            }
            #expect(name?.code == .invalidRequest)
            #expect(harness.simulator.connections.requests == 0)
        }
    }

    @Test(
        "A code of the topic calls becomes an error that says who must act",
        arguments: [
            ("82000007", PushError.Code.invalidRequest, 1), ("82000009", .invalidRequest, 1),
            ("82000012", .credentialsRefused, 1), ("82000013", .credentialsRefused, 1),
            ("82000099", .invalidRequest, 3),
            ("80600003", .unavailable, 1), ("80300002", .credentialsRefused, 1),
        ]
    )
    func codes(code: String, expected: PushError.Code, calls: Int) async throws {
        try await Harness.run { harness in
            harness.simulator.add(
                FaultRule(match: FaultMatch(listener: HMSSimulator.push), .answer(FaultAnswer(200, code)))
            )
            let topics = try #require(harness.backend.topics)
            let error = await #expect(throws: PushError.self) {
                try await topics.subscribe(Self.tokens(0..<1), to: "news")
            }
            #expect(error?.code == expected)
            #expect(error?.reason == code)
            #expect(harness.simulator.connections.requests == calls + 1)
        }
    }

    @Test("A call refused for its token is sent again with a fresh one")
    func reauthorizes() async throws {
        try await Harness.run { harness in
            harness.register(0..<1)
            let topics = try #require(harness.backend.topics)
            _ = try await topics.topics(of: Self.tokens(0..<1)[0])
            harness.simulator.expireTokens()
            #expect(Self.wrong(try await topics.subscribe(Self.tokens(0..<1), to: "news")) == [])
            #expect(harness.simulator.counters.tokensIssued == 2)
        }
    }

    @Test(
        "A message goes to a topic or to a condition",
        arguments: [
            ("news", "news"), ("天气", "天气"),
            (
                "'news' in topics && ('de' in topics || !('fa' in topics))",
                "'news' in topics && ('de' in topics || !('fa' in topics))"
            ),
        ]
    )
    func sends(name: String, expected: String) async throws {
        try await Harness.run { harness in
            let outcome = await harness.send([.topic(name)])[0]
            let acceptance = try #require(outcome.acceptance)
            #expect(acceptance.isForAudience)
            #expect(!acceptance.isVerdictPending)
            #expect(harness.simulator.inbox()[0].topic == expected)
        }
    }

    @Test("A malformed topic or condition is not sent", arguments: ["", "two words", "'a' in topics)", "ترکی"])
    func badTopics(name: String) async throws {
        try await Harness.run { harness in
            #expect(await harness.send([.topic(name)])[0].refusal?.reason == "bad_topic")
            #expect(harness.simulator.counters.sends == 0)
        }
    }
}
