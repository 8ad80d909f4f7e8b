import Foundation
import HTTPTypes
import ChaparCore
import Synchronization
import Testing

@testable import ChaparAPI
@testable import ChaparDelivery
@testable import ChaparGateway
@testable import ChaparServer

@Suite("Clicks and webhooks over HTTP", .timeLimit(.minutes(1)))
struct APIClicksTests {
    /// Finds a message's id in the payload, and keeps what it was told.
    final class Reader: ClickReader {
        let clicks = Mutex<[ReportedClick]>([])
        let forwarding: Result<Void, PushError>?

        init(_ forwarding: Result<Void, PushError>? = nil) { self.forwarding = forwarding }

        func read(_ click: ReportedClick) async throws(PushError) -> ClickResult {
            clicks.withLock { $0.append(click) }
            if click.context["bad"] != nil { throw PushError(.invalidRequest, "bad context", reason: "bad_context") }
            let receipt = click.payload["id"]?.stringValue.map {
                DeliveryReceipt(.opened, platformID: $0, reason: "opened", at: click.at)
            }
            return ClickResult(receipt: receipt, notification: ["read": true], forwarding: forwarding)
        }
    }

    /// Believes a secret at the end of the path.
    struct Hook: ReceiptReader {
        func receipts(in callback: ReceiptCallback) throws(ReceiptRefusal) -> [DeliveryReceipt] {
            guard callback.pathSecret?.reveal() == "open sesame" else { throw .notAuthentic("wrong") }
            guard callback.body.first == UInt8(ascii: "[") else { throw .malformed("no list") }
            return []
        }
        var acknowledgement: [UInt8] { Array("{}".utf8) }
    }

    private static func harness(_ reader: Reader = Reader()) -> APIHarness {
        var backend = StubBackend.crm
        backend.clicks = reader
        backend.receipts = Hook()
        return APIHarness(backends: [.ios, backend])
    }

    private static let json: HTTPFields = [.contentType: "application/json"]

    @Test("A click is handed to the backend whole, and answered with what it read")
    func takes() async throws {
        let reader = Reader(.failure(PushError(.unavailable, "no answer", reason: "deadline")))
        let body = """
            {"user_info":{"id":"m1"},"action_identifier":"map","user_id":"u","installation_id":"i","device":"d",
            "at":"2026-11-21T08:15:30Z","context":{"origin":"local"}}
            """
        let harness = Self.harness(reader)
        let reply = try await harness.send(.post, "/v1/backends/crm/clicks", body, headers: Self.json)
        #expect(reply.status == 200)
        #expect(reply.json["notification"] == ["read": true] && reply.json["deliveries"] == [])
        #expect(reply.json["forwarding"] == "failed" && reply.json["error"]?["reason"] == "deadline")
        let click = try #require(reader.clicks.withLock { $0 }.first)
        #expect(click.payload == ["id": "m1"] && click.action == "map" && click.user == "u" && click.device == "d")
        #expect(click.installation == "i" && click.at == RFC3339.parse("2026-11-21T08:15:30Z"))
        #expect(click.context == ["origin": "local"])
    }

    static let wrong: [(String, [String])] = [
        ("{}", ["#/user_info missing"]), (#"{"user_info":{},"x":1}"#, ["#/x unknown_field"]),
        (#"{"user_info":{},"at":"2100-01-01T00:00:00Z"}"#, ["#/at time_in_the_future"]),
        (#"{"user_info":{},"action_identifier":""}"#, ["#/action_identifier empty"]),
    ]

    @Test("A wrong click never reaches the backend", arguments: wrong)
    func refuses(body: String, errors: [String]) async throws {
        let reader = Reader()
        let reply = try await Self.harness(reader).send(
            .post,
            "/v1/backends/crm/clicks",
            body,
            headers: Self.json
        )
        #expect(reply.status == 422 && reply.errors == errors)
        #expect(reader.clicks.withLock { $0.isEmpty })
    }

    @Test("A click the backend cannot read is 422; a backend that reads no clicks is 404")
    func unreadable() async throws {
        let body = #"{"user_info":{},"context":{"bad":1}}"#
        let reply = try await Self.harness().send(.post, "/v1/backends/crm/clicks", body, headers: Self.json)
        #expect(reply.status == 422 && reply.json["detail"]?.stringValue?.contains("bad context") ?? false)
        for name in ["ios", "nobody"] {
            let path = "/v1/backends/\(name)/clicks"
            #expect(try await Self.harness().send(.post, path, body, headers: Self.json).status == 404)
        }
    }

    @Test("A webhook with the right secret is answered shortly, with a wrong one as if nothing were there")
    func webhook() async throws {
        let harness = Self.harness()
        let path = "/v1/backends/crm/webhook/open%20sesame"
        let taken = try await harness.send(.post, path, "[]", host: "push.example.com")
        #expect(taken.status == 204 && taken.bytes.isEmpty)
        #expect(try await harness.send(.post, path, "{}").status == 400)
        let wrong = try await harness.send(.post, "/v1/backends/crm/webhook/guess", "[]")
        let absent = try await harness.send(.post, "/v1/backends/nobody/webhook/guess", "[]")
        #expect(wrong.status == 404 && absent.status == 404 && wrong.code == absent.code)
        #expect(try await harness.send(.post, "/v1/backends/crm/webhook/a/b", "[]").status == 404)
    }
}
