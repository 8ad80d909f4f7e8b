import Foundation
import OneSignalBench
import ChaparCore
import ChaparTesting
import Testing

@testable import ChaparOneSignal
@testable import ChaparOneSignalDevices

@Suite("OneSignal: content, checks and configuration", .timeLimit(.minutes(5)))
struct OneSignalPayloadTests {
    private func body(_ notification: PushNotification, remaining: Int64? = nil) throws -> JSONValue {
        let body = OneSignalPayload(notification, remaining: remaining, sendAfter: nil)
        let audience = OneSignalAudience.subscriptions(["s"])
        return try JSONValue(parsing: body.bytes(appID: "a", audience: audience, key: "k", isLegacy: false))
    }

    @Test("English is always there, and all texts have the same languages")
    func languages() throws {
        let json = try body(
            PushNotification(
                title: .localized(default: "T", languages: ["fa": "ت", "zh-TW": "標"]),
                body: .localized(default: "B", languages: ["pt-BR": "P", "zh": "体"])
            )
        )
        let languages = ["en", "fa", "pt", "zh-Hans", "zh-Hant"]
        #expect(json["contents"]?.objectValue?.members.map(\.name) == languages)
        #expect(json["headings"]?.objectValue?.members.map(\.name) == languages)
        #expect(json["contents"]?["en"] == "B" && json["contents"]?["zh-Hans"] == "体" && json["contents"]?["pt"] == "P")
        #expect(json["headings"]?["fa"] == "ت" && json["headings"]?["zh-Hant"] == "標")
    }

    @Test("Each language of a text is read once, however many there are")
    func languageWork() throws {
        let tags = (0..<200).map { "\(UnicodeScalar(97 + UInt8($0 / 26)))\(UnicodeScalar(97 + UInt8($0 % 26)))-XX" }
        let text = LocalizedText.localized(
            default: "D",
            languages: Dictionary(uniqueKeysWithValues: tags.map { ($0, "text of \($0)") })
        )
        let notification = PushNotification(title: text, subtitle: text, body: text)
        let json = try body(notification)
        #expect(json["contents"]?.objectValue?.count == 200 && json["headings"]?["ab"] == "text of ab-XX")
        #expect(OneSignalPayload(notification, remaining: nil, sendAfter: nil).tagsRead == 600)
    }

    @Test("Of tags that share a code the one spelled like it counts, else the first")
    func sharedCodes() throws {
        let exact = LocalizedText.localized(default: "D", languages: ["pt-BR": "1", "pt": "2", "pt-AO": "3"])
        let others = LocalizedText.localized(default: "D", languages: ["pt-BR": "1", "pt-AO": "3"])
        let json = try body(PushNotification(title: exact, body: others))
        #expect(json["headings"]?["pt"] == "2" && json["contents"]?["pt"] == "3")
    }

    @Test("Every field has OneSignal's spelling")
    func spellings() throws {
        let json = try body(
            PushNotification(
                title: "Order 42",
                subtitle: "Tehran",
                body: "is on its way",
                image: "https://a.b/42.png",
                sound: "ding.caf",
                badge: 3,
                category: "order",
                clickURL: "https://a.b/o/42",
                actions: [.init(id: "track", title: "Track", url: "https://a.b/t")],
                data: ["order": "42"],
                priority: .normal,
                collapseID: "order-42",
                overrides: ["onesignal": ["ios_interruption_level": "time_sensitive", "isIos": true, "isWP_WNS": true]]
            ),
            remaining: 7200
        )
        let expected: JSONValue = [
            "app_id": "a", "idempotency_key": "k", "include_subscription_ids": ["s"],
            "contents": ["en": "is on its way"], "headings": ["en": "Order 42"], "subtitle": ["en": "Tehran"],
            "ios_attachments": ["image": "https://a.b/42.png"], "big_picture": "https://a.b/42.png",
            "huawei_big_picture": "https://a.b/42.png", "adm_big_picture": "https://a.b/42.png",
            "chrome_web_image": "https://a.b/42.png", "url": "https://a.b/o/42",
            "buttons": [["id": "track", "text": "Track"]],
            "web_buttons": [["id": "track", "text": "Track", "url": "https://a.b/t"]], "ios_sound": "ding.caf",
            "ios_badgeType": "SetTo", "ios_badgeCount": 3, "huawei_badge_set_num": 3, "ios_category": "order",
            "data": ["order": "42"], "priority": 5, "ttl": 7200, "collapse_id": "order-42",
            "ios_interruption_level": "time_sensitive", "isIos": true, "isWP_WNS": true,
        ]
        #expect(json == expected)
    }

    @Test("A silent push wakes the app and says nothing")
    func silent() throws {
        let json = try body(PushNotification(title: "T", data: ["a": 1], isSilent: true))
        #expect(json["content_available"] == true && json["priority"] == 5 && json["contents"] == nil)
        #expect(json["data"] == ["a": 1])
    }

    @Test("No sound has a word; the usual one needs none; the time to live is held in range")
    func details() throws {
        #expect(try body(.sample)["ios_sound"] == "nil")
        var notification = PushNotification.sample
        notification.sound = "default"
        notification.collapseID = String(repeating: "x", count: 65)
        let json = try body(notification, remaining: 9_999_999)
        #expect(json["ios_sound"] == nil && json["ttl"] == 2_419_200 && json["priority"] == 10)
        #expect(json["collapse_id"]?.stringValue?.count == 64)
    }

    static let faults: [(PushNotification, String)] = [
        (PushNotification(data: ["a": 1]), "nothing_to_show"),
        (PushNotification(title: "T", data: ["a": .string(String(repeating: "x", count: 2048))]), "data_too_large"),
        (PushNotification(body: .plain(String(repeating: "x", count: 3600))), "payload_too_large"),
        (PushNotification(title: "T", actions: (0..<4).map { .init(id: "\($0)", title: "x") }), "too_many_actions"),
        (PushNotification(title: "T", overrides: ["onesignal": ["app_id": "x"]]), "reserved_key"),
        (PushNotification(title: "T", overrides: ["onesignal": ["included_segments": ["All"]]]), "reserved_key"),
        (PushNotification(title: "T", overrides: ["onesignal": ["idempotency_key": "x"]]), "reserved_key"),
        (PushNotification(title: "T", overrides: ["onesignal": ["include_everything": true]]), "reserved_key"),
        (PushNotification(title: "T", overrides: ["onesignal": ["filters": []]]), "reserved_key"),
        (PushNotification(title: "T", overrides: ["onesignal": ["contents": ["fa": "x"]]]), "english_missing"),
        (
            PushNotification(
                title: "T",
                overrides: ["onesignal": ["name": .string(String(repeating: "n", count: 129))]]
            ),
            "too_long"
        ),
        (PushNotification(title: "T", overrides: ["onesignal": ["ttl": 3_000_000]]), "bad_ttl"),
        (
            PushNotification(title: "T", overrides: ["onesignal": ["ios_interruption_level": "time-sensitive"]]),
            "bad_value"
        ),
        (PushNotification(title: "T", overrides: ["onesignal": ["priority": 7]]), "bad_priority"),
    ]

    @Test("A message that OneSignal would refuse is found before sending", arguments: faults)
    func findsFault(notification: PushNotification, code: String) {
        #expect(OneSignalCheck.faults(notification).map(\.code) == [code])
    }

    @Test("OneSignal's words may be in any case, and go out as OneSignal writes them")
    func words() throws {
        let own: JSONObject = [
            "ios_interruption_level": "Time_Sensitive", "delayed_option": "LAST-ACTIVE", "ios_badgeType": "increase",
            "apns_push_type_override": "VoIP", "throttle_rate_per_minute": 0,
        ]
        let notification = PushNotification(title: "T", overrides: ["onesignal": own])
        #expect(OneSignalCheck.faults(notification).isEmpty)
        let json = try body(notification, remaining: 60)
        #expect(json["ios_interruption_level"] == "time_sensitive" && json["delayed_option"] == "last-active")
        #expect(json["ios_badgeType"] == "Increase" && json["apns_push_type_override"] == "voip")
    }

    static let filters: [(OneSignalFilter, JSONValue)] = [
        (.tag("k", .equal, "v"), ["field": "tag", "key": "k", "value": "v", "relation": "="]),
        (.tag("k", .notExists), ["field": "tag", "key": "k", "relation": "not_exists"]),
        (.lastSession(.greater, hoursAgo: 1.5), ["field": "last_session", "hours_ago": "1.5", "relation": ">"]),
        (.firstSession(.less, hoursAgo: 24), ["field": "first_session", "hours_ago": "24", "relation": "<"]),
        (.sessionCount(.notEqual, 3), ["field": "session_count", "value": "3", "relation": "!="]),
        (.sessionTime(.less, 60), ["field": "session_time", "value": "60", "relation": "<"]),
        (.language(.equal, "fa"), ["field": "language", "value": "fa", "relation": "="]),
        (.appVersion(.greater, "3.4"), ["field": "app_version", "value": "3.4", "relation": ">"]),
        (.country("IR"), ["field": "country", "value": "IR", "relation": "="]),
        (
            .location(radius: 1000, latitude: 35.7, longitude: 51.4),
            ["field": "location", "radius": "1000", "lat": "35.7", "long": "51.4"]
        ),
        (.or, ["operator": "OR"]),
    ]

    @Test("A filter is written with texts only", arguments: filters)
    func writesFilter(filter: OneSignalFilter, json: JSONValue) { #expect(filter.json == json) }

    @Test("Tags become branches: all and none hold in each")
    func branches() {
        let filters = OneSignalFilter.filters(TagFilter(all: ["city:tehran"], any: ["plan:pro", "vip"], none: ["old"]))
        let common: [OneSignalFilter] = [.tag("city", .equal, "tehran"), .tag("old", .notExists)]
        #expect(filters == common + [.tag("plan", .equal, "pro"), .or] + common + [.tag("vip", .exists)])
    }

    // MARK: Configuration

    private struct Files: ConfigFileReader {
        func contents(of path: String) throws -> [UInt8] { Array("os_v2_app_file\n".utf8) }
    }

    private func read(_ section: JSONValue) throws -> (backend: (any PushBackend)?, issues: [String]) {
        let report = ConfigReport()
        let registry = try BackendRegistry([.oneSignal])
        let all = ConfigSection(ConfigNode(["campaigns": section]), report: report, files: Files())
        let backends = registry.backends(in: all) { name in
            BackendContext(name: name, http: ScriptedTransport(), time: SystemTime(), logger: quiet)
        }
        #expect(!report.settings.contains { $0.value?.contains("os_v2_app") ?? false })
        return (backends.first?.backend, report.issues.map { "\($0.path): \($0.problem)" })
    }

    static let app = "8B6F0C2E-1F57-4A0D-B1F4-6F1A9D3C5E77"

    @Test("Good sections make backends")
    func sections() throws {
        let plain = try read(["kind": "onesignal", "app_id": .string(Self.app), "api_key": "os_v2_app_x"])
        let backend = try #require(plain.backend as? OneSignalBackend)
        #expect(plain.issues.isEmpty && backend.options.appID == Self.app.lowercased())
        #expect(backend.options.chunkSize == 20_000 && backend.options.common.timeout == .seconds(60))
        let file = try read([
            "kind": "onesignal", "app_id": .string(Self.app), "api_key_file": "key.txt", "device_api": "players",
            "base_url": "https://onesignal.com/api/v1/",
        ])
        let legacy = try #require(file.backend as? OneSignalBackend)
        #expect(legacy.options.base.path("/players") == "/api/v1/players" && legacy.options.chunkSize == 2_000)
        let oauth = try read([
            "kind": "onesignal", "app_id": .string(Self.app),
            "auth": ["kind": "oauth2_refresh", "client_id": "c", "refresh_token": "os_v2_app_secret"],
        ])
        #expect(oauth.backend != nil, "\(oauth.issues)")
    }

    static let mistakes: [(JSONValue, String)] = [
        (["kind": "onesignal", "api_key": "k"], "campaigns.app_id: is missing"),
        (["kind": "onesignal", "app_id": "x", "api_key": "k"], "campaigns.app_id: is not a UUID"),
        (["kind": "onesignal", "app_id": .string(app)], "campaigns.api_key: is missing"),
        (["kind": "onesignal", "app_id": .string(app), "api_key": " "], "campaigns.api_key: is empty"),
        (
            ["kind": "onesignal", "app_id": .string(app), "api_key": .string(app)],
            "campaigns.api_key: is an app id, not a key"
        ),
        (
            ["kind": "onesignal", "app_id": .string(app), "api_key": "os_v2_org_x"],
            "campaigns.api_key: is an organisation's key"
        ),
        (
            ["kind": "onesignal", "app_id": .string(app), "api_key": "k", "batch_size": 20001],
            "campaigns.batch_size: \"20001\" is not a whole number from 1 to 20000"
        ),
        (
            ["kind": "onesignal", "app_id": .string(app), "api_key": "k", "device_api": "players", "batch_size": 5000],
            "campaigns.batch_size: 5000 is more than the player API takes"
        ),
        (
            ["kind": "onesignal", "app_id": .string(app), "api_key": "k", "base_url": "http://api.onesignal.com"],
            "campaigns.base_url: \"http://api.onesignal.com\" is not encrypted"
        ),
        (
            ["kind": "onesignal", "app_id": .string(app), "api_key": "k", "auth_scheme": "bearer"],
            "campaigns.auth_scheme: \"bearer\" is not allowed"
        ),
        (["kind": "onesignal", "app_id": .string(app), "api_kye": "k"], "campaigns.api_kye: unknown key"),
    ]

    @Test("A mistake is named with its path", arguments: mistakes)
    func namesMistake(section: JSONValue, expected: String) throws {
        let (backend, issues) = try read(section)
        #expect(issues.contains(expected), "\(issues)")
        #expect(backend == nil)
    }
}
