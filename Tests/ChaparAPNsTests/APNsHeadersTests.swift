import Foundation
import ChaparCore
import ChaparTesting
import Testing

@testable import ChaparAPNs

@Suite("APNs header fields", .timeLimit(.minutes(1)))
struct APNsHeadersTests {
    /// Sends one notification through a scripted platform and gives back what would have gone out.
    static func sent(
        _ notification: PushNotification,
        expiration: PushRequest.Expiration? = nil,
        messageID: MessageID = .random(),
        isReplay: Bool = false
    ) async throws -> ScriptedTransport.Sent {
        let transport = ScriptedTransport()
        let backend = try APNsBackend.scripted(transport)
        let addressee = Addressee(recipient(), messageID: messageID, isReplay: isReplay)
        let outcomes = await backend.send([PushRequest(notification, to: [addressee], expiration: expiration)])
        #expect(outcomes[0][0].acceptance != nil, "\(outcomes)")
        return try #require(transport.calls.first)
    }

    static func typed(_ type: String, payload: JSONObject? = nil, headers: JSONObject = [:]) -> PushNotification {
        var notification = PushNotification(title: "Parcel")
        var all: JSONObject = ["apns-push-type": .string(type)]
        for (name, value) in headers { all[name] = value }
        var overrides: JSONObject = ["headers": .object(all)]
        if let payload { overrides["payload"] = .object(payload) }
        notification.overrides["apns"] = overrides
        return notification
    }

    @Test("A plain message has every field Apple asks for, once, and no other")
    func plain() async throws {
        let id = MessageID(high: 0x0d9f_3c52_7f5e_4a0f, low: 0x9b53_0c3a_2e6b_1f77)
        let call = try await Self.sent(PushNotification(title: "Parcel"), messageID: id)
        #expect(call.method == "POST")
        #expect(call.path == "/3/device/\(goodToken)")
        let names = ["authorization", "apns-topic", "apns-push-type", "apns-priority", "apns-id", "apns-collapse-id"]
        #expect(call.headers.map(\.name) == names)
        #expect(call.header("apns-topic") == bundleID)
        #expect(call.header("apns-push-type") == "alert")
        #expect(call.header("apns-priority") == "10")
        #expect(call.header("apns-id") == "0d9f3c52-7f5e-4a0f-9b53-0c3a2e6b1f77")
        let indexing = call.headers.map(\.indexing)
        #expect(indexing == [.indexed, .indexed, .indexed, .indexed, .literal, .literal], "only constants are indexed")
    }

    @Test("A second copy takes the place of the first on the screen: both have the same collapse id")
    func collapse() async throws {
        let id = MessageID.random()
        let first = try await Self.sent(PushNotification(title: "Parcel"), messageID: id)
        let second = try await Self.sent(PushNotification(title: "Parcel"), messageID: id, isReplay: true)
        #expect(first.header("apns-collapse-id") == id.description)
        #expect(second.header("apns-collapse-id") == id.description)
        let own = try await Self.sent(PushNotification(title: "Parcel", collapseID: "order-4711"), isReplay: true)
        #expect(own.header("apns-collapse-id") == "order-4711", "the caller's own id stays")
        let silent = try await Self.sent(PushNotification(isSilent: true), isReplay: true)
        #expect(silent.header("apns-collapse-id") == nil, "nothing is on the screen")
    }

    @Test("A silent message is a background push of priority 5, whatever its own")
    func silent() async throws {
        let call = try await Self.sent(PushNotification(priority: .high, isSilent: true))
        #expect(call.header("apns-push-type") == "background")
        #expect(call.header("apns-priority") == "5")
        #expect(call.text == #"{"aps":{"content-available":1}}"#)
    }

    @Test("Priority maps to 10 and 5")
    func priority() async throws {
        #expect(try await Self.sent(PushNotification(title: "x", priority: .high)).header("apns-priority") == "10")
        #expect(try await Self.sent(PushNotification(title: "x", priority: .normal)).header("apns-priority") == "5")
        let own = Self.typed("alert", headers: ["apns-priority": 1])
        #expect(try await Self.sent(own).header("apns-priority") == "1")
    }

    static let expirations: [(PushRequest.Expiration?, Duration?, String?)] = [
        (nil, nil, nil),
        (.immediately, nil, "0"),
        (.at(1_767_229_200), nil, "1767229200"),
        (.at(1_767_229_200), .seconds(60), "1767229200"),
        (nil, .seconds(60), "1767225660"),
        (nil, .zero, "0"),
    ]

    @Test("Expiration is the one computed at acceptance, else now plus the time to live", arguments: expirations)
    func expiration(request: PushRequest.Expiration?, timeToLive: Duration?, expected: String?) async throws {
        let call = try await Self.sent(PushNotification(title: "x", timeToLive: timeToLive), expiration: request)
        #expect(call.header("apns-expiration") == expected)
    }

    /// Source: specs, APNs section 3.1.
    static let topics: [(String, String)] = [
        ("alert", bundleID), ("controls", "\(bundleID).push-type.controls"),
        ("complication", "\(bundleID).complication"),
        ("fileprovider", "\(bundleID).pushkit.fileprovider"), ("location", "\(bundleID).location-query"),
        ("mdm", bundleID), ("pushtotalk", "\(bundleID).voip-ptt"), ("voip", "\(bundleID).voip"),
        ("widgets", "\(bundleID).push-type.widgets"),
    ]

    @Test("The topic's suffix comes from the push type", arguments: topics)
    func topic(type: String, expected: String) async throws {
        let call = try await Self.sent(Self.typed(type))
        #expect(call.header("apns-topic") == expected)
        #expect(call.header("apns-push-type") == type)
        for written in [bundleID, expected] {
            let own = try await Self.sent(Self.typed(type, headers: ["apns-topic": .string(written)]))
            #expect(own.header("apns-topic") == expected, "the backend's own topic may stand there")
        }
    }

    @Test("Push-to-Talk goes out with priority 10 and expiration 0")
    func pushToTalk() async throws {
        var notification = Self.typed("pushtotalk")
        notification.priority = .normal
        notification.timeToLive = .seconds(60)
        let call = try await Self.sent(notification)
        #expect(call.header("apns-priority") == "10")
        #expect(call.header("apns-expiration") == "0")
    }

    @Test("A Live Activity update passes the caller's state through unchanged")
    func liveActivity() async throws {
        var notification = Self.typed(
            "liveactivity",
            payload: [
                "aps": ["timestamp": 1_767_225_600, "event": "update", "content-state": ["stopsLeft": 3, "eta": 1.5]]
            ]
        )
        notification.title = nil
        let call = try await Self.sent(notification)
        #expect(call.header("apns-topic") == "\(bundleID).push-type.liveactivity")
        #expect(
            call.text == #"{"aps":{"timestamp":1767225600,"event":"update","content-state":{"stopsLeft":3,"eta":1.5}}}"#
        )
    }

    struct Fault: Sendable, CustomTestStringConvertible {
        var name: String
        var notification: PushNotification
        var form = Recipient.Form.token
        var pointer: String
        var code: String
        var testDescription: String { name }
    }

    private static let start: JSONObject = [
        "timestamp": 1, "event": "start", "content-state": [:], "attributes-type": "Ride", "attributes": [:],
        "alert": ["title": "x"],
    ]

    private static func aps(_ object: JSONObject, without: String? = nil, with: JSONObject = [:]) -> PushNotification {
        var aps = object.merging(with)
        if let without { aps[without] = nil }
        var notification = typed("liveactivity", payload: ["aps": .object(aps)])
        notification.title = nil
        return notification
    }

    static let faults: [Fault] = {
        let headers = "#/overrides/apns/headers"
        let payload = "#/overrides/apns/payload/aps"
        func header(_ name: String, _ value: JSONValue) -> PushNotification { typed("alert", headers: [name: value]) }
        var overridden = PushNotification(title: "x")
        overridden.overrides["apns"] = ["paylod": [:]]
        return [
            Fault(
                name: "a collapse id of 65 bytes",
                notification: PushNotification(title: "x", collapseID: String(repeating: "é", count: 32) + "x"),
                pointer: "#/options/collapse_id",
                code: "bad_collapse_id"
            ),
            Fault(
                name: "a collapse id with a line break",
                notification: PushNotification(title: "x", collapseID: "a\r\napns-topic: b"),
                pointer: "#/options/collapse_id",
                code: "bad_collapse_id"
            ),
            Fault(
                name: "an empty collapse id",
                notification: PushNotification(title: "x", collapseID: ""),
                pointer: "#/options/collapse_id",
                code: "bad_collapse_id"
            ),
            Fault(
                name: "nothing to show",
                notification: PushNotification(data: ["a": 1]),
                pointer: "#/content",
                code: "nothing_to_show"
            ),
            Fault(
                name: "Apple's key among the data",
                notification: PushNotification(title: "x", data: ["aps": ["badge": 1]]),
                pointer: "#/content/data/aps",
                code: "reserved_key"
            ),
            Fault(
                name: "a background push of priority 10",
                notification: typed("background", headers: ["apns-priority": "10"]),
                pointer: "\(headers)/apns-priority",
                code: "bad_priority"
            ),
            Fault(
                name: "a background push that shows something",
                notification: typed("background", payload: ["aps": ["alert": "x"]]),
                pointer: "\(payload)/alert",
                code: "wrong_combination"
            ),
            Fault(
                name: "Push-to-Talk that waits",
                notification: typed("pushtotalk", headers: ["apns-expiration": 1]),
                pointer: "\(headers)/apns-priority",
                code: "bad_priority"
            ),
            Fault(
                name: "a suffix of another push type",
                notification: header("apns-topic", .string("\(bundleID).voip")),
                pointer: "\(headers)/apns-topic",
                code: "wrong_topic_suffix"
            ),
            Fault(
                name: "a topic that is none",
                notification: header("apns-topic", "not a topic"),
                pointer: "\(headers)/apns-topic",
                code: "bad_topic"
            ),
            Fault(
                name: "the topic of another app of the team",
                notification: header("apns-topic", "com.example.forum"),
                pointer: "\(headers)/apns-topic",
                code: "foreign_topic"
            ),
            Fault(
                name: "the topic of another app, with the suffix of the push type",
                notification: typed("voip", headers: ["apns-topic": "com.example.forum.voip"]),
                pointer: "\(headers)/apns-topic",
                code: "foreign_topic"
            ),
            Fault(
                name: "the topic of an app whose name begins like the backend's",
                notification: header("apns-topic", .string("\(bundleID).beta")),
                pointer: "\(headers)/apns-topic",
                code: "foreign_topic"
            ),
            Fault(
                name: "an apns-id of the caller's",
                notification: header("apns-id", "1"),
                pointer: "\(headers)/apns-id",
                code: "header_reserved"
            ),
            Fault(
                name: "an unknown push type",
                notification: typed("alret"),
                pointer: "\(headers)/apns-push-type",
                code: "unknown_push_type"
            ),
            Fault(
                name: "an unknown priority",
                notification: header("apns-priority", 7),
                pointer: "\(headers)/apns-priority",
                code: "bad_priority"
            ),
            Fault(
                name: "an expiration that is no number",
                notification: header("apns-expiration", "tomorrow"),
                pointer: "\(headers)/apns-expiration",
                code: "bad_expiration"
            ),
            Fault(
                name: "an unknown header",
                notification: header("apns-priorty", 5),
                pointer: "\(headers)/apns-priorty",
                code: "unknown_header"
            ),
            Fault(
                name: "an unknown override",
                notification: overridden,
                pointer: "#/overrides/apns/paylod",
                code: "unknown_override"
            ),
            Fault(
                name: "no event",
                notification: aps(start, without: "event"),
                pointer: "\(payload)/event",
                code: "bad_event"
            ),
            Fault(
                name: "no timestamp",
                notification: aps(start, without: "timestamp"),
                pointer: "\(payload)/timestamp",
                code: "missing"
            ),
            Fault(
                name: "a start without attributes",
                notification: aps(start, without: "attributes"),
                pointer: "\(payload)/attributes",
                code: "missing"
            ),
            Fault(
                name: "a start without an alert",
                notification: aps(start, without: "alert"),
                pointer: "\(payload)/alert",
                code: "missing"
            ),
            Fault(
                name: "an update with attributes",
                notification: aps(start, without: "attributes-type", with: ["event": "update"]),
                pointer: "\(payload)/attributes",
                code: "wrong_combination"
            ),
            Fault(
                name: "an update with a dismissal date",
                notification: aps(["timestamp": 1, "event": "update", "content-state": [:], "dismissal-date": 2]),
                pointer: "\(payload)/dismissal-date",
                code: "wrong_combination"
            ),
            Fault(
                name: "a broadcast that starts",
                notification: aps(start),
                form: .platformID,
                pointer: "\(payload)/event",
                code: "wrong_combination"
            ),
            Fault(
                name: "a broadcast that is no Live Activity",
                notification: PushNotification(title: "x"),
                form: .platformID,
                pointer: "\(headers)/apns-push-type",
                code: "wrong_push_type"
            ),
        ]
    }()

    @Test("A message that Apple would refuse is refused before acceptance and not sent", arguments: faults)
    func fault(fault: Fault) async throws {
        let transport = ScriptedTransport()
        let backend = try APNsBackend.scripted(transport)
        let found = backend.check(fault.notification, for: fault.form).faults
        #expect(found.contains { $0.pointer == fault.pointer && $0.code == fault.code }, "\(found)")
        let target = fault.form == .platformID ? Recipient.platformID("dGVzdA==") : recipient()
        let outcome = await backend.send(fault.notification, to: [target])[0]
        #expect(outcome.refusal?.kind == .message)
        #expect(outcome.refusal?.advice == .never)
        #expect(found.map(\.code).contains(outcome.refusal?.reason ?? ""))
        #expect(transport.calls.isEmpty)
    }

    @Test("Several mistakes are found at once, with the nearest word")
    func several() throws {
        let backend = try APNsBackend.scripted(ScriptedTransport())
        var notification = PushNotification(title: "x", collapseID: String(repeating: "x", count: 65))
        notification.overrides["apns"] = ["headers": ["apns-push-type": "alret", "apns-priority": 7], "payloads": [:]]
        let faults = backend.check(notification, for: .token).faults
        #expect(faults.count == 4)
        #expect(faults.contains { $0.detail.contains("Did you mean \"alert\"?") })
        #expect(faults.contains { $0.detail.contains("Did you mean \"payload\"?") })
    }

    @Test("Fields that a silent push drops or that need an app extension give warnings")
    func warnings() throws {
        let backend = try APNsBackend.scripted(ScriptedTransport())
        let silent = backend.check(PushNotification(title: "x", badge: 1, isSilent: true), for: .token)
        #expect(silent.faults.isEmpty)
        #expect(silent.warnings.map(\.pointer) == ["#/content/title", "#/content/badge"])
        let rich = backend.check(
            PushNotification(title: "x", image: "https://x.example/1.png", actions: [.init(id: "a", title: "A")]),
            for: .token
        )
        #expect(rich.warnings.map(\.code) == ["needs_extension", "needs_extension"])
    }

    @Test("A repeat does harm for calls, Push-to-Talk and the start of a Live Activity")
    func harm() throws {
        let backend = try APNsBackend.scripted(ScriptedTransport())
        #expect(backend.isRepeatHarmful(Self.typed("voip")))
        #expect(backend.isRepeatHarmful(Self.typed("pushtotalk")))
        #expect(backend.isRepeatHarmful(Self.aps(Self.start)))
        #expect(!backend.isRepeatHarmful(Self.aps(Self.start, with: ["event": "end"])))
        #expect(!backend.isRepeatHarmful(PushNotification(title: "x")))
    }
}
