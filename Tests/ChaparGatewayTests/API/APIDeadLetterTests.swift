import ChaparCore
import ChaparQueue
import ChaparStoreContract
import ChaparTesting
import Foundation
import HTTPTypes
import Testing

@testable import ChaparAPI
@testable import ChaparDelivery
@testable import ChaparGateway
@testable import ChaparServer

@Suite("Dead letters", .timeLimit(.minutes(2)))
struct APIDeadLetterTests {
    private func resend(_ harness: APIHarness, _ body: String) async throws -> APIHarness.Reply {
        try await harness.send(.post, "/v1/deliveries/resend", body)
    }

    private func dead(_ harness: APIHarness) async throws -> Int64 {
        try await harness.send(.get, "/v1/deliveries/counts").json["total"]?.integerValue ?? -1
    }

    @Test("From a user's name to the reason, the mend, the resend, and the arrival")
    func support() async throws {
        let harness = APIHarness()
        try await APISearchTests.register(harness, "phone", user: "ali")
        let more =
            #","reference":"order-42","options":{"ttl":60,"collapse_id":"order","send_at":"2027-01-15T08:00:01Z"}"#
        let reply = try await harness.post(#"{"to":{"users":["ali"]},"content":{"title":"Order 42"}\#(more)}"#)
        let old = try #require(reply.json["id"]?.stringValue)
        harness.time.advance(by: .seconds(2))
        let claimed = try await harness.store.claim(backend: "ios", limit: 1, wait: .zero)
        try await harness.store.record(
            claimed.map { Resolution(of: $0, .end(.failed), attempt: Array(APISearchTests.refused.utf8)) }
        )
        // The reason, and what to do.
        let found = try await harness.send(.get, "/v1/deliveries?user=ali&dead=true")
        #expect(APISearchTests.ids(found, "notification") == [old], "\(found.text)")
        #expect(try await dead(harness) == 1)
        // What would be sent.
        let dry = try await resend(
            harness,
            #"{"filter":{"user":"ali","dead":true},"options":{"ttl":600},"dry_run":true}"#
        )
        #expect(dry.status == 200 && dry.json["resent"] == 1 && dry.json["dry_run"] == true, "\(dry.text)")
        #expect(harness.store.accepted.count == 1)
        // Sent again.
        let again = try await resend(harness, #"{"filter":{"user":"ali","dead":true},"options":{"ttl":600}}"#)
        #expect(again.status == 202 && again.json["resent"] == 1, "\(again.text)")
        let id = try #require(again.json["notifications"]?.arrayValue?.first?.stringValue)
        let new = try #require(harness.store.accepted.last)
        #expect(new.collapseID == "order" && new.dueAt == nil && new.notification.sendAt == nil)
        #expect(new.notification.timeToLive == .seconds(600))
        #expect(new.expiresAt == new.acceptedAt + 600 && new.users == ["ali"])
        let status = try await harness.send(.get, "/v1/notifications/\(id)")
        #expect(status.json["resend_of"]?["notification"]?.stringValue == old, "\(status.text)")
        #expect(status.json["reference"] == "order-42")
        let event = try JSONValue(parsing: new.event)
        #expect(event["resend_of"]?["delivery"] == 0, "\(event)")
        // It arrives, and the failure has left the view.
        let sent = try await harness.store.claim(backend: "ios", limit: 1, wait: .zero)
        try await harness.store.record(sent.map { Resolution(of: $0, .end(.acceptedByPlatform)) })
        let last = try await harness.send(.get, "/v1/notifications?user=ali&limit=1")
        #expect(last.json["items"]?.arrayValue?.first?["status"] == "accepted_by_platform", "\(last.text)")
        #expect(try await dead(harness) == 0)
    }

    @Test("A failed delivery is resent once, however often it is asked for, unless the request says again")
    func once() async throws {
        let harness = APIHarness()
        try await APISearchTests.register(harness, "phone", user: "ali")
        let id = try await APISearchTests.send(harness, .failed)
        let one = #""deliveries":[{"notification":"\#(id)","delivery":0}],"options":{"ttl":60}"#
        #expect(try await resend(harness, "{\(one)}").json["resent"] == 1)
        let second = try await resend(harness, "{\(one)}")
        #expect(second.json["resent"] == 0 && second.json["left_out"]?["already_resent"] == 1, "\(second.text)")
        // As after a crash between the commit and the mark: the key still knows.
        let number = try #require(NotificationID(id)).rawValue
        try await harness.store.abilities.search?.mark([DeadMark(number, isResent: false)])
        let third = try await resend(harness, "{\(one)}")
        #expect(third.json["resent"] == 0 && third.json["left_out"]?["already_resent"] == 1, "\(third.text)")
        #expect(harness.store.accepted.count == 2)
        let meant = try await resend(harness, #"{\#(one),"again":true}"#)
        #expect(meant.json["resent"] == 1 && harness.store.accepted.count == 3, "\(meant.text)")
    }

    @Test("Dead tokens, erased users and refused messages are left out and counted; unknown ones may be second copies")
    func rules() async throws {
        let harness = APIHarness()
        try await APISearchTests.register(harness, "phone", user: "ali")
        try await APISearchTests.register(harness, "tablet", user: "sara")
        let unknown = #"{"backend":"ios","outcome":"unknown","reason":"deadline"}"#
        _ = try await APISearchTests.send(harness, .unknown, attempt: unknown)
        let token = #""tokens":[{"token":"4f1c","service":"ios-apns"}]"#
        _ = try await APISearchTests.send(harness, to: token, .failed, attempt: APISearchTests.gone)
        let message = #"{"backend":"ios","outcome":"refused","kind":"message","reason":"PayloadTooLarge"}"#
        _ = try await APISearchTests.send(harness, .failed, attempt: message)
        _ = try await APISearchTests.send(harness, to: #""users":["sara"]"#, .failed)
        #expect(try await harness.send(.delete, "/v1/devices/tablet").status == 204)
        let reply = try await resend(harness, #"{"filter":{"state":["failed","unknown"]},"options":{"ttl":60}}"#)
        #expect(reply.json["matched"] == 4 && reply.json["resent"] == 1, "\(reply.text)")
        #expect(reply.json["possible_second_copies"] == 1, "\(reply.text)")
        for reason in ["dead_token", "message_refused", "erased_user"] {
            #expect(reply.json["left_out"]?[reason] == 1, "\(reason): \(reply.text)")
        }
    }

    @Test("A message to a user is not resent to the next owner of the device")
    func nextOwner() async throws {
        let harness = APIHarness()
        for id in ["phone", "tablet", "watch"] { try await APISearchTests.register(harness, id, user: "ali") }
        _ = try await APISearchTests.send(harness, .failed)
        func give(_ id: String, _ user: String) async throws {
            let body = #"{\#(user)"platform":"ios","tokens":{"ios-apns":"\#(id)beef"}}"#
            #expect(try await harness.send(.put, "/v1/devices/\(id)", body).status == 200)
        }
        try await give("tablet", #""user":"sara","#)
        try await give("watch", "")
        let reply = try await resend(harness, #"{"filter":{"user":"ali"},"options":{"ttl":60}}"#)
        #expect(reply.json["matched"] == 3 && reply.json["resent"] == 1, "\(reply.text)")
        #expect(reply.json["left_out"]?["other_user"] == 2, "\(reply.text)")
        #expect(harness.store.accepted.last?.recipients == [.device("phone")])
    }

    @Test("A message whose time to live ended before it was sent is a dead letter, and its reason is explained")
    func endedBefore() async throws {
        let harness = APIHarness()
        try await APISearchTests.register(harness, "phone", user: "ali")
        let ended = #"{"backend":"ios","outcome":"refused","kind":"message","reason":"expired"}"#
        // A gateway of an earlier version ended it as failed.
        for state in [DeliveryState.expired, .failed] {
            _ = try await APISearchTests.send(harness, state, attempt: ended)
        }
        let found = try await harness.send(.get, "/v1/deliveries?dead=true")
        let why = found.json["items"]?.arrayValue?.map { $0["explanation"]?["reason"]?.stringValue }
        #expect(why == ["expired", "expired"], "\(found.text)")
        let reply = try await resend(harness, #"{"filter":{"user":"ali"},"options":{"ttl":60}}"#)
        #expect(reply.json["resent"] == 2, "\(reply.text)")
    }

    @Test("A pace spreads what is sent again over time")
    func pace() async throws {
        let harness = APIHarness()
        try await APISearchTests.register(harness, "phone", user: "ali")
        for _ in 0..<4 { _ = try await APISearchTests.send(harness, .failed) }
        let reply = try await resend(
            harness,
            #"{"filter":{"user":"ali"},"options":{"ttl":60},"per_minute":60}"#
        )
        #expect(reply.json["resent"] == 4, "\(reply.text)")
        let new = harness.store.accepted.suffix(4)
        let first = try #require(new.first?.acceptedAt)
        #expect(new.map { ($0.dueAt ?? first).timeIntervalSince(first) } == [0, 1, 2, 3])
        #expect(new.allSatisfy { $0.expiresAt == ($0.dueAt ?? first) + 60 })
    }

    @Test("Acknowledged ones leave the view, and come back")
    func acknowledged() async throws {
        let harness = APIHarness()
        try await APISearchTests.register(harness, "phone", user: "ali")
        for _ in 0..<3 { _ = try await APISearchTests.send(harness, .failed) }
        func change(_ body: String) async throws -> APIHarness.Reply {
            try await harness.send(.post, "/v1/deliveries/acknowledge", body)
        }
        let dry = try await change(#"{"filter":{"dead":true},"dry_run":true}"#)
        #expect(dry.json["acknowledged"] == 3, "\(dry.text)")
        #expect(try await dead(harness) == 3)
        #expect(try await change(#"{"filter":{"dead":true}}"#).json["acknowledged"] == 3)
        #expect(try await dead(harness) == 0)
        let events = try await harness.store.events(after: 0, limit: 100, wait: .zero)
        let told = events.filter { String(decoding: $0.json, as: UTF8.self).contains("delivery.acknowledged") }
        #expect(told.count == 3)
        let back = try await change(#"{"filter":{"user":"ali"},"undo":true}"#)
        #expect(back.json["brought_back"] == 3, "\(back.text)")
        #expect(try await dead(harness) == 3)
    }

    @Test("A wrong request changes nothing and says what is wrong")
    func wrong() async throws {
        let harness = APIHarness()
        try await APISearchTests.register(harness, "phone", user: "ali")
        _ = try await APISearchTests.send(harness, .failed)
        for (body, error) in [
            (#"{"filter":{"user":"ali"}}"#, "#/options/ttl ttl_missing"),
            (#"{"options":{"ttl":60}}"#, "#/filter selection_missing"),
            (#"{"filter":{"usr":"ali"},"options":{"ttl":60}}"#, "#/filter/usr unknown_filter"),
            (#"{"filter":{"backend":"ios"},"options":{"ttl":60}}"#, "#/filter/since since_missing"),
            (#"{"filter":{"user":["ali","sara"]},"options":{"ttl":60}}"#, "#/filter/user one_value"),
            (#"{"filter":{"dead":["true","false"]},"options":{"ttl":60}}"#, "#/filter/dead one_value"),
            (#"{"filter":{"user":"ali"},"options":{"ttl":0}}"#, "#/options/ttl out_of_range"),
            (#"{"deliveries":[],"options":{"ttl":60}}"#, "#/deliveries invalid"),
            (
                #"{"deliveries":[{"notification":"x","delivery":0}],"options":{"ttl":60}}"#,
                "#/deliveries/0/notification invalid"
            ),
            (
                #"{"deliveries":[{"notification":"05B4PYE7E0000"}],"options":{"ttl":60}}"#,
                "#/deliveries/0/delivery missing"
            ), (#"{"filter":{"dead":true,"app":"nowhere"},"options":{"ttl":60}}"#, "#/filter/app unknown_app"),
            (#"{"filter":{"user":"ali"},"options":{"ttl":60},"undo":true}"#, "#/undo unknown_field"),
            (#"{"filter":{"user":"ali"},"options":{"ttl":60},"cursor":"abc"}"#, "#/cursor invalid"),
        ] {
            let reply = try await resend(harness, body)
            #expect(reply.status == 422 && reply.errors.contains(error), "\(body): \(reply.text)")
        }
        #expect(harness.store.accepted.count == 1)
    }
}
