import Foundation
import HTTPTypes
import ChaparCore
import ChaparQueue
import Testing

@testable import ChaparAPI
@testable import ChaparDelivery
@testable import ChaparGateway
@testable import ChaparServer

@Suite("A batch", .timeLimit(.minutes(1)))
struct APIBatchTests {
    private func send(_ harness: APIHarness, _ items: [String], headers: HTTPFields = [:]) async throws
        -> APIHarness.Reply
    {
        try await harness.send(
            .post,
            "/v1/notifications/batch",
            "{\"notifications\":[\(items.joined(separator: ","))]}",
            headers: headers
        )
    }

    @Test("answers each notification; a wrong one does not stop the others")
    func mixed() async throws {
        let harness = APIHarness()
        let reply = try await send(
            harness,
            [
                APIHarness.sample(), APIHarness.sample(#","options":{"ttl":-1}"#), "7",
                APIHarness.sample(#","options":{"send_at":"2027-01-16T00:00:00Z"}"#),
            ]
        )
        #expect(reply.status == 202)
        #expect(reply.json["accepted"] == 2)
        #expect(reply.json["refused"] == 2)
        let items = try #require(reply.json["notifications"]?.arrayValue)
        #expect(items.map { $0["status"] } == [202, 422, 422, 202])
        #expect(items[0]["state"] == "queued")
        #expect(items[3]["state"] == "scheduled")
        #expect(items[0]["id"]?.stringValue == harness.store.accepted[0].id.description)
        #expect(APIHarness.errors(of: items[1]["problem"]) == ["#/notifications/1/options/ttl out_of_range"])
        #expect(APIHarness.errors(of: items[2]["problem"]) == ["#/notifications/2 wrong_type"])
        #expect(harness.store.accepted.count == 2)
    }

    static let oddTexts: [(String, String)] = [
        ("Z" + String(repeating: "\u{301}", count: 31), "30 combining marks"), (#"half \ud83d"#, "a low surrogate"),
        (#"\udc00"#, "a Unicode scalar"), ("a\u{1}b", "an escaped control character"),
        (#"\ud83d, \"{[\\\" "#, "a low surrogate"),
    ]

    @Test("of which one text is none refuses that notification alone, with the place of the text", arguments: oddTexts)
    func oddText(text: String, words: String) async throws {
        let harness = APIHarness()
        let odd = APIHarness.sample(content: "{\"title\":\"\(text)\"}")
        let reply = try await send(harness, [APIHarness.sample(), odd, APIHarness.sample()])
        #expect(reply.status == 202 && reply.json["accepted"] == 2 && reply.json["refused"] == 1, "\(reply.text)")
        let items = try #require(reply.json["notifications"]?.arrayValue)
        #expect(items.map { $0["status"] } == [202, 422, 202])
        let problem = items[1]["problem"]
        #expect(APIHarness.errors(of: problem) == ["#/notifications/1/content/title malformed_text"], "\(reply.text)")
        let detail = problem?["errors"]?.arrayValue?.first?["detail"]?.stringValue ?? ""
        #expect(detail.contains(words), "\(detail)")
        #expect(harness.store.accepted.count == 2)
    }

    @Test("of which one text holds the character U+0000 refuses that notification alone, with the place of the text")
    func nul() async throws {
        let harness = APIHarness()
        let odd = APIHarness.sample(content: #"{"title":"a\u0000b"}"#)
        let reply = try await send(harness, [APIHarness.sample(), odd])
        #expect(reply.status == 202 && reply.json["accepted"] == 1 && reply.json["refused"] == 1, "\(reply.text)")
        let problem = reply.json["notifications"]?.arrayValue?[1]["problem"]
        #expect(APIHarness.errors(of: problem) == ["#/notifications/1/content/title control_character"])
    }

    @Test("of which one is no JSON is refused as a whole, with the place", arguments: [#"{"to":}"#, #"{"to":"\ud800"#])
    func notJSON(odd: String) async throws {
        let harness = APIHarness()
        let reply = try await send(harness, [APIHarness.sample(), odd])
        #expect(reply.status == 400 && reply.code == "not_json", "\(reply.text)")
        #expect(harness.store.accepted.isEmpty)
    }

    @Test("of devices, of which one text is none, registers the others")
    func oddDevice() async throws {
        let harness = APIHarness()
        let body = #"{"devices":[{"id":"a"},{"id":"b","user":"\ud83d"},{"id":"c"}]}"#
        let reply = try await harness.send(.post, "/v1/devices/batch", body)
        #expect(reply.json["created"] == 2 && reply.json["refused"] == 1, "\(reply.text)")
        let problem = reply.json["devices"]?.arrayValue?[1]["problem"]
        #expect(APIHarness.errors(of: problem) == ["#/devices/1/user malformed_text"], "\(reply.text)")
    }

    @Test("of wrong notifications only is refused as a whole, with the problem of each, and uses up no key")
    func allWrong() async throws {
        let harness = APIHarness()
        let key: HTTPFields = [.idempotencyKey: "k"]
        let reply = try await send(harness, ["{}", "[]"], headers: key)
        #expect(reply.status == 422)
        #expect(reply.code == "nothing_accepted")
        #expect(reply.json["notifications"]?.arrayValue?.count == 2)
        #expect(try await send(harness, [APIHarness.sample()], headers: key).status == 202)
    }

    @Test("has one idempotency key for all of it")
    func replay() async throws {
        let harness = APIHarness()
        let items = [APIHarness.sample(), "{}"]
        let first = try await send(harness, items, headers: [.idempotencyKey: "k"])
        let second = try await send(harness, items, headers: [.idempotencyKey: "k"])
        #expect(first.bytes == second.bytes)
        #expect(second.headers[.idempotencyReplayed] == "true")
        #expect(harness.store.accepted.count == 1)
    }

    @Test("holds 1 to 1,000 notifications")
    func size() async throws {
        let harness = APIHarness()
        let most = try await send(harness, Array(repeating: APIHarness.sample(), count: 1000))
        #expect(most.json["accepted"] == 1000)
        let tooMany = try await send(harness, Array(repeating: APIHarness.sample(), count: 1001))
        #expect(tooMany.status == 422)
        #expect(tooMany.errors == ["#/notifications too_many_notifications"])
        #expect(try await send(harness, []).errors == ["#/notifications empty"])
        #expect(harness.store.accepted.count == 1000)
        #expect(Set(harness.store.accepted.map(\.id)).count == 1000)
    }

    @Test("holds at most 100,000 recipients; what is above goes with the next")
    func recipients() async throws {
        let tokens = (0..<10_000).map { #"{"token":"t\#($0)","service":"ios-apns"}"# }.joined(separator: ",")
        let item = "{\"to\":{\"tokens\":[\(tokens)]},\"content\":{\"title\":\"x\"}}"
        let reply = try await send(APIHarness(), Array(repeating: item, count: 10) + [APIHarness.sample()])
        #expect(reply.json["accepted"] == 10)
        let last = try #require(reply.json["notifications"]?.arrayValue?.last)
        #expect(APIHarness.errors(of: last["problem"]) == ["#/notifications/10/to batch_too_large"])
    }

    @Test(
        "that is not one is refused",
        arguments: [
            ("{}", 422, "#/notifications missing"), ("[]", 422, "# wrong_type"),
            (#"{"notifications":{}}"#, 422, "#/notifications wrong_type"),
            (#"{"messages":[]}"#, 422, "#/messages unknown_field"), ("{", 400, nil),
        ] as [(String, Int, String?)]
    )
    func shape(body: String, status: Int, error: String?) async throws {
        let reply = try await APIHarness().send(.post, "/v1/notifications/batch", body)
        #expect(reply.status == status)
        #expect(reply.errors.first == error)
    }
}
