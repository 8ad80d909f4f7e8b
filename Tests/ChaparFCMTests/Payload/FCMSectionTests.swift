import Foundation
import ChaparCore
import ChaparSandbox
import ChaparTesting
import Testing

@testable import ChaparFCM

@Suite("Google's own values", .serialized, .timeLimit(.minutes(1)))
struct FCMSectionTests {
    struct Twin: Sendable, CustomTestStringConvertible {
        var name: String
        var payload: any PlatformPayload
        /// The JSON that a caller of the API would write under `overrides.fcm`.
        var json: String
        var testDescription: String { name }
    }

    static let everything: FCMAndroid = {
        var shown = FCMAndroidNotification(
            title: .key("T", arguments: ["a"]),
            body: .key("B", arguments: ["b", "c"]),
            channelID: "orders"
        )
        shown.icon = "ic_parcel"
        shown.color = "#00ff7f"
        shown.sound = "bell"
        shown.tag = "order-42"
        shown.clickAction = "OPEN_ORDER"
        shown.ticker = "parcel"
        shown.isSticky = true
        shown.eventTime = Date(timeIntervalSince1970: 1_767_225_600)
        shown.isLocalOnly = false
        shown.priority = .maximum
        shown.usesDefaultSound = false
        shown.usesDefaultVibration = false
        shown.usesDefaultLight = false
        shown.vibration = [.seconds(0), .milliseconds(250)]
        shown.visibility = .secret
        shown.count = 3
        shown.light = FCMLight(red: 1, green: 0.5, blue: 0, on: .seconds(1), off: .milliseconds(1500))
        shown.image = "https://example.com/42.png"
        shown.proxy = .ifPriorityLowered
        return FCMAndroid(
            notification: shown,
            data: ["order": "42", "kind": "parcel"],
            priority: .high,
            timeToLive: .seconds(3600),
            collapseKey: "order",
            restrictedPackageName: "com.example.app",
            isDirectBootAllowed: true,
            isConstrainedBandwidthAllowed: true,
            isSatelliteAllowed: false,
            analyticsLabel: "delivery"
        )
    }()

    /// Source of the hand-written side: specs, FCM section 3.2.
    static let twins: [Twin] = [
        Twin(
            name: "Android with everything",
            payload: everything,
            json: """
                {"android": {
                    "collapse_key": "order", "priority": "HIGH", "ttl": "3600s",
                    "restricted_package_name": "com.example.app", "data": {"kind": "parcel", "order": "42"},
                    "fcm_options": {"analytics_label": "delivery"}, "direct_boot_ok": true,
                    "bandwidth_constrained_ok": true, "restricted_satellite_ok": false,
                    "notification": {
                        "title_loc_key": "T", "title_loc_args": ["a"], "body_loc_key": "B", "body_loc_args": ["b", "c"],
                        "icon": "ic_parcel", "color": "#00ff7f", "sound": "bell", "tag": "order-42",
                        "click_action": "OPEN_ORDER", "channel_id": "orders", "ticker": "parcel", "sticky": true,
                        "event_time": "2026-01-01T00:00:00.000Z", "local_only": false,
                        "notification_priority": "PRIORITY_MAX", "default_sound": false,
                        "default_vibrate_timings": false, "default_light_settings": false,
                        "vibrate_timings": ["0s", "0.25s"], "visibility": "SECRET", "notification_count": 3,
                        "light_settings": {"color": {"red": 1, "green": 0.5, "blue": 0, "alpha": 1},
                                           "light_on_duration": "1s", "light_off_duration": "1.5s"},
                        "image": "https://example.com/42.png", "proxy": "IF_PRIORITY_LOWERED"}}}
                """
        ),
        Twin(
            name: "Android's own texts",
            payload: FCMAndroid(notification: FCMAndroidNotification(title: "t", body: "b")),
            json: #"{"android": {"notification": {"title": "t", "body": "b"}}}"#
        ),
        Twin(
            name: "browsers",
            payload: FCMWeb(
                link: "https://example.com/o/42",
                notification: ["requireInteraction": true, "actions": [["action": "track", "title": "Track"]]],
                data: ["order": "42"],
                headers: ["TTL": "60", "Urgency": "high"],
                analyticsLabel: "delivery"
            ),
            json: """
                {"webpush": {"headers": {"TTL": "60", "Urgency": "high"}, "data": {"order": "42"},
                             "notification": {"requireInteraction": true,
                                              "actions": [{"action": "track", "title": "Track"}]},
                             "fcm_options": {"link": "https://example.com/o/42", "analytics_label": "delivery"}}}
                """
        ),
        Twin(
            name: "Apple's devices",
            payload: FCMApple(
                headers: ["apns-priority": "5"],
                payload: ["aps": ["interruption-level": "passive"]],
                image: "https://example.com/42.png",
                analyticsLabel: "delivery"
            ),
            json: """
                {"apns": {"headers": {"apns-priority": "5"}, "payload": {"aps": {"interruption-level": "passive"}},
                          "fcm_options": {"analytics_label": "delivery", "image": "https://example.com/42.png"}}}
                """
        ),
    ]

    @Test("A value is what a caller of the API writes by hand", arguments: twins)
    func twin(twin: Twin) throws {
        let byHand = try #require(JSONValue(parsing: Array(twin.json.utf8)).objectValue)
        #expect(twin.payload.overrides == byHand, "\(JSONValue.object(twin.payload.overrides).text)")
        let notification = PushNotification(title: "Parcel")
        var written = notification
        written.overrides["fcm"] = byHand
        #expect(try notification.with(twin.payload) == written)
    }

    @Test("Google takes each of them, and a device gets its own part only")
    func sent() async throws {
        try await SocketHarness.run { harness in
            harness.simulator.register(tokens: [goodToken, deviceToken(1), deviceToken(2)])
            let notification = try PushNotification(title: "Parcel", body: "is near").with(
                Self.everything,
                FCMWeb(link: "https://example.com/o/42"),
                FCMApple(payload: ["aps": ["thread-id": "42"]])
            )
            let recipients = [
                recipient(), recipient(deviceToken(1), .iOSFirebase), recipient(deviceToken(2), .webFirebase),
                .topic("news"),
            ]
            for outcome in await harness.backend.send(notification, to: recipients) {
                #expect(outcome.acceptance != nil, "\(outcome)")
            }
            var messages: [String: JSONValue] = [:]
            for delivery in harness.simulator.inbox { messages["\(delivery.target)"] = delivery.message }
            let android = try #require(messages["\(FCMDelivery.Target.token(goodToken))"])
            #expect(android["notification"] == nil, "the app's own texts take their place")
            #expect(android["android"]?["notification"]?["title_loc_key"] == "T")
            #expect(android["apns"] == nil)
            let apple = try #require(messages["\(FCMDelivery.Target.token(deviceToken(1)))"])
            #expect(apple["notification"]?["title"] == "Parcel")
            #expect(apple["apns"]?["payload"]?["aps"]?["thread-id"] == "42")
            #expect(apple["android"] == nil && apple["webpush"] == nil)
            let web = try #require(messages["\(FCMDelivery.Target.token(deviceToken(2)))"])
            #expect(web["webpush"]?["fcm_options"]?["link"] == "https://example.com/o/42")
            #expect(web["android"] == nil && web["apns"] == nil)
            let topic = try #require(messages["\(FCMDelivery.Target.topic("news"))"])
            #expect(topic["webpush"]?["fcm_options"]?["link"] == "https://example.com/o/42")
            #expect(topic["notification"]?["title"] == "Parcel")
        }
    }

    /// The payload that `APNsPush` of another plugin makes of a Live Activity.
    private struct Push: PlatformPayload {
        static let kind: BackendKind = "apns"
        var event = "update"
        var overrides: JSONObject {
            [
                "headers": ["apns-push-type": "liveactivity", "apns-topic": "a.b"],
                "payload": ["aps": ["timestamp": 1, "event": .string(event), "content-state": ["stops": 3]]],
            ]
        }
        static func faults(in notification: PushNotification) -> [Finding] { [] }
    }

    @Test("A Live Activity goes to its own token, with nothing but its own in the payload")
    func liveActivity() async throws {
        try await SocketHarness.run { harness in
            harness.simulator.register(tokens: [goodToken], platform: "IOS")
            let notification = try PushNotification().with(FCMApple(Push(), liveActivityToken: "5e01"))
            let outcome = await harness.backend.send(notification, to: recipient(goodToken, .iOSFirebase))
            #expect(outcome.acceptance != nil, "\(outcome)")
            let apns = harness.simulator.inbox.first?.message["apns"]
            #expect(
                apns == [
                    "headers": ["apns-priority": "10"], "live_activity_token": "5e01",
                    "payload": ["aps": ["timestamp": 1, "event": "update", "content-state": ["stops": 3]]],
                ],
                "\(apns?.text ?? "")"
            )
            #expect(!harness.backend.isRepeatHarmful(notification))
            let start = try PushNotification().with(FCMApple(Push(event: "start"), liveActivityToken: "5e01"))
            #expect(harness.backend.isRepeatHarmful(start), "a second one would start a second activity")
        }
    }

    static let mistakes: [(any PlatformPayload, String)] = {
        var red = FCMAndroidNotification(title: "x")
        red.color = "red"
        return [
            (FCMAndroid(timeToLive: .seconds(2_419_201)), "android/ttl"),
            (FCMAndroid(timeToLive: .seconds(-1)), "android/ttl"),
            (FCMAndroid(notification: red), "android/notification/color"),
            (FCMAndroid(data: ["from": "x"]), "android/data/from"),
            (FCMAndroid(analyticsLabel: "two words"), "android/fcm_options/analytics_label"),
            (FCMWeb(link: "http://example.com"), "webpush/fcm_options/link"),
            (FCMApple(headers: ["apns-priority": "7"]), "apns/headers/apns-priority"),
            (FCMApple(headers: ["apns-collapse-id": ""]), "apns/headers/apns-collapse-id"),
        ]
    }()

    @Test("A value Google would refuse is an error that names the field; its JSON is not sent", arguments: mistakes)
    func mistake(payload: any PlatformPayload, place: String) async throws {
        let error = #expect(throws: PayloadError.self) { try PushNotification(title: "x").with(payload) }
        #expect(error?.faults.map(\.pointer) == ["#/overrides/fcm/\(place)"])
        let transport = ScriptedTransport { _ in .success(.fcmAccepted) }
        let backend = try FCMBackend.scripted(transport)
        var written = PushNotification(title: "x")
        written.overrides["fcm"] = payload.overrides
        let refusal = await backend.send(written, to: recipient()).refusal
        #expect(refusal?.reason == error?.faults.first?.code)
        #expect(transport.calls.isEmpty)
    }
}
