import ChaparTesting
import Synchronization
import Foundation
import HTTPTypes
import ChaparCore
import ChaparQueue
import Testing

@testable import ChaparAPI
@testable import ChaparDelivery
@testable import ChaparGateway
@testable import ChaparServer

@Suite("The story of a notification", .timeLimit(.minutes(1)))
struct APIStoryTests {
    private func harness(tokens: Int) async throws -> (APIHarness, NotificationID) {
        let harness = APIHarness(keys: [APIHarness.key("shop", [.admin])])
        let list = (0..<tokens).map { #"{"token":"t\#($0)","service":"ios-apns"}"# }.joined(separator: ",")
        let reply = try await harness.post(
            "{\"to\":{\"tokens\":[\(list)]},\"content\":{\"title\":\"x\"}}",
            headers: APIHarness.bearer("shop")
        )
        #expect(reply.status == 202)
        return (harness, try #require(harness.store.accepted.first?.id))
    }

    private func get(_ harness: APIHarness, _ path: String) async throws -> APIHarness.Reply {
        try await harness.send(.get, path, headers: APIHarness.bearer("shop"))
    }

    @Test("has counts that add up, and the request as it was stored")
    func counts() async throws {
        let (harness, id) = try await harness(tokens: 3)
        harness.store.end(id.rawValue, .acceptedByPlatform)
        harness.store.end(id.rawValue + 1, .failed)
        let reply = try await get(harness, "/v1/notifications/\(id)")
        #expect(reply.status == 200)
        #expect(reply.json["counts"] == ["queued": 1, "accepted_by_platform": 1, "failed": 1])
        #expect(reply.json["recipients"] == 3)
        #expect(reply.json["status"] == "queued")
        #expect(reply.json["created_at"] == "2027-01-15T08:00:00.000Z")
        #expect(reply.json["expires_at"] == "2027-01-16T08:00:00.000Z")
        #expect(reply.json["caller"] == "shop")
        #expect(reply.json["notification"]?["content"]?["title"] == "x")
        #expect(reply.headers[.cacheControl] == "no-store")
        harness.store.end(id.rawValue + 2, .expired)
        #expect(try await get(harness, "/v1/notifications/\(id)").json["status"] == "accepted_by_platform")
    }

    @Test(
        "is summed up by what still goes on, else by the best that was reached",
        arguments: [
            ([.queued: 1, .sending: 1], .sending), ([.retrying: 1, .acceptedByPlatform: 9], .retrying),
            ([.failed: 9, .acceptedByPlatform: 1], .acceptedByPlatform), ([.failed: 1, .cancelled: 1], .failed),
            ([.opened: 1, .delivered: 3], .opened), ([.expired: 2], .expired),
        ] as [([DeliveryState: Int], DeliveryState)]
    )
    func summary(counts: [DeliveryState: Int], state: DeliveryState) {
        #expect(DeliveryState.summary(of: counts) == state)
    }

    @Test("lists every attempt of each recipient")
    func attempts() async throws {
        let (harness, id) = try await harness(tokens: 1)
        let now = harness.time.now
        let refusal = Refusal(
            .platform,
            reason: "ServiceUnavailable",
            status: 503,
            advice: .retry(after: .seconds(7))
        )
        harness.store.end(
            id.rawValue,
            .retrying,
            attempt: EventJSON.attempt(.refused(refusal), backend: "ios", at: now, retryAt: now + 7)
        )
        let waiting = try await get(harness, "/v1/notifications/\(id)/deliveries")
        #expect(waiting.json["items"]?.arrayValue?.first?["next_attempt_at"] == "2027-01-15T08:00:00.000Z")
        harness.store.end(
            id.rawValue,
            .acceptedByPlatform,
            attempt: EventJSON.attempt(
                .accepted(Acceptance(platformID: "apns-1", status: 200)),
                backend: "ios",
                at: now,
                retryAt: nil
            )
        )
        let reply = try await get(harness, "/v1/notifications/\(id)/deliveries")
        let item = try #require(reply.json["items"]?.arrayValue?.first)
        #expect(item["delivery"] == 0)
        #expect(item["recipient"] == "ios-apns:t0")
        #expect(item["state"] == "accepted_by_platform")
        #expect(item["backend"] == "ios")
        #expect(item["platform_id"] == "apns-1")
        #expect(item["next_attempt_at"] == nil)
        let attempts = try #require(item["attempts"]?.arrayValue)
        #expect(attempts.map { $0["outcome"] } == ["refused", "accepted"])
        #expect(attempts[0]["reason"] == "ServiceUnavailable")
        #expect(attempts[0]["status"] == 503)
        #expect(attempts[0]["retry_after"] == 7.0 || attempts[0]["retry_after"] == 7)
        #expect(reply.json["next"] == .null)
    }

    @Test("comes in pages that leave no recipient out")
    func pages() async throws {
        let (harness, id) = try await harness(tokens: 25)
        var seen: [String] = []
        var path = "/v1/notifications/\(id)/deliveries?limit=10"
        for _ in 0..<3 {
            let reply = try await get(harness, path)
            seen += (reply.json["items"]?.arrayValue ?? []).compactMap { $0["recipient"]?.stringValue }
            guard let next = reply.json["next"]?.stringValue else { break }
            path = "/v1/notifications/\(id)/deliveries?limit=10&cursor=\(next)"
        }
        #expect(seen == (0..<25).map { "ios-apns:t\($0)" })
    }

    @Test(
        "refuses parameters that mean nothing",
        arguments: ["limit=0", "limit=1001", "limit=ten", "cursor=x", "offset=5", "limt=5"]
    )
    func parameters(query: String) async throws {
        let (harness, id) = try await harness(tokens: 1)
        let reply = try await get(harness, "/v1/notifications/\(id)/deliveries?\(query)")
        #expect(reply.status == 400)
        #expect(reply.code == "invalid_parameter")
    }

    @Test("is not found for an id that names nothing", arguments: ["0000000000001", "nonsense", "'--"])
    func unknown(id: String) async throws {
        let (harness, _) = try await harness(tokens: 1)
        for path in ["/v1/notifications/\(id)", "/v1/notifications/\(id)/deliveries"] {
            let reply = try await get(harness, path)
            #expect(reply.status == 404)
            #expect(reply.code == "not_found")
        }
        let reply = try await harness.send(.delete, "/v1/notifications/\(id)", headers: APIHarness.bearer("shop"))
        #expect(reply.status == 404)
    }

    @Test("ends early when it is cancelled, as far as nothing has gone out")
    func cancel() async throws {
        let (harness, id) = try await harness(tokens: 3)
        harness.store.end(id.rawValue, .acceptedByPlatform)
        let path = "/v1/notifications/\(id)"
        let first = try await harness.send(.delete, path, headers: APIHarness.bearer("shop"))
        #expect(first.status == 200)
        #expect(first.json == ["id": .string(id.description), "cancelled": 2, "too_late": 1, "in_flight": 0])
        let second = try await harness.send(.delete, path, headers: APIHarness.bearer("shop"))
        #expect(second.json["cancelled"] == 0)
        let events = try await harness.store.events()
        #expect(events.filter { $0.contains("cancelled_by_caller") }.count == 2)
    }
}
