import ChaparCore
import ChaparQueue
import ChaparStoreContract
import Foundation
import HTTPTypes
import Testing

@testable import ChaparAPI
@testable import ChaparDelivery
@testable import ChaparGateway
@testable import ChaparServer

@Suite("A search", .timeLimit(.minutes(2)))
struct APISearchTests {
    static let refused =
        #"{"at":"2027-01-15T08:00:00.000Z","backend":"ios","outcome":"refused","kind":"account","#
        + #""reason":"InvalidProviderToken","status":403}"#
    static let taken = #"{"at":"2027-01-15T08:00:00.000Z","backend":"ios","outcome":"accepted","status":200}"#
    static let gone =
        #"{"at":"2027-01-15T08:00:00.000Z","backend":"ios","outcome":"refused","kind":"token","#
        + #""reason":"Unregistered","status":410}"#

    /// Registers a device of a user with an Apple token.
    static func register(_ harness: APIHarness, _ id: String, user: String, headers: HTTPFields = [:]) async throws {
        let body = #"{"user":"\#(user)","platform":"ios","tokens":{"ios-apns":"\#(id)beef"},"tags":["vip"]}"#
        let reply = try await harness.send(.put, "/v1/devices/\(id)", body, headers: headers)
        #expect(reply.status == 201, "\(reply.text)")
    }

    /// Sends a message to a user, and ends its deliveries; returns its id.
    static func send(
        _ harness: APIHarness,
        to: String = #""users":["ali"]"#,
        more: String = "",
        _ state: DeliveryState? = nil,
        attempt: String = refused,
        headers: HTTPFields = [:]
    ) async throws -> String {
        let body = #"{"to":{\#(to)},"content":{"title":"Order 42"}\#(more)}"#
        let reply = try await harness.post(body, headers: headers)
        #expect(reply.status == 202, "\(reply.text)")
        if let state {
            let claimed = try await harness.store.claim(backend: "ios", limit: 100, wait: .zero)
            try await harness.store.record(
                claimed.map { Resolution(of: $0, .end(state), attempt: Array(attempt.utf8)) }
            )
        }
        return try #require(reply.json["id"]?.stringValue)
    }

    static func ids(_ reply: APIHarness.Reply, _ name: String = "id") -> [String] {
        (reply.json["items"]?.arrayValue ?? []).compactMap { $0[name]?.stringValue }
    }

    @Test("by user, device, reference and id finds what was sent, and says why it failed")
    func found() async throws {
        let harness = APIHarness()
        try await Self.register(harness, "phone", user: "ali")
        try await Self.register(harness, "tablet", user: "sara")
        let first = try await Self.send(harness, more: #","reference":"order-1""#, .failed)
        let other = try await Self.send(harness, to: #""users":["sara"]"#, .acceptedByPlatform, attempt: Self.taken)
        let second = try await Self.send(harness, to: #""devices":["phone"]"#)
        for (query, wanted) in [
            ("user=ali", [second, first]), ("user=sara", [other]), ("device=phone", [second, first]),
            ("reference=order-1", [first]), ("id=\(first),\(other)", [other, first]), ("", [second, other, first]),
            ("user=ali&state=failed", [first]), ("user=ali&reference=order-1", [first]), ("user=nobody", []),
            ("user=ali&device=tablet", []), ("state=failed,expired,unknown", [first]),
            ("backend=ios&since=2020-01-01T00:00:00Z", [second, other, first]),
            ("reason=InvalidProviderToken&since=2020-01-01T00:00:00Z", [first]),
        ] {
            let reply = try await harness.send(.get, "/v1/notifications?\(query)")
            #expect(reply.status == 200 && Self.ids(reply) == wanted, "\(query): \(reply.text)")
            let deliveries = try await harness.send(.get, "/v1/deliveries?\(query)")
            #expect(Self.ids(deliveries, "notification") == wanted, "\(query): \(deliveries.text)")
        }
        let reply = try await harness.send(.get, "/v1/devices/phone/deliveries?state=failed")
        let item = try #require(reply.json["items"]?.arrayValue?.first)
        #expect(item["reference"] == "order-1" && item["acknowledged"] == false && item["resent"] == false)
        #expect(item["notification"]?.stringValue == first && item["delivery"] == 0)
        let page = try await harness.send(.get, "/v1/notifications/\(first)/deliveries?state=failed")
        #expect(page.json["items"]?.arrayValue?.count == 1, "\(page.text)")
        let none = try await harness.send(.get, "/v1/notifications/\(first)/deliveries?state=unknown,delivered")
        #expect(none.json["items"]?.arrayValue?.isEmpty ?? false, "\(none.text)")
        let empty = try await harness.send(.get, "/v1/notifications/\(first)/deliveries?state=")
        #expect(empty.status == 400 && empty.text.contains("give a value"), "\(empty.text)")
    }

    @Test("A failed delivery's answer explains the reason of the way and of the gateway")
    func explained() async throws {
        let harness = APIHarness()
        try await Self.register(harness, "phone", user: "ali")
        let ended = #"{"at":"2027-01-15T08:00:00.000Z","outcome":"none","reason":"ttl_ended"}"#
        let id = try await Self.send(harness, .expired, attempt: ended)
        for path in ["/v1/deliveries?id=\(id)", "/v1/notifications/\(id)/deliveries"] {
            let reply = try await harness.send(.get, path)
            let why = reply.json["items"]?.arrayValue?.first?["explanation"]
            #expect(why?["reason"] == "ttl_ended", "\(reply.text)")
            #expect(why?["action"]?.stringValue?.contains("longer ttl") ?? false, "\(reply.text)")
        }
        let good = try await Self.send(harness, .acceptedByPlatform, attempt: #"{"outcome":"accepted"}"#)
        #expect(try await !harness.send(.get, "/v1/deliveries?id=\(good)").text.contains("explanation"))
    }

    @Test("finds what waits for a report by its reason, and counts it")
    func awaiting() async throws {
        let harness = APIHarness()
        try await Self.register(harness, "phone", user: "ali")
        let id = try await Self.send(harness)
        let claimed = try await harness.store.claim(backend: "ios", limit: 1, wait: .zero)
        let later = Resolution.Transition.retry(at: harness.time.steady + 120, step: 0)
        let reported = Self.taken + #",{"at":"2027-01-15T08:00:01.000Z","outcome":"receipt","reason":"delivered"}"#
        try await harness.store.record(
            claimed.map { Resolution(of: $0, later, attempt: Array(reported.utf8), mayHaveBeenSent: true) }
        )
        let refused = try await Self.send(harness)
        let other = try await harness.store.claim(backend: "ios", limit: 1, wait: .zero)
        try await harness.store.record(other.map { Resolution(of: $0, later, attempt: Array(Self.refused.utf8)) })
        let since = "since=2020-01-01T00:00:00Z"
        for (reason, wanted) in [("awaits_report", [id]), ("InvalidProviderToken", [refused]), ("delivered", [])] {
            let reply = try await harness.send(.get, "/v1/deliveries?reason=\(reason)&\(since)")
            #expect(Self.ids(reply, "notification") == wanted, "\(reason): \(reply.text)")
            let notifications = try await harness.send(.get, "/v1/notifications?reason=\(reason)&\(since)")
            #expect(Self.ids(notifications) == wanted, "\(reason): \(notifications.text)")
        }
        let counts = try await harness.send(.get, "/v1/deliveries/counts?state=retrying&by=reason&\(since)")
        let reasons = (counts.json["items"]?.arrayValue ?? []).compactMap { $0["reason"]?.stringValue }
        #expect(reasons.sorted() == ["InvalidProviderToken", "awaits_report"], "\(counts.text)")
        let explained = counts.json["items"]?.arrayValue?.first { $0["reason"] == "awaits_report" }
        #expect(explained?["explanation"]?["reason"] == "awaits_report", "\(counts.text)")
    }

    @Test("goes on behind the cursor, which is of no other query")
    func cursors() async throws {
        let harness = APIHarness()
        try await Self.register(harness, "phone", user: "ali")
        var sent: [String] = []
        for _ in 0..<5 { sent.append(try await Self.send(harness, .failed)) }
        var (found, path): ([String], String?) = ([], "/v1/notifications?user=ali&limit=2")
        var cursors: [String] = []
        while let next = path {
            let reply = try await harness.send(.get, next)
            found += Self.ids(reply)
            cursors += [reply.json["next"]?.stringValue].compactMap(\.self)
            path = reply.json["next"]?.stringValue.map { "/v1/notifications?user=ali&limit=2&cursor=\($0)" }
            #expect(reply.json["looked_back_to"] == .null || path != nil, "\(reply.text)")
        }
        #expect(found == sent.reversed() && cursors.count == 2)
        for other in [
            "/v1/notifications?user=sara&cursor=", "/v1/notifications?cursor=", "/v1/deliveries?user=ali&cursor=",
        ] {
            let reply = try await harness.send(.get, other + cursors[0])
            #expect(reply.status == 422 && reply.errors == ["#/cursor other_query"], "\(other): \(reply.text)")
        }
        let wrong = try await harness.send(.get, "/v1/notifications?user=ali&cursor=abc")
        #expect(wrong.status == 422 && wrong.errors == ["#/cursor invalid"])
    }

    @Test("A wrong filter is answered with 422, which says what is right")
    func wrongFilters() async throws {
        let harness = APIHarness()
        for (query, wanted, words) in [
            ("usr=ali", "#/usr unknown_filter", "The filters are id, user, device, reference"),
            ("backend=ios", "#/since since_missing", "only id, user, device, reference"),
            ("state=failed,delivered", "#/since since_missing", "Give since"),
            ("state=falied", "#/state unknown_state", "failed"), ("id=7", "#/id invalid", "13 characters"),
            ("user=ali&since=yesterday", "#/since bad_time", "RFC 3339"), ("user=", "#/user empty", "Give a value"),
            (
                "user=a&since=2027-01-02T00:00:00Z&until=2027-01-01T00:00:00Z", "#/until bad_time",
                "later than since"
            ), ("dead=no", "#/dead invalid", "true"),
            ("state=failed&state=expired", "#/state repeated", "divided by commas"),
        ] {
            for path in ["/v1/notifications", "/v1/deliveries"] {
                let reply = try await harness.send(.get, "\(path)?\(query)")
                #expect(reply.status == 422 && reply.errors == [wanted], "\(query): \(reply.text)")
                #expect(reply.text.contains(words), "\(query): \(reply.text)")
            }
        }
        let by = try await harness.send(.get, "/v1/deliveries/counts?by=user")
        #expect(by.status == 422 && by.errors == ["#/by invalid"], "\(by.text)")
    }

    @Test("A key finds what it sent; read_all finds all of its backends, read_content shows contents, admin tokens too")
    func whoMay() async throws {
        let harness = APIHarness(keys: [
            APIHarness.key("shop", [.send, .read, .devices]), APIHarness.key("news", [.send, .read]),
            APIHarness.key("support", [.readAll]), APIHarness.key("editor", [.readAll, .readContent]),
            APIHarness.key("droid", [.readAll], backends: ["android"]), APIHarness.key("root", [.admin]),
        ])
        let shop = APIHarness.bearer("shop")
        try await Self.register(harness, "phone", user: "ali", headers: shop)
        let id = try await Self.send(harness, more: #","metadata":{"n":7}"#, .failed, headers: shop)
        let token = #""tokens":[{"token":"4f1c","service":"ios-apns"}]"#
        let bare = try await Self.send(harness, to: token, .failed, headers: shop)
        for (key, isFound, hasContent) in [
            ("shop", true, true), ("news", false, false), ("support", true, false), ("editor", true, true),
            ("droid", false, false), ("root", true, true),
        ] {
            let headers = APIHarness.bearer(key)
            let reply = try await harness.send(.get, "/v1/notifications?user=ali", headers: headers)
            #expect(Self.ids(reply) == (isFound ? [id] : []), "\(key): \(reply.text)")
            #expect(reply.text.contains("Order 42") == hasContent, "\(key): \(reply.text)")
            #expect(reply.text.contains(#""n":7"#) == hasContent, "\(key): \(reply.text)")
            let one = try await harness.send(.get, "/v1/notifications/\(id)", headers: headers)
            #expect(one.status == (isFound ? 200 : 404), "\(key): \(one.text)")
            #expect(one.text.contains("Order 42") == hasContent, "\(key): \(one.text)")
            let story = try await harness.send(.get, "/v1/deliveries?id=\(bare)", headers: headers)
            #expect(Self.ids(story, "notification") == (isFound ? [bare] : []), "\(key): \(story.text)")
            #expect(story.text.contains("ios-apns:4f1c") == (key == "root"), "\(key): \(story.text)")
        }
        // What read_all finds may not be changed.
        let cancelled = try await harness.send(
            .delete,
            "/v1/notifications/\(id)",
            headers: APIHarness.bearer("support")
        )
        #expect(cancelled.status == 403)
        let body = #"{"filter":{"user":"ali"},"options":{"ttl":60}}"#
        let resent = try await harness.send(.post, "/v1/deliveries/resend", body, headers: APIHarness.bearer("news"))
        #expect(resent.json["matched"] == 0, "\(resent.text)")
    }

    @Test("A user's page has devices, tags and the last messages; an erased user is found no more")
    func user() async throws {
        let harness = APIHarness()
        try await Self.register(harness, "phone", user: "ali")
        let id = try await Self.send(harness, .failed)
        let reply = try await harness.send(.get, "/v1/users/ali")
        #expect(reply.status == 200, "\(reply.text)")
        #expect(reply.json["devices"]?.arrayValue?.first?["id"] == "phone")
        #expect(reply.json["tags"] == ["vip"] && reply.json["user_tags"] == [], "\(reply.text)")
        let notifications = reply.json["notifications"]?["items"]?.arrayValue ?? []
        #expect(notifications.first?["id"]?.stringValue == id, "\(reply.text)")
        #expect(try await harness.send(.get, "/v1/users/nobody").status == 404)
        #expect(try await harness.send(.put, "/v1/users/sara/tags", #"{"tags":["gold"]}"#).status == 200)
        let tagged = try await harness.send(.get, "/v1/users/sara")
        #expect(tagged.json["user_tags"] == ["gold"] && tagged.json["devices"] == [], "\(tagged.text)")
        #expect(tagged.json["lists"] == [:], "\(tagged.text)")
    }

    @Test("Counts are by reason, backend and app, and say whether the cause is gone")
    func counts() async throws {
        let harness = APIHarness()
        try await Self.register(harness, "phone", user: "ali")
        for _ in 0..<3 { _ = try await Self.send(harness, .failed) }
        _ = try await Self.send(
            harness,
            .unknown,
            attempt: #"{"backend":"ios","outcome":"unknown","reason":"deadline"}"#
        )
        _ = try await Self.send(harness, .failed, attempt: Self.gone)
        let reply = try await harness.send(.get, "/v1/deliveries/counts")
        let items = reply.json["items"]?.arrayValue ?? []
        #expect(items.map { $0["reason"]?.stringValue } == ["InvalidProviderToken", "deadline"], "\(reply.text)")
        #expect(items.map { $0["count"]?.integerValue } == [3, 1] && reply.json["total"] == 4, "\(reply.text)")
        #expect(items.allSatisfy { $0["cause"] == "gone" && $0["backend"] == "ios" }, "\(reply.text)")
        #expect(items.last?["unknown"] == 1 && items.last?["explanation"]?["reason"] == "deadline", "\(reply.text)")
        let all = try await harness.send(.get, "/v1/deliveries/counts?by=backend&state=failed")
        #expect(all.json["items"]?.arrayValue?.count == 1 && all.json["total"] == 4, "\(all.text)")
    }
}
