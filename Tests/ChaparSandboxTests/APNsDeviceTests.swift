import Foundation
import ChaparCore
import ChaparSimulator
import Testing

@testable import ChaparAPNsSimulator

// Source: specs, APNs, sections 6.1, 13 and 15.4.
@Suite("Answers of APNs by device token", .timeLimit(.minutes(1)))
struct APNsDeviceTests {
    static let since = Date(timeIntervalSince1970: 1_789_000_000.123)

    static let devices: [RuleCase] = [
        .init("unknown", "BadDeviceToken") { $0.path = "/3/device/" + String(repeating: "9", count: 64) },
        .init("unknown, but any is taken", nil) {
            $0.path = "/3/device/" + String(repeating: "9", count: 64)
            $0.options.acceptsAnyToken = true
        },
        .init("of the other environment", "BadDeviceToken") { $0.environment = .development },
        .init("of the other environment, though any is taken", "BadDeviceToken") {
            $0.environment = .development
            $0.options.acceptsAnyToken = true
        },
        .init("of another app", "DeviceTokenNotForTopic") { $0.set("apns-topic", "com.example.other") },
        .init("without a topic", nil) {
            $0.state.devices[.production]?[RuleBench.token]?.topic = nil
            $0.set("apns-topic", "com.example.other")
        },
        .init("unregistered", "Unregistered") {
            $0.state.devices[.production]?[RuleBench.token]?.state = .unregistered(since: since)
        },
        .init("expired", "ExpiredToken") {
            $0.state.devices[.production]?[RuleBench.token]?.state = .expired(since: since)
        },
    ]

    @Test("A device token is judged", arguments: devices)
    func judgesDevice(_ rule: RuleCase) throws {
        var bench = try RuleBench()
        try rule.spoil(&bench)
        #expect(bench.verdict()?.reason == rule.reason)
    }

    @Test("410 tells since when, in milliseconds")
    func timestamp() throws {
        var bench = try RuleBench()
        bench.state.devices[.production]?[RuleBench.token]?.state = .unregistered(since: Self.since)
        let verdict = bench.verdict()
        let refusal = try #require(verdict)
        #expect(refusal.status == 410)
        #expect(
            String(decoding: refusal.body, as: UTF8.self) == #"{"reason":"Unregistered","timestamp":1789000000123}"#
        )
    }

    @Test("A device that gets too many says so for a minute")
    func tooMany() throws {
        var bench = try RuleBench()
        bench.options.pushesPerDevicePerMinute = 2
        #expect(bench.verdict() == nil)
        #expect(bench.verdict() == nil)
        #expect(bench.verdict() == APNsRefusal(429, "TooManyRequests"))
        bench.now += 60
        #expect(bench.verdict() == nil)
    }

    static let magic: [(APNsMagicToken, [Int?])] = [
        (.bad, [400, 400]), (.otherTopic, [400, 400]), (.unregistered, [410, 410]), (.tooManyOnce, [429, nil, nil]),
        (.serverError, [500, 500]), (.unavailableOnce, [503, nil, nil]), (.slow, [nil]),
    ]

    @Test("A magic token brings its own answer, whatever is registered", arguments: magic)
    func judgesMagic(_ token: APNsMagicToken, _ statuses: [Int?]) throws {
        var bench = try RuleBench()
        bench.options.honoursMagicTokens = true
        bench.path = "/3/device/" + token.rawValue + String(repeating: "0", count: 60)
        var answers: [Int?] = []
        for _ in statuses { answers.append(bench.verdict()?.status) }
        #expect(answers == statuses)
    }

    @Test("Magic is off unless it is asked for")
    func noMagic() throws {
        var bench = try RuleBench()
        bench.path = "/3/device/0500" + String(repeating: "0", count: 60)
        #expect(bench.verdict()?.reason == "BadDeviceToken")
    }
}
