import Foundation
import HTTPTypes
import ChaparCore
import ChaparTesting
import Testing

@testable import ChaparAPI
@testable import ChaparDelivery
@testable import ChaparGateway
@testable import ChaparServer

/// The bounds on waiting messages, of all keys and of one.
@Suite("The queue", .timeLimit(.minutes(1)))
struct APIQueueTests {
    private static func key(
        _ name: String,
        _ scopes: Set<GatewayConfiguration.APIKey.Scope> = [.send],
        share: Double? = nil
    ) -> GatewayConfiguration.APIKey {
        var key = APIHarness.key(name, scopes)
        key.queueShare = share
        return key
    }

    /// How many messages a key can send that are to wait for a year, and the refusal of the next.
    private func fill(_ harness: APIHarness, _ key: String?, most: Int = 30) async throws -> (Int, APIHarness.Reply?) {
        let at = RFC3339.string(harness.time.now + 360 * 86_400)
        let body = APIHarness.sample(#","options":{"send_at":"\#(at)"}"#)
        for count in 0..<most {
            let reply = try await harness.post(body, headers: key.map(APIHarness.bearer) ?? [:])
            if reply.status != 202 { return (count, reply) }
        }
        return (most, nil)
    }

    @Test("takes half of what may wait from one key, as soon as another one may send")
    func share() async throws {
        let harness = APIHarness(keys: [Self.key("shop"), Self.key("news"), Self.key("boss", [.admin])])
        harness.store.limit(waiting: 20)
        let (count, refusal) = try await fill(harness, "shop")
        #expect(count == 10)
        #expect(refusal?.status == 429 && refusal?.code == "queue_share_full", "\(refusal?.text ?? "")")
        #expect(refusal?.json["type"] == "urn:chapar:problem:queue-share-full")
        #expect(refusal?.json["retryable"] == true && refusal?.headers[.retryAfter] == "10")
        #expect(refusal?.json["detail"]?.stringValue?.contains("10 deliveries of this caller wait") == true)
        let batch = #"{"notifications":[\#(APIHarness.sample())]}"#
        let batched = try await harness.send(
            .post,
            "/v1/notifications/batch",
            batch,
            headers: APIHarness.bearer("shop")
        )
        #expect(batched.code == "queue_share_full")
        #expect(try await fill(harness, "news", most: 9).1 == nil, "the rest is for others")
        let ready = try await harness.send(.get, "/readyz")
        #expect(ready.status == 200, "one key's share is no matter of the gateway's: \(ready.text)")
        let metrics = try await harness.send(.get, "/metrics", headers: APIHarness.bearer("boss")).text
        #expect(metrics.contains(#"chapar_limit_refusals_total{limit="waiting_per_key"} 2"#))
        #expect(metrics.contains(#"chapar_limit{limit="waiting_per_key"} 2500000"#))
        #expect(metrics.contains("chapar_queue_full 0"))
        // What it has waiting ends, and there is room for it again.
        let cancelled = try await harness.send(
            .delete,
            "/v1/notifications?key=shop",
            headers: APIHarness.bearer("shop")
        )
        #expect(cancelled.json["cancelled"] == 10)
        #expect(try await fill(harness, "shop").0 == 10)
    }

    @Test("is all for the only key that may send, and for callers without a key")
    func alone() async throws {
        let stats = Self.key("stats", [.metrics, .read])
        for (harness, key) in [(APIHarness(keys: [Self.key("shop"), stats]), "shop"), (APIHarness(), nil)] {
            harness.store.limit(waiting: 20)
            let (count, refusal) = try await fill(harness, key)
            #expect(count == 20)
            #expect(refusal?.status == 503 && refusal?.code == "store_full")
        }
    }

    @Test("is divided as the configuration says", arguments: [(0.25, 5), (1, 20), (0.01, 1)])
    func configured(share: Double, most: Int) async throws {
        let harness = APIHarness(keys: [Self.key("shop", share: share), Self.key("news")])
        harness.store.limit(waiting: 20)
        #expect(try await fill(harness, "shop").0 == most)
    }

    @Test("refuses more of a key than its share on a connection's event loop as well")
    func fastPath() async throws {
        let harness = APIHarness(keys: [Self.key("shop"), Self.key("news")]) { $0.server.port = 0 }
        harness.store.limit(waiting: 4)
        let body = APIHarness.sample()
        try await harness.serve { port, _ in
            try await RawClient.run(port) { client in
                var answers: [String] = []
                for _ in 0..<3 {
                    try await client.send(
                        "POST /v1/notifications HTTP/1.1\r\nHost: localhost\r\nContent-Type: application/json\r\n"
                            + "Authorization: Bearer chp_shop\r\nContent-Length: \(body.utf8.count)\r\n\r\n\(body)"
                    )
                    answers.append(try await client.read(until: "\r\n\r\n"))
                }
                let statuses = answers.map {
                    $0.contains("HTTP/1.1 202 ") ? 202 : $0.contains("HTTP/1.1 429 ") ? 429 : 0
                }
                #expect(statuses == [202, 202, 429])
            }
        }
        var text = PrometheusText()
        harness.metrics.registry.write(to: &text)
        let metrics = String(decoding: text.bytes, as: UTF8.self)
        #expect(metrics.contains(#"chapar_limit_refusals_total{limit="waiting_per_key"} 1"#))
    }

    @Test("that is full makes the gateway not ready, says so in metrics, and ends when it has room again")
    func full() async throws {
        let harness = APIHarness()
        harness.store.limit(waiting: 200)
        #expect(try await fill(harness, nil, most: 197).1 == nil)
        #expect(try await harness.send(.get, "/readyz").status == 200)
        // A hundredth is left, which is too little for requests of some size.
        #expect(try await fill(harness, nil, most: 1).1 == nil)
        let full = try await harness.send(.get, "/readyz")
        #expect(full.status == 503)
        #expect(full.json == ["status": "queue_full", "store": ["accepts_work": false]])
        let metrics = try await harness.send(.get, "/metrics").text
        #expect(metrics.contains("chapar_queue_full 1") && metrics.contains("chapar_store_accepts_work 0"))
        let cancelled = try await harness.send(.delete, "/v1/notifications?key=")
        #expect(cancelled.json["cancelled"] == 198, "what was sent without a key: \(cancelled.text)")
        #expect(try await harness.send(.get, "/readyz").status == 200)
        #expect(try await harness.send(.get, "/metrics").text.contains("chapar_queue_full 0"))
    }
}
