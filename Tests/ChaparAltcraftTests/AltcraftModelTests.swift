import Foundation
import ChaparCore
import ChaparTesting
import Testing

@testable import ChaparAltcraft

/// Values, codes, fields and payloads: everything that needs no platform.
@Suite("Altcraft: model", .timeLimit(.minutes(1)))
struct AltcraftModelTests {
    @Test("An answer is read with everything optional, and unknown members are ignored")
    func answer() throws {
        let body = """
            {"error":0,"error_text":"","more":1,"profile":{"id":"66f0","status":"subscribed","is_test":false,
            "subscription":{"subscription_id":"9c1f00aa77bb9c1f00aa77bb","hash_id":"c0ffee","provider":"ios-apns",
            "status":"suspended","fields":{"_ad_track":false,"_os_ver":{"raw":"18.6.2"}},
            "cats":[{"name":"sport","title":"Sport","steady":true,"active":false},7]}}}
            """
        let response = try #require(Response(Array(body.utf8)))
        let subscription = try #require(response.profile?.subscription)
        #expect(response.error == 0 && response.profile?.isTest == false)
        #expect(subscription.fields?["_ad_track"] == false)
        #expect(subscription.cats == [CategoryData(name: "sport", title: "Sport", steady: true, active: false)])
        let answer = ResponseWithHttp(httpCode: 200, response: response)
        #expect(answer.status == .suspended)
        #expect(!JSONValue.object(answer.redacted().json).text.contains("9c1f00aa77bb9c1f00aa77bb"))
        #expect(JSONValue.object(answer.redacted().json).text.contains("9c1f00…77bb"))
        #expect(Response([]) == nil && Response(Array("<html>".utf8)) == nil)
        #expect(Response(Array("busy".utf8))?.errorText == "busy")
        #expect(Response(Array("{}".utf8)) == Response())
    }

    @Test("The SDK's values go through a coder and come back; answers have Altcraft's own names")
    func codable() throws {
        let category = CategoryData(name: "sport", title: "Sport", steady: true, active: false)
        let subscription = SubscriptionData(
            subscriptionId: "t",
            hashId: "h",
            provider: "ios-apns",
            status: "subscribed",
            fields: ["_ad_track": false, "level": 3],
            cats: [category]
        )
        let profile = ProfileData(id: "p", status: "subscribed", isTest: false, subscription: subscription)
        let answer = ResponseWithHttp(httpCode: 200, response: Response(error: 0, errorText: "", profile: profile))
        let bytes = try JSONEncoder().encode(answer)
        #expect(try JSONDecoder().decode(ResponseWithHttp.self, from: bytes) == answer)
        let json = try JSONValue(parsing: Array(bytes))
        #expect(json["http_code"] == 200 && json["response"]?["profile"]?["subscription"]?["hash_id"] == "h")
        let info = AppInfo(appID: "a", appIID: "i", appVer: "1")
        #expect(try JSONDecoder().decode(AppInfo.self, from: JSONEncoder().encode(info)) == info)
        let token = TokenData(provider: "ios-apns", token: "t")
        #expect(try JSONDecoder().decode(TokenData.self, from: JSONEncoder().encode(token)) == token)
    }

    @Test("A category without active leaves that to Altcraft")
    func categories() {
        var issues: [Finding] = []
        let list: JSONValue = [["name": "sport"], ["name": "news", "active": false]]
        let change = AltcraftChange(["cats": list], sync: true, issues: &issues)
        let request = AltcraftRequest.subscription(
            .subscribed,
            token: DeviceToken("t", service: .iOSAPNs),
            mode: "email",
            at: 1,
            options: change,
            fields: [:]
        )
        #expect(issues.isEmpty && request.body?["subscription"]?["cats"] == list)
        #expect(CategoryData(name: "sport").active == nil)
    }

    static let codes: [(AltcraftAction, seed: [Int], current: [Int])] = [
        (.subscribe, [230, 430, 530], [230, 430, 530]), (.suspend, [230, 430, 530], [231, 431, 531]),
        (.unsubscribe, [230, 430, 530], [232, 432, 532]), (.update, [231, 431, 531], [233, 433, 533]),
        (.unsuspend, [233, 433, 433], [234, 434, 434]), (.status, [234, 434, 434], [235, 435, 435]),
        (.event, [232, 432, 532], [236, 436, 536]), (.profile, [238, 438, 538], [238, 438, 538]),
        (.mobile, [237, 437, 537], [237, 437, 537]),
    ]

    @Test("Each outcome has the number of the chosen release", arguments: codes)
    func numbers(action: AltcraftAction, seed: [Int], current: [Int]) {
        for (codes, expected) in [(AltcraftEventCodes.seed, seed), (.current, current)] {
            #expect([codes.success(action), codes.refused(action), codes.failed(action)] == expected)
        }
        #expect(AltcraftEventCodes.seed.unprepared(.unsuspend) == 423)
        #expect(AltcraftEventCodes.seed.unprepared(.status) == 424)
        #expect(AltcraftEventCodes.seed.dropped(.event) == 484 && AltcraftEventCodes.seed.dropped(.suspend) == 480)
        #expect(AltcraftEventCodes.seed.dropped(.mobile) == 485 && AltcraftEventCodes.seed.unprepared(.mobile) == 527)
    }

    @Test("An event leaves out parameters and null values, and is equal to itself only")
    func events() {
        let date = Date(timeIntervalSince1970: 0)
        let event = AltcraftEvent(.error, function: "send(a:b:)", value: ["uid": nil, "type": "open"], date: date)
        #expect(event.function == "send()" && event.value == ["type": "open"])
        #expect(AltcraftEvent(.info, function: "x", value: ["uid": nil], date: date).value == nil)
        #expect(event == event && event != AltcraftEvent(.error, function: "send()", date: date))
    }

    @Test("The six changes have the platform's form, and merge with the later key winning")
    func changes() {
        let bonus = AltcraftFields.actionField(key: "bonus")
        #expect(JSONValue.object(bonus.incr(50)).text == #"{"bonus":{"action":"incr","value":50}}"#)
        #expect(bonus.set("a") == ["bonus": ["action": "set", "value": "a"]])
        #expect(bonus.unset() == ["bonus": ["action": "unset", "value": nil]])
        #expect(bonus.add(["a"]) == ["bonus": ["action": "add", "value": ["a"]]])
        #expect(bonus.delete(["a"]) == ["bonus": ["action": "delete", "value": ["a"]]])
        #expect(
            AltcraftFields.actionField(key: "address").upsert("Kazan", submatch: "city")
                == ["address": ["action": "upsert", "value": "Kazan", "submatch": "city"]]
        )
        #expect(
            AltcraftFields.mergeFields(bonus.set(1), ["x": 2], bonus.incr(3))
                == AltcraftFields.mergeFields(["x": 2], bonus.incr(3))
        )
        for change in [
            bonus.incr(-1.5), bonus.unset(), bonus.add(["a"]), bonus.upsert(1, submatch: "a.b"), bonus.set(nil),
        ] {
            #expect(AltcraftFields.issues(profile: change, at: "#").isEmpty)
        }
    }

    static let badProfile: [(JSONValue, String)] = [
        (["action": "grow", "value": 1], "action must be one of"), (["action": 1], "action must be one of"),
        (["action": "incr", "value": "5"], "a number, not a text"),
        (["action": "add", "value": "a"], "a list, not a text"),
        (["action": "unset", "value": 1], "takes no value"), (["action": "upsert", "value": 1], "submatch"),
        (["action": "set"], "wants a value"), (["action": "set", "value": 1, "sub": 2], "\"sub\" is none"),
        (["action": "add", "value": [1], "submatch": ""], "submatch must be"),
    ]

    @Test("A change that Altcraft does not know is named with its fix", arguments: badProfile)
    func badChanges(change: JSONValue, words: String) throws {
        let issue = try #require(AltcraftFields.issues(profile: ["a/b": change], at: "#/p").first)
        #expect(issue.pointer == "#/p/a~1b" && issue.detail.contains(words))
    }

    @Test("A change's action may be in any case, and goes out as Altcraft writes it")
    func words() {
        var issues: [Finding] = []
        let fields: JSONObject = ["bonus": ["action": "INCR", "value": 5], "city": "Kazan", "note": ["a": "SET"]]
        let change = AltcraftChange(["profile_fields": .object(fields)], sync: true, issues: &issues)
        let read: JSONObject = ["bonus": ["action": "incr", "value": 5], "city": "Kazan", "note": ["a": "SET"]]
        #expect(issues.isEmpty && change.profileFields == read)
        #expect(AltcraftFields.issues(profile: ["a": ["action": "Grow", "value": 1]], at: "#").count == 1)
    }

    @Test("Subscription fields hold primitives only; profile fields any JSON")
    func custom() {
        let nested: JSONObject = ["a": ["b": 1], "c": [1], "d": 1, "e": nil, "f": true, "g": 1.5, "h": "x"]
        let issues = AltcraftFields.issues(custom: nested, at: "#")
        #expect(issues.map(\.pointer) == ["#/a", "#/c"])
        #expect(issues.allSatisfy { $0.code == "not_primitive" && $0.detail.contains("475") })
        #expect(AltcraftFields.issues(profile: nested, at: "#").isEmpty)
        #expect(AltcraftFields.issues(profile: [" ": 1], at: "#").map(\.code) == ["invalid_name"])
        let large: JSONObject = ["a": .string(String(repeating: "x", count: 70_000))]
        #expect(AltcraftFields.issues(custom: large, at: "#").map(\.code) == ["too_large"])
    }

    @Test(
        "A list of providers is read in any case; an unknown or repeated name is code 473, and an empty list the default"
    )
    func providers() throws {
        #expect(try AltcraftProviders.order([]).prefix(3) == [.iOSAPNs, .iOSFirebase, .iOSHuawei])
        #expect(try AltcraftProviders.order(["IOS-Huawei", "ios-apns"]) == [.iOSHuawei, .iOSAPNs])
        for names in [["ios-apns", "ios-amazon"], ["ios-apns", "ios-apns"], [""]] {
            #expect(throws: AltcraftFault.self) { try AltcraftProviders.order(names) }
        }
    }

    // MARK: Payloads

    static let apple: JSONObject = [
        "aps": ["alert": ["title": "Order 118", "body": "On its way"], "mutable-content": 1], "_ac_push": nil,
        "_uid": "m-7f31c0", "_media": "https://img.example.com/p/118.png", "_click-url": "shop://orders/118",
        "_buttons": #"[{"label":"Track","link":"https://shop.example.com/t"},{"link":"x"},{"label":"Call"}]"#,
    ]

    @Test("Apple's dialect is read whole, and buttons keep their places")
    func applePayload() throws {
        let payload = try #require(AltcraftReceivedPush(Self.apple))
        #expect(payload.uid == "m-7f31c0" && payload.title == "Order 118" && payload.body == "On its way")
        #expect(payload.media == "https://img.example.com/p/118.png" && payload.clickURL == "shop://orders/118")
        #expect(payload.buttons.map(\.id) == ["button0", "button2"] && payload.buttons[1].link == nil)
        #expect(try payload.link(for: AltcraftReceivedPush.defaultAction) == "shop://orders/118")
        #expect(try payload.link(for: "button0") == "https://shop.example.com/t")
        #expect(try payload.link(for: "button2") == nil)
    }

    static let android: JSONObject = [
        "_ac_push": "1", "_uid": "m-1", "_title": "T", "_body": "B", "_image": "https://i.example.com/a.png",
        "_click_action": "app://x", "_buttons": [["label": "A", "link": "l"]], "_extra": "e",
    ]
    static let wrappings: [JSONObject] = [
        android, ["data": .object(android)], ["message": ["data": .object(android), "token": "t"]],
        ["data": .string(JSONValue.object(android).text), "msgId": "1"],
    ]

    @Test(
        "Android's dialect is read bare, from FCM's data, and from the text that HMS makes of it",
        arguments: wrappings
    )
    func androidPayload(json: JSONObject) throws {
        let payload = try #require(AltcraftReceivedPush(json))
        #expect(payload.uid == "m-1" && payload.title == "T" && payload.body == "B" && payload.extra == "e")
        #expect(payload.media == "https://i.example.com/a.png" && payload.clickURL == "app://x")
        #expect(payload.buttons == [.init(index: 0, label: "A", link: "l")])
    }

    static let links: [(String, Int)] = [
        ("button1", 455), ("button9", 457), ("button", 457), ("button01", 457), ("reply", 457), ("", 457),
        ("button-1", 457),
    ]

    @Test("A tap that leads nowhere has its code", arguments: links)
    func badLinks(action: String, code: Int) throws {
        let payload = try #require(AltcraftReceivedPush(Self.android))
        let fault = #expect(throws: AltcraftReceivedPush.LinkFault.self) { try payload.link(for: action) }
        #expect(fault?.code == code)
    }

    @Test("Another's payload is not ours, and a damaged one keeps what can be read")
    func odd() throws {
        for json: JSONObject in [
            [:], ["aps": ["alert": "x"]], ["data": "no"], ["uid": "1", "hub_link": [:]], ["data": ["x": 1]],
        ] {
            #expect(AltcraftReceivedPush(json) == nil && !AltcraftReceivedPush.isAltcraft(json))
        }
        let damaged = try #require(
            AltcraftReceivedPush([
                "_ac_push": true, "aps": ["alert": "only text"], "_buttons": "[{", "_media": "ftp://x", "_uid": " ",
            ])
        )
        #expect(damaged.uid == nil && damaged.body == "only text" && damaged.title == nil)
        #expect(damaged.hasBadButtons && damaged.hasBadMedia && damaged.media == nil)
        #expect(try damaged.link(for: AltcraftReceivedPush.defaultAction) == nil)
        #expect(throws: AltcraftReceivedPush.LinkFault(code: 454, identifier: "button0", index: 0)) {
            try damaged.link(for: "button0")
        }
        let plain = try #require(AltcraftReceivedPush(["_ac_push": false]))
        #expect(!plain.hasBadButtons && plain.buttons.isEmpty, "no buttons is no mistake")
    }
}
