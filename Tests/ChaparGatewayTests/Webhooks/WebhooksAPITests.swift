import Foundation
import HTTPTypes
import ChaparCore
import ChaparStoreSQLite
import ChaparTesting
import Testing

@testable import ChaparAPI
@testable import ChaparDelivery

@Suite("The API of webhooks", .timeLimit(.minutes(1)))
struct WebhooksAPITests {
    @Test("an endpoint is added, shown, changed and removed; its key is shown once")
    func life() async throws {
        try await WebhookRig.run { rig, receiver in
            let added = try await rig.call(
                .put,
                "/v1/webhooks/shop",
                #"{"url":"\#(receiver.url())","types":["delivery.*"],"rate":50,"batch":true}"#
            )
            #expect(added.status == 201 && added.headers[.location] == "/v1/webhooks/shop")
            #expect(added.json["secret"]?.stringValue?.hasPrefix("whsec_") == true)
            #expect(added.json["rate"] == 50 && added.json["batch"] == true && added.json["ordered"] == false)
            let list = try await rig.call(.get, "/v1/webhooks")
            #expect(list.json["webhooks"]?.arrayValue?.map { $0["name"]?.stringValue } == ["shop"])
            #expect(!list.text.contains("whsec_"))
            let changed = try await rig.call(.patch, "/v1/webhooks/shop", #"{"ordered":true}"#)
            #expect(changed.status == 200 && changed.json["ordered"] == true && changed.json["batch"] == true)
            let replaced = try await rig.call(.put, "/v1/webhooks/shop", #"{"url":"\#(receiver.url("/b"))"}"#)
            #expect(replaced.status == 200 && replaced.json["batch"] == false && replaced.json["secret"] == nil)
            #expect(replaced.json["types"]?.arrayValue?.count == WebhookType.byDefault.count)
            let stopped = try await rig.call(.patch, "/v1/webhooks/shop", #"{"enabled":false}"#)
            #expect(stopped.json["status"] == "disabled" && stopped.json["reason"] == "operator")
            #expect(try await rig.call(.delete, "/v1/webhooks/shop").status == 204)
            #expect(try await rig.call(.get, "/v1/webhooks/shop").status == 404)
            #expect(try await rig.store.loadState("webhooks/shop") == nil, "its keys are removed")
        }
    }

    @Test(
        "a wrong body is refused with its field and changes nothing",
        arguments: [
            (#"{}"#, "#/url missing"), (#"{"url":"https://169.254.169.254/"}"#, "#/url internal_address"),
            (#"{"url":"https://[::ffff:10.0.0.1]/"}"#, "#/url internal_address"),
            (#"{"url":"https://[64:ff9b::7f00:1]/"}"#, "#/url internal_address"),
            (#"{"url":"http://93.184.215.14/"}"#, "#/url not_encrypted"),
            (#"{"url":"https://93.184.215.14:444/"}"#, "#/url bad_port"),
            (#"{"url":"https://u:p@93.184.215.14/"}"#, "#/url userinfo"),
            (#"{"url":"https://93.184.215.14/","types":["delivery.lost"]}"#, "#/types/0 unknown_type"),
            (#"{"url":"https://93.184.215.14/","types":[]}"#, "#/types empty"),
            (#"{"url":"https://93.184.215.14/","rate":-1}"#, "#/rate out_of_range"),
            (#"{"url":"https://93.184.215.14/","app":"nowhere"}"#, "#/app unknown_app"),
            (#"{"url":"https://93.184.215.14/","secret":"x"}"#, "#/secret unknown_field"),
            (#"{"url":"https://example.invalid/"}"#, "#/url unknown_host"),
        ]
    )
    func refusals(body: String, error: String) async throws {
        try await WebhookRig.run { rig, _ in
            let reply = try await rig.call(.put, "/v1/webhooks/hook", body)
            #expect(reply.status == 422 && reply.errors == [error], "\(reply.text)")
            #expect(try await rig.call(.get, "/v1/webhooks").json["webhooks"]?.arrayValue?.isEmpty == true)
        }
    }

    @Test("an unknown type is answered with the list of types")
    func typeList() async throws {
        try await WebhookRig.run { rig, receiver in
            let reply = try await rig.call(
                .put,
                "/v1/webhooks/hook",
                #"{"url":"\#(receiver.url())","types":["delivery.lost"]}"#
            )
            for type in WebhookType.allCases { #expect(reply.text.contains(type.rawValue)) }
        }
    }

    @Test(
        "numeric forms of an internal address are refused by the system's resolver",
        arguments: ["2130706433", "0x7f000001", "0177.0.0.1"]
    )
    func numericForms(host: String) async throws {
        let url = try WebhookURL("https://\(host)/")
        let mistake = await WebhookClient().check(url, WebhookGuard(GatewayConfiguration()))
        #expect(
            mistake?.code == "internal_address" || mistake?.code == "unknown_host",
            "\(String(describing: mistake))"
        )
    }

    @Test("a test request is signed, and its answer shows status, time and the first bytes of the body")
    func test() async throws {
        try await WebhookRig.run { rig, receiver in
            receiver.answer { _, _ in .status(202, body: String(repeating: "x", count: 3_000)) }
            let secret = try await rig.add("hook", receiver.url())
            let reply = try await rig.call(.post, "/v1/webhooks/hook/test", "{}")
            #expect(reply.status == 200 && reply.json["delivered"] == true && reply.json["status"] == 202)
            #expect(reply.json["body"]?.stringValue?.count == 1_024)
            let request = try #require(receiver.requests.first)
            #expect(request.type == "endpoint.test" && request.id == reply.json["id"]?.stringValue)
            #expect(
                secret.verifies(request.signatures, id: request.id, timestamp: request.timestamp, body: request.body)
            )
        }
    }

    @Test("a rotation gives a new key, with which the old one signs for its time")
    func rotate() async throws {
        try await WebhookRig.run { rig, receiver in
            let old = try await rig.add("hook", receiver.url())
            let reply = try await rig.call(.post, "/v1/webhooks/hook/rotate", #"{"keep_old":600}"#)
            #expect(reply.status == 200, "\(reply.text)")
            let new = try #require(WebhookSecret(Secret(reply.json["secret"]?.stringValue ?? "")))
            for _ in 0..<2 {
                try await rig.publish("delivery.failed")
                rig.time.advance(by: .seconds(601))
            }
            try await receiver.wait(for: 2)
            try await rig.publish("delivery.failed")
            try await receiver.wait(for: 3)
            let last = try #require(receiver.requests.last)
            #expect(new.verifies(last.signatures, id: last.id, timestamp: last.timestamp, body: last.body))
            #expect(!old.verifies(last.signatures, id: last.id, timestamp: last.timestamp, body: last.body))
            #expect(try await rig.call(.post, "/v1/webhooks/hook/rotate", #"{"keep_old":604801}"#).status == 422)
        }
    }

    private static func keys(_ number: UInt8?) throws -> SealingKeys {
        let key = number.flatMap {
            SealingKey(Secret(Data(repeating: $0, count: 32).base64EncodedString()))
        }
        return SealingKeys(current: key, old: [])
    }

    @Test(
        "a webhook whose encryption key is lost says so and waits, and goes on with the key of a rotation",
        arguments: [nil, 2] as [UInt8?]
    )
    func lostKey(other: UInt8?) async throws {
        let folder = FileManager.default.temporaryDirectory.appending(path: "webhooks-\(UUID().uuidString)")
        try FileManager.default.createDirectory(at: folder, withIntermediateDirectories: true)
        defer { try? FileManager.default.removeItem(at: folder) }
        let path = folder.appending(path: "test.db").path
        let kept = MemoryState()
        try await WebhookReceiver.run { receiver in
            let first = try WebhookRig(path: path, credentials: SealedState(kept, keys: try Self.keys(1)))
            try await first.run {
                try await first.add("hook", receiver.url())
                try await first.add("other", receiver.url())
                try await first.publish("delivery.failed")
                try await receiver.wait(for: 2)
                try await first.settle("hook")
                try await first.settle("other")
            }
            let time = ManualTime(first.time.now.addingTimeInterval(1))
            let next = try WebhookRig(
                path: path,
                time: time,
                credentials: SealedState(kept, keys: try Self.keys(other))
            )
            try await next.run { try await Self.rotateLost(next, receiver, kept) }
        }
    }

    private static func rotateLost(_ rig: WebhookRig, _ receiver: WebhookReceiver, _ kept: MemoryState) async throws {
        let sealed = kept.values
        try await rig.publish("delivery.failed")
        let list = try await rig.call(.get, "/v1/webhooks")
        #expect(list.status == 200 && list.json["webhooks"]?.arrayValue?.count == 2, "\(list.text)")
        let shown = try await rig.show()
        #expect(shown["key_missing"] == true && shown["cursor"] == 1 && shown["lag"] == 1, "\(shown.text)")
        let tried = try await rig.call(.post, "/v1/webhooks/hook/test", "{}")
        #expect(tried.status == 409 && tried.json["code"] == "webhook_key_missing", "\(tried.text)")
        for words in ["store.encryption.old_keys", "/v1/webhooks/hook/rotate"] {
            #expect(tried.json["detail"]?.stringValue?.contains(words) == true, "\(words): \(tried.text)")
        }
        #expect(receiver.requests.count == 2, "nothing is sent unsigned")

        kept.fails = true
        #expect(try await rig.call(.post, "/v1/webhooks/hook/rotate", "{}").status == 503)
        kept.fails = false
        #expect(kept.values == sealed, "nothing is half done")

        let rotated = try await rig.call(.post, "/v1/webhooks/hook/rotate", "{}")
        #expect(rotated.status == 200, "\(rotated.text)")
        #expect(rotated.json["old_secrets_until"] == .string(RFC3339.string(rig.time.now)), "no old key signs")
        let new = try #require(WebhookSecret(Secret(rotated.json["secret"]?.stringValue ?? "")))
        try await receiver.wait(for: 3)
        try await rig.settle()
        let last = try #require(receiver.requests.last)
        #expect(receiver.requests.count == 3 && last.numbers == [2], "what waited is sent, by this webhook alone")
        #expect(new.verifies(last.signatures, id: last.id, timestamp: last.timestamp, body: last.body))
        #expect(last.signatures.split(separator: " ").count == 1)
        #expect(try await rig.show()["key_missing"] == nil)
        #expect(try await rig.show("other")["key_missing"] == true)
        let aside = kept.values.filter { $0.key.hasPrefix(SealedState.asidePrefix) }
        #expect(Array(aside.values) == [sealed[SealedState.prefix + "webhooks/hook"]], "the old key is kept aside")
    }

    @Test("at most five keys sign at the same time: the header has a bound")
    func manyRotations() async throws {
        try await WebhookRig.run { rig, receiver in
            try await rig.add("hook", receiver.url())
            for _ in 0..<4 { #expect(try await rig.call(.post, "/v1/webhooks/hook/rotate", "{}").status == 200) }
            let refused = try await rig.call(.post, "/v1/webhooks/hook/rotate", "{}")
            #expect(refused.status == 422 && refused.errors == ["#/keep_old too_many"], "\(refused.text)")
            #expect(try await rig.call(.post, "/v1/webhooks/hook/test", "{}").status == 200)
            #expect(receiver.requests[0].signatures.split(separator: " ").count == 5)
            #expect(try await rig.call(.post, "/v1/webhooks/hook/rotate", #"{"keep_old":0}"#).status == 200)
            #expect(try await rig.call(.post, "/v1/webhooks/hook/test", "{}").status == 200)
            #expect(receiver.requests[1].signatures.split(separator: " ").count == 1)
        }
    }

    @Test("one message is sent again by its id; an unknown id is not found")
    func replay() async throws {
        try await WebhookRig.run { rig, receiver in
            try await rig.add("hook", receiver.url())
            try await rig.publish("delivery.failed")
            try await receiver.wait(for: 1)
            try await rig.settle()
            let id = receiver.requests[0].id
            let reply = try await rig.call(.post, "/v1/webhooks/hook/recover", #"{"id":"\#(id)"}"#)
            #expect(reply.status == 202, "\(reply.text)")
            try await receiver.wait(for: 2)
            #expect(receiver.requests[1].id == id && receiver.requests[1].body == receiver.requests[0].body)
            #expect(try await rig.call(.post, "/v1/webhooks/hook/recover", #"{"id":"msg_x_1_1"}"#).status == 404)
            #expect(try await rig.call(.post, "/v1/webhooks/hook/recover", #"{}"#).status == 422)
        }
    }

    private static func key(
        _ name: String,
        _ scopes: Set<GatewayConfiguration.APIKey.Scope>,
        app: String? = nil
    ) -> GatewayConfiguration.APIKey {
        var key = APIHarness.key(name, scopes)
        key.app = app.map { AppName(rawValue: $0) }
        return key
    }

    @Test("a key with the scope reaches the endpoints of its app, and no other's")
    func tenancy() async throws {
        let keys = [
            Self.key("shop", [.webhooks], app: "shop"), Self.key("bank", [.webhooks], app: "bank"),
            Self.key("reader", [.read], app: "shop"), Self.key("root", [.admin]),
        ]
        try await WebhookRig.run(
            apps: ["ios": AppName(rawValue: "shop"), "crm": AppName(rawValue: "bank")],
            keys: keys
        ) { rig, receiver in
            let body = #"{"url":"\#(receiver.url())"}"#
            func call(_ method: HTTPRequest.Method, _ path: String, _ body: String? = nil, as name: String) async throws
                -> APIHarness.Reply
            {
                try await rig.call(method, path, body, headers: APIHarness.bearer(name))
            }
            let added = try await call(.put, "/v1/webhooks/own", body, as: "shop")
            #expect(added.status == 201 && added.json["app"] == "shop", "\(added.text)")
            #expect(try await call(.put, "/v1/webhooks/all", body, as: "root").json["app"] == nil)
            for path in ["/v1/webhooks/own", "/v1/webhooks/all", "/v1/webhooks/own/attempts"] {
                #expect(try await call(.get, path, as: "bank").status == 404)
                #expect(try await call(.get, path, as: "reader").status == 403)
                #expect(try await call(.get, path, as: "root").status == 200)
            }
            #expect(try await call(.put, "/v1/webhooks/own", body, as: "bank").status == 409)
            #expect(try await call(.delete, "/v1/webhooks/own", as: "bank").status == 404)
            #expect(try await call(.get, "/v1/webhooks", as: "bank").json["webhooks"]?.arrayValue?.isEmpty == true)
            #expect(try await call(.get, "/v1/webhooks/all", as: "shop").status == 404)
        }
    }

    @Test("an id that is made up for an event of another app is not found, and sends nothing")
    func foreignReplay() async throws {
        try await WebhookRig.run(apps: ["ios": AppName(rawValue: "shop"), "crm": AppName(rawValue: "bank")]) {
            rig,
            receiver in
            try await rig.add("shop", receiver.url("/shop"), #","app":"shop""#)
            try await rig.publish("delivery.failed", backend: "ios")
            try await rig.publish("delivery.failed", backend: "crm")
            try await receiver.wait(for: 1)
            try await rig.settle("shop")
            let own = receiver.requests[0].id
            // The ids of two events of the same time differ in the number alone.
            let foreign = own.replacing("_1_", with: "_2_")
            let refused = try await rig.call(.post, "/v1/webhooks/shop/recover", #"{"id":"\#(foreign)"}"#)
            #expect(refused.status == 404, "\(refused.text)")
            #expect(try await rig.call(.post, "/v1/webhooks/shop/recover", #"{"id":"\#(own)"}"#).status == 202)
            try await receiver.wait(for: 2)
            try await rig.settle("shop")
            #expect(receiver.requests.map(\.numbers) == [[1], [1]])
        }
    }

    @Test("an app has at most 16 endpoints")
    func limit() async throws {
        try await WebhookRig.run { rig, receiver in
            for place in 0..<16 { try await rig.add("hook\(place)", receiver.url()) }
            let reply = try await rig.call(.put, "/v1/webhooks/more", #"{"url":"\#(receiver.url())"}"#)
            #expect(reply.status == 422 && reply.errors == ["# too_many"])
        }
    }

    @Test("metrics name each endpoint with its lag, its open messages, and whether it is disabled")
    func metrics() async throws {
        try await WebhookRig.run { rig, receiver in
            #expect(try await !rig.call(.get, "/metrics").text.contains("chapar_webhook_lag_events{"))
            try await rig.add("hook", receiver.url())
            try await rig.publish("delivery.failed")
            try await receiver.wait(for: 1)
            try await rig.settle()
            let text = try await rig.call(.get, "/metrics").text
            #expect(text.contains(#"chapar_webhook_lag_events{webhook="hook",app=""} 0"#))
            #expect(text.contains(#"chapar_webhook_disabled{webhook="hook",app=""} 0"#))
            #expect(text.contains(#"chapar_webhook_events_total{webhook="hook",app=""} 1"#))
            #expect(text.contains(#"chapar_webhook_attempts_total{webhook="hook",app="",outcome="delivered"} 1"#))
        }
    }
}
