import Foundation
import HTTPTypes
import HummingbirdCore
import ChaparCore
import ChaparComposition
import ChaparQueue
import ChaparTesting
import Testing

@testable import ChaparAPI
@testable import ChaparDelivery
@testable import ChaparGateway
@testable import ChaparServer

/// Keys that share a gateway do not share what they send.
@Suite("An API key's own", .timeLimit(.minutes(1)))
struct APIIsolationTests {
    private let harness = APIHarness(keys: [
        APIHarness.key("shop", [.send, .read, .devices]), APIHarness.key("news", [.send, .read]),
        APIHarness.key("boss", [.admin]), APIHarness.key("apple", [.send, .read, .devices], backends: ["ios"]),
        APIHarness.key("warden", [.admin], backends: ["ios"]),
    ])

    private func sent(by key: String) async throws -> String {
        let reply = try await harness.post(APIHarness.sample(), headers: APIHarness.bearer(key))
        return try #require(reply.json["id"]?.stringValue)
    }

    @Test("notifications are seen and cancelled with it and by administrators, and unknown to others")
    func notifications() async throws {
        let id = try await sent(by: "shop")
        for (key, status) in [("shop", 200), ("boss", 200), ("news", 404)] {
            for path in ["", "/deliveries"] {
                let reply = try await harness.send(
                    .get,
                    "/v1/notifications/\(id)\(path)",
                    headers: APIHarness.bearer(key)
                )
                #expect(reply.status == status, "\(key) \(path)")
            }
        }
        let foreign = try await harness.send(.delete, "/v1/notifications/\(id)", headers: APIHarness.bearer("news"))
        #expect(foreign.status == 404)
        let own = try await harness.send(.delete, "/v1/notifications/\(id)", headers: APIHarness.bearer("shop"))
        #expect(own.json["cancelled"] == 1)
    }

    @Test("collapse ids replace waiting messages of the key, and none of other keys")
    func collapseIDs() async throws {
        func schedule(_ key: String) async throws -> String {
            let at = RFC3339.string(harness.time.now + 7_200)
            let body = APIHarness.sample(#","options":{"collapse_id":"order-42","send_at":"\#(at)"}"#)
            let reply = try await harness.post(body, headers: APIHarness.bearer(key))
            return try #require(reply.json["id"]?.stringValue, "\(reply.text)")
        }
        func status(_ id: String) async throws -> JSONValue? {
            try await harness.send(.get, "/v1/notifications/\(id)", headers: APIHarness.bearer("boss")).json["status"]
        }
        let (shop, news) = (try await schedule("shop"), try await schedule("news"))
        #expect(try await status(shop) == "scheduled", "though another key sent the same id to the same device")
        let newer = try await schedule("shop")
        #expect(try await status(shop) == "cancelled")
        for id in [news, newer] { #expect(try await status(id) == "scheduled") }
    }

    @Test("name cancels all of its waiting messages; only administrators cancel those of another key")
    func cancelling() async throws {
        let ids = [try await sent(by: "shop"), try await sent(by: "shop"), try await sent(by: "news")]
        func cancel(_ query: String, _ key: String) async throws -> APIHarness.Reply {
            try await harness.send(.delete, "/v1/notifications\(query)", headers: APIHarness.bearer(key))
        }
        for name in ["shop", "nobody", ""] {
            let foreign = try await cancel("?key=\(name)", "news")
            #expect(foreign.status == 403 && foreign.code == "key_not_allowed", "\(name)")
            #expect(foreign.text.contains("scope"), "\(name)")
            let bound = try await cancel("?key=\(name)", "warden")
            #expect(bound.status == 403 && bound.code == "key_not_allowed", "\(name)")
            #expect(bound.text.contains("reaches further") && !bound.text.contains("scope"), "\(name)")
        }
        for query in ["", "?key=two%20words", "?key=a%0Ab"] {
            for key in ["shop", "boss"] {
                let unclear = try await cancel(query, key)
                #expect(unclear.status == 422, "\(query)")
                #expect(unclear.errors == [query.isEmpty ? "#/key missing" : "#/key invalid"], "\(query)")
            }
        }
        #expect(try await cancel("?kye=shop", "shop").status == 400)
        let events = try await harness.store.lastEvent()
        let own = try await cancel("?key=shop", "shop")
        #expect(own.status == 200)
        #expect(own.json == ["key": "shop", "cancelled": 2, "in_flight": 0, "complete": true])
        let told = try await harness.store.events(after: events, limit: 9, wait: .zero)
        #expect(told.count == 2)
        #expect(told.allSatisfy { String(decoding: $0.json, as: UTF8.self).contains("cancelled_by_caller") })
        for (id, status) in zip(ids, ["cancelled", "cancelled", "queued"]) {
            let reply = try await harness.send(.get, "/v1/notifications/\(id)", headers: APIHarness.bearer("boss"))
            #expect(reply.json["status"] == .string(status))
        }
        #expect(try await cancel("?key=news", "boss").json["cancelled"] == 1)
        #expect(try await cancel("?key=gone", "boss").json["cancelled"] == 0, "a key that there is not any more")
        #expect(try await cancel("?key=", "boss").status == 200, "what was sent without a key")
    }

    @Test("much that waits is cancelled in parts, for a bounded time; the answer says whether more is left")
    func cancellingParts() async throws {
        _ = try await sent(by: "shop")
        harness.store.divide(into: 9) { [time = harness.time] in time.advance(by: .seconds(8)) }
        func cancel() async throws -> APIHarness.Reply {
            try await harness.send(.delete, "/v1/notifications?key=shop", headers: APIHarness.bearer("shop"))
        }
        let first = try await cancel()
        #expect(first.status == 202)
        #expect(first.json == ["key": "shop", "cancelled": 1, "in_flight": 0, "complete": false])
        harness.store.divide(into: 1) {}
        let second = try await cancel()
        #expect(second.status == 200 && second.json["complete"] == true)
        harness.store.fail(.full(reason: "the disk is full", retryAfter: .seconds(3)))
        #expect(try await cancel().status == 503)
        harness.store.fail(nil)
        harness.state.beginDraining()
        #expect(try await cancel().code == "draining")
    }

    @Test("stories show fingerprints of device tokens, and the tokens to administrators")
    func stories() async throws {
        let id = try await sent(by: "shop")
        func recipient(_ key: String) async throws -> String? {
            let path = "/v1/notifications/\(id)/deliveries"
            let reply = try await harness.send(.get, path, headers: APIHarness.bearer(key))
            return reply.json["items"]?.arrayValue?.first?["recipient"]?.stringValue
        }
        #expect(try await recipient("boss") == "ios-apns:4f1c")
        #expect(try await recipient("shop") == "ios-apns:\(TokenFingerprint.of("4f1c"))")
    }

    @Test("a fingerprint is the beginning of the SHA-256 of the token")
    func fingerprint() {
        #expect(TokenFingerprint.of("abc") == "sha256-ba7816bf8f01cfea")
    }

    @Test("devices show fingerprints of their tokens, and the tokens to administrators")
    func devices() async throws {
        let body = #"{"user":"u","tokens":{"ios-apns":"4f1c"}}"#
        let put = try await harness.send(.put, "/v1/devices/d", body, headers: APIHarness.bearer("shop"))
        #expect(put.status == 201)
        for path in ["/v1/devices/d", "/v1/devices"] {
            let own = try await harness.send(.get, path, headers: APIHarness.bearer("shop"))
            #expect(!own.text.contains("4f1c\""))
            #expect(own.text.contains(#""fingerprint":"\#(TokenFingerprint.of("4f1c"))""#))
            let all = try await harness.send(.get, path, headers: APIHarness.bearer("boss"))
            #expect(all.text.contains(#""token":"4f1c""#))
        }
        #expect(!put.text.contains("4f1c\""))
    }

    @Test("events are those of its notifications, without device tokens")
    func events() async throws {
        let id = try await sent(by: "shop")
        let other = try await sent(by: "news")
        let claim = ClaimedDelivery(
            id: 1,
            notificationID: try #require(NotificationID(id)),
            content: .stored([]),
            recipient: .token(DeviceToken("4f1c", service: .iOSAPNs)),
            caller: "shop",
            plan: DeliveryPlan(["ios"]),
            acceptedAt: .now,
            expiresAt: .now
        )
        let delivery = EventJSON.delivery(claim, state: .delivered, at: .now)
        let parked = EventJSON.backend("parked", "ios", reason: "bad key", until: nil, at: .now)
        let dead = Array(
            #"{"type":"device.token_invalidated","recipient":"ios-apns:4f1c","backend":"android"}"#.utf8
        )
        try await harness.store.publish([delivery, parked, dead])
        let events = try await harness.store.events(after: 0, limit: 100, wait: .zero)

        func shown(_ key: String) async throws -> [String] {
            let keys = harness.state.snapshot.configuration.apiKeys
            let own = try #require(keys.first { $0.name == key })
            let view = EventView(Caller(name: key, scopes: own.scopes, view: harness.state.snapshot.seen(by: own)))
            return events.compactMap { event in
                view.shown(event, type: EventJSON.type(of: event.json)).map { String(decoding: $0, as: UTF8.self) }
            }
        }
        let boss = try await shown("boss")
        #expect(boss.count == 5)
        #expect(boss[2].contains("ios-apns:4f1c"))
        let shop = try await shown("shop")
        #expect(shop.count == 4)
        #expect(shop.allSatisfy { !$0.contains("4f1c\"") && !$0.contains(other) })
        #expect(shop[1].contains("ios-apns:\(TokenFingerprint.of("4f1c"))"))
        let news = try await shown("news")
        #expect(news.count == 2)
        #expect(news[0].contains(other) && news[1].contains("backend.parked"))
        let apple = try await shown("apple")
        #expect(apple.count == 1 && apple[0].contains("backend.parked"))
    }

    @Test("backends are those that it names: it sends through no other, also not as a way out, and sees no other")
    func backends() async throws {
        #expect(try await harness.post(APIHarness.sample(), headers: APIHarness.bearer("apple")).status == 202)
        let android = #"{"to":{"tokens":[{"token":"f1","service":"android-firebase"}]},"content":{"title":"x"}}"#
        let refused = try await harness.post(android, headers: APIHarness.bearer("apple"))
        #expect(refused.status == 422)
        #expect(refused.errors == ["#/to/tokens/0 audience_not_supported"])
        let seen = try await harness.send(.get, "/v1/backends", headers: APIHarness.bearer("apple"))
        #expect(seen.json["backends"]?.arrayValue?.map { $0["name"]?.stringValue } == ["ios"])
        let clear = try await harness.send(
            .post,
            "/v1/backends/android/clear",
            #"{"device":"d"}"#,
            headers: APIHarness.bearer("apple")
        )
        #expect(clear.status == 404 && clear.code == "not_found")
        let named = #"{"to":{"topic":"news"},"content":{"title":"x"},"backend":"android"}"#
        let post = try await harness.post(named, headers: APIHarness.bearer("apple"))
        #expect(post.errors == ["#/backend unknown_backend"])
    }

    @Test("scope to clear one device is no scope to clear a whole backend")
    func clear() async throws {
        let one = try await harness.send(
            .post,
            "/v1/backends/ios/clear",
            #"{"device":"d"}"#,
            headers: APIHarness.bearer("shop")
        )
        #expect(one.status == 200)
        let all = try await harness.send(.post, "/v1/backends/ios/clear", "{}", headers: APIHarness.bearer("shop"))
        #expect(all.status == 403)
        let boss = try await harness.send(.post, "/v1/backends/ios/clear", "{}", headers: APIHarness.bearer("boss"))
        #expect(boss.status == 200)
    }
}
