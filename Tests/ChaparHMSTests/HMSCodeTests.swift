import Foundation
import ChaparCore
import ChaparSandbox
import ChaparTesting
import Testing

@testable import ChaparHMS

/// Every row of Huawei's code table, through a socket, at the statuses it comes with.
///
/// Source: Huawei, "Push Kit, downlink message API, result codes", read 2026-08.
@Suite("Huawei's codes become outcomes", .timeLimit(.minutes(2)))
struct HMSCodeTests {
    struct Row: Sendable, CustomTestStringConvertible {
        var code: String
        var kind: Refusal.Kind
        var advice: Refusal.Advice
        var testDescription: String { code }
    }

    static let rows: [Row] = [
        Row(code: "80100001", kind: .message, advice: .never), Row(code: "80100002", kind: .message, advice: .never),
        Row(code: "80100003", kind: .message, advice: .never), Row(code: "80100004", kind: .message, advice: .never),
        Row(code: "80100013", kind: .message, advice: .never), Row(code: "80100016", kind: .message, advice: .never),
        Row(code: "80100017", kind: .account, advice: .slowRecipient(after: .seconds(60))),
        Row(code: "80100018", kind: .message, advice: .never), Row(code: "80100022", kind: .message, advice: .never),
        Row(code: "80200001", kind: .account, advice: .parkBackend),
        Row(code: "80200003", kind: .account, advice: .parkBackend),
        Row(code: "80200005", kind: .account, advice: .parkBackend),
        Row(code: "80300002", kind: .account, advice: .parkBackend),
        Row(code: "80300007", kind: .token, advice: .never), Row(code: "80300008", kind: .message, advice: .never),
        Row(code: "80300010", kind: .message, advice: .never), Row(code: "80300011", kind: .account, advice: .never),
        Row(code: "80300029", kind: .message, advice: .never), Row(code: "80300030", kind: .message, advice: .never),
        Row(code: "80300036", kind: .account, advice: .parkBackend),
        Row(code: "80300037", kind: .account, advice: .parkBackend),
        Row(code: "80600003", kind: .platform, advice: .retry(after: nil)),
        Row(code: "81000001", kind: .platform, advice: .retry(after: nil)),
        // Unknown codes, by their family.
        Row(code: "80109999", kind: .message, advice: .never),
        Row(code: "80209999", kind: .account, advice: .parkBackend),
        Row(code: "80309999", kind: .account, advice: .parkBackend),
        Row(code: "80609999", kind: .platform, advice: .retry(after: nil)),
        Row(code: "81009999", kind: .platform, advice: .retry(after: nil)),
    ]

    @Test("The table above is the whole table")
    func isComplete() {
        let tested = Set(Self.rows.map(\.code)).union(["80000000", "80100000"])
        #expect(Set(HMSRejections.known.keys).isSubset(of: tested))
    }

    @Test("A code decides, at HTTP 200 and at 4xx", arguments: rows)
    func refusals(row: Row) async throws {
        try await Harness.run { harness in
            let recipients = harness.register(0..<2)
            for (number, status) in [200, 400].enumerated() {
                harness.simulator.removeRules()
                harness.simulator.add(
                    FaultRule(match: FaultMatch(listener: HMSSimulator.push), .answer(FaultAnswer(status, row.code)))
                )
                let refusal = try #require(await harness.send([recipients[number]])[0].refusal)
                #expect(refusal.kind == row.kind)
                #expect(refusal.advice == row.advice)
                #expect(refusal.reason == row.code)
                #expect(refusal.status == status)
                #expect((refusal.invalidation != nil) == (row.kind == .token))
                #expect(refusal.invalidation?.isCertain != true, "a wrong app looks the same")
            }
            #expect(harness.simulator.inbox().isEmpty)
        }
    }

    struct Answer: Sendable, CustomTestStringConvertible {
        var status: Int
        var body: String?
        var expected: String
        var testDescription: String { "\(status) \(body ?? "-")" }
    }

    static let answers: [Answer] = [
        Answer(status: 200, body: "", expected: "unknown unreadable_answer"),
        Answer(status: 200, body: "hello", expected: "unknown unreadable_answer"),
        Answer(status: 400, body: "", expected: "message http_400 never"),
        Answer(status: 401, body: "", expected: "account http_401 parkBackend"),
        Answer(status: 403, body: "", expected: "account http_403 parkBackend"),
        Answer(status: 404, body: "", expected: "account http_404 parkBackend"),
        Answer(status: 413, body: "", expected: "message http_413 never"),
        Answer(status: 429, body: "", expected: "platform http_429 slowBackend"),
        Answer(status: 500, body: "", expected: "unknown http_500"),
        Answer(status: 502, body: "<html>Bad gateway</html>", expected: "platform http_502 retry"),
        Answer(status: 503, body: "", expected: "platform http_503 slowBackend"),
        Answer(status: 504, body: "", expected: "unknown http_504"),
        Answer(status: 200, body: #"{"code":"99999999"}"#, expected: "platform unknown_code retry"),
    ]

    @Test("Without a usable code the HTTP status decides", arguments: answers)
    func withoutCode(answer: Answer) async throws {
        try await Harness.run { harness in
            harness.simulator.add(
                FaultRule(
                    match: FaultMatch(listener: HMSSimulator.push),
                    .answer(FaultAnswer(answer.status, body: answer.body.map { Array($0.utf8) }))
                )
            )
            let outcome = await harness.sendOne()
            let words =
                switch outcome {
                case .accepted: "accepted"
                case .unknown(let unknown): "unknown \(unknown.reason)"
                case .refused(let refusal):
                    "\(refusal.kind.rawValue) \(refusal.reason) \("\(refusal.advice)".prefix { $0 != "(" })"
                }
            #expect(words == answer.expected)
        }
    }

    @Test("A success whose code is a number is a success")
    func codeAsNumber() async throws {
        try await Harness.run { harness in
            harness.simulator.add(
                FaultRule(match: FaultMatch(listener: HMSSimulator.push), .answer(FaultAnswer(200, "code_number")))
            )
            #expect(await harness.sendOne().acceptance != nil)
        }
    }

    @Test("Retry-After is the pause, without it 10 seconds doubled each time up to 5 minutes, and the window is halved")
    func flow() async throws {
        var configuration = HMSSimulatorConfiguration()
        configuration.devicesPerSecond = 1
        configuration.flowRetryAfter = 7
        try await Harness.run(configuration) { harness in
            let recipients = harness.register(0..<3)
            let window = try #require(harness.backend.window)
            #expect(await harness.send([recipients[0]])[0].acceptance != nil)
            let refusal = try #require(await harness.send(Array(recipients[1...]))[0].refusal)
            #expect(refusal.advice == .slowBackend(after: .seconds(7)))
            #expect(try #require(harness.backend.window) == window / 2)
        }
        let flow = HMSFlowControl(random: { 1 })
        #expect(flow.throttled(floor: nil) == .seconds(10))
        #expect(flow.throttled(floor: nil) == .seconds(10), "what was on the way together counts once")
        #expect(flow.share == 0.5)
        for _ in 0..<25 { flow.accepted() }
        #expect(flow.share == 1)
    }

    @Test(
        "A recipient gets one outcome for each reason that v3 gives",
        arguments: [
            ("tokenFormatError", true), ("tokenPlatformNotSupport", true), ("noRight", false),
            ("noPushTypeRight", false),
            ("countryNotSupport", false), ("addedNextYear", false),
        ]
    )
    func reasons(reason: String, isDeath: Bool) async throws {
        var configuration = HMSSimulatorConfiguration()
        configuration.partialForm = .reasons
        try await Harness.run(configuration) { harness in
            let good = harness.register(0..<1)
            harness.simulator.setDevice(HMSDevice(state: .refused(reason: reason)), tokens: ["odd"])
            let outcomes = await harness.send(good + [android("odd")])
            #expect(outcomes[0].acceptance != nil)
            let refusal = try #require(outcomes[1].refusal)
            #expect(refusal.kind == .token)
            #expect((refusal.invalidation != nil) == isDeath)
            #expect(refusal.reason == (reason == "addedNextYear" ? "other_token_reason" : reason))
        }
    }
}
