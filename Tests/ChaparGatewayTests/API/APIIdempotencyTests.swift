import ChaparTesting
import Foundation
import HTTPTypes
import ChaparCore
import ChaparQueue
import Testing

@testable import ChaparAPI
@testable import ChaparDelivery
@testable import ChaparGateway
@testable import ChaparServer

@Suite("An idempotency key", .timeLimit(.minutes(1)))
struct APIIdempotencyTests {
    private static let key: HTTPFields = [.idempotencyKey: "k-1"]

    @Test("gets the first answer again, byte for byte, and nothing is stored twice")
    func replay() async throws {
        let harness = APIHarness()
        let first = try await harness.post(APIHarness.sample(), headers: Self.key)
        let second = try await harness.post(APIHarness.sample(), headers: Self.key)
        #expect(first.status == 202)
        #expect(first.headers[.idempotencyReplayed] == nil)
        #expect(second.status == 202)
        #expect(second.bytes == first.bytes)
        #expect(second.headers[.location] == first.headers[.location])
        #expect(second.headers[.idempotencyReplayed] == "true")
        #expect(harness.store.accepted.count == 1)
    }

    @Test("with another body, or on another path, is a mistake of the caller")
    func reuse() async throws {
        let harness = APIHarness()
        _ = try await harness.post(APIHarness.sample(), headers: Self.key)
        let other = try await harness.post(APIHarness.sample(#","options":{"ttl":1}"#), headers: Self.key)
        #expect(other.status == 422)
        #expect(other.code == "idempotency_key_reused")
        #expect(other.json["retryable"] == false)
        let batch = try await harness.send(
            .post,
            "/v1/notifications/batch",
            "{\"notifications\":[\(APIHarness.sample())]}",
            headers: Self.key
        )
        #expect(batch.code == "idempotency_key_reused")
        #expect(harness.store.accepted.count == 1)
    }

    @Test("whose request is in progress is answered with 409 and a word about when to come again")
    func inUse() async throws {
        let harness = APIHarness()
        harness.store.hold()
        async let first = harness.post(APIHarness.sample(), headers: Self.key)
        await harness.store.heldOne()
        let second = try await harness.post(APIHarness.sample(), headers: Self.key)
        #expect(second.status == 409)
        #expect(second.code == "idempotency_key_in_use")
        #expect(second.headers[.retryAfter] == "1")
        #expect(second.json["retryable"] == true)
        harness.store.release()
        #expect(try await first.status == 202)
        let third = try await harness.post(APIHarness.sample(), headers: Self.key)
        #expect(third.headers[.idempotencyReplayed] == "true")
    }

    @Test("is not used up by a request that was wrong")
    func validation() async throws {
        let harness = APIHarness()
        let wrong = try await harness.post(APIHarness.sample(#","options":{"ttl":-1}"#), headers: Self.key)
        #expect(wrong.status == 422)
        #expect(wrong.code == "invalid_request")
        #expect(try await harness.post(APIHarness.sample(), headers: Self.key).status == 202)
    }

    @Test("belongs to its caller")
    func scoped() async throws {
        let harness = APIHarness(keys: [APIHarness.key("shop", [.send]), APIHarness.key("crm", [.send])])
        for caller in ["shop", "crm"] {
            var headers = APIHarness.bearer(caller)
            headers[.idempotencyKey] = "k-1"
            let reply = try await harness.post(APIHarness.sample(), headers: headers)
            #expect(reply.headers[.idempotencyReplayed] == nil)
        }
        #expect(harness.store.accepted.map(\.caller) == ["shop", "crm"])
    }

    @Test("is the same key with the quotes of the IETF draft")
    func quoted() async throws {
        let harness = APIHarness()
        _ = try await harness.post(APIHarness.sample(), headers: Self.key)
        let reply = try await harness.post(APIHarness.sample(), headers: [.idempotencyKey: #""k-1""#])
        #expect(reply.headers[.idempotencyReplayed] == "true")
    }

    @Test("is remembered for the window of the configuration")
    func window() async throws {
        let harness = APIHarness()
        _ = try await harness.post(APIHarness.sample(), headers: Self.key)
        harness.time.advance(by: .seconds(86399))
        #expect(try await harness.post(APIHarness.sample(), headers: Self.key).headers[.idempotencyReplayed] == "true")
        harness.time.advance(by: .seconds(2))
        #expect(try await harness.post(APIHarness.sample(), headers: Self.key).headers[.idempotencyReplayed] == nil)
    }

    @Test(
        "that is no key is refused",
        arguments: ["", "\"\"", String(repeating: "k", count: 256), "schlüssel"]
    )
    func invalid(key: String) async throws {
        let reply = try await APIHarness().post(APIHarness.sample(), headers: [.idempotencyKey: key])
        #expect(reply.status == 400)
        #expect(reply.code == "idempotency_key_invalid")
    }

    @Test("of the greatest length is taken, and one that stands there twice is not")
    func edges() async throws {
        let longest = String(repeating: "k", count: 255)
        #expect(try await APIHarness().post(APIHarness.sample(), headers: [.idempotencyKey: longest]).status == 202)
        var twice: HTTPFields = [.idempotencyKey: "a"]
        twice.append(HTTPField(name: .idempotencyKey, value: "b"))
        #expect(try await APIHarness().post(APIHarness.sample(), headers: twice).status == 400)
    }
}
