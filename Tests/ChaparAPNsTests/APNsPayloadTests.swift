import ChaparCore
import ChaparTesting
import Testing

@testable import ChaparAPNs

@Suite("APNs payloads", .timeLimit(.minutes(1)))
struct APNsPayloadTests {
    struct Golden: Sendable, CustomTestStringConvertible {
        var name: String
        var notification: PushNotification
        var type = APNsPushType.alert
        var language: String?
        var bytes: String
        var testDescription: String { name }
    }

    @Test("Apple's words may be written in any case, and what iOS drops is told")
    func words() {
        let overrides = APNsOverrides([
            "headers": ["apns-push-type": "Alert"],
            "payload": ["aps": ["interruption-level": "Time-Sensitive", "mutable-content": true, "sound": "Bell"]],
        ])
        #expect(overrides.faults.isEmpty && overrides.pushType == .alert, "\(overrides.faults)")
        #expect(overrides.payload?["aps"]?["interruption-level"] == "time-sensitive")
        #expect(overrides.payload?["aps"]?["sound"] == "Bell", "the name of a file is no word of Apple's")
        let notification = PushNotification(title: "t")
        let headers = APNsHeaders(
            notification,
            overrides: overrides,
            form: .token,
            topic: "com.example.app",
            hasProviderToken: true
        )
        let check = APNsCheck.examine(notification, headers: headers, overrides: overrides, form: .token)
        #expect(check.faults.isEmpty, "\(check.faults)")
        #expect(check.warnings.map(\.pointer) == ["#/overrides/apns/payload/aps/mutable-content"])
    }

    static let goldens: [Golden] = [
        Golden(
            name: "a title alone",
            notification: PushNotification(title: "Parcel"),
            bytes: #"{"aps":{"alert":{"title":"Parcel"}}}"#
        ),
        Golden(
            name: "everything",
            notification: PushNotification(
                title: "Parcel",
                subtitle: "Tehran",
                body: "Out for delivery",
                image: "https://cdn.example.com/42.png",
                sound: "default",
                badge: 1,
                category: "order",
                clickURL: "app://orders/42",
                actions: [.init(id: "track", title: "Track", url: "app://t"), .init(id: "later", title: "Later")],
                data: ["order": "4711", "lines": [1, 2.5, true, nil], "nested": ["a": "b"]]
            ),
            bytes: #"{"aps":{"alert":{"title":"Parcel","subtitle":"Tehran","body":"Out for delivery"},"badge":1,"#
                + #""sound":"default","category":"order","mutable-content":1},"#
                + #""chapar":{"image":"https://cdn.example.com/42.png","click_url":"app://orders/42","#
                + #""actions":[{"id":"track","title":"Track","url":"app://t"},{"id":"later","title":"Later"}]},"#
                + #""order":"4711","lines":[1,2.5,true,null],"nested":{"a":"b"}}"#
        ),
        Golden(
            name: "an id for the report of an arrival, which the app's extension makes",
            notification: PushNotification(title: "Parcel", data: ["chapar_receipt": "AbC"]),
            bytes: #"{"aps":{"alert":{"title":"Parcel"},"mutable-content":1},"chapar_receipt":"AbC"}"#
        ),
        Golden(
            name: "a badge taken away",
            notification: PushNotification(badge: 0),
            bytes: #"{"aps":{"badge":0}}"#
        ),
        Golden(
            name: "slashes stay, quotes and control characters are escaped, other scripts are bytes",
            notification: PushNotification(title: "a/b \"c\" \\ \n\u{1}", body: "چاپار 📯"),
            bytes: #"{"aps":{"alert":{"title":"a/b \"c\" \\ \n\u0001","body":"چاپار 📯"}}}"#
        ),
        Golden(
            name: "a silent push shows nothing",
            notification: PushNotification(title: "Dropped", data: ["sync": true], isSilent: true),
            type: .background,
            bytes: #"{"aps":{"content-available":1},"sync":true}"#
        ),
        Golden(
            name: "a widget push",
            notification: PushNotification(),
            type: .widgets,
            bytes: #"{"aps":{"content-changed":true}}"#
        ),
        Golden(
            name: "the language of the device",
            notification: PushNotification(
                title: .localized(default: "Hello", languages: ["fa": "سلام", "pt-BR": "Oi"]),
                body: "x"
            ),
            language: "fa-IR",
            bytes: #"{"aps":{"alert":{"title":"سلام","body":"x"}}}"#
        ),
    ]

    @Test("A payload has exactly these bytes", arguments: goldens)
    func golden(golden: Golden) {
        let bytes = APNsPayload.encode(
            golden.notification,
            language: golden.language,
            pushType: golden.type,
            overrides: nil
        )
        #expect(String(decoding: bytes, as: UTF8.self) == golden.bytes)
        let bound = APNsPayload.upperBound(golden.notification, overrides: nil)
        #expect(bytes.count <= bound, "the cheap bound must never be too low")
    }

    @Test("Overrides are laid over the payload, and win")
    func overrides() {
        var notification = PushNotification(title: "Parcel", body: "On its way", data: ["order": "1"])
        notification.overrides["apns"] = [
            "payload": [
                "aps": ["interruption-level": "time-sensitive", "alert": ["body": "Here"], "thread-id": "42"],
                "order": "2",
            ]
        ]
        let overrides = notification.overrides["apns"].map { APNsOverrides($0) }
        let bytes = APNsPayload.encode(notification, language: nil, pushType: .alert, overrides: overrides)
        #expect(
            String(decoding: bytes, as: UTF8.self)
                == #"{"aps":{"alert":{"title":"Parcel","body":"Here"},"interruption-level":"time-sensitive","#
                + #""thread-id":"42"},"order":"2"}"#
        )
    }

    @Test("Recipients get the text of their language, each text is encoded once")
    func languages() async throws {
        let transport = ScriptedTransport()
        let backend = try APNsBackend.scripted(transport)
        let notification = PushNotification(
            title: .localized(default: "Hello", languages: ["fa": "سلام", "de": "Hallo"])
        )
        let languages = ["fa", nil, "de", "fa", "en"]
        let addressees = languages.enumerated().map {
            Addressee(recipient(deviceToken($0.offset)), language: $0.element)
        }
        _ = await backend.send([PushRequest(notification, to: addressees)])
        let titles = transport.calls.map { call in
            (try? JSONValue(parsing: call.body))?["aps"]?["alert"]?["title"]?.stringValue
        }
        #expect(titles == ["سلام", "Hello", "Hallo", "سلام", "Hello"])
    }

    static let sizes: [(APNsPushType, Int)] = [(.alert, 4096), (.voip, 5120)]

    @Test("The limit counts encoded bytes, and to the byte", arguments: sizes)
    func size(type: APNsPushType, limit: Int) async throws {
        let transport = ScriptedTransport()
        let backend = try APNsBackend.scripted(transport)
        for (excess, passes) in [(0, true), (1, false)] {
            var notification = PushNotification(title: "")
            notification.overrides["apns"] = ["headers": ["apns-push-type": .string(type.rawValue)]]
            let frame = #"{"aps":{"alert":{"title":""}}}"#.utf8.count
            notification.title = .plain(String(repeating: "/", count: limit - frame + excess))
            #expect(backend.check(notification, for: .token).faults.isEmpty == passes)
            let outcome = await backend.send(notification, to: [recipient()])[0]
            #expect((outcome.acceptance != nil) == passes)
            if !passes {
                #expect(outcome.refusal?.reason == "payload_too_large")
                #expect(outcome.refusal?.advice == .never)
            }
        }
        #expect(transport.calls.count == 1, "what is too large never leaves")
    }

    @Test("One language that is too large is found before acceptance")
    func largeLanguage() throws {
        let backend = try APNsBackend.scripted(ScriptedTransport())
        let text = LocalizedText.localized(default: "short", languages: ["fa": String(repeating: "چ", count: 2100)])
        let faults = backend.check(PushNotification(title: text), for: .token).faults
        #expect(faults.map(\.code) == ["payload_too_large"])
    }
}
