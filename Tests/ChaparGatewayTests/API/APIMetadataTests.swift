import ChaparCore
import ChaparQueue
import Foundation
import HTTPTypes
import Testing

@testable import ChaparAPI
@testable import ChaparDelivery
@testable import ChaparGateway
@testable import ChaparServer

@Suite("A sender's metadata", .timeLimit(.minutes(1)))
struct APIMetadataTests {
    private static let sent = #"{ "order" : 42, "text": "a \"quoted\" \\ one", "n": [ 1.50, { } ] }"#
    /// The same without blanks between its parts, since an event is one line.
    private static let kept = #"{"order":42,"text":"a \"quoted\" \\ one","n":[1.50,{}]}"#

    @Test("comes back in status, deliveries and events, in the sender's own words")
    func givenBack() async throws {
        let harness = APIHarness()
        let reply = try await harness.post(APIHarness.sample(#","metadata": "# + "\n\t" + Self.sent))
        #expect(reply.status == 202, "\(reply.text)")
        let id = try #require(reply.json["id"]?.stringValue)
        let member = #""metadata":"# + Self.kept
        for path in ["/v1/notifications/\(id)", "/v1/notifications/\(id)/deliveries"] {
            let answer = try await harness.send(.get, path)
            #expect(answer.status == 200 && answer.text.contains(member), "\(path): \(answer.text)")
        }
        let claim = try #require(
            try await harness.store.claim(backend: "ios", limit: 1, wait: .zero).first
        )
        let events = [
            EventJSON.delivery(claim, state: .acceptedByPlatform, at: .now),
            try #require(harness.store.accepted.first).event,
            EventJSON.received(
                ReceivedDelivery(
                    id: claim.id,
                    notificationID: claim.notificationID,
                    recipient: claim.recipient,
                    state: .delivered,
                    record: claim.head.record
                ),
                changesState: true,
                backend: "ios",
                logEntry: Array("{}".utf8),
                at: .now
            ),
            AttemptTemplate(backend: "ios").event(claim, attempt: Array("{}".utf8), at: AttemptTemplate.Moment(.now)),
        ]
        for event in events {
            let text = String(decoding: event, as: UTF8.self)
            #expect(text.contains(member) && !text.contains("\n"), "\(text)")
        }
    }

    @Test("is absent where none was sent")
    func none() async throws {
        let harness = APIHarness()
        let reply = try await harness.post(APIHarness.sample())
        let id = try #require(reply.json["id"]?.stringValue)
        for path in ["/v1/notifications/\(id)", "/v1/notifications/\(id)/deliveries"] {
            #expect(try await !harness.send(.get, path).text.contains("metadata"))
        }
    }

    @Test("has at most 512 bytes and is an object")
    func limits() async throws {
        let harness = APIHarness()
        func status(_ json: String) async throws -> (Int, String) {
            let reply = try await harness.post(APIHarness.sample(#","metadata":"# + json))
            return (reply.status, reply.text)
        }
        func text(_ bytes: Int) -> String { #"{"a":""# + String(repeating: "x", count: bytes - 8) + #""}"# }
        #expect(try await status(text(512)).0 == 202)
        let large = try await status(text(513))
        #expect(large.0 == 422 && large.1.contains("At most 512 bytes of JSON; these are 513."), "\(large.1)")
        #expect(large.1.contains(##""pointer":"#/metadata""##) && large.1.contains("too_large"))
        for wrong in ["[1]", "7", "null", #""text""#] {
            let answer = try await status(wrong)
            #expect(answer.0 == 422 && answer.1.contains(##""pointer":"#/metadata""##), "\(wrong): \(answer.1)")
        }
    }

    @Test("A reference comes back in status, deliveries and events, beside the metadata")
    func reference() async throws {
        let harness = APIHarness()
        let body = APIHarness.sample(##","reference":"order #42 \"א\"","metadata":{"a":1}"##)
        let reply = try await harness.post(body)
        #expect(reply.status == 202, "\(reply.text)")
        let id = try #require(reply.json["id"]?.stringValue)
        for path in ["/v1/notifications/\(id)", "/v1/notifications/\(id)/deliveries"] {
            let answer = try await harness.send(.get, path)
            #expect(answer.json["reference"] == .string("order #42 \"א\""), "\(path): \(answer.text)")
            #expect(answer.json["metadata"]?["a"] == 1 && answer.json["resend_of"] == nil)
        }
        let claim = try #require(try await harness.store.claim(backend: "ios", limit: 1, wait: .zero).first)
        for event in [
            EventJSON.delivery(claim, state: .failed, at: .now),
            try #require(harness.store.accepted.first).event,
            AttemptTemplate(backend: "ios").event(claim, attempt: Array("{}".utf8), at: AttemptTemplate.Moment(.now)),
        ] {
            let json = try JSONValue(parsing: event)
            #expect(json["reference"] == .string("order #42 \"א\""), "\(json)")
        }
    }

    @Test("A reference is a text of 1 to 128 bytes without control characters")
    func referenceLimits() async throws {
        let harness = APIHarness()
        func reply(_ json: String) async throws -> (Int, String) {
            let reply = try await harness.post(APIHarness.sample(#","reference":"# + json))
            return (reply.status, reply.text)
        }
        let longest = #"""# + String(repeating: "é", count: 64) + #"""#
        #expect(try await reply(longest).0 == 202)
        let wrong = ["7", "null", #""""#, #""a\nb""#, #"""# + String(repeating: "é", count: 64) + #"x""#]
        for json in wrong {
            let answer = try await reply(json)
            #expect(answer.0 == 422 && answer.1.contains(##""pointer":"#/reference""##), "\(json): \(answer.1)")
        }
    }
}
