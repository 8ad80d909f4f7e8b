import Foundation
import HTTPTypes
import ChaparComposition
import ChaparCore
import ChaparQueue
import ChaparStoreContract
import ChaparTesting
import Testing

@testable import ChaparAPI
@testable import ChaparDelivery
@testable import ChaparGateway
@testable import ChaparServer

@Suite("Audiences of the registry", .timeLimit(.minutes(1)))
struct APIAudienceTests {
    private static let fewest: Int = 3

    /// A gateway with twelve devices: each second one has the tag `news`, each fourth one belongs to `ali`.
    private func harness(_ keys: [GatewayConfiguration.APIKey] = []) async throws -> APIHarness {
        let harness = APIHarness(keys: keys) { $0.lists = ["offers": true, "digest": false] }
        let now = harness.time.now
        _ = try await harness.devices.put(
            (0..<12).map { number in
                Device(
                    id: "phone-\(number)",
                    user: number % 4 == 0 ? "ali" : "user-\(number)",
                    tokens: [
                        RegisteredToken(
                            DeviceToken("token-\(number)", service: number < 6 ? .iOSAPNs : .androidFirebase),
                            registeredAt: now
                        )
                    ],
                    tags: number % 2 == 0 ? ["news"] : [],
                    createdAt: now
                )
            }
        )
        return harness
    }

    private func count(_ harness: APIHarness, _ body: String, _ key: HTTPFields = HTTPFields()) async throws
        -> APIHarness.Reply
    {
        try await harness.send(.post, "/v1/audiences/count", body, headers: key)
    }

    @Test("A rule is counted, with those who get nothing by cause")
    func counted() async throws {
        let harness = try await harness()
        #expect(try await harness.send(.put, "/v1/users/user-1/lists", #"{"lists":{"offers":false}}"#).status == 200)
        let body = #"{"audience":{"everyone":true},"exclude":{"tag":"news"},"list":"offers"}"#
        let reply = try await count(harness, body)
        #expect(reply.status == 200, "\(reply.text)")
        #expect(reply.json["count"] == 5)
        #expect(reply.json["kind"] == "exact")
        #expect(reply.json["matched"] == 12)
        #expect(reply.json["skipped"] == ["excluded": 6, "opted_out": 1])
        #expect(reply.json["cost"] == ["reads": "registry", "rows": 12])
        let narrow = try await count(harness, #"{"audience":{"tag":"news"},"mode":"estimate"}"#)
        #expect(narrow.json["count"] == 6, "\(narrow.text)")
        #expect(narrow.json["cost"]?["reads"] == "index")
        let digest = try await count(harness, #"{"audience":{"everyone":true},"list":"digest"}"#)
        #expect(digest.json["count"] == 0, "\(digest.text)")
        let unknown = try await count(harness, #"{"audience":{"tag":"news"},"list":"offer"}"#)
        #expect(unknown.errors == ["#/list unknown_list"], "\(unknown.text)")
    }

    @Test("The cost of a count does not depend on the devices of other apps")
    func costWithinApp() async throws {
        let harness = try await harness()
        let now = harness.time.now
        let other = AppName(rawValue: "other")
        _ = try await harness.devices.put(
            (0..<5).map { number in
                var device = Device(id: other.key("phone-\(number)"), createdAt: now)
                device.tags = ["news", "secret"]
                return device
            }
        )
        // This store has no index: it evaluates each device.
        for rule in [#"{"tag":"news"}"#, #"{"tag":"secret"}"#, #"{"everyone":true}"#] {
            let reply = try await count(harness, #"{"audience":\#(rule)}"#)
            #expect(reply.json["cost"]?["rows"] == 12, "\(reply.text)")
        }
    }

    @Test("A name that no segment can have is not found; as that of a new segment it is wrong")
    func malformedName() async throws {
        let harness = try await harness()
        for name in [String(repeating: "a", count: 129), "a%20b"] {
            for (method, path) in [(HTTPRequest.Method.get, ""), (.delete, ""), (.get, "/members"), (.get, "/count")] {
                let reply = try await harness.send(method, "/v1/segments/\(name)\(path)")
                #expect(reply.status == 404 && reply.code == "not_found", "\(method) \(path): \(reply.text)")
            }
            let put = try await harness.send(.put, "/v1/segments/\(name)", #"{"rule":{"tag":"news"}}"#)
            #expect(put.status == 400 && put.code == "invalid_parameter", "\(put.text)")
        }
    }

    @Test("A segment of a rule is stored, named by others, and refused where it would lead to itself")
    func segmentOfRule() async throws {
        let harness = try await harness()
        let put = try await harness.send(.put, "/v1/segments/readers", #"{"rule":{"tag":"news"}}"#)
        #expect(put.status == 201, "\(put.text)")
        #expect(put.json["rule"] == ["tag": "news"])
        let count = try await harness.send(.get, "/v1/segments/readers/count")
        #expect(count.json["count"] == 6, "\(count.text)")
        let second = #"{"rule":{"all":[{"segment":"readers"},{"platform":"ios"}]}}"#
        #expect(try await harness.send(.put, "/v1/segments/ios-readers", second).status == 201)
        #expect(try await harness.send(.get, "/v1/segments/ios-readers/count").json["count"] == 3)
        let cycle = try await harness.send(.put, "/v1/segments/readers", #"{"rule":{"segment":"ios-readers"}}"#)
        #expect(cycle.errors == ["#/rule/segment segment_cycle"], "\(cycle.text)")
        let unknown = try await self.count(harness, #"{"audience":{"any":[{"tag":"x"},{"segment":"gone"}]}}"#)
        #expect(unknown.errors == ["#/audience/any/1/segment unknown_segment"], "\(unknown.text)")
        #expect(
            try await harness.send(.put, "/v1/segments/third", #"{"rule":{"segment":"ios-readers"}}"#).status == 201
        )
        let deep = try await self.count(harness, #"{"audience":{"segment":"third"}}"#)
        #expect(deep.json["count"] == 3, "\(deep.text)")
        // No rule could name the fourth of a chain: it is refused where it is defined.
        let deeper = try await harness.send(.put, "/v1/segments/fourth", #"{"rule":{"segment":"third"}}"#)
        #expect(deeper.errors == ["#/rule/segment segments_too_deep"], "\(deeper.text)")
        // A chain may grow by a change of its end: then the rules that name it are refused.
        #expect(try await harness.send(.put, "/v1/segments/base", #"{"rule":{"tag":"news"}}"#).status == 201)
        #expect(try await harness.send(.put, "/v1/segments/readers", #"{"rule":{"segment":"base"}}"#).status == 200)
        let grown = try await self.count(harness, #"{"audience":{"segment":"third"}}"#)
        #expect(grown.errors == ["#/audience/segment segments_too_deep"], "\(grown.text)")
        #expect(try await harness.send(.delete, "/v1/segments/readers").status == 204)
        #expect(try await harness.send(.get, "/v1/segments/readers").status == 404)
    }

    @Test("A list of devices is loaded by a call, as CSV and as lines, and each load replaces it")
    func segmentOfDevices() async throws {
        let harness = try await harness()
        let put = try await harness.send(.put, "/v1/segments/vip", #"{"devices":["phone-1","phone-2","nobody"]}"#)
        #expect(put.status == 201, "\(put.text)")
        #expect(put.json["members"] == 2)
        #expect(put.json["unknown"] == 1)
        var csv = HTTPFields()
        csv[.contentType] = "text/csv; charset=utf-8"
        let second = try await harness.send(
            .put,
            "/v1/segments/vip",
            "note,device\r\n\"a, b\",phone-2\r\nx,phone-3\r\n",
            headers: csv
        )
        #expect(second.status == 200, "\(second.text)")
        let members = try await harness.send(.get, "/v1/segments/vip/members")
        #expect(members.json["items"] == ["phone-2", "phone-3"], "\(members.text)")
        #expect(try await harness.send(.get, "/v1/segments/vip").json["devices"] == 2)
        let change = try await harness.send(
            .post,
            "/v1/segments/vip/members",
            #"{"add":["phone-4","gone"],"remove":["phone-2"]}"#
        )
        #expect(change.json == ["added": 1, "removed": 1, "unknown": ["gone"]], "\(change.text)")
        var lines = HTTPFields()
        lines[.contentType] = "application/x-ndjson"
        let users = try await harness.send(.put, "/v1/segments/people", "{\"user\":\"ali\"}\n", headers: lines)
        #expect(users.status == 201, "\(users.text)")
        #expect(try await harness.send(.get, "/v1/segments/people/count").json["count"] == 3)
        let kind = try await harness.send(.put, "/v1/segments/people", #"{"devices":["phone-1"]}"#)
        #expect(kind.errors == ["# segment_kind"], "\(kind.text)")
        let bad = try await harness.send(.put, "/v1/segments/vip", "name\nphone-1\n", headers: csv)
        #expect(bad.errors == ["#/lines/1 heading_missing"], "\(bad.text)")
        let open = try await harness.send(.put, "/v1/segments/vip", "device\nphone-1\n\"phone-2\n", headers: csv)
        #expect(open.errors == ["#/lines/3 open_quotation"], "\(open.text)")
        #expect(try await harness.send(.delete, "/v1/segments/vip").status == 204)
        #expect(try await harness.send(.put, "/v1/segments/vip", #"{"devices":[]}"#).status == 201)
        #expect(try await harness.send(.get, "/v1/segments/vip/members").json["items"] == [])
    }

    @Test("A user's tags are those of each of the user's devices, and are listed with their counts")
    func userTags() async throws {
        let harness = try await harness()
        let put = try await harness.send(.put, "/v1/users/ali/tags", #"{"tags":["gold","old"]}"#)
        #expect(put.json == ["user": "ali", "tags": ["gold", "old"]], "\(put.text)")
        _ = try await harness.send(.put, "/v1/users/ali/tags", #"{"tags":["gold"]}"#)
        #expect(try await count(harness, #"{"audience":{"user_tag":"gold"}}"#).json["count"] == 3)
        #expect(try await harness.send(.post, "/v1/users/sara/switch", #"{"device":"phone-0"}"#).status == 200)
        #expect(try await count(harness, #"{"audience":{"user_tag":"gold"}}"#).json["count"] == 2)
        let tags = try await harness.send(.get, "/v1/tags?limit=1")
        #expect(tags.json["items"] == [["tag": "news", "of": "device", "devices": 6]], "\(tags.text)")
        let rest = try await harness.send(.get, "/v1/tags?cursor=\(tags.json["next"]?.stringValue ?? "")")
        #expect(rest.json["items"] == [["tag": "gold", "of": "user", "devices": 2]], "\(rest.text)")
        #expect(rest.json["next"] == .null)
    }

    @Test("A list that the configuration does not have is refused, and null takes a choice back")
    func lists() async throws {
        let harness = try await harness()
        let unknown = try await harness.send(.put, "/v1/users/ali/lists", #"{"lists":{"offer":true}}"#)
        #expect(unknown.errors == ["#/lists/offer unknown_list"], "\(unknown.text)")
        let out = try await harness.send(.put, "/v1/users/ali/lists", #"{"lists":{"offers":false,"digest":true}}"#)
        #expect(out.json["lists"]?["offers"] == ["in": false, "chosen": true], "\(out.text)")
        #expect(out.json["lists"]?["digest"] == ["in": true, "chosen": true])
        let back = try await harness.send(.put, "/v1/users/ali/lists", #"{"lists":{"offers":null}}"#)
        #expect(back.json["lists"]?["offers"] == ["in": true, "chosen": false], "\(back.text)")
        let shown = try await harness.send(.get, "/v1/users/ali/lists")
        #expect(shown.json == back.json)
    }

    @Test("A device is unsubscribed and subscribed again, also where no platform keeps subscriptions")
    func unsubscribed() async throws {
        let harness = try await harness()
        func set(_ status: String) async throws -> APIHarness.Reply {
            try await harness.send(.put, "/v1/devices/phone-2/subscription", #"{"status":"\#(status)"}"#)
        }
        let everyone = #"{"audience":{"everyone":true}}"#
        for status in ["unsubscribed", "suspended"] {
            let reply = try await set(status)
            #expect(reply.status == 200 && reply.json == ["operations": []], "\(reply.text)")
            #expect(try await count(harness, everyone).json["skipped"]?[status] == 1)
        }
        #expect(try await set("subscribed").status == 200)
        #expect(try await count(harness, everyone).json["count"] == 12)
    }

    @Test("A dry run of a message counts its audience and shows devices of each platform, and sends nothing")
    func dryRun() async throws {
        let harness = try await harness()
        let reply = try await harness.post(
            #"{"to":{"tags":{"all":["news"]},"exclude":{"platform":"android"}},"content":{"title":"x"},"#
                + #""options":{"dry_run":true}}"#
        )
        #expect(reply.status == 200, "\(reply.text)")
        #expect(reply.json["recipients"]?["count"] == 3)
        #expect(reply.json["recipients"]?["skipped"] == ["excluded": 3])
        #expect(reply.json["samples"]?.arrayValue?.map { $0["device"] } == ["phone-0", "phone-2", "phone-4"])
        #expect(harness.store.accepted.isEmpty)
        let empty = #"{"to":{"audience":{"tag":"none"}},"content":{"title":"x"},"options":{"dry_run":true"#
        let warned = try await harness.post(empty + "}}")
        #expect(warned.json["warnings"]?.arrayValue?.first?["code"] == "audience_empty", "\(warned.text)")
        let refused = try await harness.post(empty + #","require_recipients":true}}"#)
        #expect(refused.errors == ["#/to/audience audience_empty"], "\(refused.text)")
        // What would be refused is refused, and what cannot come to its end in time is told.
        func paced(_ pace: String) async throws -> APIHarness.Reply {
            try await harness.post(
                #"{"to":{"tags":{"all":["news"]}},"content":{"title":"x"},"pace":\#(pace),"#
                    + #""options":{"dry_run":true,"ttl":60}}"#
            )
        }
        let long = try await paced(#"{"over":120}"#)
        #expect(long.errors == ["#/pace/over over_beyond_ttl"], "\(long.text)")
        let slow = try await paced(#"{"per_minute":1}"#)
        #expect(slow.json["warnings"]?.arrayValue?.map { $0["code"] } == ["pace_beyond_ttl"], "\(slow.text)")
        #expect(harness.store.accepted.isEmpty)
    }

    @Test("A dry run has the size of each sample's message, its platform's limit and what is found in it")
    func payloads() async throws {
        var ios = StubBackend.ios
        ios.size = { notification, addressee in
            guard case .token(let token) = addressee.recipient, !notification.isDryRun else { return nil }
            let text = notification.title?.resolved(for: addressee.language) ?? ""
            return PayloadSize(bytes: text.utf8.count + token.value.utf8.count, limit: 40)
        }
        ios.shown = { notification, addressee in
            guard case .token(let token) = addressee.recipient else { return nil }
            let title = notification.title?.resolved(for: addressee.language) ?? ""
            return ["alert": .string(title), "to": [.string(token.value)]]
        }
        ios.finding = { notification in
            guard notification.image != nil else { return PayloadCheck() }
            return PayloadCheck(warnings: [Finding(pointer: "#/content/image", code: "dropped", detail: "No picture.")])
        }
        let harness = APIHarness(backends: [ios, .android])
        let now = harness.time.now
        for (name, locale, service) in [
            ("a", "fa", TokenService.iOSAPNs), ("b", "en", .iOSAPNs), ("c", "en", .androidFirebase),
            ("long-secret", "en", .iOSAPNs),
        ] {
            var device = Device(id: name, createdAt: now)
            (device.tags, device.locale) = (["news"], locale)
            device.tokens = [RegisteredToken(DeviceToken("tok-\(name)", service: service), registeredAt: now)]
            _ = try await harness.devices.put([device])
        }
        let reply = try await harness.post(
            #"{"to":{"tags":{"all":["news"]}},"content":{"title":{"fa":"سلام","default":"Hi"},"image":"https://a.b/c"},"#
                + #""options":{"dry_run":true}}"#
        )
        #expect(reply.status == 200, "\(reply.text)")
        let warnings: JSONValue = [["pointer": "#/content/image", "code": "dropped", "detail": "No picture."]]
        var payloads: [String: JSONValue] = [:]
        for sample in reply.json["samples"]?.arrayValue ?? [] {
            payloads[sample["device"]?.stringValue ?? ""] = sample["payloads"]
        }
        func ofApple(_ title: String, _ token: String, _ bytes: Int) -> JSONValue {
            let body: JSONValue = ["alert": .string(title), "to": [.string(token)]]
            return [
                "backend": "ios", "kind": "apns", "body": body, "bytes": .integer(Int64(bytes)), "limit": 40,
                "warnings": warnings,
            ]
        }
        #expect(payloads["a"] == [ofApple("سلام", "tok-a", 13)], "\(reply.text)")
        #expect(payloads["b"] == [ofApple("Hi", "tok-b", 7)])
        #expect(payloads["c"] == [["backend": "android", "kind": "fcm", "warnings": []]])
        // A plugin that has the token in its message does not show it.
        #expect(payloads["long-secret"] == [ofApple("Hi", "tok-…", 17)])
        #expect(!reply.text.contains("tok-long"))
        let single = try await harness.post(
            #"{"to":{"devices":["a","b","c"]},"content":{"title":{"fa":"سلام","default":"Hi"},"image":"https://a.b/c"},"#
                + #""options":{"dry_run":true}}"#
        )
        #expect(single.status == 202, "\(single.text)")
        let shown = single.json["payloads"]?.arrayValue
        #expect(shown == [ofApple("سلام", "tok-a", 13), ["backend": "android", "kind": "fcm", "warnings": []]])
        let real = try await harness.post(#"{"to":{"devices":["a"]},"content":{"title":"Hi"}}"#)
        #expect(real.json["payloads"] == nil, "\(real.text)")
    }

    @Test("A message that one backend would refuse is refused where no other could take it, and else a warning")
    func refusedByOne() async throws {
        func finding(_ wanted: String) -> @Sendable (PushNotification) -> PayloadCheck {
            { notification in
                let title = notification.title?.resolved(for: nil)
                guard title == wanted || title == "none" else { return PayloadCheck() }
                let fault = Finding(pointer: "#/content/body", code: "missing_body", detail: "Give it.")
                return PayloadCheck(faults: [fault])
            }
        }
        var (ios, android) = (StubBackend.ios, StubBackend.android)
        (ios.finding, android.finding) = (finding("android"), finding("ios"))
        let routes = ["ios", "android"].map { GatewayConfiguration.Route(name: $0, plan: DeliveryPlan([$0])) }
        for (title, more, isTaken, warnings) in [
            ("both", "", true, 0), ("ios", "", true, 1), ("none", "", false, 0),
            ("ios", #","route":"ios""#, true, 0), ("ios", #","route":"android""#, false, 0),
        ] {
            let harness = APIHarness(backends: [ios, android]) { $0.routes = routes }
            let reply = try await harness.post(
                #"{"to":{"tags":{"all":["news"]}},"content":{"title":"\#(title)"}\#(more)}"#
            )
            #expect(reply.status == (isTaken ? 202 : 422), "\(title)\(more): \(reply.text)")
            let found = reply.json["warnings"]?.arrayValue?.filter { $0["code"] == "missing_body" } ?? []
            #expect(found.count == warnings, "\(title)\(more): \(reply.text)")
            if !isTaken { #expect(Set(reply.errors) == ["#/content/body missing_body"], "\(reply.text)") }
        }
        let strict = APIHarness(backends: [ios, android]) { $0.queue.payloadCheck = .strict }
        let reply = try await strict.post(#"{"to":{"tags":{"all":["news"]}},"content":{"title":"ios"}}"#)
        #expect(reply.errors == ["#/content/body missing_body"], "\(reply.text)")
    }

    @Test("A dry run counts the devices that its message would not reach, as the campaign would")
    func unreached() async throws {
        var android = StubBackend.android
        android.finding = { notification in
            guard notification.title?.resolved(for: nil) == "long" else { return PayloadCheck() }
            let fault = Finding(pointer: "#/content", code: "payload_too_large", detail: "Shorten it.")
            return PayloadCheck(faults: [fault])
        }
        let harness = APIHarness(backends: [.ios, android]) {
            $0.routes = [GatewayConfiguration.Route(name: "apple", plan: DeliveryPlan(["ios"]))]
        }
        for (name, services) in [
            ("a", [TokenService.iOSAPNs]), ("b", [.androidFirebase]), ("c", [.androidFirebase]),
            ("d", [.iOSAPNs, .androidFirebase]),
        ] {
            var device = Device(id: name, createdAt: harness.time.now)
            device.tags = ["news"]
            device.tokens = services.map {
                RegisteredToken(DeviceToken("tok-\(name)", service: $0), registeredAt: device.createdAt)
            }
            _ = try await harness.devices.put([device])
        }
        for (title, more, count, skipped) in [
            ("short", "", 4, JSONValue.object([:])), ("long", "", 2, ["message_refused": 2]),
            ("short", #","route":"apple""#, 2, ["no_token": 2]),
        ] {
            let reply = try await harness.post(
                #"{"to":{"tags":{"all":["news"]}},"content":{"title":"\#(title)"},"options":{"dry_run":true}\#(more)}"#
            )
            let recipients = reply.json["recipients"]
            #expect(recipients?["matched"] == 4, "\(reply.text)")
            #expect(recipients?["count"] == .integer(Int64(count)), "\(reply.text)")
            #expect(recipients?["skipped"] == skipped, "\(reply.text)")
        }
    }

    @Test("A test goes to its devices alone, at once and as the campaign's message would, and makes no campaign")
    func test() async throws {
        let harness = try await harness()
        let reply = try await harness.post(
            #"{"to":{"tags":{"all":["news"]},"exclude":{"tag":"x"}},"content":{"title":"Sale"},"name":"spring","#
                + #""pace":{"per_minute":60},"keep":"all","reference":"r1","#
                + #""options":{"send_at":"2027-02-01T00:00:00Z","ttl":2000000,"list":"offers","collapse_id":"c"},"#
                + #""test":{"devices":["phone-1","phone-7","phone-1"]}}"#
        )
        #expect(reply.status == 202, "\(reply.text)")
        #expect(reply.json["status"] == "queued")
        #expect(reply.json["recipients"] == ["count": 2, "exact": true])
        let sent = try #require(harness.store.accepted.first)
        #expect(harness.store.accepted.count == 1)
        #expect(sent.recipients == [.device("phone-1"), .device("phone-7")])
        #expect(sent.users == ["user-1", "user-7"])
        #expect(sent.record.plans.map(\.backends) == [["ios"], ["android"]])
        #expect(sent.dueAt == nil && sent.record.partOf == nil)
        #expect(sent.record.reference == "r1" && sent.collapseID == "c")
        let stored = try JSONValue(parsing: sent.record.content)
        #expect(stored["content"]?["title"] == "Sale")
        #expect(stored["options"]?["send_at"] == nil && stored["options"]?["ttl"] == 2_000_000, "\(stored)")
        #expect(try NotificationContent.decode(sent.record.content).sendAt == nil)
    }

    @Test("A test is refused for its own mistakes, and for those that its campaign would have")
    func testMistakes() async throws {
        let harness = APIHarness(apps: ["android": AppName(rawValue: "other")])
        let now = harness.time.now
        func register(_ name: String, _ app: AppName, _ service: TokenService) async throws {
            var device = Device(id: app.key(name), createdAt: now)
            device.tags = ["news"]
            device.tokens = [RegisteredToken(DeviceToken("t-\(name)", service: service), registeredAt: now)]
            _ = try await harness.devices.put([device])
        }
        try await register("mine", .default, .iOSAPNs)
        try await register("theirs", AppName(rawValue: "other"), .androidFirebase)
        let many = (0...CampaignTest.mostDevices).map { "\"d-\($0)\"" }.joined(separator: ",")
        let news = #"{"tags":{"all":["news"]}}"#
        for (to, more, errors) in [
            (news, #""test":{"devices":["mine","theirs"]}"#, ["#/test/devices/1 unknown_device"]),
            (news, #""test":{"devices":["mine","mine","gone"]}"#, ["#/test/devices/2 unknown_device"]),
            (news, #""test":{"devices":["other/theirs"]}"#, ["#/test/devices/0 unknown_device"]),
            (news, #""test":{}"#, ["#/test/devices missing"]),
            (news, #""test":{"devices":[]}"#, ["#/test/devices audience_empty"]),
            (news, #""test":{"devices":["mine"],"users":["a"]}"#, ["#/test/users unknown_field"]),
            (news, #""test":{"devices":[\#(many)]}"#, ["#/test/devices too_many_recipients"]),
            (
                news, #""test":{"devices":["mine"]},"options":{"dry_run":true}"#, ["#/test dry_run_and_test"]
            ),
            (
                news, #""test":{"devices":["mine"]},"pace":{"over":60},"options":{"ttl":5}"#,
                [
                    "#/pace/over over_beyond_ttl"
                ]
            ),
            (#"{"segment":"gone"}"#, #""test":{"devices":["mine"]}"#, ["#/to/segment unknown_segment"]),
            (#"{"devices":["mine"]}"#, #""test":{"devices":["mine"]}"#, ["#/test audience_only"]),
        ] as [(String, String, [String])] {
            let body = #"{"app":"default","to":\#(to),"content":{"title":"x"},\#(more)}"#
            let reply = try await harness.post(body)
            #expect(reply.status == 422 && reply.errors == errors, "\(more): \(reply.text)")
        }
        #expect(harness.store.accepted.isEmpty)
    }

    @Test("A population needs the scope broadcast, and a key has at most the devices of max_audience")
    func limits() async throws {
        var small = APIHarness.key("small", [.send, .broadcast])
        small.maximumAudience = 3
        let keys = [APIHarness.key("plain", [.send, .devices]), small]
        let harness = try await harness(keys)
        func post(_ to: String, _ key: String) async throws -> APIHarness.Reply {
            try await harness.post(
                #"{"to":\#(to),"content":{"title":"x"},"options":{"dry_run":true}}"#,
                headers: APIHarness.bearer(key)
            )
        }
        for broad in [#"{"audience":{"platform":"ios"}}"#, #"{"everyone":true}"#, #"{"audience":{"not":{"tag":"x"}}}"#]
        {
            let reply = try await post(broad, "plain")
            #expect(reply.status == 403 && reply.errors.first?.hasSuffix("scope_missing") == true, "\(reply.text)")
        }
        #expect(try await post(#"{"audience":{"tag":"news"}}"#, "plain").status == 200)
        let large = try await post(#"{"audience":{"tag":"news"}}"#, "small")
        #expect(large.errors == ["#/to/audience audience_too_large"], "\(large.text)")
        // The count for the limit is that of the dry run too.
        let fits = try await post(#"{"audience":{"all":[{"tag":"news"},{"platform":"ios"}]}}"#, "small")
        #expect(fits.json["recipients"]?["count"] == 3, "\(fits.text)")
        #expect(fits.json["samples"]?.arrayValue?.count == 3, "\(fits.text)")
        let none = try await post(#"{"audience":{"tag":"none"}}"#, "small")
        #expect(none.json["warnings"]?.arrayValue?.first?["code"] == "audience_empty", "\(none.text)")
        // A stored name of a population is one, too.
        let stored = try await harness.send(
            .put,
            "/v1/segments/all",
            #"{"rule":{"platform":"ios"}}"#,
            headers: APIHarness.bearer("plain")
        )
        #expect(stored.errors == ["#/rule scope_missing"], "\(stored.text)")
    }

    @Test("Fields that need an audience are refused without one")
    func misplaced() async throws {
        let harness = try await harness()
        let reply = try await harness.post(
            #"{"to":{"users":["ali"],"exclude":{"tag":"x"}},"content":{"title":"x"},"options":{"list":"offers"}}"#
        )
        #expect(reply.errors == ["#/to/exclude needs_audience", "#/options/list needs_audience"], "\(reply.text)")
        let backend = try await harness.post(
            #"{"to":{"segment":"vip"},"content":{"title":"x"},"backend":"ios"}"#
        )
        #expect(backend.errors == ["#/backend audience_and_backend"], "\(backend.text)")
        let unknown = try await harness.post(#"{"to":{"segment":"vip"},"content":{"title":"x"}}"#)
        #expect(unknown.errors == ["#/to/segment unknown_segment"], "\(unknown.text)")
    }
}
