import Foundation
import ChaparCore
import ChaparTesting
import Testing

@testable import ChaparWebPush

@Suite("Messages of Web Push", .timeLimit(.minutes(1)))
struct WebPushPayloadTests {
    static func json(
        _ notification: PushNotification,
        _ change: (inout WebPushPayload.Settings) -> Void = { _ in },
        language: String? = nil
    ) throws -> JSONValue {
        var settings = WebPushPayload.Settings()
        change(&settings)
        let body = WebPushPayload(notification, settings).encoded(in: language)
        let id = MessageID(high: 0x1111_1111_2222_4333, low: 0x8444_5555_5555_5555)
        return try JSONValue(parsing: body.completed(for: id))
    }

    @Test("A whole message is declarative, and names what a tap opens")
    func whole() throws {
        var notification = PushNotification(
            title: "Parcel",
            body: "Out for delivery",
            badge: 3,
            clickURL: "https://example.com/o/4711",
            actions: [
                .init(id: "track", title: "Track", url: "https://example.com/t"), .init(id: "hide", title: "Hide"),
            ],
            data: ["order": 4_711],
            collapseID: "order-4711"
        )
        notification.overrides["webpush"] = ["notification": ["silent": true, "lang": "en"]]
        #expect(
            try Self.json(notification) == [
                "web_push": 8_030,
                "notification": [
                    "title": "Parcel", "body": "Out for delivery", "navigate": "https://example.com/o/4711",
                    "tag": "order-4711", "app_badge": "3",
                    "actions": [
                        ["action": "track", "title": "Track", "navigate": "https://example.com/t"],
                        ["action": "hide", "title": "Hide", "navigate": "https://example.com/o/4711"],
                    ],
                    "data": ["order": 4_711], "silent": true, "lang": "en",
                ],
                "mutable": true,
            ]
        )
    }

    @Test("Without an address the page's service worker shows it; the tag is the delivery's id")
    func worker() throws {
        let plain = try Self.json(PushNotification(body: "Out"))
        #expect(plain == ["notification": ["title": "Out", "tag": "11111111-2222-4333-8444-555555555555"]])
        #expect(try Self.json(.sample, { $0.isDeclarative = false })["web_push"] == nil)
        #expect(
            try Self.json(PushNotification(title: "A"), { $0.navigate = "https://example.com/" })["web_push"] == 8_030
        )
        var notification = PushNotification.sample
        notification.overrides["webpush"] = ["declarative": false, "mutable": false]
        #expect(try Self.json(notification)["web_push"] == nil)
        notification.overrides["webpush"] = ["mutable": false]
        #expect(try Self.json(notification)["mutable"] == nil)
    }

    @Test("A text is in the browser's language")
    func languages() throws {
        let notification = PushNotification(title: .localized("Parcel", ["fa": "بسته"]), body: nil)
        #expect(try Self.json(notification, language: "fa")["notification"]?["title"] == "بسته")
        #expect(try Self.json(notification, language: "fa")["notification"]?["lang"] == "fa")
        #expect(try Self.json(notification, language: nil)["notification"]?["title"] == "Parcel")
    }

    @Test("A silent message is refused before it is accepted, unless the backend is for apps")
    func silent() throws {
        let notification = PushNotification(data: ["a": 1], isSilent: true)
        let fault = try #require(
            WebPushCheck.examine(WebPushPayload(notification, WebPushPayload.Settings())).faults.first
        )
        #expect(fault.pointer == "#/options/silent")
        #expect(fault.detail.contains("must show something"))
        var settings = WebPushPayload.Settings()
        settings.allowsSilent = true
        #expect(WebPushCheck.examine(WebPushPayload(notification, settings)).faults.isEmpty)
        #expect(try Self.json(notification, { $0.allowsSilent = true }) == ["data": ["a": 1]])
        let empty = WebPushCheck.examine(WebPushPayload(PushNotification(data: ["a": 1]), settings))
        #expect(empty.faults.map(\.code) == ["nothing_to_show"])
    }

    static let overrides: [(JSONObject, String)] = [
        (["urgency": "soon"], "urgency"), (["urgensy": "low"], "urgensy"), (["topic": "a"], "topic"),
        (["ttl": 3], "ttl"),
        (["notification": "a"], "notification"), (["notification": ["title": 3]], "notification/title"),
        (["notification": ["silent": "yes"]], "notification/silent"), (["mutable": 1], "mutable"),
        (["notification": ["navigate": "/o"]], "notification/navigate"), (["declarative": "no"], "declarative"),
        (["notification": ["dir": "up"]], "notification/dir"), (["a/b": 1], "a~1b"),
    ]

    @Test("The direction of a text may be in any case")
    func words() {
        let read = WebPushOverrides(["notification": ["dir": "RTL"], "urgency": "Low"])
        #expect(read.faults.isEmpty && read.notification["dir"] == "rtl" && read.urgency == .low)
    }

    @Test("A wrong override is told by its member", arguments: overrides)
    func wrong(object: JSONObject, path: String) {
        var notification = PushNotification.sample
        notification.overrides["webpush"] = object
        let check = WebPushCheck.examine(WebPushPayload(notification, WebPushPayload.Settings()))
        #expect(check.faults.map(\.pointer) == ["#/overrides/webpush/\(path)"], "\(check.faults)")
    }

    @Test("The typed value is what the API takes")
    func typed() throws {
        let value = WebPushMessage(
            urgency: .veryLow,
            notification: ["icon": "https://example.com/i.png"],
            isMutable: false,
            isDeclarative: false
        )
        #expect(
            value.overrides == [
                "urgency": "very-low", "notification": ["icon": "https://example.com/i.png"], "mutable": false,
                "declarative": false,
            ]
        )
        #expect(throws: PayloadError.self) {
            try PushNotification.sample.with(WebPushMessage(notification: ["title": 3]))
        }
        let notification = try PushNotification.sample.with(value)
        #expect(notification.overrides["webpush"] == value.overrides)
    }

    @Test("Fields that browsers do not show give warnings")
    func warnings() {
        var notification = PushNotification(title: "A", subtitle: "B", sound: "bell.caf", category: "c")
        let check = WebPushCheck.examine(WebPushPayload(notification, WebPushPayload.Settings()))
        #expect(check.faults.isEmpty)
        #expect(
            check.warnings.map(\.pointer) == [
                "#/content/subtitle", "#/content/category", "#/content/sound", "#/content/click_url",
            ]
        )
        notification = .sample
        #expect(WebPushCheck.examine(WebPushPayload(notification, WebPushPayload.Settings())).warnings.isEmpty)
    }
}
