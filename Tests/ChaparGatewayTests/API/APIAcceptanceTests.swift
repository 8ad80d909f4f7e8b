import Synchronization
import HTTPTypes
import Foundation
import ChaparCore
import ChaparQueue
import ChaparComposition
import Testing

@testable import ChaparAPI
@testable import ChaparDelivery
@testable import ChaparGateway
@testable import ChaparServer

@Suite("A right notification", .timeLimit(.minutes(1)))
struct APIAcceptanceTests {
    @Test("is stored before it is answered, byte for byte as it came")
    func stored() async throws {
        let harness = APIHarness()
        let body = #"""
            {"to":{"tokens":[{"token":"4f1c","service":"ios-apns"}]},
             "content": {"title" : "Order 42", "data":{"n": 1.50, "big": 1234567890123456789}},
             "options":{"ttl":7200,"priority":"normal","collapse_id":"order-42"},
             "overrides":{"apns":{"payload":{"aps":{"interruption-level":"time-sensitive"}}}}}
            """#
        let reply = try await harness.post(body)
        #expect(reply.status == 202)
        let stored = try #require(harness.store.accepted.first)
        let id = stored.id.description
        #expect(reply.headers[.location] == "/v1/notifications/\(id)")
        #expect(
            reply.text == #"{"id":"\#(id)","status":"queued","recipients":{"count":1,"exact":true},"warnings":[]}"#
        )
        let content = String(decoding: stored.content, as: UTF8.self)
        #expect(
            content == #"{"content":{"title" : "Order 42", "data":{"n": 1.50, "big": 1234567890123456789}},"#
                + #""options":{"ttl":7200,"priority":"normal","collapse_id":"order-42"},"#
                + #""overrides":{"apns":{"payload":{"aps":{"interruption-level":"time-sensitive"}}}}}"#
        )
        #expect(stored.recipients == [.token(DeviceToken("4f1c", service: .iOSAPNs))])
        #expect(stored.plan == DeliveryPlan(["ios"]))
        #expect(stored.collapseID == "order-42")
        #expect(stored.expiresAt == stored.acceptedAt + 7200)
        #expect(stored.dueAt == nil)
        #expect(String(decoding: stored.event, as: UTF8.self).contains(#""title":"Order 42""#))
    }

    @Test("reads the same from the store as from the request")
    func roundTrip() async throws {
        let harness = APIHarness()
        let reply = try await harness.post(
            #"""
            {"to":{"tokens":[{"token":"4f1c","service":"ios-apns"}]},
             "content":{"title":{"default":"Hello","fa":"\u0633\u0644\u0627\u0645"},"subtitle":"s","body":"b",
               "image":"https://example.com/a.png","sound":"default","badge":0,"category":"order",
               "click_url":"app://orders/42","actions":[{"id":"t","title":"Track","url":"app://t"}],
               "data":{"order":"42","deep":{"a":[1,2.5,null,true]}}},
             "options":{"ttl":60,"priority":"normal","collapse_id":"c","send_at":"2027-01-15T08:00:10.250Z",
               "silent":false,"dry_run":true},
             "overrides":{"apns":{"headers":{"apns-push-type":"alert"}},"fcm":{}},"route":"default"}
            """#
        )
        #expect(reply.status == 202)
        #expect(reply.json["status"] == "scheduled")
        let stored = try #require(harness.store.accepted.first)
        #expect(try NotificationContent.decode(stored.content) == stored.notification)
        #expect(stored.notification.title?.resolved(for: "fa") == "سلام")
        #expect(stored.notification.actions == [.init(id: "t", title: "Track", url: "app://t")])
        #expect(stored.notification.badge == 0)
        #expect(stored.notification.isDryRun)
        #expect(stored.dueAt == Date(timeIntervalSince1970: 1_800_000_010.25))
    }

    @Test("has the TTL that counts from acceptance, or the default that counts from the send time")
    func timeToLive() async throws {
        let harness = APIHarness { $0.queue.defaultTimeToLive = .seconds(500) }
        for options in [
            #"{}"#, #"{"ttl":0}"#, #"{"ttl":60.0}"#, #"{"send_at":"2027-01-15T08:01:40Z"}"#,
            #"{"send_at":"2020-01-01T00:00:00+03:30"}"#,
        ] {
            #expect(try await harness.post(APIHarness.sample(#","options":\#(options)"#)).status == 202)
        }
        let lives = harness.store.accepted.map { Int($0.expiresAt.timeIntervalSince($0.acceptedAt)) }
        #expect(lives == [500, 10, 60, 600, 500])
        #expect(harness.store.accepted.map { $0.dueAt != nil } == [false, false, false, true, false])
    }

    @Test("sends each recipient through the plan of its service")
    func plans() async throws {
        let harness = APIHarness(backends: [.ios, .android]) { configuration in
            configuration.routes = [
                GatewayConfiguration.Route(platform: "ios", plan: DeliveryPlan(["ios", "android"], onUnknown: .next))
            ]
        }
        let reply = try await harness.post(
            #"""
            {"to":{"tokens":[{"token":"a","service":"ios-apns"},{"token":"b","service":"android-firebase"},
             {"token":"c","service":"ios-apns"},{"token":"d","service":"ios-firebase"}]},"content":{"title":"x"}}
            """#
        )
        #expect(reply.status == 202)
        let stored = try #require(harness.store.accepted.first)
        #expect(
            (0..<4).map { stored.plan(ofRecipient: $0) } == [
                DeliveryPlan(["ios"], onUnknown: .next), DeliveryPlan(["android"]),
                DeliveryPlan(["ios"], onUnknown: .next), DeliveryPlan(["android"], onUnknown: .next),
            ]
        )
    }

    @Test("goes where a named backend or route says")
    func choice() async throws {
        let harness = APIHarness(backends: [.ios, .crm]) { configuration in
            configuration.routes = [GatewayConfiguration.Route(name: "crm-first", plan: DeliveryPlan(["crm", "ios"]))]
        }
        for more in [#","backend":"crm""#, #","route":"crm-first""#, #","route":"default""#, ""] {
            #expect(try await harness.post(APIHarness.sample(more)).status == 202)
        }
        #expect(
            harness.store.accepted.map(\.plan.backends) == [["crm"], ["crm", "ios"], ["crm", "ios"], ["crm", "ios"]]
        )
    }

    @Test(
        "may go to every audience that a backend knows",
        arguments: [
            (#"{"devices":["d1"]},"backend":"crm""#, Recipient.device("d1"), true),
            (#"{"users":["u1"]},"backend":"crm""#, .user("u1"), true),
            (#"{"topic":"news"}"#, .topic("news"), false),
            (#"{"tags":{"all":["a"],"none":["b"]}},"backend":"crm""#, .tags(TagFilter(all: ["a"], none: ["b"])), false),
            (#"{"everyone":true},"backend":"crm""#, .everyone, false),
        ]
    )
    func audiences(to: String, recipient: Recipient, isExact: Bool) async throws {
        let harness = APIHarness(backends: [.crm])
        let reply = try await harness.post(#"{"to":\#(to),"content":{"title":"x"}}"#)
        #expect(reply.status == 202)
        #expect(harness.store.accepted.first?.recipients == [recipient])
        #expect(reply.json["recipients"]?["exact"] == .bool(isExact))
        #expect(reply.json["recipients"]?["count"] == (isExact ? 1 : .null))
    }

    @Test("may say nothing at all when it is silent, or only set the badge")
    func silent() async throws {
        let harness = APIHarness()
        let to = #""to":{"tokens":[{"token":"x","service":"ios-apns"}]}"#
        #expect(try await harness.post("{\(to),\"options\":{\"silent\":true}}").status == 202)
        #expect(try await harness.post("{\(to),\"content\":{\"badge\":0}}").status == 202)
        #expect(try await harness.post("{\(to)}").status == 422)
        let stored = try #require(harness.store.accepted.first)
        #expect(String(decoding: stored.content, as: UTF8.self) == #"{"options":{"silent":true}}"#)
    }

    @Test("is refused for what its platform would refuse, and warned of what it would drop")
    func payload() async throws {
        var ios = StubBackend.ios
        ios.finding = { notification in
            let warning = Finding(pointer: "#/content/category", code: "dropped", detail: "It is dropped.")
            let fault = Finding(pointer: "#/content", code: "payload_too_large", detail: "5000 of 4096 bytes.")
            return PayloadCheck(
                faults: notification.badge == 1 ? [fault] : [],
                warnings: notification.category == nil ? [] : [warning]
            )
        }
        let harness = APIHarness(backends: [ios])
        let fault = try await harness.post(APIHarness.sample(content: #"{"title":"x","badge":1}"#))
        #expect(fault.status == 422)
        #expect(fault.errors == ["#/content payload_too_large"])
        let warned = APIHarness.sample(content: #"{"title":"x","category":"c"}"#)
        let reply = try await harness.post(warned)
        #expect(reply.status == 202)
        #expect(reply.json["warnings"]?.arrayValue?.first?["code"] == "dropped")
        #expect(reply.json["warnings"]?.arrayValue?.first?["detail"] == "ios: It is dropped.")

        let strict = APIHarness(backends: [ios]) { $0.queue.payloadCheck = .strict }
        let refused = try await strict.post(warned)
        #expect(refused.errors == ["#/content/category dropped"])
        #expect(strict.store.accepted.isEmpty)
    }

    @Test(
        "is warned of a number in its data that is rounded",
        arguments: [
            ("18446744073709551615", true), ("[{\"a\":9223372036854775808}]", true), ("9223372036854775807", false),
            ("0.5", false), ("\"18446744073709551615\"", false),
        ]
    )
    func rounded(value: String, isWarned: Bool) async throws {
        let content = "{\"title\":\"x\",\"data\":{\"n\":\(value)}}"
        let reply = try await APIHarness().post(APIHarness.sample(content: content))
        let warnings = (reply.json["warnings"]?.arrayValue ?? []).filter { $0["code"] == "number_rounded" }
        #expect(warnings.map { $0["pointer"]?.stringValue } == (isWarned ? ["#/content/data/n"] : []), "\(reply.text)")
    }

    @Test("is warned of a number in its overrides that is rounded, at its place")
    func roundedOverride() async throws {
        let value = #"{"payload":{"list":[1,{"n":18446744073709551615}]}}"#
        let reply = try await APIHarness().post(APIHarness.sample(#","overrides":{"apns":\#(value)}"#))
        let warnings = (reply.json["warnings"]?.arrayValue ?? []).filter { $0["code"] == "number_rounded" }
        #expect(warnings.map { $0["pointer"] } == ["#/overrides/apns/payload/list/1/n"], "\(reply.text)")
    }

    @Test("may have a byte order mark before it")
    func byteOrderMark() async throws {
        let harness = APIHarness()
        #expect(try await harness.post("\u{FEFF}" + APIHarness.sample()).status == 202)
        let stored = try #require(harness.store.accepted.first)
        #expect(try JSONValue(parsing: stored.content)["content"] != nil)
    }

    @Test(
        "is warned of a text that is empty",
        arguments: [
            (#"{"title":"","body":"x"}"#, ["#/content/title"]), (#"{"title":"x","body":""}"#, ["#/content/body"]),
            (#"{"title":{"default":"x","fa":""}}"#, ["#/content/title/fa"]), (#"{"title":"x","body":"y"}"#, []),
            (#"{"title":"  ","body":"\n"}"#, ["#/content/title", "#/content/body"]),
            (#"{"title":"\u200b","body":"x"}"#, ["#/content/title"]), (#"{"title":" x","body":"\u200by"}"#, []),
            (#"{"title":{"default":" ","fa":"y"}}"#, ["#/content/title/default"]), (#"{"title":"سلام"}"#, []),
        ]
    )
    func emptyText(content: String, pointers: [String]) async throws {
        let reply = try await APIHarness().post(APIHarness.sample(content: content))
        #expect(reply.status == 202, "\(reply.text)")
        let warnings = (reply.json["warnings"]?.arrayValue ?? []).filter { $0["code"] == "empty_text" }
        #expect(warnings.map { $0["pointer"]?.stringValue } == pointers)
    }

    @Test("is accepted with a warning when only a fallback could not take it")
    func fallbackFault() async throws {
        var crm = StubBackend.crm
        crm.finding = { _ in
            PayloadCheck(faults: [Finding(pointer: "#/content", code: "payload_too_large", detail: "Too large.")])
        }
        let harness = APIHarness(backends: [.ios, crm]) { configuration in
            configuration.routes = [GatewayConfiguration.Route(plan: DeliveryPlan(["ios", "crm"]))]
        }
        let reply = try await harness.post(APIHarness.sample())
        #expect(reply.status == 202)
        #expect(reply.json["warnings"]?.arrayValue?.first?["detail"] == "The fallback crm: Too large.")
    }

    @Test("replaces a waiting one with its collapse id, and an event tells of it")
    func collapse() async throws {
        let harness = APIHarness()
        for _ in 0..<2 {
            _ = try await harness.post(APIHarness.sample(#","options":{"collapse_id":"c"}"#))
        }
        let events = try await harness.store.events().map { EventJSON.type(of: Array($0.utf8)) }
        #expect(events == ["notification.accepted", "delivery.cancelled", "notification.accepted"])
    }

    @Test("is delivered once by each backend of a route that fans out, for each recipient that it can address")
    func fanOut() async throws {
        let harness = APIHarness(backends: [.ios, .android, .crm]) { configuration in
            let plan = DeliveryPlan.all("ios", "android", "crm").retrying(RetryPolicy(maximumAttempts: 2))
            configuration.routes = [GatewayConfiguration.Route(name: "all", plan: plan)]
        }
        let to = #"{"tokens":[{"token":"aa","service":"ios-apns"},{"token":"bb","service":"android-huawei"}]}"#
        let reply = try await harness.post(#"{"to":\#(to),"content":{"title":"x"},"route":"all"}"#)
        #expect(reply.status == 202)
        #expect(reply.json["recipients"]?["count"] == 3)
        let stored = try #require(harness.store.accepted.first)
        let apple = Recipient.token(DeviceToken("aa", service: .iOSAPNs))
        #expect(stored.recipients == [apple, apple, .token(DeviceToken("bb", service: .androidHuawei))])
        #expect((0..<3).map { stored.plan(ofRecipient: $0).backends } == [["ios"], ["crm"], ["crm"]])
        #expect((0..<3).allSatisfy { stored.plan(ofRecipient: $0).retry?.maximumAttempts == 2 })
        let one = try await harness.post(APIHarness.sample(#","route":"all""#))
        #expect(one.json["recipients"]?["count"] == 2)
    }
}
