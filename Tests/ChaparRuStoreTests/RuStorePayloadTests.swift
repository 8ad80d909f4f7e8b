import Foundation
import ChaparCore
import ChaparTesting
import Testing

@testable import ChaparRuStore

@Suite("RuStore: the message", .timeLimit(.minutes(1)))
struct RuStorePayloadTests {
    /// The body of the request of one message.
    private func body(
        _ notification: PushNotification,
        _ mode: RuStoreOptions.Mode = .direct,
        expiration: PushRequest.Expiration? = nil
    ) async throws -> (JSONValue, ScriptedTransport.Sent) {
        let transport = ScriptedTransport()
        let backend = try RuStoreBackend.scripted(transport, mode)
        let request = PushRequest(notification, to: [Addressee(recipient(goodToken, mode))], expiration: expiration)
        let outcome = await backend.send([request])[0][0]
        let call = try #require(transport.calls.first, "\(outcome)")
        return (try JSONValue(parsing: call.body), call)
    }

    @Test("Only the listed fields go out, and no priority or collapse key")
    func fields() async throws {
        let notification = PushNotification(
            title: "Parcel",
            subtitle: "4711",
            body: "Out for delivery",
            image: "https://example.com/p.png",
            sound: "bell",
            badge: 3,
            category: "delivery",
            clickURL: "https://example.com/o/4711",
            actions: [.init(id: "ok", title: "OK")],
            data: ["order": "4711", "count": 2, "deep": ["a": [true]]],
            timeToLive: .seconds(3600),
            priority: .high,
            collapseID: "o-4711"
        )
        let id = MessageID.random()
        let transport = ScriptedTransport()
        let backend = try RuStoreBackend.scripted(transport)
        _ = await backend.send([PushRequest(notification, to: [Addressee(recipient(), messageID: id)])])
        let call = try #require(transport.calls.first)
        let buttons = #""{\"actions\":[{\"id\":\"ok\",\"title\":\"OK\"}]}""#
        let text =
            #"{"message":{"notification":{"title":"Parcel","body":"Out for delivery","#
            + #""image":"https://example.com/p.png"},"data":{"order":"4711","count":"2","deep":"{\"a\":[true]}","#
            + #""chapar":\#(buttons),"chapar_id":"\#(id)"},"android":{"ttl":"3600s","notification":"#
            + #"{"channel_id":"delivery","click_action":"https://example.com/o/4711","click_action_type":1}},"#
            + #""token":"\#(goodToken)"}}"#
        #expect(try JSONValue(parsing: call.body) == JSONValue(parsing: Array(text.utf8)))
        #expect(call.path == "/v1/projects/courier/messages:send" && call.method == "POST")
        #expect(call.header("authorization") == "Bearer \(serviceToken)")
        #expect(call.header("content-type") == "application/json")
        let warnings = backend.check(notification, for: .token).warnings.map(\.code)
        #expect(warnings.contains("collapse_id_dropped") && warnings.filter { $0 == "dropped" }.count == 3)
        var normal = notification
        normal.priority = .normal
        #expect(backend.check(normal, for: .token).warnings.contains { $0.code == "priority_dropped" })
    }

    static let lives: [(Duration?, PushRequest.Expiration?, String)] = [
        (nil, nil, "2419200s"), (.zero, nil, "1s"), (nil, .immediately, "1s"), (.seconds(90), nil, "90s"),
        (.seconds(2_419_201), nil, "2419200s"), (.milliseconds(200), nil, "1s"), (.seconds(-5), nil, "1s"),
    ]

    @Test("A time to live always goes out and is never zero, which RuStore reads as four weeks", arguments: lives)
    func life(span: Duration?, expiration: PushRequest.Expiration?, expected: String) async throws {
        let notification = PushNotification(title: "x", timeToLive: span)
        let message = try await body(notification, expiration: expiration).0["message"]
        #expect(message?["android"]?["ttl"]?.stringValue == expected)
    }

    @Test("A message whose time has ended does not go out")
    func expired() async throws {
        let transport = ScriptedTransport()
        let backend = try RuStoreBackend.scripted(transport)
        let request = PushRequest(.sample, to: [Addressee(recipient())], expiration: .at(1))
        #expect(await backend.send([request])[0][0].refusal?.reason == "expired")
        #expect(transport.calls.isEmpty)
    }

    @Test("A silent message is data alone; the delivery's id is in it")
    func silent() async throws {
        let message = try await body(PushNotification(title: "x", data: ["a": 1], isSilent: true)).0["message"]
        #expect(message?["notification"] == nil && message?["data"]?["a"] == "1")
        #expect(message?["data"]?["chapar_id"]?.stringValue?.utf8.count == 36)
    }

    @Test("The universal API has the secrets in its body and nowhere else, and one token")
    func universal() async throws {
        let (body, call) = try await body(.sample, .universal)
        #expect(call.path == "/v1/send" && call.header("authorization") == nil)
        #expect(body["providers"] == ["rustore": ["project_id": "courier", "auth_token": .string(serviceToken)]])
        #expect(body["tokens"] == ["rustore": [.string(goodToken)]])
        #expect(body["message"]?["token"] == nil && body["message"]?["notification"]?["title"] == "Parcel")
        let transport = ScriptedTransport()
        let backend = try RuStoreBackend.scripted(transport, .universal)
        let recipients = [recipient("a", .universal), recipient("b", .universal), .topic("news")]
        #expect(
            await backend.send(.sample, to: recipients).map { $0.acceptance?.isForAudience } == [false, false, true]
        )
        let bodies = try transport.calls.map { try JSONValue(parsing: $0.body) }
        #expect(bodies.map { $0["tokens"]?["rustore"] } == [["a"], ["b"], nil])
        #expect(bodies[2]["topic"] == "news" && transport.calls[2].path == "/v1/send/topic")
    }

    @Test(
        "The universal API takes a title and a text together only",
        arguments: [
            (PushNotification(title: "x"), "#/content/body"), (PushNotification(body: "x"), "#/content/title"),
            (PushNotification(title: "x", body: "y"), nil), (PushNotification(data: ["a": "b"]), nil),
            (PushNotification(title: "x", isSilent: true), nil),
            (PushNotification(title: "x", overrides: ["rustore": ["notification": ["body": "y"]]]), nil),
        ] as [(PushNotification, String?)]
    )
    func both(notification: PushNotification, pointer: String?) async throws {
        let transport = ScriptedTransport()
        let backend = try RuStoreBackend.scripted(transport, .universal)
        #expect(backend.check(notification, for: .token).faults.first?.pointer == pointer)
        let outcome = await backend.send(notification, to: [recipient(goodToken, .universal)])[0]
        #expect((outcome.refusal?.reason == "title_and_body") == (pointer != nil))
        #expect(try RuStoreBackend.scripted(transport).check(notification, for: .token).faults.isEmpty)
    }

    @Test("The size is measured before sending: 4,096 bytes of the message, its token included")
    func size() async throws {
        let transport = ScriptedTransport()
        let backend = try RuStoreBackend.scripted(transport)
        func outcome(_ bytes: Int) async -> DeliveryOutcome {
            await backend.send(PushNotification(body: .plain(String(repeating: "x", count: bytes))), to: recipient())
        }
        _ = await outcome(1)
        let rest = 4_096 - (try #require(transport.calls.first).body.count - #"{"message":}"#.utf8.count - 1)
        #expect(await outcome(rest).isAccepted)
        #expect(try #require(transport.calls.last).body.count == 4_096 + #"{"message":}"#.utf8.count)
        #expect(await outcome(rest + 1).refusal?.reason == "payload_too_large")
        #expect(transport.calls.count == 2)
        let large = PushNotification(body: .plain(String(repeating: "x", count: 4_097)))
        #expect(backend.check(large, for: .token).faults.map(\.code) == ["payload_too_large"])
    }

    static let overrides: [(JSONObject, String?)] = [
        (["android": ["ttl": "0s"]], "android/ttl"), (["android": ["ttl": "0.5s"]], "android/ttl"),
        (["android": ["ttl": "2419201s"]], "android/ttl"), (["android": ["ttl": "3.5s"]], nil),
        (["android": ["ttl": "1e3s"]], "android/ttl"), (["android": ["priority": "HIGH"]], "android/priority"),
        (["android": ["collapse_key": "a"]], "android/collapse_key"), (["token": "x"], "token"),
        (["topic": "x"], "topic"),
        (["android": ["notification": ["color": "red"]]], "android/notification/color"),
        (["android": ["notification": ["color": "#00ff7f", "icon": "ic", "click_action_type": 0]]], nil),
        (["android": ["notification": ["click_action_type": 2]]], "android/notification/click_action_type"),
        (["android": ["notification": ["tag": "x"]]], "android/notification/tag"),
        (["data": ["a": 1]], "data/a"), (["data": ["chapar_id": "x"]], "data/chapar_id"),
        (["fcm_options": [:]], "fcm_options"), (["notification": "x"], "notification"),
    ]

    @Test("Overrides are checked field by field", arguments: overrides)
    func checked(own: JSONObject, place: String?) async throws {
        let notification = PushNotification(title: "x", body: "y", overrides: ["rustore": own])
        let transport = ScriptedTransport()
        let backend = try RuStoreBackend.scripted(transport)
        let faults = backend.check(notification, for: .token).faults
        #expect(faults.map(\.pointer) == (place.map { ["#/overrides/rustore/\($0)"] } ?? []), "\(faults)")
        #expect(await backend.send(notification, to: recipient()).isAccepted == (place == nil))
    }

    @Test("Overrides are laid over the message, and a Swift value writes them")
    func laid() async throws {
        var android = RuStoreAndroid(channelID: "orders", click: .intent(action: "OPEN"), timeToLive: .seconds(60))
        android.color = "#00ff7f"
        let notification = try PushNotification(title: "x", clickURL: "https://a.test", timeToLive: .zero).with(android)
        let message = try await body(notification).0["message"]
        #expect(
            message?["android"] == [
                "ttl": "60s",
                "notification": [
                    "click_action": "OPEN", "click_action_type": 0, "color": "#00ff7f", "channel_id": "orders",
                ],
            ]
        )
        android.color = "green"
        #expect(throws: PayloadError.self) { try PushNotification(title: "x").with(android) }
    }

    @Test("Languages are encoded once each, and each recipient gets its own")
    func languages() async throws {
        let transport = ScriptedTransport()
        let backend = try RuStoreBackend.scripted(transport)
        let text = LocalizedText.localized("Parcel", ["ru": "Посылка"])
        let people: [(String, String?)] = [("a", "ru"), ("b", nil), ("c", "ru-RU")]
        let request = PushRequest(
            PushNotification(title: text),
            to: people.map { Addressee(recipient($0.0), language: $0.1) }
        )
        _ = await backend.send([request])
        let titles = try transport.calls.map { try JSONValue(parsing: $0.body)["message"]?["notification"]?["title"] }
        #expect(titles == ["Посылка", "Parcel", "Посылка"])
    }

    @Test("Tokens of the other mode, of other services and topics of the direct API never go out")
    func foreign() async throws {
        for mode in RuStoreOptions.Mode.allCases {
            let transport = ScriptedTransport()
            let backend = try RuStoreBackend.scripted(transport, mode)
            let other: RuStoreOptions.Mode = mode == .direct ? .universal : .direct
            var recipients = [
                recipient(goodToken, other), .token(DeviceToken("a", service: .androidFirebase)), .user("ada"),
            ]
            if mode == .direct { recipients.append(.topic("news")) }
            let outcomes = await backend.send(.sample, to: recipients)
            #expect(outcomes.allSatisfy { $0.refusal?.reason == "unsupported_recipient" }, "\(outcomes)")
            #expect(transport.calls.isEmpty)
        }
    }

    @Test("A dry run is checked here and sent nowhere")
    func dryRun() async throws {
        let transport = ScriptedTransport()
        let backend = try RuStoreBackend.scripted(transport)
        let outcome = await backend.send(PushNotification(title: "x", isDryRun: true), to: recipient())
        #expect(outcome.acceptance?.isDryRun == true && transport.calls.isEmpty)
    }
}
