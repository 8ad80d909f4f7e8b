import OneSignalBench
import ChaparCore
import Testing

@testable import ChaparOneSignal
@testable import ChaparOneSignalDevices

@Suite("OneSignal's own values", .timeLimit(.minutes(1)))
struct OneSignalExtrasTests {
    /// Source of the hand-written side: specs, IDPush and OneSignal section 14.3.
    static let twins: [(OneSignalExtras, String)] = [
        (
            OneSignalExtras(
                name: "spring",
                customData: ["order": 42],
                interruptionLevel: .timeSensitive,
                relevanceScore: 0.5,
                threadID: "orders",
                androidGroup: "orders",
                androidChannel: .oneSignal("0198f2c4-0000-7000-8000-000000000001"),
                huaweiChannel: .app("orders"),
                badgeIncrease: 1,
                isCall: true,
                devicesPerMinute: 100,
                isFrequencyCapped: false
            ),
            """
            {"name": "spring", "custom_data": {"order": 42}, "ios_interruption_level": "time_sensitive",
             "ios_relevance_score": 0.5, "thread_id": "orders", "android_group": "orders",
             "android_channel_id": "0198f2c4-0000-7000-8000-000000000001", "huawei_existing_channel_id": "orders",
             "ios_badgeType": "Increase", "ios_badgeCount": 1, "huawei_badge_add_num": 1,
             "apns_push_type_override": "voip", "throttle_rate_per_minute": 100, "enable_frequency_cap": false}
            """
        ),
        (
            OneSignalExtras(templateID: "t", androidChannel: .app("a"), timing: .timeOfDay("9:00AM")),
            """
            {"template_id": "t", "existing_android_channel_id": "a", "delayed_option": "timezone",
             "delivery_time_of_day": "9:00AM", "throttle_rate_per_minute": 0}
            """
        ),
        (
            OneSignalExtras(timing: .lastActive),
            #"{"delayed_option": "last-active", "throttle_rate_per_minute": 0}"#
        ),
    ]

    @Test("A value is what a caller of the API writes by hand", arguments: twins)
    func twin(extras: OneSignalExtras, json: String) throws {
        let byHand = try #require(JSONValue(parsing: Array(json.utf8)).objectValue)
        #expect(extras.overrides == byHand, "\(JSONValue.object(extras.overrides).text)")
        let notification = PushNotification(title: "Parcel")
        var written = notification
        written.overrides["onesignal"] = byHand
        #expect(try notification.with(extras) == written)
        let body = OneSignalPayload(written, remaining: nil, sendAfter: nil).members
        for (name, value) in byHand { #expect(body[name] == value) }
    }

    static let mistakes: [(OneSignalExtras, String)] = [
        (OneSignalExtras(name: String(repeating: "x", count: 129)), "name"),
        (OneSignalExtras(relevanceScore: 2), "ios_relevance_score"),
        (OneSignalExtras(badgeIncrease: 100), "huawei_badge_add_num"),
        (OneSignalExtras(devicesPerMinute: -1), "throttle_rate_per_minute"),
        (OneSignalExtras(timing: .lastActive, devicesPerMinute: 5), "throttle_rate_per_minute"),
        (OneSignalExtras(customData: ["x": .string(String(repeating: "x", count: 2048))]), "custom_data"),
    ]

    @Test("A value that OneSignal would refuse is an error that names the field", arguments: mistakes)
    func mistake(extras: OneSignalExtras, name: String) {
        let error = #expect(throws: PayloadError.self) { try PushNotification(title: "x").with(extras) }
        #expect(error?.faults.first?.pointer == "#/overrides/onesignal/\(name)")
    }
}
