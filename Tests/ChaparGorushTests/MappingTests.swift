import Foundation
import ChaparCore
import ChaparModules
import Testing

@testable import ChaparGorush

/// Each field on each platform: specs/gorush.md sections 3 and 11.
@Suite("gorush's door: fields", .timeLimit(.minutes(1)))
struct MappingTests {
    struct Case: Sendable, CustomTestStringConvertible {
        var entry: String
        var expected: String
        var testDescription: String { entry }

        init(_ entry: String, _ expected: String) { (self.entry, self.expected) = (entry, expected) }
    }

    private static let life = #""ttl":2419200"#

    /// Checks an entry for a platform; the expected notification is written without its recipient and backend.
    private func check(_ platform: Int, _ own: Case) async throws {
        let tokens =
            own.entry.contains("\"topic\":\"news\"") || own.entry.contains("condition") ? "" : #""tokens":["aa"],"#
        let sent = try await Door().map(#"{\#(tokens)"platform":\#(platform),\#(own.entry)}"#)
        var notification = try #require(sent.first?.objectValue)
        notification["to"] = nil
        notification["backend"] = nil
        let expected = try JSONValue(parsing: Array(own.expected.utf8))
        #expect(.object(notification) == expected, "\(JSONValue.object(notification).text)")
    }

    static let appleCases: [Case] = [
        Case(#""message":"m""#, #"{"content":{"body":"m"},"options":{\#(life)}}"#),
        Case(
            #""title":"t","message":"m","image":"https://e.com/i.png","badge":0,"category":"c""#,
            #"{"content":{"title":"t","body":"m","category":"c","badge":0},"options":{\#(life)}}"#
        ),
        Case(
            #""message":"m","sound":{"critical":1,"name":"default","volume":2.0}"#,
            #"{"content":{"body":"m"},"options":{\#(life)},"overrides":{"apns":{"payload":{"aps":{"sound":{"critical":1,"name":"default","volume":1.0}}}}}}"#
        ),
        Case(#""message":"m","badge":-1"#, #"{"content":{"body":"m"},"options":{\#(life)}}"#),
        Case(
            #""message":"m","alert":{"subtitle":"s"}"#,
            #"{"content":{"subtitle":"s","body":"m"},"options":{\#(life)}}"#
        ),
        Case(
            #""message":"m","title":"t","alert":{"title":"T","body":"B","action":"a","action-loc-key":"k","launch-image":"l","loc-key":"lk","loc-args":["1"],"title-loc-key":"tk","title-loc-args":["2"],"summary-arg":"sa","summary-arg-count":3}"#,
            #"{"content":{"title":"T","body":"B"},"options":{\#(life)},"overrides":{"apns":{"payload":{"aps":{"alert":{"action":"a","action-loc-key":"k","launch-image":"l","loc-key":"lk","loc-args":["1"],"title-loc-key":"tk","title-loc-args":["2"],"summary-arg":"sa","summary-arg-count":3}}}}}}"#
        ),
        Case(
            #""message":"m","priority":"normal","collapse_id":"c","push_type":"voip","thread-id":"th","url-args":["u"],"interruption_level":"critical","mutable_content":true"#,
            #"{"content":{"body":"m"},"options":{"priority":"normal","collapse_id":"c",\#(life)},"overrides":{"apns":{"payload":{"aps":{"mutable-content":1,"thread-id":"th","interruption-level":"critical","url-args":["u"]}},"headers":{"apns-push-type":"voip"}}}}"#
        ),
        Case(#""message":"m","priority":"HIGH""#, #"{"content":{"body":"m"},"options":{"priority":"high",\#(life)}}"#),
        Case(#""message":"m","sound":"bell""#, #"{"content":{"body":"m","sound":"bell"},"options":{\#(life)}}"#),
        Case(
            #""message":"m","sound":{"critical":1,"name":"bell","volume":0.5}"#,
            #"{"content":{"body":"m"},"options":{\#(life)},"overrides":{"apns":{"payload":{"aps":{"sound":{"critical":1,"name":"bell","volume":0.5}}}}}}"#
        ),
        Case(
            #""message":"m","sound":"x","name":"bell""#,
            #"{"content":{"body":"m"},"options":{\#(life)},"overrides":{"apns":{"payload":{"aps":{"sound":{"critical":1,"name":"bell","volume":1.0}}}}}}"#
        ),
        Case(
            #""message":"m","volume":0.2"#,
            #"{"content":{"body":"m"},"options":{\#(life)},"overrides":{"apns":{"payload":{"aps":{"sound":{"critical":1,"name":"default","volume":0.2}}}}}}"#
        ),
        Case(
            #""message":"m","expiration":0"#,
            #"{"content":{"body":"m"},"options":{"ttl":0},"overrides":{"apns":{"headers":{"apns-expiration":"0"}}}}"#
        ),
        Case(
            #""message":"m","expiration":99999999999"#,
            #"{"content":{"body":"m"},"options":{\#(life)},"overrides":{"apns":{"headers":{"apns-expiration":"99999999999"}}}}"#
        ),
        Case(
            #""message":"m","expiration":1"#,
            #"{"content":{"body":"m"},"options":{"ttl":0},"overrides":{"apns":{"headers":{"apns-expiration":"1"}}}}"#
        ),
        Case(#""message":"m","expiration":-5"#, #"{"content":{"body":"m"},"options":{\#(life)}}"#),
        Case(#""content_available":true"#, #"{"options":{"silent":true,\#(life)}}"#),
        Case(
            #""content_available":true,"data":{"n":9007199254740993,"o":{"k":[true]}}"#,
            #"{"content":{"data":{"n":9007199254740993,"o":{"k":[true]}}},"options":{"silent":true,\#(life)}}"#
        ),
        Case(
            #""content_available":true,"badge":1"#,
            #"{"content":{"badge":1},"options":{\#(life)},"overrides":{"apns":{"payload":{"aps":{"content-available":1}}}}}"#
        ),
        Case(
            #""push_type":"liveactivity","topic":"com.example.app.push-type.liveactivity","event":"update","content-state":{"s":1},"timestamp":5,"stale-date":6,"dismissal-date":0,"relevance-score":0.5"#,
            #"{"options":{\#(life)},"overrides":{"apns":{"payload":{"aps":{"content-state":{"s":1},"event":"update","timestamp":5,"stale-date":6,"relevance-score":0.5}},"headers":{"apns-topic":"com.example.app.push-type.liveactivity","apns-push-type":"liveactivity"}}}}"#
        ),
        Case(
            #""message":"m","notif_id":"n7","apns_id":"id","retry":3,"dry_run":true,"apns":{"payload":{"aps":{"sound":"s"}}}"#,
            #"{"content":{"body":"m"},"options":{"dry_run":true,\#(life)},"overrides":{"apns":{"payload":{"aps":{"sound":"s"}}}},"reference":"n7","metadata":{"apns_id":"id"}}"#
        ),
    ]

    @Test("Apple", arguments: appleCases)
    func apple(own: Case) async throws { try await check(1, own) }

    private static let colour = ##""#112233""##

    static let googleCases: [Case] = [
        Case(
            #""title":"t","message":"m","image":"https://e.com/i.png","badge":3,"category":"c""#,
            #"{"content":{"title":"t","body":"m","image":"https://e.com/i.png"},"options":{"priority":"high",\#(life)}}"#
        ),
        Case(
            #""message":"m","image":"http://e.com/i.png""#,
            #"{"content":{"body":"m"},"options":{"priority":"high",\#(life)},"overrides":{"fcm":{"notification":{"image":"http://e.com/i.png"}}}}"#
        ),
        Case(
            #""data":{"n":9007199254740993,"s":"x"}"#,
            #"{"content":{"data":{"n":9007199254740993,"s":"x"}},"options":{"priority":"normal",\#(life)}}"#
        ),
        Case(
            #""topic":"news","data":{"k":"v"},"priority":"high""#,
            #"{"content":{"data":{"k":"v"}},"options":{"priority":"high",\#(life)}}"#
        ),
        Case(
            #""message":"m","notification":{"title":"T","body":"B","icon":"i","color":\#(colour),"sound":"s","android_channel_id":"ch","body_loc_key":"K","body_loc_args":"[\"1\",\"2\"]"}"#,
            #"{"content":{"title":"T","body":"m"},"options":{"priority":"high",\#(life)},"overrides":{"fcm":{"android":{"notification":{"icon":"i","color":\#(colour),"sound":"s","channel_id":"ch","body_loc_key":"K","body_loc_args":["1","2"]}}}}}"#
        ),
        Case(
            #""message":"m","content_available":true,"mutable_content":true,"apns":{"headers":{"apns-priority":"10"},"payload":{"aps":{"badge":2}}}"#,
            #"{"content":{"body":"m"},"options":{"priority":"high",\#(life)},"overrides":{"fcm":{"apns":{"headers":{"apns-priority":"10"},"payload":{"aps":{"badge":2,"content-available":1,"mutable-content":1}}}}}}"#
        ),
        Case(
            #""message":"m","webpush":{"headers":{"Urgency":"high"}},"fcm_options":{"analytics_label":"l"},"sound":{"critical":1,"name":"n","volume":1}"#,
            #"{"content":{"body":"m"},"options":{"priority":"high",\#(life)},"overrides":{"fcm":{"webpush":{"headers":{"Urgency":"high"}},"fcm_options":{"analytics_label":"l"},"apns":{"payload":{"aps":{"sound":{"critical":1,"name":"n","volume":1}}}}}}}"#
        ),
        Case(
            #""message":"m","android":{"ttl":"3600s","collapse_key":"c","priority":"normal","notification":{"channel_id":"x"}}"#,
            #"{"content":{"body":"m"},"options":{"priority":"high","collapse_id":"c","ttl":3600},"overrides":{"fcm":{"android":{"priority":"normal","notification":{"channel_id":"x"}}}}}"#
        ),
        Case(
            #""message":"m","collapse_key":"c","time_to_live":60,"restricted_package_name":"p","delay_while_idle":true,"dry_run":true"#,
            #"{"content":{"body":"m"},"options":{"priority":"high","collapse_id":"c","dry_run":true,"ttl":60},"overrides":{"fcm":{"android":{"restricted_package_name":"p"}}}}"#
        ),
        Case(
            #""message":"m","android":{"collapse_key":""}"#,
            #"{"content":{"body":"m"},"options":{"priority":"high",\#(life)}}"#
        ),
        Case(#""priority":"high""#, #"{"options":{"priority":"high","silent":true,\#(life)}}"#),
        Case(
            #""message":"m","android":{"ttl":null,"notification":{"tag":null}},"apns":{"headers":null},"notification":{"icon":null}"#,
            #"{"content":{"body":"m"},"options":{"priority":"high",\#(life)},"overrides":{"fcm":{"android":{"notification":{}},"apns":{}}}}"#
        ),
        Case(
            #""message":"m","notif_id":"\#(String(repeating: "n", count: 600))""#,
            #"{"content":{"body":"m"},"options":{"priority":"high",\#(life)}}"#
        ),
        Case(
            #""message":"m","notif_id":"\#(String(repeating: "n", count: 128))""#,
            #"{"content":{"body":"m"},"options":{"priority":"high",\#(life)},"reference":"\#(String(repeating: "n", count: 128))"}"#
        ),
        Case(
            #""message":"m","notif_id":"\#(String(repeating: "é", count: 65))""#,
            #"{"content":{"body":"m"},"options":{"priority":"high",\#(life)},"metadata":{"notif_id":"\#(String(repeating: "é", count: 65))"}}"#
        ),
        Case(
            #""message":"m","notif_id":"a\nb""#,
            #"{"content":{"body":"m"},"options":{"priority":"high",\#(life)},"metadata":{"notif_id":"a\nb"}}"#
        ),
    ]

    @Test("Google", arguments: googleCases)
    func google(own: Case) async throws { try await check(2, own) }

    private static let defaults =
        #""default_sound":true,"use_default_vibrate":true,"use_default_light":true,"visibility":"PRIVATE","foreground_show":true,"auto_cancel":true,"click_action":{"type":1,"action":"Action"}"#

    static let huaweiCases: [Case] = [
        Case(
            #""title":"t","message":"m","data":{"k":1}"#,
            #"{"content":{"title":"t","body":"m"},"options":{"priority":"normal","ttl":86400},"overrides":{"hms":{"android":{"notification":{\#(defaults)}}}}}"#
        ),
        Case(
            #""message":"m","priority":"high","huawei_ttl":"600s","huawei_collapse_key":7,"bi_tag":"b","category":"IM","fast_app_target":1,"huawei_data":"{\"k\":1}","app_secret":"planted""#,
            #"{"content":{"body":"m"},"options":{"priority":"high","ttl":600},"overrides":{"hms":{"android":{"collapse_key":7,"bi_tag":"b","category":"IM","fast_app_target":1,"notification":{\#(defaults)}},"data":"{\"k\":1}"}}}"#
        ),
        Case(
            #""huawei_notification":{"title":"T","body":"B","importance":"HIGH"}"#,
            #"{"options":{"priority":"normal","ttl":86400},"overrides":{"hms":{"android":{"notification":{"foreground_show":false,"title":"T","body":"B","importance":"HIGH","click_action":{"type":1,"action":"Action"}}}}}}"#
        ),
        Case(
            #""huawei_data":"x""#,
            #"{"options":{"priority":"normal","silent":true,"ttl":86400},"overrides":{"hms":{"data":"x"}}}"#
        ),
    ]

    @Test("Huawei", arguments: huaweiCases)
    func huawei(own: Case) async throws { try await check(3, own) }

    @Test("The recipient's service and backend follow platform, host, topic and app")
    func targets() async throws {
        let door = Door { $0.huaweiApps = ["1002": "news"] }
        func backend(_ entry: String) async throws -> JSONValue? {
            try await door.map(#"{"tokens":["aa"],"message":"m",\#(entry)}"#).first?["backend"]
        }
        #expect(try await backend(#""platform":1"#) == "ios")
        #expect(try await backend(#""platform":1,"development":true"#) == "ios-dev")
        #expect(try await backend(#""platform":1,"development":true,"production":true"#) == "ios")
        #expect(try await backend(#""platform":1,"topic":"com.example.news.voip""#) == "news")
        #expect(try await backend(#""platform":1,"topic":"com.example.newspaper""#) == "ios")
        #expect(try await backend(#""platform":3,"app_id":"1002""#) == "news")
        #expect(try await backend(#""platform":3,"app_id":"9""#) == "huawei")
        let google = try await door.map(#"{"tokens":["aa"],"to":"bb","platform":2,"message":"m"}"#)
        let tokens = google.first?["to"]?["tokens"]
        #expect(tokens == [["token": "aa", "service": "x-firebase"], ["token": "bb", "service": "x-firebase"]])
        let topic = try await door.map(#"{"topic":"/topics/news","platform":2,"message":"m"}"#)
        #expect(topic.first?["to"] == ["topic": "news"])
        let older = try await door.map(#"{"to":"/topics/foo-bar","platform":2,"message":"m"}"#)
        #expect(older.map { $0["to"] } == [["topic": "foo-bar"]])
        let condition = try await door.map(#"{"condition":"'a' in topics","platform":3,"message":"m"}"#)
        #expect(condition.first?["to"] == ["topic": "'a' in topics"])
    }

    @Test("A Live Activity without a time stamp gets the time of acceptance")
    func timestamp() async throws {
        let sent = try await Door().map(
            #"{"tokens":["aa"],"platform":1,"push_type":"liveactivity","event":"start","attributes-type":"A","attributes":{"x":1},"content-state":{},"title":"t"}"#
        )
        let aps = sent.first?["overrides"]?["apns"]?["payload"]?["aps"]
        let stamp = try #require(aps?["timestamp"]?.integerValue)
        #expect(abs(Double(stamp) - Date().timeIntervalSince1970) < 60)
        #expect(aps?["attributes-type"] == "A" && aps?["attributes"] == ["x": 1] && aps?["event"] == "start")
    }

    @Test("The door's time to live holds where an entry names none")
    func life() async throws {
        let door = Door { $0.defaultLife = 300 }
        for platform in 1...3 {
            let sent = try await door.map(#"{"tokens":["aa"],"platform":\#(platform),"message":"m"}"#)
            #expect(sent.first?["options"]?["ttl"] == 300, "\(platform)")
        }
    }
}
