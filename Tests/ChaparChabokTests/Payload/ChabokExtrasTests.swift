import ChaparCore
import Testing

@testable import ChaparChabok

@Suite("Chabok's own values", .timeLimit(.minutes(1)))
struct ChabokExtrasTests {
    @Test("Chabok's words may be in any case, and go out as Chabok writes them")
    func words() {
        let own: JSONObject = [
            "mechanism": "Smart", "fallback": ["media": "SMS", "delay": 60],
            "notification": ["dir": "RTL", "mediaType": "PNG", "title": "T"],
        ]
        let notification = PushNotification(title: "T", overrides: ["chabok": own])
        let read: JSONObject = [
            "mechanism": "smart", "fallback": ["media": "sms", "delay": 60],
            "notification": ["dir": "rtl", "mediaType": "png", "title": "T"],
        ]
        #expect(ChabokPayload.overrides(notification) == read)
        #expect(ChabokCheck.overrideFaults(notification).isEmpty)
        let wrong = PushNotification(title: "T", overrides: ["chabok": ["mechanism": "Smartt"]])
        #expect(ChabokCheck.overrideFaults(wrong).map(\.code) == ["bad_value"])
    }

    /// Source of the hand-written side: specs, Chabok sections 9.1 and 9.2.
    static let twins: [(ChabokExtras, String)] = {
        var looks = ChabokLooks(groupID: "parcels", icon: "parcel", color: "#00ff7f")
        looks.largeIcon = "large"
        looks.smallIcon = "small"
        looks.ledColor = "#ff0000"
        looks.vibration = [0, 250]
        looks.direction = .rightToLeft
        looks.requiresInteraction = true
        looks.alertsAgain = false
        looks.isMutable = true
        looks.isShowingReported = true
        return [
            (
                ChabokExtras(
                    channel: "private/orders",
                    trackID: "parcel-flow",
                    content: "Your parcel left Tabriz",
                    alertText: "Parcel",
                    isInApp: true,
                    isLive: false,
                    showsContent: false,
                    isShownByGoogle: true,
                    looks: looks
                ),
                """
                {"channel": "private/orders", "trackId": "parcel-flow", "content": "Your parcel left Tabriz",
                 "alertText": "Parcel", "inApp": true, "live": false, "useAsAlert": false, "autoNotify": true,
                 "notification": {"groupId": "parcels", "icon": "parcel", "largeIcon": "large", "smallIcon": "small",
                                  "ledColor": "#ff0000", "color": "#00ff7f", "vibrate": [0, 250], "dir": "rtl",
                                  "requireInteraction": true, "renotify": false, "mutableContent": true,
                                  "notifDelivery": true}}
                """
            ),
            (
                ChabokExtras(
                    mechanism: .smart,
                    fallback: ChabokOptions.Fallback(media: .sms, delay: 45, content: "Code 4410")
                ),
                """
                {"mechanism": "smart", "fallback": {"content": "Code 4410", "delay": 45, "media": "sms",
                                                    "policy": "NOTIFICATION_SHOWN"}}
                """
            ),
        ]
    }()

    @Test("A value is what a caller of the API writes by hand", arguments: twins)
    func twin(extras: ChabokExtras, json: String) throws {
        let byHand = try #require(JSONValue(parsing: Array(json.utf8)).objectValue)
        #expect(extras.overrides == byHand, "\(JSONValue.object(extras.overrides).text)")
        let notification = PushNotification(title: "Parcel", timeToLive: .seconds(60))
        var written = notification
        written.overrides["chabok"] = byHand
        #expect(try notification.with(extras) == written)
    }

    static let mistakes: [(ChabokExtras, String)] = [
        (ChabokExtras(channel: "a/b/c"), "channel"),
        (ChabokExtras(trackID: ""), "trackId"),
        (ChabokExtras(fallback: ChabokOptions.Fallback(media: .sms, delay: 0)), "fallback/delay"),
        (ChabokExtras(mechanism: .notification, isInApp: true), "inApp"),
    ]

    @Test("A value that Chabok would refuse is an error that names the field", arguments: mistakes)
    func mistake(extras: ChabokExtras, place: String) {
        let error = #expect(throws: PayloadError.self) { try PushNotification(title: "x").with(extras) }
        #expect(error?.faults.map(\.pointer) == ["#/overrides/chabok/\(place)"])
    }
}
