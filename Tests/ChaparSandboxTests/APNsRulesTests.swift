import Foundation
import ChaparCore
import ChaparSimulator
import Testing

@testable import ChaparAPNsSimulator

// Source of every reason: specs, APNs, sections 3 and 6.1; of the order: section 15.2.
@Suite("APNs' rules, one request at a time", .timeLimit(.minutes(1)))
struct APNsRulesTests {
    static let envelope: [RuleCase] = [
        .init("everything right", nil) { _ in },
        .init("no apns-id", nil) { $0.set("apns-id", nil) },
        .init("apns-id in upper case", nil) { $0.set("apns-id", "0D9F3C52-7F5E-4A0F-9B53-0C3A2E6B1F77") },
        .init("apns-id is no UUID", "BadMessageId") { $0.set("apns-id", "order-42") },
        .init("GET", "MethodNotAllowed") { $0.method = "GET" },
        .init("a header twice", "DuplicateHeaders") {
            $0.headers.append(("apns-priority", "5")); $0.headers.append(("apns-priority", "5"))
        },
        .init("two authorizations", "DuplicateHeaders") { $0.headers.append(("authorization", "bearer x")) },
    ]

    static let topics: [RuleCase] = [
        .init("no topic", "MissingTopic") { $0.set("apns-topic", nil) },
        .init("empty topic", "MissingTopic") { $0.set("apns-topic", "") },
        .init("topic of another app", "TopicDisallowed") {
            let key = APNsSigningKey(keyID: "TOPICKEY01", topics: .only(["com.example.other"]))
            $0.state.register(key.registration)
            try $0.authorize(key)
        },
        .init("suffix of an allowed bundle id", nil) {
            let key = APNsSigningKey(keyID: "TOPICKEY02", topics: .only([RuleBench.topic]))
            $0.state.register(key.registration)
            try $0.authorize(key)
            $0.set("apns-push-type", "voip")
            $0.set("apns-topic", RuleBench.topic + ".voip")
        },
        .init("malformed topic", "BadTopic") { $0.set("apns-topic", "com..example") },
        .init("topic with a blank", "BadTopic") { $0.set("apns-topic", "com.example courier") },
        .init("voip without its suffix", "BadTopic") { $0.set("apns-push-type", "voip") },
        .init("alert with another type's suffix", "BadTopic") { $0.set("apns-topic", RuleBench.topic + ".voip") },
        .init("no push type: any suffix", nil) {
            $0.set("apns-push-type", nil)
            $0.set("apns-topic", RuleBench.topic + ".complication")
        },
    ]

    static let headers: [RuleCase] = [
        .init("collapse id of 64 bytes", nil) { $0.set("apns-collapse-id", String(repeating: "ä", count: 32)) },
        .init("collapse id of 65 bytes", "BadCollapseId") {
            $0.set("apns-collapse-id", String(repeating: "ä", count: 32) + "x")
        },
        .init("priority 1", nil) { $0.set("apns-priority", "1") },
        .init("priority 7", "BadPriority") { $0.set("apns-priority", "7") },
        .init("expiration 0", nil) { $0.set("apns-expiration", "0") },
        .init("negative expiration", "BadExpirationDate") { $0.set("apns-expiration", "-1") },
        .init("expiration in words", "BadExpirationDate") { $0.set("apns-expiration", "tomorrow") },
        .init("unknown push type", "InvalidPushType") { $0.set("apns-push-type", "banner") },
        .init("background with 5", nil) {
            $0.set("apns-push-type", "background")
            $0.set("apns-priority", "5")
        },
        .init("background with 10", "BadPriority") {
            $0.set("apns-push-type", "background")
            $0.set("apns-priority", "10")
        },
        .init("pushtotalk with 5", "BadPriority") {
            $0.set("apns-push-type", "pushtotalk")
            $0.set("apns-topic", RuleBench.topic + ".voip-ptt")
            $0.set("apns-priority", "5")
        },
        .init("pushtotalk that is stored", "BadExpirationDate") {
            $0.set("apns-push-type", "pushtotalk")
            $0.set("apns-topic", RuleBench.topic + ".voip-ptt")
            $0.set("apns-expiration", "1790000000")
        },
    ]

    static let paths: [RuleCase] = [
        .init("another path", "BadPath") { $0.path = "/3/devices/" + RuleBench.token },
        .init("version 2", "BadPath") { $0.path = "/2/device/" + RuleBench.token },
        .init("no token", "MissingDeviceToken") { $0.path = "/3/device/" },
        .init("no token and no slash", "MissingDeviceToken") { $0.path = "/3/device" },
        .init("not hexadecimal", "BadDeviceToken") { $0.path = "/3/device/xyz0" },
        .init("half a byte too many", "BadDeviceToken") { $0.path += "a" },
        .init("upper case", nil) { $0.path = "/3/device/" + RuleBench.token.uppercased() },
    ]

    static let payloads: [RuleCase] = [
        .init("empty", "PayloadEmpty") { $0.body = [] },
        .init("4096 bytes", nil) { $0.body = payload(of: 4096) },
        .init("4097 bytes", "PayloadTooLarge") { $0.body = payload(of: 4097) },
        .init("voip of 5120 bytes", nil) { voip(&$0, 5120) },
        .init("voip of 5121 bytes", "PayloadTooLarge") { voip(&$0, 5121) },
        .init("not JSON", "BadRequestPayload") { $0.body = Array("hello".utf8) },
        .init("not an object", "BadRequestPayload") { $0.body = Array("[1]".utf8) },
        .init("not JSON, lenient", nil) {
            $0.body = Array("hello".utf8)
            $0.options.isStrict = false
        },
    ]

    /// Specs, section 11: what each event needs, and what does not go with it.
    static let activities: [RuleCase] = [
        activity("a start", nil, start),
        activity("a start without a state", "BadRequestPayload", start, without: "content-state"),
        activity("a start without attributes", "BadRequestPayload", start, without: "attributes"),
        activity("a start without the attributes' type", "BadRequestPayload", start, without: "attributes-type"),
        activity("a start without an alert", "BadRequestPayload", start, without: "alert"),
        activity("a start by a channel", nil, start.merging(["input-push-channel": "dGVzdA=="])),
        activity("a start with a token of 2", "BadRequestPayload", start.merging(["input-push-token": 2])),
        activity("a start with a dismissal date", "BadRequestPayload", start.merging(["dismissal-date": 2])),
        activity("an update", nil, update),
        activity("an update without a timestamp", "BadRequestPayload", update, without: "timestamp"),
        activity("an update without an event", "BadRequestPayload", update, without: "event"),
        activity("an update without a state", "BadRequestPayload", update, without: "content-state"),
        activity("an update whose state is a text", "BadRequestPayload", update.merging(["content-state": "3"])),
        activity("an update with attributes", "BadRequestPayload", update.merging(["attributes": [:]])),
        activity("an end without a state", nil, ["timestamp": 1, "event": "end", "dismissal-date": 2]),
        activity("an unknown event", "BadRequestPayload", update.merging(["event": "pause"])),
        activity("an alert's payload", "BadRequestPayload", ["alert": "x"]),
        .init("a lenient simulator takes any", nil) {
            activityHeaders(&$0)
            $0.options.isStrict = false
        },
    ]

    private static let update: JSONObject = ["timestamp": 1, "event": "update", "content-state": ["stops": 3]]
    private static let start: JSONObject = [
        "timestamp": 1, "event": "start", "content-state": [:], "attributes-type": "Ride", "attributes": [:],
        "alert": ["title": "x"],
    ]

    private static func activity(_ name: String, _ reason: String?, _ aps: JSONObject, without key: String? = nil)
        -> RuleCase
    {
        RuleCase(name, reason) {
            activityHeaders(&$0)
            var aps = aps
            if let key { aps[key] = nil }
            $0.body = JSONValue.object(["aps": .object(aps)]).bytes
        }
    }

    private static func activityHeaders(_ bench: inout RuleBench) {
        bench.set("apns-push-type", "liveactivity")
        bench.set("apns-topic", RuleBench.topic + ".push-type.liveactivity")
    }

    @Test("The payload of a Live Activity", arguments: activities)
    func judgesActivities(_ rule: RuleCase) throws { try check(rule) }

    @Test("The envelope", arguments: envelope)
    func judgesEnvelope(_ rule: RuleCase) throws { try check(rule) }

    @Test("The topic", arguments: topics)
    func judgesTopics(_ rule: RuleCase) throws { try check(rule) }

    @Test("The other headers", arguments: headers)
    func judgesHeaders(_ rule: RuleCase) throws { try check(rule) }

    @Test("The path", arguments: paths)
    func judgesPaths(_ rule: RuleCase) throws { try check(rule) }

    @Test("The payload", arguments: payloads)
    func judgesPayloads(_ rule: RuleCase) throws { try check(rule) }

    @Test("Every push type is accepted with its own topic", arguments: APNsPushType.allCases)
    func pushTypes(_ type: APNsPushType) throws {
        var bench = try RuleBench()
        bench.set("apns-push-type", type.rawValue)
        bench.set("apns-topic", RuleBench.topic + (type.topicSuffix ?? ""))
        if type == .liveactivity { bench.body = Array(APNsChannelTests.update.utf8) }
        #expect(bench.verdict() == nil)
    }

    @Test("The checks run in the documented order")
    func order() throws {
        var bench = try RuleBench()
        bench.options.pushesPerDevicePerMinute = 0
        bench.set("apns-id", "x")
        bench.method = "GET"
        bench.headers.append(("apns-id", "x"))
        bench.set("apns-topic", nil)
        bench.set("apns-collapse-id", String(repeating: "x", count: 65))
        bench.set("authorization", nil)
        bench.path = "/nowhere"
        bench.body = []
        var reasons: [String] = []
        // Each repair mends the fault that was reported, and nothing else.
        let repairs: [(inout RuleBench) throws -> Void] = [
            { $0.headers.removeAll { $0.0 == "apns-id" } },
            { $0.method = "POST" },
            { $0.set("apns-topic", RuleBench.topic) },
            { $0.set("apns-collapse-id", nil) },
            { $0.path = "/3/device/" },
            { $0.path = "/3/device/zz" },
            { $0.path = "/3/device/" + String(repeating: "99", count: 32) },
            { try $0.authorize(RuleBench.key) },
            { $0.path = "/3/device/" + RuleBench.token },
            { $0.options.pushesPerDevicePerMinute = nil },
            { $0.body = Array("{}".utf8) },
        ]
        for repair in repairs {
            let refusal = bench.verdict()
            reasons.append(try #require(refusal).reason)
            try repair(&bench)
        }
        #expect(
            reasons == [
                "BadMessageId", "MethodNotAllowed", "MissingTopic", "BadCollapseId", "BadPath", "MissingDeviceToken",
                "BadDeviceToken", "MissingProviderToken", "BadDeviceToken", "TooManyRequests", "PayloadEmpty",
            ]
        )
        #expect(bench.verdict() == nil)
    }

    private func check(_ rule: RuleCase) throws {
        var bench = try RuleBench()
        try rule.spoil(&bench)
        #expect(bench.verdict()?.reason == rule.reason)
    }

    private static func payload(of size: Int) -> [UInt8] {
        Array((#"{"aps":{"alert":""# + String(repeating: "x", count: size - 20) + #""}}"#).utf8)
    }

    private static func voip(_ bench: inout RuleBench, _ size: Int) {
        bench.set("apns-push-type", "voip")
        bench.set("apns-topic", RuleBench.topic + ".voip")
        bench.body = payload(of: size)
    }
}
