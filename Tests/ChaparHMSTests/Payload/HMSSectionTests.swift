import Foundation
import ChaparCore
import ChaparSandbox
import ChaparTesting
import Testing

@testable import ChaparHMS

@Suite("Huawei's own values", .timeLimit(.minutes(1)))
struct HMSSectionTests {
    struct Twin: Sendable, CustomTestStringConvertible {
        var name: String
        var payload: any PlatformPayload
        /// The JSON that a caller of the API would write under `overrides.hms`.
        var json: String
        var testDescription: String { name }
    }

    static let everything: HMSAndroid = {
        var shown = HMSAndroidNotification(
            title: .key("T", arguments: ["a"]),
            body: .key("B"),
            click: .intent("app://orders/42")
        )
        shown.languages = ["T": ["fa": "سفارش", "en": "Order"]]
        shown.icon = "/raw/icon"
        shown.color = "#00ff7f"
        shown.sound = "/raw/bell"
        shown.usesDefaultSound = false
        shown.tag = "order-42"
        shown.notifyID = 42
        shown.channelID = "orders"
        shown.summary = "parcel"
        shown.image = "https://example.com/42.png"
        shown.style = .bigText(title: "Order 42", body: "is on its way")
        shown.clearsAfter = .milliseconds(90_500)
        shown.group = "orders"
        shown.badge = HMSBadge(.add(1), entry: "com.example.Main")
        shown.importance = .normal
        shown.visibility = .public
        shown.vibration = [.seconds(1), .milliseconds(500)]
        shown.usesDefaultVibration = false
        shown.light = HMSLight(red: 1, green: 0.5, blue: 0, on: .seconds(1), off: .milliseconds(1500))
        shown.usesDefaultLight = false
        shown.isShownInForeground = true
        shown.buttons = [
            HMSButton("Track", .intent("app://track"), data: "t"), HMSButton("Shop", .url("https://example.com")),
            HMSButton("OK", .app),
        ]
        shown.profileID = "user-1"
        shown.ticker = "parcel"
        shown.eventTime = Date(timeIntervalSince1970: 1_767_225_600)
        return HMSAndroid(
            notification: shown,
            data: #"{"order":"42"}"#,
            urgency: .high,
            category: "EXPRESS",
            timeToLive: .seconds(3600),
            collapseKey: 3,
            batchTag: "delivery-2026-01",
            receiptID: "RCP1",
            fastAppTarget: .production
        )
    }()

    /// Source of the hand-written side: specs, HMS section 3.2.
    static let twins: [Twin] = [
        Twin(
            name: "Android with everything",
            payload: everything,
            json: #"""
                {"android": {
                    "collapse_key": 3, "urgency": "HIGH", "category": "EXPRESS", "ttl": "3600s",
                    "bi_tag": "delivery-2026-01", "receipt_id": "RCP1", "fast_app_target": 2,
                    "data": "{\"order\":\"42\"}",
                    "notification": {
                        "title_loc_key": "T", "title_loc_args": ["a"], "body_loc_key": "B",
                        "multi_lang_key": {"T": {"en": "Order", "fa": "سفارش"}}, "icon": "/raw/icon",
                        "color": "#00ff7f", "sound": "/raw/bell", "default_sound": false, "tag": "order-42",
                        "notify_id": 42, "click_action": {"type": 1, "intent": "app://orders/42"},
                        "channel_id": "orders", "notify_summary": "parcel", "image": "https://example.com/42.png",
                        "style": 1, "big_title": "Order 42", "big_body": "is on its way", "auto_clear": 90500,
                        "group": "orders", "badge": {"add_num": 1, "class": "com.example.Main"},
                        "importance": "NORMAL", "visibility": "PUBLIC", "vibrate_config": ["1s", "0.5s"],
                        "use_default_vibrate": false, "use_default_light": false, "foreground_show": true,
                        "light_settings": {"color": {"alpha": 1, "red": 1, "green": 0.5, "blue": 0},
                                           "light_on_duration": "1s", "light_off_duration": "1.5s"},
                        "buttons": [
                            {"name": "Track", "action_type": 1, "intent_type": 0, "intent": "app://track", "data": "t"},
                            {"name": "Shop", "action_type": 2, "intent": "https://example.com"},
                            {"name": "OK", "action_type": 0}],
                        "profile_id": "user-1", "ticker": "parcel", "when": "2026-01-01T00:00:00.000Z"}}}
                """#
        ),
        Twin(
            name: "an inbox",
            payload: HMSAndroid(notification: inbox(.inbox(["one", "two"]), .action("com.example.OPEN"))),
            json: """
                {"android": {"notification": {"click_action": {"type": 1, "action": "com.example.OPEN"},
                                              "style": 3, "inbox_content": ["one", "two"]}}}
                """
        ),
        Twin(
            name: "one line that opens a page",
            payload: HMSAndroid(notification: inbox(.plain, .url("https://example.com"))),
            json: """
                {"android": {"notification": {"click_action": {"type": 2, "url": "https://example.com"}, "style": 0}}}
                """
        ),
        Twin(
            name: "Apple's devices",
            payload: HMSApple(
                headers: ["apns-priority": "5"],
                payload: ["aps": ["thread-id": "42"]],
                targetUserType: .test
            ),
            json: """
                {"apns": {"headers": {"apns-priority": "5"}, "payload": {"aps": {"thread-id": "42"}},
                          "hms_options": {"target_user_type": 1}}}
                """
        ),
    ]

    private static func inbox(_ style: HMSAndroidNotification.Style, _ click: HMSClick) -> HMSAndroidNotification {
        var shown = HMSAndroidNotification(click: click)
        shown.style = style
        return shown
    }

    @Test("A value is what a caller of the API writes by hand", arguments: twins)
    func twin(twin: Twin) throws {
        let byHand = try #require(JSONValue(parsing: Array(twin.json.utf8)).objectValue)
        #expect(twin.payload.overrides == byHand, "\(JSONValue.object(twin.payload.overrides).text)")
        let notification = PushNotification(title: "Parcel")
        var written = notification
        written.overrides["hms"] = byHand
        #expect(try notification.with(twin.payload) == written)
    }

    @Test("Huawei takes all of it, and a device gets its own part only")
    func sent() async throws {
        let notification = try PushNotification(title: "Parcel", body: "is near").with(
            Self.everything,
            HMSApple(payload: ["aps": ["thread-id": "42"]], targetUserType: .test)
        )
        let android = try await HMSMessageTests.message(notification)
        #expect(android["android"]?["bi_tag"] == "delivery-2026-01")
        #expect(android["android"]?["notification"]?["buttons"]?.arrayValue?.count == 3)
        #expect(android["apns"] == nil)
        let apple = try await HMSMessageTests.message(notification, service: .iOSHuawei)
        #expect(apple["apns"]?["payload"]?["aps"]?["thread-id"] == "42")
        #expect(apple["apns"]?["payload"]?["aps"]?["alert"]?["title"] == "Parcel")
        #expect(apple["apns"]?["hms_options"]?["target_user_type"] == 1)
        #expect(apple["android"] == nil)
    }

    /// The payload that `APNsPush` of another plugin makes of an alert.
    private struct Push: PlatformPayload {
        static let kind: BackendKind = "apns"
        var overrides: JSONObject {
            ["headers": ["apns-push-type": "alert"], "payload": ["aps": ["interruption-level": "passive"]]]
        }
        static func faults(in notification: PushNotification) -> [Finding] { [] }
    }

    @Test("A value for Apple can be sent through Huawei too")
    func borrowed() throws {
        #expect(HMSApple(Push()).overrides == ["apns": .object(Push().overrides)])
        #expect(try PushNotification(title: "x").with(HMSApple(Push())).overrides.keys.sorted() == ["hms"])
    }

    static let mistakes: [(any PlatformPayload, String)] = {
        func shown(_ change: (inout HMSAndroidNotification) -> Void) -> HMSAndroid {
            var shown = HMSAndroidNotification()
            change(&shown)
            return HMSAndroid(notification: shown)
        }
        return [
            (HMSAndroid(timeToLive: .zero), "android/ttl"),
            (HMSAndroid(timeToLive: .seconds(15 * 86_400 + 1)), "android/ttl"),
            (HMSAndroid(collapseKey: 101), "android/collapse_key"),
            (HMSAndroid(batchTag: String(repeating: "x", count: 65)), "android/bi_tag"),
            (shown { $0.image = "http://example.com/1.png" }, "android/notification/image"),
            (shown { $0.badge = HMSBadge(.add(100)) }, "android/notification/badge/add_num"),
            (shown { $0.badge = HMSBadge(.set(-1)) }, "android/notification/badge/set_num"),
            (shown { $0.style = .inbox(Array(repeating: "x", count: 6)) }, "android/notification/inbox_content"),
            (
                shown { $0.buttons = Array(repeating: HMSButton("x", .app), count: 4) },
                "android/notification/buttons"
            ),
            (
                shown { $0.vibration = Array(repeating: .seconds(1), count: 11) },
                "android/notification/vibrate_config"
            ),
            (
                shown { $0.languages = ["k": ["a": "", "b": "", "c": "", "d": ""]] },
                "android/notification/multi_lang_key"
            ),
        ]
    }()

    @Test("A value that Huawei would refuse is an error that names the field", arguments: mistakes)
    func mistake(payload: any PlatformPayload, place: String) {
        let error = #expect(throws: PayloadError.self) { try PushNotification(title: "x").with(payload) }
        #expect(error?.faults.map(\.pointer) == ["#/overrides/hms/\(place)"])
    }

    @Test("As JSON it is refused without a request")
    func written() async throws {
        try await Harness.run { harness in
            let recipient = harness.register(0..<1)[0]
            for (payload, place) in Self.mistakes {
                var written = PushNotification(title: "x")
                written.overrides["hms"] = payload.overrides
                #expect(await harness.backend.send(written, to: recipient).refusal?.kind == .message, "\(place)")
            }
            #expect(harness.simulator.counters.accepted == 0)
        }
    }

    @Test("An unknown user type of the JSON form is refused before it is sent")
    func userType() throws {
        var notification = PushNotification(title: "x")
        notification.overrides["hms"] = [
            "apns": ["hms_options": ["target_user_type": 4], "headers": ["apns-priority": 5]]
        ]
        #expect(
            HMSAndroid.faults(in: notification).map(\.pointer) == [
                "#/overrides/hms/apns/headers/apns-priority", "#/overrides/hms/apns/hms_options/target_user_type",
            ]
        )
    }
}
