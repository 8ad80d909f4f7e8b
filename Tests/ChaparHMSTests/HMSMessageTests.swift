import Foundation
import ChaparCore
import ChaparSandbox
import ChaparTesting
import Testing

@testable import ChaparHMS

@Suite("The neutral notification in Huawei's words", .timeLimit(.minutes(1)))
struct HMSMessageTests {
    /// The message that the simulator took, after its own strict reading.
    static func message(
        _ notification: PushNotification,
        service: TokenService = .androidHuawei,
        expiration: PushRequest.Expiration? = nil,
        change: (inout HMSOptions, HMSSimulator) throws -> Void = { _, _ in }
    ) async throws -> JSONValue {
        nonisolated(unsafe) var message = JSONValue.null  // Written once, before `run` returns.
        try await Harness.run(change: change) { harness in
            harness.register(0..<1)
            let recipient = Recipient.token(DeviceToken(androidToken(0), service: service))
            let outcome = await harness.backend.send([
                PushRequest(notification, to: [Addressee(recipient)], expiration: expiration)
            ])[0][0]
            try #require(outcome.acceptance != nil, "\(outcome)")
            message = try JSONValue(parsing: Array(harness.simulator.inbox()[0].message.utf8))
        }
        return message
    }

    @Test("A message with everything arrives with everything")
    func everything() async throws {
        let notification = PushNotification(
            title: "Order 42",
            body: "is on its way",
            image: "https://example.com/42.png",
            sound: "default",
            badge: 3,
            category: "express",
            clickURL: "https://example.com/orders/42",
            actions: [.init(id: "track", title: "Track", url: "app://orders/42/track"), .init(id: "ok", title: "OK")],
            data: ["order": "42", "n": 1],
            collapseID: "order-42"
        )
        let message = try await Self.message(notification)
        #expect(
            message["notification"] == [
                "title": "Order 42", "body": "is on its way", "image": "https://example.com/42.png",
            ]
        )
        #expect(message["data"] == .string(#"{"order":"42","n":1}"#))
        let android = try #require(message["android"])
        #expect(android["urgency"] == "HIGH")
        #expect(android["category"] == "EXPRESS")
        let shown = try #require(android["notification"])
        #expect(shown["tag"] == "order-42")
        #expect(shown["click_action"] == ["type": 2, "url": "https://example.com/orders/42"])
        #expect(shown["badge"] == ["set_num": 3])
        #expect(shown["default_sound"] == true)
        #expect(shown["channel_id"] == nil)
        #expect(shown["buttons"]?.arrayValue?.count == 2)
        #expect(message["apns"] == nil)
    }

    static let taps: [(String?, JSONValue)] = [
        (nil, ["type": 3]), ("https://a.example", ["type": 2, "url": "https://a.example"]),
        ("app://orders", ["type": 1, "intent": "app://orders"]),
    ]

    @Test("Click actions", arguments: taps)
    func clickAction(url: String?, expected: JSONValue) async throws {
        let message = try await Self.message(PushNotification(title: "t", body: "b", clickURL: url))
        #expect(message["android"]?["notification"]?["click_action"] == expected)
    }

    @Test("A silent message is data alone")
    func silent() async throws {
        let message = try await Self.message(PushNotification(data: ["sync": true], priority: .normal, isSilent: true))
        #expect(message["data"] == .string(#"{"sync":true}"#))
        #expect(message["notification"] == nil)
        #expect(message["android"]?["notification"] == nil)
        #expect(message["android"]?["urgency"] == "NORMAL")
    }

    @Test("A silent message is never urgent, since nothing is shown for it")
    func silentUrgency() async throws {
        let message = try await Self.message(PushNotification(data: ["sync": true], priority: .high, isSilent: true))
        #expect(message["android"]?["urgency"] == "NORMAL")
    }

    @Test("Huawei's words may be written in any case")
    func anyCase() async throws {
        let own: JSONObject = ["android": ["urgency": "normal", "notification": ["importance": "low"]]]
        let message = try await Self.message(PushNotification(title: "t", body: "b", overrides: ["hms": own]))
        #expect(message["android"]?["urgency"] == "NORMAL")
        #expect(message["android"]?["notification"]?["importance"] == "LOW")
    }

    @Test("A field that Huawei added is no fault, but a warning")
    func newField() {
        let options = HMSOptions(credential: .client(id: "1", secret: Secret("s")), api: .v1(appID: "1"))
        let notification = PushNotification(title: "t", body: "b", overrides: ["hms": ["watch": [:]]])
        let check = HMSCheck.examine(notification, for: .token, options: options)
        #expect(check.faults.isEmpty && check.warnings.contains { $0.pointer == "#/overrides/hms/watch" }, "\(check)")
    }

    @Test("Apple's devices get the apns block")
    func apple() async throws {
        let notification = PushNotification(
            title: "t",
            subtitle: "s",
            body: "b",
            sound: "x.caf",
            badge: 1,
            data: ["k": "v"]
        )
        let message = try await Self.message(notification, service: .iOSHuawei, expiration: .at(4_000_000_000))
        let apns = try #require(message["apns"])
        #expect(apns["payload"]?["aps"]?["alert"] == ["title": "t", "subtitle": "s", "body": "b"])
        #expect(apns["payload"]?["k"] == "v")
        #expect(apns["headers"]?["apns-expiration"] == "4000000000")
        #expect(apns["headers"]?["apns-collapse-id"] != nil)
        #expect(apns["hms_options"]?["target_user_type"] == 2)
        #expect(message["android"] == nil)
    }

    @Test(
        "The time to live is what is left of it, from 1 second to 15 days",
        arguments: [
            (PushRequest.Expiration.at(1_000_600), "600s"), (.at(1_000_000), "1s"), (.at(999_000), "1s"),
            (.immediately, "1s"),
            (.at(9_000_000), "1296000s"),
        ]
    )
    func timeToLive(expiration: PushRequest.Expiration, expected: String) {
        let request = PushRequest(PushNotification(title: "t"), to: [], expiration: expiration)
        let seconds = HMSPayloadTree.timeToLive(of: request, now: Date(timeIntervalSince1970: 1_000_000))
        #expect(seconds.map { "\($0)s" } == expected)
    }

    @Test("The tag is the same with every attempt, and another for another message")
    func tag() throws {
        func tag(_ title: LocalizedText, expiration: PushRequest.Expiration? = .at(5_000_000), data: JSONObject = [:])
            throws -> String
        {
            let request = PushRequest(
                PushNotification(title: title, body: "b", data: data),
                to: [],
                expiration: expiration
            )
            let options = HMSOptions(credential: .client(id: "1", secret: Secret("s")), api: .v1(appID: "1"))
            let now = Date(timeIntervalSince1970: .random(in: 0...4_000_000))
            let tree = HMSPayloadTree.make(request, form: .android, language: nil, options: options, now: now)
            return try #require(tree["android"]?["notification"]?["tag"]?.stringValue)
        }
        let first = try tag("a")
        #expect(try tag("a") == first)
        #expect(try tag("b") != first)
        #expect(try tag("a", expiration: .at(5_000_001)) != first)
        #expect(try tag("a", data: ["x": 1]) != first)
    }

    @Test("Overrides are laid over the message")
    func overrides() async throws {
        var notification = PushNotification(title: "t", body: "b")
        notification.overrides["hms"] = [
            "android": ["collapse_key": 7, "notification": ["importance": "LOW", "style": 1, "big_title": "T"]]
        ]
        let message = try await Self.message(notification)
        #expect(message["android"]?["collapse_key"] == 7)
        #expect(message["android"]?["notification"]?["importance"] == "LOW")
        #expect(message["android"]?["notification"]?["click_action"] == ["type": 3])
    }

    @Test("A badge goes with the class of the app's first screen; where that is not known a warning says so")
    func badgeClass() async throws {
        for name in ["com.example.Main", nil] {
            try await Harness.run(change: { options, _ in options.badgeClass = name }) { harness in
                let notification = PushNotification(title: "T", badge: 3)
                #expect(await harness.backend.send(notification, to: harness.register(0..<1))[0].acceptance != nil)
                let message = try JSONValue(parsing: Array(#require(harness.simulator.inbox().last).message.utf8))
                let badge = message["android"]?["notification"]?["badge"]
                #expect(badge == (name.map { ["set_num": 3, "class": .string($0)] } ?? ["set_num": 3]))
                let codes = harness.backend.check(notification, for: .token).warnings.map(\.code)
                #expect(codes.contains("badge_class_missing") == (name == nil))
            }
        }
    }

    @Test("With receipts each message carries its tag for them")
    func receiptTag() async throws {
        let message = try await Self.message(PushNotification(title: "t", body: "b", collapseID: "order-42")) {
            options,
            simulator in
            options.receipts = HMSReceiptOptions(user: "u", secret: Secret(simulator.callback.secret), id: "RCP1")
        }
        #expect(message["android"]?["bi_tag"] == "order-42")
        #expect(message["android"]?["receipt_id"] == "RCP1")
    }

    // MARK: Checks

    struct Fault: Sendable, CustomTestStringConvertible {
        var overrides: JSONObject
        var pointer: String
        var code: String
        var testDescription: String { "\(pointer) \(code)" }
    }

    static let faults: [Fault] = [
        Fault(overrides: ["token": ["x"]], pointer: "/token", code: "reserved_key"),
        Fault(overrides: ["andriod": [:]], pointer: "/andriod", code: "unknown_override"),
        Fault(overrides: ["android": 1], pointer: "/android", code: "not_an_object"),
        Fault(overrides: ["data": ["a": 1]], pointer: "/data", code: "not_a_text"),
        Fault(overrides: ["android": ["data": 1]], pointer: "/android/data", code: "not_a_text"),
        Fault(overrides: ["android": ["ttl": "3600"]], pointer: "/android/ttl", code: "bad_ttl"),
        Fault(overrides: ["android": ["ttl": "1296001s"]], pointer: "/android/ttl", code: "bad_ttl"),
        Fault(overrides: ["android": ["urgency": "loud"]], pointer: "/android/urgency", code: "bad_urgency"),
        Fault(
            overrides: ["android": ["collapse_key": 101]],
            pointer: "/android/collapse_key",
            code: "bad_collapse_key"
        ),
        Fault(
            overrides: ["android": ["bi_tag": .string(String(repeating: "x", count: 65))]],
            pointer: "/android/bi_tag",
            code: "too_long"
        ),
        Fault(
            overrides: ["android": ["notification": ["click_action": ["type": 2]]]],
            pointer: "/android/notification/click_action",
            code: "none"
        ),
        Fault(
            overrides: ["android": ["notification": ["click_action": ["type": 9]]]],
            pointer: "/android/notification/click_action",
            code: "bad_click_action"
        ),
        Fault(
            overrides: ["android": ["notification": ["image": "http://a"]]],
            pointer: "/android/notification/image",
            code: "not_https"
        ),
        Fault(
            overrides: ["android": ["notification": ["buttons": [1, 2, 3, 4]]]],
            pointer: "/android/notification/buttons",
            code: "too_many"
        ),
        Fault(
            overrides: ["android": ["notification": ["badge": ["add_num": 100]]]],
            pointer: "/android/notification/badge/add_num",
            code: "bad_badge"
        ),
        Fault(
            overrides: ["android": ["notification": ["style": 2]]],
            pointer: "/android/notification/style",
            code: "bad_style"
        ),
    ]

    @Test("A field that Huawei would refuse is found by the check, with its place", arguments: faults)
    func finds(fault: Fault) throws {
        let options = HMSOptions(credential: .client(id: "1", secret: Secret("s")), api: .v1(appID: "1"))
        var notification = PushNotification(title: "t", body: "b", clickURL: "https://a.example")
        notification.overrides["hms"] = fault.overrides
        let check = HMSCheck.examine(notification, for: .token, options: options)
        let found = check.faults.first { $0.pointer == "#/overrides/hms" + fault.pointer }
        #expect((found?.code ?? "none") == fault.code)
    }

    @Test("A message of 4096 bytes passes and one of 4097 does not, counted after encoding")
    func size() throws {
        let options = HMSOptions(credential: .client(id: "1", secret: Secret("s")), api: .v1(appID: "1"))
        func size(_ body: String) -> Int {
            let request = PushRequest(PushNotification(title: "t", body: .plain(body)), to: [])
            return JSONValue.object(
                HMSPayloadTree.make(request, form: .android, language: nil, options: options, now: .now)
            ).bytes.count
        }
        func isFine(_ body: String) -> Bool {
            HMSCheck.examine(PushNotification(title: "t", body: .plain(body)), for: .topic, options: options).faults
                .isEmpty
        }
        let room = 4096 - size("")
        #expect(isFine(String(repeating: "x", count: room)))
        #expect(!isFine(String(repeating: "x", count: room + 1)))
        #expect(!isFine(String(repeating: "\u{1}", count: room / 6 + 1)), "an escaped character takes six bytes")
        #expect(isFine(String(repeating: "س", count: room / 2)))
        #expect(!isFine(String(repeating: "س", count: room / 2 + 1)))
    }

    @Test("Fields that Huawei would drop give warnings")
    func warnings() {
        let options = HMSOptions(credential: .client(id: "1", secret: Secret("s")), api: .v1(appID: "1"))
        func codes(_ notification: PushNotification) -> [String] {
            HMSCheck.examine(notification, for: .token, options: options).warnings.map { "\($0.pointer) \($0.code)" }
        }
        #expect(codes(PushNotification(title: "t", body: "b")) == [])
        #expect(codes(PushNotification(title: "t", subtitle: "s", body: "b")) == ["#/content/subtitle dropped"])
        #expect(codes(PushNotification(title: "t", isSilent: true)) == ["#/content/title dropped_when_silent"])
        #expect(codes(PushNotification(title: "t", timeToLive: .seconds(16 * 86_400))) == ["#/options/ttl shortened"])
        let buttons = (0..<4).map { PushNotification.Action(id: "\($0)", title: "t") }
        #expect(codes(PushNotification(title: "t", actions: buttons)) == ["#/content/actions too_many"])
        #expect(
            HMSCheck.examine(PushNotification(data: ["a": 1]), for: .token, options: options).faults.first?.code
                == "nothing_to_show"
        )
    }
}
