import Foundation
import ChaparCore
import ChaparSandbox
import ChaparTesting
import Testing

@testable import ChaparFCM

@Suite("FCM's message", .timeLimit(.minutes(1)))
struct FCMPayloadTests {
    /// The `message` that goes out for one recipient; the delivery's id shows as `<id>`.
    static func message(
        _ notification: PushNotification,
        to recipient: Recipient = recipient(),
        expiration: PushRequest.Expiration? = nil,
        language: String? = nil
    ) async throws -> String {
        let transport = ScriptedTransport { _ in .success(.fcmAccepted) }
        let backend = try FCMBackend.scripted(transport)
        let addressee = Addressee(recipient, language: language)
        let request = PushRequest(notification, to: [addressee], expiration: expiration)
        let outcome = await backend.send([request])[0][0]
        let sent = try #require(transport.calls.first, "\(outcome)")
        #expect(sent.path == "/v1/projects/courier-demo/messages:send")
        #expect(sent.header("authorization") == "Bearer ya29.sample")
        #expect(sent.header("content-type") == "application/json; charset=utf-8")
        let body = try #require(try JSONValue(parsing: sent.body).objectValue)
        return try #require(body["message"]).text.replacing(addressee.messageID.description, with: "<id>")
    }

    struct Case: Sendable, CustomTestStringConvertible {
        var name: String
        var notification: PushNotification
        var recipient = ChaparFCMTests.recipient()
        var expiration: PushRequest.Expiration?
        var expected: String
        var testDescription: String { name }
    }

    static let iOS = recipient("iOS:1", .iOSFirebase)
    static let browser = recipient("web:1", .webFirebase)
    static let cases: [Case] = [
        Case(
            name: "a text to a device of any kind has the blocks of all",
            notification: PushNotification(title: "A", body: "B"),
            recipient: recipient("any:1", .anyFirebase),
            expected:
                #"{"notification":{"title":"A","body":"B"},"android":{"priority":"HIGH","collapse_key":"<id>","notification":{"tag":"<id>"}},"apns":{"headers":{"apns-push-type":"alert","apns-priority":"10","apns-collapse-id":"<id>"},"payload":{"aps":{}}},"webpush":{"notification":{"tag":"<id>"}},"token":"any:1"}"#
        ),
        Case(
            name: "a text to Android",
            notification: PushNotification(title: "A", body: "B"),
            expected:
                #"{"notification":{"title":"A","body":"B"},"android":{"priority":"HIGH","collapse_key":"<id>","notification":{"tag":"<id>"}},"token":"dR3v0Q:APA91bSampleToken-with_signs"}"#
        ),
        Case(
            name: "a text to iOS",
            notification: PushNotification(title: "A", body: "B"),
            recipient: iOS,
            expected:
                #"{"notification":{"title":"A","body":"B"},"apns":{"headers":{"apns-push-type":"alert","apns-priority":"10","apns-collapse-id":"<id>"},"payload":{"aps":{}}},"token":"iOS:1"}"#
        ),
        Case(
            name: "everything to Android",
            notification: PushNotification(
                title: "A",
                subtitle: "S",
                body: "B",
                image: "https://e.com/i.png",
                sound: "ping",
                badge: 3,
                category: "order",
                clickURL: "app://o",
                actions: [.init(id: "t", title: "T", url: "app://t")],
                data: ["n": 1, "o": ["k": true], "s": "x"],
                priority: .normal,
                collapseID: "c"
            ),
            expiration: .at(1_767_225_600 + 7200),
            expected:
                #"{"notification":{"title":"A","body":"B","image":"https://e.com/i.png"},"data":{"n":"1","o":"{\"k\":true}","s":"x","chapar":"{\"click_url\":\"app://o\",\"actions\":[{\"id\":\"t\",\"title\":\"T\",\"url\":\"app://t\"}]}"},"android":{"priority":"NORMAL","collapse_key":"c","ttl":"7200s","notification":{"tag":"c","sound":"ping","channel_id":"order","notification_count":3}},"token":"dR3v0Q:APA91bSampleToken-with_signs"}"#
        ),
        Case(
            name: "everything to iOS",
            notification: PushNotification(
                title: "A",
                subtitle: "S",
                body: "B",
                image: "https://e.com/i.png",
                sound: "ping",
                badge: 0,
                category: "order",
                priority: .normal,
                collapseID: "c"
            ),
            recipient: iOS,
            expiration: .at(1_767_225_600 + 7200),
            expected:
                #"{"notification":{"title":"A","body":"B","image":"https://e.com/i.png"},"apns":{"headers":{"apns-push-type":"alert","apns-priority":"5","apns-expiration":"1767232800","apns-collapse-id":"c"},"payload":{"aps":{"alert":{"title":"A","subtitle":"S","body":"B"},"badge":0,"sound":"ping","category":"order","mutable-content":1}}},"token":"iOS:1"}"#
        ),
        Case(
            name: "a silent one to Android wakes without demoting later ones",
            notification: PushNotification(title: "A", data: ["k": "v"], isSilent: true),
            expected:
                #"{"data":{"k":"v","chapar_id":"<id>"},"android":{"priority":"NORMAL"},"token":"dR3v0Q:APA91bSampleToken-with_signs"}"#
        ),
        Case(
            name: "a silent one to iOS",
            notification: PushNotification(data: ["k": "v"], isSilent: true),
            recipient: iOS,
            expected:
                #"{"data":{"k":"v","chapar_id":"<id>"},"apns":{"headers":{"apns-push-type":"background","apns-priority":"5"},"payload":{"aps":{"content-available":1}}},"token":"iOS:1"}"#
        ),
        Case(
            name: "a badge alone on iOS",
            notification: PushNotification(badge: 4),
            recipient: iOS,
            expected:
                #"{"data":{"chapar_id":"<id>"},"apns":{"headers":{"apns-push-type":"alert","apns-priority":"10"},"payload":{"aps":{"badge":4}}},"token":"iOS:1"}"#
        ),
        Case(
            name: "now or never",
            notification: PushNotification(title: "A", timeToLive: .seconds(60)),
            expiration: .immediately,
            expected:
                #"{"notification":{"title":"A"},"android":{"priority":"HIGH","collapse_key":"<id>","ttl":"0s","notification":{"tag":"<id>"}},"token":"dR3v0Q:APA91bSampleToken-with_signs"}"#
        ),
        Case(
            name: "a topic gets every platform's block",
            notification: PushNotification(title: "A", clickURL: "https://e.com/o", timeToLive: .seconds(60)),
            recipient: .topic("news"),
            expected:
                #"{"notification":{"title":"A"},"data":{"chapar":"{\"click_url\":\"https://e.com/o\"}"},"android":{"priority":"HIGH","collapse_key":"<id>","ttl":"60s","notification":{"tag":"<id>"}},"apns":{"headers":{"apns-push-type":"alert","apns-priority":"10","apns-expiration":"1767225660","apns-collapse-id":"<id>"},"payload":{"aps":{}}},"webpush":{"headers":{"TTL":"60"},"fcm_options":{"link":"https://e.com/o"}},"topic":"news"}"#
        ),
        Case(
            name: "a browser gets the web's block",
            notification: PushNotification(title: "A", clickURL: "https://e.com/o", timeToLive: .seconds(60)),
            recipient: browser,
            expected:
                #"{"notification":{"title":"A"},"data":{"chapar":"{\"click_url\":\"https://e.com/o\"}"},"webpush":{"headers":{"TTL":"60"},"notification":{"tag":"<id>"},"fcm_options":{"link":"https://e.com/o"}},"token":"web:1"}"#
        ),
        Case(
            name: "a browser keeps the webpush of overrides",
            notification: PushNotification(
                title: "A",
                collapseID: "c",
                overrides: [
                    "fcm": [
                        "android": ["priority": "NORMAL"],
                        "webpush": ["headers": ["Urgency": "high"], "notification": ["icon": "https://e.com/i.png"]],
                    ]
                ]
            ),
            recipient: browser,
            expected:
                #"{"notification":{"title":"A"},"webpush":{"notification":{"tag":"c","icon":"https://e.com/i.png"},"headers":{"Urgency":"high"}},"token":"web:1"}"#
        ),
        Case(
            name: "a silent one to a browser",
            notification: PushNotification(data: ["k": "v"], timeToLive: .seconds(60), isSilent: true),
            recipient: browser,
            expected:
                #"{"data":{"k":"v","chapar_id":"<id>"},"webpush":{"headers":{"TTL":"60"}},"token":"web:1"}"#
        ),
        Case(
            name: "overrides are laid over, blocks of other platforms are left out",
            notification: PushNotification(
                title: "A",
                collapseID: "c",
                overrides: [
                    "fcm": [
                        "android": ["priority": "NORMAL", "notification": ["channel_id": "vip", "color": "#00ff7f"]],
                        "apns": ["payload": ["aps": ["interruption-level": "time-sensitive"]]],
                        "fcm_options": ["analytics_label": "spring"],
                    ],
                    "apns": ["payload": ["x": 1]],
                ]
            ),
            expected:
                ##"{"notification":{"title":"A"},"android":{"priority":"NORMAL","collapse_key":"c","notification":{"tag":"c","channel_id":"vip","color":"#00ff7f"}},"fcm_options":{"analytics_label":"spring"},"token":"dR3v0Q:APA91bSampleToken-with_signs"}"##
        ),
    ]

    @Test("Each notification becomes the message that FCM wants", arguments: cases)
    func encodes(row: Case) async throws {
        let message = try await Self.message(row.notification, to: row.recipient, expiration: row.expiration)
        #expect(message == row.expected)
    }

    @Test("Texts follow the recipient's language, and each language is encoded once")
    func languages() async throws {
        let notification = PushNotification(title: .localized(default: "Hello", languages: ["fa": "سلام"]))
        #expect(try await Self.message(notification, language: "fa-IR").contains("سلام"))
        #expect(try await Self.message(notification, language: "de").contains("Hello"))
    }

    @Test("A token is a text like any other: quotes cannot break out of it")
    func escapes() async throws {
        let message = try await Self.message(PushNotification(title: "A"), to: recipient(#"a","topic":"b\c"#))
        #expect(message.hasSuffix(#""token":"a\",\"topic\":\"b\\c"}"#))
    }

    @Test("Each recipient of a request gets its own id and target")
    func splices() async throws {
        let transport = ScriptedTransport { _ in .success(.fcmAccepted) }
        let backend = try FCMBackend.scripted(transport)
        let addressees = (0..<50).map { number in
            Addressee(recipient(deviceToken(number), number % 2 == 0 ? .androidFirebase : .iOSFirebase))
        }
        _ = await backend.send([PushRequest(PushNotification(title: "A \u{1}\"x"), to: addressees)])
        #expect(transport.calls.count == 50)
        for (addressee, call) in zip(addressees, transport.calls) {
            let message = try #require(try JSONValue(parsing: call.body)["message"])
            let id = JSONValue.string(addressee.messageID.description)
            let tag = message["android"]?["notification"]?["tag"] ?? message["apns"]?["headers"]?["apns-collapse-id"]
            #expect(tag == id)
            #expect(message["notification"]?["title"] == "A \u{1}\"x")
            guard case .token(let token) = addressee.recipient else { continue }
            #expect(message["token"]?.stringValue == token.value)
        }
    }

    @Test("Data values that are no texts become compact JSON, whatever they are")
    func dataTexts() {
        let values: [(JSONValue, String)] = [
            ("x", "x"), (1, "1"), (1.5, "1.5"), (true, "true"), (nil, "null"), ([1, "a"], #"[1,"a"]"#),
            (["b": nil], #"{"b":null}"#),
        ]
        for (value, text) in values { #expect(FCMPayload.text(of: value) == text) }
    }

    // MARK: Checks before sending

    struct Fault: Sendable, CustomTestStringConvertible {
        var notification: PushNotification
        var form = Recipient.Form.token
        var pointer: String
        var code: String
        var testDescription: String { "\(pointer) \(code)" }
    }

    static func overriding(_ overrides: JSONObject) -> PushNotification {
        PushNotification(title: "A", overrides: ["fcm": overrides])
    }

    static let faults: [Fault] = [
        Fault(
            notification: overriding(["message": ["android": ["priority": "normal"]]]),
            pointer: "#/overrides/fcm/message",
            code: "unknown_override"
        ),
        Fault(
            notification: PushNotification(data: ["from": "x"]),
            pointer: "#/content/data/from",
            code: "reserved_key"
        ),
        Fault(
            notification: PushNotification(data: ["message_type": "x"]),
            pointer: "#/content/data/message_type",
            code: "reserved_key"
        ),
        Fault(
            notification: PushNotification(data: ["notification": "x"]),
            pointer: "#/content/data/notification",
            code: "reserved_key"
        ),
        Fault(
            notification: PushNotification(data: ["google.x": "x"]),
            pointer: "#/content/data/google.x",
            code: "reserved_key"
        ),
        Fault(
            notification: PushNotification(data: ["gcm.x": "x"]),
            pointer: "#/content/data/gcm.x",
            code: "reserved_key"
        ),
        Fault(notification: PushNotification(data: ["gcm": "x"]), pointer: "#/content/data/gcm", code: "reserved_key"),
        Fault(
            notification: PushNotification(data: ["chapar": "x"]),
            pointer: "#/content/data/chapar",
            code: "reserved_key"
        ),
        Fault(
            notification: PushNotification(title: "A", timeToLive: .seconds(2_419_201)),
            pointer: "#/options/ttl",
            code: "ttl_too_long"
        ),
        Fault(
            notification: PushNotification(title: "A", collapseID: ""),
            pointer: "#/options/collapse_id",
            code: "bad_collapse_id"
        ),
        Fault(
            notification: PushNotification(body: .plain(String(repeating: "x", count: 4100))),
            pointer: "#/content",
            code: "payload_too_large"
        ),
        Fault(
            notification: PushNotification(body: .plain(String(repeating: "x", count: 2100))),
            form: .topic,
            pointer: "#/content",
            code: "payload_too_large"
        ),
        Fault(
            notification: PushNotification(data: ["k": .string(String(repeating: "\"", count: 2100))]),
            pointer: "#/content",
            code: "payload_too_large"
        ),
        Fault(notification: overriding(["token": "x"]), pointer: "#/overrides/fcm/token", code: "target_reserved"),
        Fault(
            notification: overriding(["validate_only": true]),
            pointer: "#/overrides/fcm/validate_only",
            code: "field_reserved"
        ),
        Fault(
            notification: overriding(["androidd": [:]]),
            pointer: "#/overrides/fcm/androidd",
            code: "unknown_override"
        ),
        Fault(
            notification: overriding(["android": ["channelId": "x"]]),
            pointer: "#/overrides/fcm/android/channelId",
            code: "unknown_override"
        ),
        Fault(
            notification: overriding(["android": ["ttl": "2419201s"]]),
            pointer: "#/overrides/fcm/android/ttl",
            code: "wrong_value"
        ),
        Fault(
            notification: overriding(["android": ["ttl": 60]]),
            pointer: "#/overrides/fcm/android/ttl",
            code: "wrong_value"
        ),
        Fault(
            notification: overriding(["android": ["priority": "urgent"]]),
            pointer: "#/overrides/fcm/android/priority",
            code: "wrong_value"
        ),
        Fault(
            notification: overriding(["android": ["notification": ["color": "red"]]]),
            pointer: "#/overrides/fcm/android/notification/color",
            code: "wrong_value"
        ),
        Fault(
            notification: overriding(["android": ["data": ["a": 1]]]),
            pointer: "#/overrides/fcm/android/data/a",
            code: "not_a_text"
        ),
        Fault(
            notification: overriding(["data": ["from": "x"]]),
            pointer: "#/overrides/fcm/data/from",
            code: "reserved_key"
        ),
        Fault(
            notification: overriding(["apns": ["headers": ["apns-priority": 10]]]),
            pointer: "#/overrides/fcm/apns/headers/apns-priority",
            code: "not_a_text"
        ),
        Fault(
            notification: overriding(["apns": ["payload": "x"]]),
            pointer: "#/overrides/fcm/apns/payload",
            code: "wrong_value"
        ),
        Fault(
            notification: overriding(["webpush": ["fcm_options": ["link": "http://e.com"]]]),
            pointer: "#/overrides/fcm/webpush/fcm_options/link",
            code: "wrong_value"
        ),
        Fault(
            notification: overriding(["fcm_options": ["analytics_label": "two words"]]),
            pointer: "#/overrides/fcm/fcm_options/analytics_label",
            code: "wrong_value"
        ),
        Fault(
            notification: overriding(["android": ["notification": ["vibrate_timings": ["1s", "x"]]]]),
            pointer: "#/overrides/fcm/android/notification/vibrate_timings/1",
            code: "wrong_value"
        ),
    ]

    @Test("A message that Google would refuse is found by the check and not sent", arguments: faults)
    func fault(row: Fault) async throws {
        let transport = ScriptedTransport { _ in .success(.fcmAccepted) }
        let backend = try FCMBackend.scripted(transport)
        let check = backend.check(row.notification, for: row.form)
        #expect(check.faults.map(\.pointer) == [row.pointer])
        #expect(check.faults.map(\.code) == [row.code])
        let recipient = row.form == .topic ? Recipient.topic("news") : recipient()
        let refusal = try #require(await backend.send(row.notification, to: [recipient])[0].refusal)
        #expect(refusal.kind == .message)
        #expect(refusal.advice == .never)
        #expect(refusal.reason == row.code)
        #expect(transport.calls.isEmpty)
    }

    @Test("A message that is shown before it is sent has an id of zeros where a delivery's own will be")
    func shown() throws {
        let backend = try FCMBackend.scripted(ScriptedTransport { _ in .success(.fcmAccepted) })
        let overridden = Self.overriding(["android": ["priority": "normal"]])
        for notification in [PushNotification(title: "A"), overridden] {
            let addressee = Addressee(recipient())
            let message = try #require(backend.payload(of: notification, for: addressee))
            let id: JSONValue = "00000000-0000-0000-0000-000000000000"
            #expect(message["android"]?["collapse_key"] == id, "\(message)")
            #expect(message["android"]?["notification"]?["tag"] == id, "\(message)")
            let size = try #require(backend.payloadSize(of: notification, for: addressee))
            #expect(size.bytes > 36)
        }
    }

    @Test("A message of exactly the limit goes out, one byte more does not")
    func limit() async throws {
        let backend = try FCMBackend.scripted(ScriptedTransport { _ in .success(.fcmAccepted) })
        // {"body":"…"} and {"tag":"<36>"} around the text.
        let room = 4096 - #"{"body":""}"#.utf8.count - #"{"tag":""}"#.utf8.count - 36
        for (count, fits) in [(room, true), (room + 1, false)] {
            let notification = PushNotification(body: .plain(String(repeating: "x", count: count)))
            #expect(backend.check(notification, for: .token).faults.isEmpty == fits)
            #expect((await backend.send(notification, to: [recipient()])[0].acceptance != nil) == fits)
        }
    }

    static let warnings: [(PushNotification, [String])] = [
        (PushNotification(title: "A"), []), (PushNotification(title: "A", subtitle: "S"), ["dropped_on_android"]),
        (PushNotification(title: "A", clickURL: "x"), ["needs_app_code"]),
        (PushNotification(title: "A", data: ["n": 1]), ["turned_into_text"]),
        (PushNotification(data: ["n": "1"]), ["high_priority_data_only"]),
        (PushNotification(data: ["n": "1"], priority: .normal), []),
        (PushNotification(title: "A", isSilent: true), ["dropped_when_silent"]),
        (PushNotification(title: "A", collapseID: String(repeating: "c", count: 65)), ["bad_collapse_id"]),
    ]

    @Test("Fields that FCM would silently drop or change give warnings", arguments: warnings)
    func warns(notification: PushNotification, codes: [String]) throws {
        let check = try FCMBackend.scripted(ScriptedTransport()).check(notification, for: .token)
        #expect(check.faults.isEmpty)
        #expect(check.warnings.map(\.code) == codes)
    }

    @Test("A collapse ID that only Apple finds too long is refused for Apple devices only")
    func longCollapseID() async throws {
        let backend = try FCMBackend.scripted(ScriptedTransport { _ in .success(.fcmAccepted) })
        let notification = PushNotification(title: "A", collapseID: String(repeating: "c", count: 65))
        let outcomes = await backend.send(notification, to: [recipient(), Self.iOS])
        #expect(outcomes[0].acceptance != nil)
        #expect(outcomes[1].refusal?.reason == "bad_collapse_id")
    }

    // MARK: Targets

    static let targets: [(Recipient, String)] = [
        (recipient(""), "malformed_token"), (recipient("two words"), "malformed_token"),
        (recipient("line\nbreak"), "malformed_token"),
        (recipient(String(repeating: "a", count: 4097)), "malformed_token"),
        (recipient("fid:"), "malformed_token"), (.topic(""), "malformed_topic"), (.topic("a b"), "malformed_topic"),
        (.topic("/topics/"), "malformed_topic"), (.topic("'a' in topic"), "malformed_condition"),
        (.topic("'a' in topics &&"), "malformed_condition"), (.topic("('a' in topics"), "malformed_condition"),
        (.topic("'a b' in topics"), "malformed_condition"),
        (.topic((0..<6).map { "'\($0)' in topics" }.joined(separator: " || ")), "malformed_condition"),
        (.user("u"), "unsupported_recipient"), (.everyone, "unsupported_recipient"),
        (.token(DeviceToken("aa", service: .iOSAPNs)), "unsupported_recipient"),
    ]

    @Test("A recipient that FCM cannot address is refused without a request", arguments: targets)
    func target(recipient: Recipient, reason: String) async throws {
        let transport = ScriptedTransport { _ in .success(.fcmAccepted) }
        let outcome = await (try FCMBackend.scripted(transport)).send(PushNotification(title: "A"), to: [recipient])[0]
        #expect(outcome.refusal?.reason == reason)
        #expect(outcome.refusal?.advice == .never)
        #expect(transport.calls.isEmpty)
    }

    static let conditions: [(String, Bool)] = [
        ("'a' in topics", true), ("'a' in topics&&'b' in topics", true),
        ("!('a' in topics) || ( 'b' in topics && !!'c' in topics )", true), ("\"a\" in topics", true),
        ("'a' in topics 'b' in topics", false), ("in topics", false), ("'' in topics", false), ("()", false),
    ]

    @Test("A condition is read as a boolean expression", arguments: conditions)
    func condition(text: String, isGood: Bool) { #expect(FCMTopic.isCondition(text) == isGood) }

    @Test("Google's words may be written in any case, as Google's own example does")
    func anyCase() throws {
        let overrides = FCMOverrides([
            "android": ["priority": "normal", "notification": ["visibility": "Public", "title": "low"]]
        ])
        #expect(overrides.faults.isEmpty, "\(overrides.faults)")
        #expect(overrides.object["android"]?["priority"] == "NORMAL")
        #expect(overrides.object["android"]?["notification"] == ["visibility": "PUBLIC", "title": "low"])
    }

    @Test("A field that Google added goes on with a warning, and a misspelling does not")
    func newField() throws {
        let overrides = FCMOverrides(["android_v3": ["a": 1], "wearable": ["b": 2]])
        #expect(overrides.faults.isEmpty, "\(overrides.faults)")
        #expect(overrides.warnings.map(\.pointer) == ["#/overrides/fcm/android_v3", "#/overrides/fcm/wearable"])
        #expect(overrides.object["android_v3"] == ["a": 1] && overrides.object["wearable"] == ["b": 2])
        #expect(FCMOverrides(["andriod": [:]]).faults.map(\.code) == ["unknown_override"])
    }

    static let secondGeneration: [(JSONObject, String?)] = [
        (["android_v2": ["remote_notification": ["notification": ["id": 7, "title": "x"]]]], nil),
        (["android_v2": ["background_sync": [:], "ttl": "60s"]], nil), (["android_v2": [:]], "android_v2 missing"),
        (["android_v2": ["priority": "HIGH", "background_sync": [:]]], "android_v2/priority unknown_override"),
        (
            ["android_v2": ["remote_notification": [:], "background_sync": [:]]],
            "android_v2/background_sync stands_beside"
        ),
        (["android_v2": ["background_sync": [:]], "android": [:]], "android_v2 stands_beside"),
        (["android_v2": ["background_sync": [:], "data": ["from": "x"]]], "android_v2/data/from reserved_key"),
        (
            ["android_v2": ["remote_notification": ["notification": ["proxy": "DENY"]]]],
            "android_v2/remote_notification/notification/proxy unknown_override"
        ),
    ]

    @Test("Android's options of the second generation are checked field by field", arguments: secondGeneration)
    func secondGenerationChecked(own: JSONObject, fault: String?) {
        let faults = FCMOverrides(own).faults.map { "\($0.pointer.dropFirst("#/overrides/fcm/".count)) \($0.code)" }
        #expect(faults == (fault.map { [$0] } ?? []))
        #expect(FCMOverrides(own).warnings.isEmpty)
    }

    @Test("With options of the second generation an Android device gets those alone, other devices what they got")
    func secondGenerationLaid() async throws {
        let own: JSONObject = [
            "android_v2": ["remote_notification": ["mutable_content": true, "notification": ["id": 7]]]
        ]
        let notification = PushNotification(
            title: "Order 42",
            sound: "bell",
            timeToLive: .seconds(60),
            collapseID: "o-42",
            overrides: ["fcm": own]
        )
        let overrides = FCMOverrides(own)
        var life = FCMPayload.Life()
        life.seconds = 60
        let payload = FCMPayload(notification: notification, overrides: overrides, label: nil, life: life)
        let message = try JSONValue(parsing: payload.encoded(for: .android, language: nil))
        #expect(message["android"] == nil)
        #expect(
            message["android_v2"] == [
                "collapse_key": "o-42", "ttl": "60s",
                "remote_notification": [
                    "notification": ["tag": "o-42", "sound": "bell", "id": 7], "mutable_content": true,
                ],
            ]
        )
        let apple = try JSONValue(parsing: payload.encoded(for: .iOS, language: nil))
        #expect(apple["android_v2"] == nil && apple["android"] == nil && apple["apns"] != nil)
        try await SocketHarness.run { harness in
            harness.simulator.register(tokens: [goodToken])
            #expect(await harness.backend.send(notification, to: [recipient()])[0].acceptance != nil)
            #expect(harness.simulator.inbox.first?.message["android_v2"]?["ttl"] == "60s")
        }
    }

    @Test("A field that iOS would drop gives a warning with its place")
    func dropped() throws {
        let overrides = FCMOverrides(["apns": ["payload": ["aps": ["content_available": 1]]]])
        #expect(overrides.warnings.map(\.pointer) == ["#/overrides/fcm/apns/payload/aps/content_available"])
    }

    @Test(
        "A topic that Google cannot have is known before a message is accepted",
        arguments: [
            ("news", nil), ("/topics/news", nil), ("'a' in topics", nil), ("my news", FCMTopic.malformedName),
            ("'a' in topic", FCMTopic.malformedCondition),
        ] as [(String, String?)]
    )
    func topicProblem(text: String, problem: String?) { #expect(FCMTopic.problem(with: text) == problem) }
}
